// SPDX-License-Identifier: Apache-2.0
#include "support/fuse_server.h"

#include "base/assert.h"
#include "support/mounts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/uio.h>

namespace viaduct::test {
namespace {

constexpr std::uint32_t kWriteBytesMax = 1U << 20;
constexpr std::size_t kMessageBytesMax = kWriteBytesMax + 65536;

fuse_in_header header_of(std::span<const std::byte> message) {
    fuse_in_header header;
    std::memcpy(&header, message.data(), sizeof header);
    return header;
}

// The struct behind the header; the kernel is believed.
template <class T> T body_of(std::span<const std::byte> message) {
    T value{};
    const auto body = message.subspan(sizeof(fuse_in_header));
    std::memcpy(&value, body.data(), std::min(body.size(), sizeof value));
    return value;
}

std::string name_at(std::span<const std::byte> message, std::size_t offset) {
    return reinterpret_cast<const char*>(message.data() + sizeof(fuse_in_header) + offset);
}

void append(std::vector<std::byte>& to, const void* from, std::size_t bytes) {
    const auto* const start = static_cast<const std::byte*>(from);
    to.insert(to.end(), start, start + bytes);
}

} // namespace

Outcome<std::unique_ptr<TestFuseServer>> TestFuseServer::mount(const std::string& mountpoint,
                                                               const Options& options) {
    use_private_mounts();
    Fd device{::open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK)};
    if (!device) return failure("/dev/fuse", Errno{errno});
    Fd stop{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (!stop) return failure("eventfd", Errno{errno});
    const std::string data =
        "fd=" + std::to_string(device.get()) + ",rootmode=40755,user_id=0,group_id=0,allow_other";
    if (::mount("viaduct-test", mountpoint.c_str(), "fuse", MS_NOSUID | MS_NODEV, data.c_str()) < 0)
        return failure("mounting FUSE at " + mountpoint, Errno{errno});
    std::unique_ptr<TestFuseServer> server{
        new TestFuseServer{mountpoint, std::move(device), std::move(stop), options}};
    server->thread_ = std::thread{[&self = *server] { self.serve(); }};
    return server;
}

TestFuseServer::~TestFuseServer() {
    let_go_all();
    ::umount2(mountpoint_.c_str(), MNT_DETACH);
    abort();
}

// With the last descriptor of its device a connection ends; children of this program have none.
void TestFuseServer::abort() {
    if (!thread_.joinable()) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof one);
    thread_.join();
    const std::lock_guard lock{mutex_};
    held_.clear();
    device_.reset();
}

void TestFuseServer::set_content(std::string_view name, std::string content) {
    const std::lock_guard lock{mutex_};
    std::uint64_t node = node_of(name);
    if (node == 0) node = ++last_node_;
    files_[node] = {.name = std::string{name}, .content = std::move(content), .mode = 0100644};
}

std::string TestFuseServer::content(std::string_view name) const {
    const std::lock_guard lock{mutex_};
    const auto file = files_.find(node_of(name));
    return file == files_.end() ? std::string{} : file->second.content;
}

void TestFuseServer::hold(std::uint32_t opcode) {
    const std::lock_guard lock{mutex_};
    held_.try_emplace(opcode);
}

void TestFuseServer::let_go(std::uint32_t opcode) {
    const std::lock_guard lock{mutex_};
    const auto requests = held_.extract(opcode);
    if (requests.empty()) return;
    for (const Message& message : requests.mapped()) answer(message);
}

void TestFuseServer::let_go_all() {
    const std::lock_guard lock{mutex_};
    for (const auto& [opcode, requests] : std::exchange(held_, {})) {
        for (const Message& message : requests) answer(message);
    }
}

bool TestFuseServer::let_go_one(std::uint32_t opcode) {
    const std::lock_guard lock{mutex_};
    const auto requests = held_.find(opcode);
    if (requests == held_.end() || requests->second.empty()) return false;
    answer(requests->second.front());
    requests->second.erase(requests->second.begin());
    return true;
}

std::size_t TestFuseServer::held(std::uint32_t opcode) const {
    const std::lock_guard lock{mutex_};
    const auto requests = held_.find(opcode);
    return requests == held_.end() ? 0 : requests->second.size();
}

bool TestFuseServer::wait_for_held(std::uint32_t opcode, std::size_t count,
                                   std::chrono::milliseconds limit) const {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, limit, [&] {
        const auto requests = held_.find(opcode);
        return requests != held_.end() && requests->second.size() >= count;
    });
}

void TestFuseServer::set_error(std::uint32_t opcode, int error) {
    const std::lock_guard lock{mutex_};
    errors_[opcode] = error;
}

std::size_t TestFuseServer::count(std::uint32_t opcode) const {
    const std::lock_guard lock{mutex_};
    const auto counter = counts_.find(opcode);
    return counter == counts_.end() ? 0 : counter->second;
}

