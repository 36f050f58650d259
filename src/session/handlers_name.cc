// SPDX-License-Identifier: Apache-2.0
//
// Requests that make, move and remove names.
#include "session/answer.h"
#include "session/handlers.h"
#include "session/wire.h"

#include <array>
#include <climits>

namespace viaduct::session {
namespace {

std::size_t encode_created(Lane& lane, Call& call, const fs::Created& created) {
    const struct {
        fuse_entry_out entry;
        fuse_open_out open;
    } both{to_wire(created.entry, lane.negotiated.submounts), to_wire(created.opened)};
    return call.reply(both);
}

void rename(Lane& lane, Call& call, std::uint64_t new_parent, std::uint32_t flags) {
    if (const Status taken = call.take_name(call.name); !taken) return lane.refuse(call, taken.error());
    if (const Status taken = call.take_name(call.new_name); !taken) return lane.refuse(call, taken.error());
    finish<encode_done>(
        lane, call,
        lane.fs.rename(call.caller, call.node(), *call.name, fs::NodeId{new_parent}, *call.new_name, flags));
}

} // namespace

void serve_symlink(Lane& lane, Call& call) {
    std::array<char, PATH_MAX> text;
    if (const Status taken = call.take_name(call.name); !taken) return lane.refuse(call, taken.error());
    const auto target = call.request.take_string(text);
    if (!target) return lane.refuse(call, target.error());
    if (const Status taken = call.take_extensions(lane.negotiated.dialect); !taken)
        return lane.refuse(call, taken.error());
    finish<encode_entry>(lane, call,
                         lane.fs.symlink(call.caller, call.node(), *call.name, std::string{*target}));
}

void serve_mknod(Lane& lane, Call& call) {
    const auto& in = call.in<fuse_mknod_in>();
    if (const Status taken = call.take_name(call.name); !taken) return lane.refuse(call, taken.error());
    if (const Status taken = call.take_extensions(lane.negotiated.dialect); !taken)
        return lane.refuse(call, taken.error());
    finish<encode_entry>(lane, call,
                         lane.fs.mknod(call.caller, call.node(), *call.name, in.mode, in.rdev, in.umask));
}

void serve_mkdir(Lane& lane, Call& call) {
    const auto& in = call.in<fuse_mkdir_in>();
    if (const Status taken = call.take_name(call.name); !taken) return lane.refuse(call, taken.error());
    if (const Status taken = call.take_extensions(lane.negotiated.dialect); !taken)
        return lane.refuse(call, taken.error());
    finish<encode_entry>(lane, call, lane.fs.mkdir(call.caller, call.node(), *call.name, in.mode, in.umask));
}

void serve_unlink(Lane& lane, Call& call) {
    if (const Status taken = call.take_name(call.name); !taken) return lane.refuse(call, taken.error());
    finish<encode_done>(lane, call, lane.fs.unlink(call.caller, call.node(), *call.name));
}

void serve_rmdir(Lane& lane, Call& call) {
    if (const Status taken = call.take_name(call.name); !taken) return lane.refuse(call, taken.error());
    finish<encode_done>(lane, call, lane.fs.rmdir(call.caller, call.node(), *call.name));
}

void serve_rename(Lane& lane, Call& call) {
    rename(lane, call, call.in<fuse_rename_in>().newdir, 0);
}

void serve_rename2(Lane& lane, Call& call) {
    const auto& in = call.in<fuse_rename2_in>();
    rename(lane, call, in.newdir, in.flags);
}

// The header's node is the directory here, the body's the one that gets another name.
void serve_link(Lane& lane, Call& call) {
    if (const Status taken = call.take_name(call.name); !taken) return lane.refuse(call, taken.error());
    const fs::NodeId node{call.in<fuse_link_in>().oldnodeid};
    finish<encode_entry>(lane, call, lane.fs.link(call.caller, node, call.node(), *call.name));
}

void serve_create(Lane& lane, Call& call) {
    const auto& in = call.in<fuse_create_in>();
    if (const Status taken = call.take_name(call.name); !taken) return lane.refuse(call, taken.error());
    if (const Status taken = call.take_extensions(lane.negotiated.dialect); !taken)
        return lane.refuse(call, taken.error());
    const bool kill = (in.open_flags & FUSE_OPEN_KILL_SUIDGID) != 0;
    finish<encode_created>(
        lane, call, lane.fs.create(call.caller, call.node(), *call.name, in.flags, in.mode, in.umask, kill));
}

// The name that comes with it means nothing, and need not come.
void serve_tmpfile(Lane& lane, Call& call) {
    const auto& in = call.in<fuse_create_in>();
    std::array<char, fs::Name::kBytesMax + 1> text;
    if (call.request.rest_bytes() > 0) {
        if (const auto taken = call.request.take_string(text); !taken)
            return lane.refuse(call, taken.error());
    }
    if (const Status taken = call.take_extensions(lane.negotiated.dialect); !taken)
        return lane.refuse(call, taken.error());
    finish<encode_created>(lane, call,
                           lane.fs.tmpfile(call.caller, call.node(), in.flags, in.mode, in.umask));
}

} // namespace viaduct::session
