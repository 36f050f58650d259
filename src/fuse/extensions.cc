// SPDX-License-Identifier: Apache-2.0
#include "fuse/extensions.h"

#include <array>
#include <linux/limits.h>

namespace viaduct::fuse {
namespace {

// fuse_ext_header; also fuse_secctx_header, whose count of contexts stands where the type does.
struct Header {
    std::uint32_t bytes; // this header included
    std::uint32_t type;
};
constexpr std::uint32_t kContextsMax = 31;
constexpr std::uint32_t kGroups = 32; // FUSE_EXT_GROUPS

struct Context {
    std::uint32_t bytes;
    std::uint32_t padding;
};

// `end`: how much of the request is left behind this extension.
Status take_group(Decoded& request, std::size_t end, Extensions& into) {
    std::array<std::uint32_t, 2> body; // count, group
    if (request.rest_bytes() < end + sizeof body || !request.take(body.data(), sizeof body))
        return fail(EINVAL);
    if (body[0] != 1 || into.group) return fail(EINVAL);
    into.group = body[1];
    return {};
}

Status take_context(Decoded& request, std::size_t end, Extensions& into) {
    Context head;
    if (request.rest_bytes() < end + sizeof head || !request.take(&head, sizeof head)) return fail(EINVAL);
    std::array<char, XATTR_NAME_MAX + 1> text;
    TRY(const std::string_view name, request.take_string(text));
    if (name.empty() || !into.context_name.empty()) return fail(EINVAL);
    if (head.bytes > XATTR_SIZE_MAX) return fail(E2BIG);
    if (request.rest_bytes() < end + head.bytes) return fail(EINVAL);
    into.context_name = name;
    into.context.resize(head.bytes);
    if (!request.take(into.context.data(), head.bytes)) return fail(EINVAL);
    return {};
}

} // namespace

Result<Extensions> take_extensions(Decoded& request, const Dialect& dialect) {
    Extensions taken;
    const std::size_t claimed = std::size_t{request.header().total_extlen} * 8;
    // Before 7.38 a context came without being announced in the header.
    if (claimed == 0 && !dialect.security_context) return taken;
    if (claimed != 0 && claimed != request.rest_bytes()) return fail(EINVAL);
    while (request.rest_bytes() > 0) {
        Header header;
        if (!request.take(&header, sizeof header)) return fail(EINVAL);
        if (header.bytes < sizeof header || header.bytes - sizeof header > request.rest_bytes())
            return fail(EINVAL);
        const std::size_t end = request.rest_bytes() - (header.bytes - sizeof header);
        if (header.type == kGroups) {
            TRY_STATUS(take_group(request, end, taken));
        } else if (header.type == 1) {
            TRY_STATUS(take_context(request, end, taken));
        } else if (header.type != 0 && header.type <= kContextsMax) {
            return fail(EINVAL);
        }
        if (request.rest_bytes() < end) return fail(EINVAL);
        request.skip(request.rest_bytes() - end); // padding, and extensions that are not known
    }
    return taken;
}

} // namespace viaduct::fuse