void TestFuseServer::serve() {
    Message buffer(kMessageBytesMax);
    for (;;) {
        std::array<pollfd, 2> fds{pollfd{.fd = device_.get(), .events = POLLIN, .revents = 0},
                                  pollfd{.fd = stop_.get(), .events = POLLIN, .revents = 0}};
        ::poll(fds.data(), fds.size(), -1);
        if (fds[1].revents != 0) return;
        const ssize_t got = ::read(device_.get(), buffer.data(), buffer.size());
        if (got > 0) {
            const std::lock_guard lock{mutex_};
            take({buffer.begin(), buffer.begin() + got});
        } else if (errno == ENODEV) { // unmounted or aborted; wait to be told to stop
            ::poll(&fds[1], 1, -1);
            return;
        }
        // EAGAIN, EINTR; ENOENT: the request was taken back meanwhile
    }
}

void TestFuseServer::take(Message message) {
    const std::uint32_t opcode = header_of(message).opcode;
    ++counts_[opcode];
    if (const auto requests = held_.find(opcode); requests != held_.end()) {
        requests->second.push_back(std::move(message));
    } else {
        answer(message);
    }
    changed_.notify_all();
}

void TestFuseServer::answer(const Message& message) {
    const fuse_in_header header = header_of(message);
    switch (header.opcode) { // no reply to these
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
        return;
    case FUSE_INTERRUPT: // not heeded: a server that hangs
        if (options_.heeds_interrupts) interrupt(body_of<fuse_interrupt_in>(message).unique);
        return;
    default:
        break;
    }
    if (const auto error = errors_.find(header.opcode); error != errors_.end() && error->second != 0)
        return reply(header.unique, error->second);
    if (header.opcode != FUSE_INIT && !files_.contains(header.nodeid)) return reply(header.unique, ENOENT);
    switch (header.opcode) {
    case FUSE_INIT:
        return answer_init(message);
    case FUSE_LOOKUP:
        return answer_lookup(message);
    case FUSE_GETATTR:
        return answer_getattr(message);
    case FUSE_SETATTR:
        return answer_setattr(message);
    case FUSE_CREATE:
        return answer_create(message);
    case FUSE_UNLINK:
        return answer_unlink(message);
    case FUSE_OPEN:
    case FUSE_OPENDIR:
        return reply_with(header.unique,
                          fuse_open_out{.fh = header.nodeid,
                                        .open_flags = header.opcode == FUSE_OPEN && options_.direct_io
                                                          ? FOPEN_DIRECT_IO
                                                          : 0U});
    case FUSE_READ:
        return answer_read(message);
    case FUSE_WRITE:
        return answer_write(message);
    case FUSE_READDIR:
        return answer_readdir(message);
    case FUSE_STATFS:
        return reply_with(header.unique,
                          fuse_statfs_out{.st = {.blocks = 1024, .bsize = 4096, .namelen = 255}});
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
    case FUSE_FSYNC:
    case FUSE_FSYNCDIR:
    case FUSE_FLUSH:
    case FUSE_ACCESS:
    case FUSE_FALLOCATE:
    case FUSE_DESTROY:
        return reply(header.unique, 0);
    default:
        return reply(header.unique, ENOSYS);
    }
}

// Of the held ones; what is not held has been answered.
void TestFuseServer::interrupt(std::uint64_t unique) {
    for (auto& [opcode, requests] : held_) {
        const auto held = [unique](const Message& one) { return header_of(one).unique == unique; };
        const auto found = std::ranges::find_if(requests, held);
        if (found == requests.end()) continue;
        reply(unique, EINTR);
        requests.erase(found);
        return;
    }
}

void TestFuseServer::reply(std::uint64_t unique, int error, std::span<const std::byte> body) {
    const fuse_out_header header{.len = static_cast<std::uint32_t>(sizeof(fuse_out_header) + body.size()),
                                 .error = -error,
                                 .unique = unique};
    const std::array<iovec, 2> parts{
        iovec{.iov_base = const_cast<fuse_out_header*>(&header), .iov_len = sizeof header},
        iovec{.iov_base = const_cast<std::byte*>(body.data()), .iov_len = body.size()}};
    // ENOENT: nobody waits for it any more.
    [[maybe_unused]] const ssize_t written = ::writev(device_.get(), parts.data(), body.empty() ? 1 : 2);
}

template <class T> void TestFuseServer::reply_with(std::uint64_t unique, const T& value) {
    reply(unique, 0, std::as_bytes(std::span{&value, 1}));
}

