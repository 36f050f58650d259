// SPDX-License-Identifier: Apache-2.0
#include "session/call.h"

#include "fuse/extensions.h"

#include <array>

namespace viaduct::session {

Status Call::take_name(std::optional<fs::Name>& into) noexcept {
    std::array<char, fs::Name::kBytesMax + 1> text;
    TRY(const std::string_view taken, request.take_string(text));
    const auto made = fs::Name::make(taken);
    if (!made) return fail(made.error());
    into = *made;
    return {};
}

Status Call::take_extensions(const fuse::Dialect& dialect) {
    TRY(auto extensions, fuse::take_extensions(request, dialect));
    caller.supplementary = extensions.group;
    if (!dialect.security_context || extensions.context_name.empty()) return {};
    label = {.name = std::move(extensions.context_name), .value = std::move(extensions.context)};
    caller.label = &label;
    return {};
}

Segments slice(Segments all, std::size_t skip, std::size_t bytes_max, std::vector<iovec>& scratch) {
    std::size_t first = 0;
    std::size_t before = 0;
    while (first < all.size() && before < skip) before += all[first++].iov_len;

    if (before == skip) {
        std::size_t end = first;
        std::size_t bytes = 0;
        while (end < all.size() && bytes < bytes_max) bytes += all[end++].iov_len;
        if (bytes <= bytes_max) return all.subspan(first, end - first);
    }
    scratch.clear();
    SegmentReader reader{all};
    reader.skip(skip);
    reader.remaining_segments(bytes_max, scratch);
    return scratch;
}

} // namespace viaduct::session
