// SPDX-License-Identifier: Apache-2.0
#include "vhost/event_fd.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>

namespace viaduct::vhost {
namespace {

int proc_self_fd() {
    static const Fd directory{::open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    return directory.get();
}

// Anonymous inodes are shared by eventfd, epoll, timers and more; only the link says which it is.
bool is_event_fd(FdRef fd) {
    char name[16];
    std::snprintf(name, sizeof name, "%d", fd.get());
    char target[32];
    const ssize_t bytes = ::readlinkat(proc_self_fd(), name, target, sizeof target);
    return bytes > 0 && std::string_view{target, static_cast<std::size_t>(bytes)} == "anon_inode:[eventfd]";
}

} // namespace

void prepare_event_checks() {
    (void)proc_self_fd();
}

Status prepare_event_fd(FdRef fd) {
    if (!is_event_fd(fd)) return fail(EINVAL);
    const int flags = ::fcntl(fd.get(), F_GETFL);
    if (flags < 0) return fail(errno);
    if ((flags & O_NONBLOCK) != 0) return {};
    if (::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) return fail(errno);
    return {};
}

bool is_socket(FdRef fd) {
    struct stat info{};
    return ::fstat(fd.get(), &info) == 0 && S_ISSOCK(info.st_mode);
}

Result<Fd> duplicate(const Fd& fd) {
    if (!fd) return Fd{};
    const int copy = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return fail(errno);
    return Fd{copy};
}

} // namespace viaduct::vhost