void TestFuseServer::answer_init(const Message& message) {
    const auto in = body_of<fuse_init_in>(message);
    reply_with(
        header_of(message).unique,
        fuse_init_out{.major = fuse::kMajor,
                      .minor = std::min<std::uint32_t>(in.minor, FUSE_KERNEL_MINOR_VERSION),
                      .max_readahead = 0,
                      .flags = in.flags & (FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_MAX_PAGES |
                                           FUSE_PARALLEL_DIROPS | (options_.async_dio ? FUSE_ASYNC_DIO : 0U)),
                      .max_background = 64,
                      .congestion_threshold = 48,
                      .max_write = kWriteBytesMax,
                      .time_gran = 1,
                      .max_pages = kWriteBytesMax / 4096});
}

void TestFuseServer::answer_lookup(const Message& message) {
    const fuse_in_header header = header_of(message);
    const std::uint64_t node = node_of(name_at(message, 0));
    if (node == 0 || header.nodeid != FUSE_ROOT_ID) return reply(header.unique, ENOENT);
    reply_with(header.unique, entry_of(node));
}

void TestFuseServer::answer_getattr(const Message& message) {
    const fuse_in_header header = header_of(message);
    reply_with(header.unique,
               fuse_attr_out{.attr_valid = options_.valid_seconds, .attr = attr_of(header.nodeid)});
}

void TestFuseServer::answer_setattr(const Message& message) {
    const auto in = body_of<fuse_setattr_in>(message);
    if ((in.valid & FATTR_SIZE) != 0) files_[header_of(message).nodeid].content.resize(in.size);
    answer_getattr(message);
}

void TestFuseServer::answer_create(const Message& message) {
    const std::string name = name_at(message, sizeof(fuse_create_in));
    std::uint64_t node = node_of(name);
    if (node == 0) {
        node = ++last_node_;
        files_[node] = {
            .name = name, .content = {}, .mode = 0100000 | (body_of<fuse_create_in>(message).mode & 07777)};
    }
    struct Reply {
        fuse_entry_out entry;
        fuse_open_out open;
    };
    reply_with(header_of(message).unique,
               Reply{.entry = entry_of(node),
                     .open = {.fh = node, .open_flags = options_.direct_io ? FOPEN_DIRECT_IO : 0U}});
}

void TestFuseServer::answer_unlink(const Message& message) {
    const std::uint64_t node = node_of(name_at(message, 0));
    if (node != 0) files_.erase(node);
    reply(header_of(message).unique, node != 0 ? 0 : ENOENT);
}

void TestFuseServer::answer_read(const Message& message) {
    const auto in = body_of<fuse_read_in>(message);
    const std::string& content = files_[header_of(message).nodeid].content;
    const std::size_t start = std::min<std::size_t>(in.offset, content.size());
    const std::size_t bytes = std::min<std::size_t>(in.size, content.size() - start);
    reply(header_of(message).unique, 0, std::as_bytes(std::span{content}.subspan(start, bytes)));
}

void TestFuseServer::answer_write(const Message& message) {
    const auto in = body_of<fuse_write_in>(message);
    std::string& content = files_[header_of(message).nodeid].content;
    if (content.size() < in.offset + in.size) content.resize(in.offset + in.size);
    std::memcpy(content.data() + in.offset, message.data() + sizeof(fuse_in_header) + sizeof in, in.size);
    reply_with(header_of(message).unique, fuse_write_out{.size = in.size});
}

// Offsets are node ids: those behind the one given follow.
void TestFuseServer::answer_readdir(const Message& message) {
    const auto in = body_of<fuse_read_in>(message);
    std::vector<std::byte> body;
    for (auto file = files_.upper_bound(std::max<std::uint64_t>(in.offset, FUSE_ROOT_ID));
         file != files_.end(); ++file) {
        const fuse_dirent dirent{.ino = file->first,
                                 .off = file->first,
                                 .namelen = static_cast<std::uint32_t>(file->second.name.size()),
                                 .type = file->second.mode >> 12};
        if (body.size() + FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + dirent.namelen) > in.size) break;
        append(body, &dirent, FUSE_NAME_OFFSET);
        append(body, file->second.name.data(), dirent.namelen);
        body.resize(FUSE_DIRENT_ALIGN(body.size()));
    }
    reply(header_of(message).unique, 0, body);
}

std::uint64_t TestFuseServer::node_of(std::string_view name) const {
    for (const auto& [node, file] : files_) {
        if (node != FUSE_ROOT_ID && file.name == name) return node;
    }
    return 0;
}

fuse_attr TestFuseServer::attr_of(std::uint64_t node) const {
    const File& file = files_.at(node);
    return {.ino = node,
            .size = file.content.size(),
            .blocks = (file.content.size() + 511) / 512,
            .mode = file.mode,
            .nlink = 1,
            .blksize = 4096};
}

fuse_entry_out TestFuseServer::entry_of(std::uint64_t node) const {
    return {.nodeid = node,
            .entry_valid = options_.valid_seconds,
            .attr_valid = options_.valid_seconds,
            .attr = attr_of(node)};
}

} // namespace viaduct::test
