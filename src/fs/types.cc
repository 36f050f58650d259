// SPDX-License-Identifier: Apache-2.0
#include "fs/types.h"

namespace viaduct::fs {

Result<Name> Name::make(std::string_view text) {
    if (text.empty() || text == "." || text == "..") return fail(EINVAL);
    if (text.size() > kBytesMax) return fail(ENAMETOOLONG);
    if (text.find('/') != std::string_view::npos || text.find('\0') != std::string_view::npos)
        return fail(EINVAL);
    Name name;
    name.length_ = static_cast<std::uint8_t>(text.size());
    std::memcpy(name.bytes_.data(), text.data(), text.size());
    name.bytes_[text.size()] = '\0';
    return name;
}

} // namespace viaduct::fs
