// SPDX-License-Identifier: Apache-2.0
#include "driver/fuse_client.h"

#include "driver/directory_walk.h"

#include <algorithm>
#include <cstring>

namespace viaduct::driver {
namespace {

// A reply that is shorter than T (older protocol versions) leaves the rest zero; an empty one is a mistake.
template <class T> Result<T> value_in(std::span<const std::byte> body) {
    if (body.empty()) return fail(EIO);
    T value{};
    std::memcpy(&value, body.data(), std::min(body.size(), sizeof value));
    return value;
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

} // namespace

// One row of numbers for all clients of this process: a device may see several.  Bit 0 is left to interrupts.
std::uint64_t FuseClient::next_unique() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(2, std::memory_order_relaxed) + 2;
}

FuseClient FuseClient::on_queue(std::uint32_t queue) const {
    FuseClient other = *this;
    other.options_.queue = queue;
    return other;
}

FuseClient FuseClient::as(std::uint32_t uid, std::uint32_t gid) const {
    FuseClient other = *this;
    other.options_.uid = uid;
    other.options_.gid = gid;
    return other;
}

RequestQueue& FuseClient::queue() const noexcept {
    return options_.queue ? device_.request_queue(*options_.queue) : device_.queue_of_current_cpu();
}

CallOptions FuseClient::call_options(std::uint32_t opcode, std::uint64_t node) const {
    return {.opcode = opcode, .node = node, .uid = options_.uid, .gid = options_.gid, .pid = options_.pid};
}

Result<std::shared_ptr<Call>> FuseClient::begin(const CallOptions& options) {
    TRY(auto call, Call::make(device_.memory(), options, next_unique()));
    if (options.background) {
        TRY_STATUS(call->submit(queue(), device_.background()));
    } else {
        TRY_STATUS(call->submit(options.no_reply ? device_.hiprio() : queue()));
    }
    return call;
}

Result<std::vector<std::byte>> FuseClient::call(const CallOptions& options) {
    TRY(const auto sent, begin(options));
    TRY(const auto body, sent->wait(after(options_.timeout)));
    return std::vector<std::byte>{body.begin(), body.end()};
}

template <class T> Result<T> FuseClient::call_for(const CallOptions& options) {
    CallOptions with_room = options;
    with_room.reply_bytes_max = sizeof(T);
    TRY(const auto body, call(with_room));
    return value_in<T>(body);
}

Status FuseClient::call_for_nothing(const CallOptions& options) {
    TRY([[maybe_unused]] const auto body, call(options));
    return {};
}

Result<fuse_init_out> FuseClient::init(std::uint64_t flags, std::uint32_t minor) {
    if (flags >> 32 != 0) flags |= FUSE_INIT_EXT;
    const fuse_init_in in{.major = fuse::kMajor,
                          .minor = minor,
                          .max_readahead = 128U << 10,
                          .flags = static_cast<std::uint32_t>(flags),
                          .flags2 = static_cast<std::uint32_t>(flags >> 32)};
    return call_for<fuse_init_out>(call_options(FUSE_INIT, 0).add(in));
}

Status FuseClient::destroy() {
    return call_for_nothing(call_options(FUSE_DESTROY, 0));
}

Result<fuse_entry_out> FuseClient::lookup(std::uint64_t parent, std::string_view name) {
    return call_for<fuse_entry_out>(call_options(FUSE_LOOKUP, parent).add_name(name));
}

Result<fuse_entry_out> FuseClient::lookup_path(std::string_view path) {
    fuse_entry_out entry{.nodeid = kRoot};
    while (!path.empty()) {
        const std::size_t end = std::min(path.find('/'), path.size());
        if (end > 0) {
            TRY(entry, lookup(entry.nodeid, path.substr(0, end)));
        }
        path.remove_prefix(std::min(end + 1, path.size()));
    }
    return entry;
}

Status FuseClient::forget(std::uint64_t node, std::uint64_t lookups) {
    CallOptions options = call_options(FUSE_FORGET, node).add(fuse_forget_in{.nlookup = lookups});
    options.no_reply = true;
    return call_for_nothing(options);
}

Result<fuse_attr> FuseClient::getattr(std::uint64_t node) {
    TRY(const auto out, call_for<fuse_attr_out>(call_options(FUSE_GETATTR, node).add(fuse_getattr_in{})));
    return out.attr;
}

Result<fuse_attr> FuseClient::setattr(std::uint64_t node, const fuse_setattr_in& change) {
    TRY(const auto out, call_for<fuse_attr_out>(call_options(FUSE_SETATTR, node).add(change)));
    return out.attr;
}

Result<fuse_kstatfs> FuseClient::statfs(std::uint64_t node) {
    TRY(const auto out, call_for<fuse_statfs_out>(call_options(FUSE_STATFS, node)));
    return out.st;
}

Result<std::uint64_t> FuseClient::open(std::uint64_t node, std::uint32_t flags) {
    TRY(const auto out,
        call_for<fuse_open_out>(call_options(FUSE_OPEN, node).add(fuse_open_in{.flags = flags})));
    return out.fh;
}

Result<FuseClient::Created> FuseClient::create(std::uint64_t parent, std::string_view name,
                                               std::uint32_t flags, std::uint32_t mode) {
    struct Reply {
        fuse_entry_out entry;
        fuse_open_out open;
    };
    const fuse_create_in in{.flags = flags, .mode = mode};
    TRY(const auto out, call_for<Reply>(call_options(FUSE_CREATE, parent).add(in).add_name(name)));
    return Created{.entry = out.entry, .handle = out.open.fh};
}

Status FuseClient::release(std::uint64_t node, std::uint64_t handle) {
    return call_for_nothing(call_options(FUSE_RELEASE, node).add(fuse_release_in{.fh = handle}));
}

Status FuseClient::flush(std::uint64_t node, std::uint64_t handle) {
    return call_for_nothing(call_options(FUSE_FLUSH, node).add(fuse_flush_in{.fh = handle}));
}

Status FuseClient::fsync(std::uint64_t node, std::uint64_t handle, bool data_only) {
    const fuse_fsync_in in{.fh = handle, .fsync_flags = data_only ? FUSE_FSYNC_FDATASYNC : 0U};
    return call_for_nothing(call_options(FUSE_FSYNC, node).add(in));
}

Result<std::shared_ptr<Call>> FuseClient::begin_read(std::uint64_t node, std::uint64_t handle,
                                                     std::uint64_t offset, std::uint32_t bytes) {
    CallOptions options =
        call_options(FUSE_READ, node).add(fuse_read_in{.fh = handle, .offset = offset, .size = bytes});
    options.reply_bytes_max = bytes;
    return begin(options);
}

Result<std::string> FuseClient::read(std::uint64_t node, std::uint64_t handle, std::uint64_t offset,
                                     std::uint32_t bytes) {
    TRY(const auto sent, begin_read(node, handle, offset, bytes));
    TRY(const auto body, sent->wait(after(options_.timeout)));
    return text_of(body);
}

Result<std::uint32_t> FuseClient::write(std::uint64_t node, std::uint64_t handle, std::uint64_t offset,
                                        std::string_view data) {
    const fuse_write_in in{.fh = handle, .offset = offset, .size = static_cast<std::uint32_t>(data.size())};
    TRY(const auto out,
        call_for<fuse_write_out>(
            call_options(FUSE_WRITE, node).add(in).add_bytes(std::as_bytes(std::span{data}))));
    return out.size;
}

Result<std::uint64_t> FuseClient::opendir(std::uint64_t node) {
    TRY(const auto out, call_for<fuse_open_out>(call_options(FUSE_OPENDIR, node).add(fuse_open_in{})));
    return out.fh;
}

Result<std::vector<DirectoryEntry>> FuseClient::readdir(std::uint64_t node, std::uint64_t handle,
                                                        std::uint64_t offset, std::uint32_t bytes,
                                                        bool plus) {
    CallOptions options = call_options(plus ? FUSE_READDIRPLUS : FUSE_READDIR, node)
                              .add(fuse_read_in{.fh = handle, .offset = offset, .size = bytes});
    options.reply_bytes_max = bytes;
    TRY(const auto body, call(options));
    return decode_directory(body, plus);
}

Status FuseClient::releasedir(std::uint64_t node, std::uint64_t handle) {
    return call_for_nothing(call_options(FUSE_RELEASEDIR, node).add(fuse_release_in{.fh = handle}));
}

Result<fuse_entry_out> FuseClient::mkdir(std::uint64_t parent, std::string_view name, std::uint32_t mode) {
    return call_for<fuse_entry_out>(
        call_options(FUSE_MKDIR, parent).add(fuse_mkdir_in{.mode = mode, .umask = 0}).add_name(name));
}

Result<fuse_entry_out> FuseClient::mknod(std::uint64_t parent, std::string_view name, std::uint32_t mode,
                                         std::uint32_t rdev) {
    return call_for<fuse_entry_out>(
        call_options(FUSE_MKNOD, parent).add(fuse_mknod_in{.mode = mode, .rdev = rdev}).add_name(name));
}

Result<fuse_entry_out> FuseClient::symlink(std::uint64_t parent, std::string_view name,
                                           std::string_view target) {
    return call_for<fuse_entry_out>(call_options(FUSE_SYMLINK, parent).add_name(name).add_name(target));
}

Result<fuse_entry_out> FuseClient::link(std::uint64_t node, std::uint64_t parent, std::string_view name) {
    return call_for<fuse_entry_out>(
        call_options(FUSE_LINK, parent).add(fuse_link_in{.oldnodeid = node}).add_name(name));
}

Result<std::string> FuseClient::readlink(std::uint64_t node) {
    CallOptions options = call_options(FUSE_READLINK, node);
    options.reply_bytes_max = 4096;
    TRY(const auto body, call(options));
    return text_of(body);
}

Status FuseClient::unlink(std::uint64_t parent, std::string_view name) {
    return call_for_nothing(call_options(FUSE_UNLINK, parent).add_name(name));
}

Status FuseClient::rmdir(std::uint64_t parent, std::string_view name) {
    return call_for_nothing(call_options(FUSE_RMDIR, parent).add_name(name));
}

Status FuseClient::rename(std::uint64_t parent, std::string_view name, std::uint64_t to_parent,
                          std::string_view to_name, std::uint32_t flags) {
    const fuse_rename2_in in{.newdir = to_parent, .flags = flags};
    return call_for_nothing(call_options(FUSE_RENAME2, parent).add(in).add_name(name).add_name(to_name));
}

Result<std::vector<DirectoryEntry>> decode_directory(std::span<const std::byte> bytes, bool plus) {
    std::vector<DirectoryEntry> entries;
    DirectoryWalk walk{bytes, plus};
    while (const auto found = walk.next()) {
        DirectoryEntry entry{.ino = found->ino,
                             .offset = found->offset,
                             .type = found->type,
                             .name = std::string{found->name},
                             .entry = {}};
        if (plus) entry.entry = found->entry;
        entries.push_back(std::move(entry));
    }
    if (walk.malformed()) return fail(EIO);
    return entries;
}

} // namespace viaduct::driver
