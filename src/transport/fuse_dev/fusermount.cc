// SPDX-License-Identifier: Apache-2.0
#include "transport/fuse_dev/fusermount.h"

#include <array>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <vector>

extern char** environ;

namespace viaduct::transport {
namespace {

constexpr const char* kProgram = "fusermount3";
constexpr int kSocketInChild = 3;

// Commas separate its options.
std::string escaped(const std::string& text) {
    std::string result;
    for (const char c : text) {
        if (c == ',' || c == '\\') result += '\\';
        result += c;
    }
    return result;
}

std::string option_list(const MountPointOptions& options) {
    std::string list = "fsname=" + escaped(options.source) + ",subtype=viaduct,default_permissions";
    list += options.read_only ? ",ro" : ",rw";
    list += options.suid ? ",suid" : ",nosuid";
    list += options.dev ? ",dev" : ",nodev";
    list += options.exec ? ",exec" : ",noexec";
    if (options.noatime) list += ",noatime";
    if (options.allow_other) list += ",allow_other";
    if (options.max_read_bytes > 0) list += ",max_read=" + std::to_string(options.max_read_bytes);
    return list;
}

// Runs it with `socket` (-1: none) as descriptor 3.  ENOENT: there is no such program.
Result<pid_t> start(std::vector<std::string> words, int socket) {
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::string variable = "_FUSE_COMMFD=" + std::to_string(kSocketInChild);
    std::vector<char*> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
    if (socket >= 0) environment.push_back(variable.data());
    environment.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (socket >= 0) posix_spawn_file_actions_adddup2(&actions, socket, kSocketInChild);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t pid = -1;
    const int error = ::posix_spawnp(&pid, kProgram, &actions, &attributes, argv.data(), environment.data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) return fail(error);
    return pid;
}

bool succeeded(pid_t pid) {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The descriptor that comes with a byte.  Empty: the other side closed without sending one.
Fd receive(FdRef socket) {
    char byte = 0;
    iovec part{&byte, 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ssize_t got = -1;
    do {
        got = ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    const cmsghdr* const header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
    if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return {};
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return Fd{fd};
}

} // namespace

Outcome<Fd> fusermount(const MountPointOptions& options) {
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
        return failure("socketpair", Errno{errno});
    const Fd ours{pair[0]};
    Fd theirs{pair[1]};
    const auto pid = start({kProgram, "-o", option_list(options), "--", options.path}, theirs.get());
    theirs.reset();
    const std::string what = "cannot mount at \"" + options.path + "\"";
    if (!pid)
        return failure(what + " as this user", pid.error(),
                       "another user than root needs fusermount3, of the package fuse3");
    Fd device = receive(ours);
    if (!succeeded(*pid) || !device)
        return failure(what +
                       ": fusermount3 refused (above is why); the mount point has to be this user's, and "
                       "allow_other needs user_allow_other in /etc/fuse.conf");
    const int flags = ::fcntl(device.get(), F_GETFL);
    if (::fcntl(device.get(), F_SETFL, flags | O_NONBLOCK) != 0) return failure("fcntl", Errno{errno});
    return device;
}

Status fusermount_detach(const std::string& path) {
    TRY(const pid_t pid, start({kProgram, "-u", "-q", "-z", "--", path}, -1));
    return succeeded(pid) ? Status{} : fail(EIO);
}

} // namespace viaduct::transport
