// SPDX-License-Identifier: Apache-2.0
//
// Extended attributes.  Values go through a buffer of ours: the system calls take one piece of memory, and a
// client's may be in many.
#include "session/answer.h"
#include "session/handlers.h"

#include <algorithm>
#include <array>
#include <linux/limits.h>
#include <sys/stat.h>

namespace viaduct::session {
namespace {

// As xattr(7) has it, an overlong name is ERANGE.
Result<std::string> take_xattr_name(Call& call) {
    std::array<char, XATTR_NAME_MAX + 1> text;
    const auto taken = call.request.take_string(text);
    if (!taken) return fail(taken.error() == Errno{ENAMETOOLONG} ? Errno{ERANGE} : taken.error());
    if (taken->empty()) return fail(ERANGE);
    return std::string{*taken};
}

// The buffer for a value: what the client asked for, bounded by the room of its reply and by what a value can
// be. ERANGE: there is room for nothing, and an empty buffer would ask for the length.
Result<std::span<std::byte>> buffer_for(Call& call, std::uint32_t size) {
    const std::size_t room = segments_bytes(call.raw->out()) - fuse::kOutHeaderBytes;
    const std::size_t bytes = std::min({std::size_t{size}, room, std::size_t{XATTR_SIZE_MAX}});
    if (bytes == 0 && size > 0) return fail(ERANGE);
    if (call.buffer.size() < bytes) call.buffer.resize(bytes);
    return std::span{call.buffer}.first(bytes);
}

// An ACL that changed the mode, on behalf of somebody outside the file's group.
rt::Task<Status> without_sgid(Lane& lane, Call& call, rt::Async<void> set) {
    const auto done = co_await std::move(set);
    if (!done) co_return fail(done.error());
    auto asked = lane.fs.getattr(call.caller, call.node(), std::nullopt);
    const auto found = co_await std::move(asked);
    if (!found) co_return fail(found.error());
    if ((found->attr.mode & S_ISGID) == 0) co_return Status{};
    call.change = {.fields = fs::SetAttr::mode_field,
                   .mode = found->attr.mode & 07777U & ~static_cast<std::uint32_t>(S_ISGID)};
    auto changed = lane.fs.setattr(call.caller, call.node(), call.change);
    const auto reply = co_await std::move(changed);
    if (!reply) co_return fail(reply.error());
    co_return Status{};
}

// With size 0 the client asks for the length.
std::size_t encode_value(Lane&, Call& call, const std::size_t& bytes) {
    if (call.in<fuse_getxattr_in>().size == 0)
        return call.reply(fuse_getxattr_out{.size = static_cast<std::uint32_t>(bytes), .padding = 0});
    if (bytes > call.buffer.size()) return call.reply_error(Errno{ERANGE});
    return fuse::reply_bytes(call.raw->out(), call.unique(), call.buffer.data(), bytes);
}

} // namespace

void serve_setxattr(Lane& lane, Call& call) {
    const auto& in = call.in<fuse_setxattr_in>();
    auto name = take_xattr_name(call);
    if (!name) return lane.refuse(call, name.error());
    if (in.size > call.request.rest_bytes()) return lane.refuse(call, EINVAL);
    if (in.size > XATTR_SIZE_MAX) return lane.refuse(call, E2BIG);
    if (call.buffer.size() < in.size) call.buffer.resize(in.size);
    if (!call.request.take(call.buffer.data(), in.size)) return lane.refuse(call, EINVAL);
    const auto value = std::as_bytes(std::span{call.buffer}.first(in.size));
    // The flag comes with a default ACL too, which leaves the mode alone.
    const bool kill =
        (in.setxattr_flags & FUSE_SETXATTR_ACL_KILL_SGID) != 0 && *name == "system.posix_acl_access";
    auto set = lane.fs.setxattr(call.caller, call.node(), std::move(*name), value, in.flags);
    if (!kill) return finish<encode_done>(lane, call, std::move(set));
    finish<encode_done>(lane, call, rt::Async<void>{without_sgid(lane, call, std::move(set))});
}

void serve_getxattr(Lane& lane, Call& call) {
    const auto& in = call.in<fuse_getxattr_in>();
    auto name = take_xattr_name(call);
    if (!name) return lane.refuse(call, name.error());
    const auto buffer = buffer_for(call, in.size);
    if (!buffer) return lane.refuse(call, buffer.error());
    finish<encode_value>(lane, call, lane.fs.getxattr(call.caller, call.node(), std::move(*name), *buffer));
}

void serve_listxattr(Lane& lane, Call& call) {
    const auto buffer = buffer_for(call, call.in<fuse_getxattr_in>().size);
    if (!buffer) return lane.refuse(call, buffer.error());
    finish<encode_value>(lane, call, lane.fs.listxattr(call.caller, call.node(), *buffer));
}

void serve_removexattr(Lane& lane, Call& call) {
    auto name = take_xattr_name(call);
    if (!name) return lane.refuse(call, name.error());
    finish<encode_done>(lane, call, lane.fs.removexattr(call.caller, call.node(), std::move(*name)));
}

} // namespace viaduct::session
