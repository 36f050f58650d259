// SPDX-License-Identifier: Apache-2.0
#include "guestvm/process.h"

#include "base/assert.h"

#include <array>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace viaduct::guestvm {
namespace {

// Everything below runs between fork and exec: system calls only.
struct ExecPlan {
    char* const* argv;
    std::array<int, 3> standard_fds;
    const std::vector<int>* kept_fds;
    int failure_fd; // errno goes here when exec fails
    pid_t parent;
};

[[noreturn]] void give_up(const ExecPlan& plan) {
    const int error = errno;
    [[maybe_unused]] const auto written = ::write(plan.failure_fd, &error, sizeof error);
    ::_exit(127);
}

[[noreturn]] void exec_child(const ExecPlan& plan) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != plan.parent) ::_exit(127); // it died before the line above
    ::setpgid(0, 0);
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) give_up(plan);
    // First out of the way of 0, 1 and 2, then into place: sources may be any of them.
    std::array<int, 3> moved;
    for (std::size_t i = 0; i < 3; ++i) {
        const int source = plan.standard_fds[i] < 0 ? null : plan.standard_fds[i];
        moved[i] = ::fcntl(source, F_DUPFD_CLOEXEC, 3);
        if (moved[i] < 0) give_up(plan);
    }
    for (int i = 0; i < 3; ++i)
        if (::dup2(moved[static_cast<std::size_t>(i)], i) < 0) give_up(plan);
    ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    for (const int fd : *plan.kept_fds)
        if (::fcntl(fd, F_SETFD, 0) < 0) give_up(plan);
    std::signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execvp(plan.argv[0], plan.argv);
    give_up(plan);
}

// glibc 2.36 declares its wrappers of these calls in a way that C++ cannot link to.
int open_pidfd(pid_t pid) {
    return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}
void send_signal(FdRef pidfd, int number) {
    ::syscall(SYS_pidfd_send_signal, pidfd.get(), number, nullptr, 0);
}

} // namespace

Outcome<Child> Child::start(const ChildOptions& options) {
    ASSERT(!options.argv.empty());
    std::vector<char*> argv;
    argv.reserve(options.argv.size() + 1);
    for (const std::string& argument : options.argv) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);

    std::array<int, 2> pipe_fds;
    if (::pipe2(pipe_fds.data(), O_CLOEXEC) < 0) return failure("pipe", Errno{errno});
    const Fd failure_read{pipe_fds[0]};
    Fd failure_write{pipe_fds[1]};
    const ExecPlan plan{.argv = argv.data(),
                        .standard_fds = {options.stdin_fd, options.stdout_fd, options.stderr_fd},
                        .kept_fds = &options.kept_fds,
                        .failure_fd = failure_write.get(),
                        .parent = ::getpid()};
    const pid_t pid = ::fork();
    if (pid < 0) return failure("fork", Errno{errno});
    if (pid == 0) exec_child(plan);

    failure_write.reset();
    const int pidfd = open_pidfd(pid);
    const int pidfd_error = errno;
    int exec_error = 0;
    // End of file: exec has closed the pipe.
    if (::read(failure_read.get(), &exec_error, sizeof exec_error) > 0 || pidfd < 0) {
        ::kill(pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
        if (pidfd >= 0) ::close(pidfd);
        if (exec_error == 0) return failure("pidfd_open", Errno{pidfd_error});
        return failure("cannot start " + options.argv[0], Errno{exec_error});
    }
    return Child{pid, Fd{pidfd}};
}

Child& Child::operator=(Child&& other) noexcept {
    if (pidfd_ && !status_) end(std::chrono::milliseconds{0});
    pid_ = other.pid_;
    pidfd_ = std::move(other.pidfd_);
    status_ = other.status_;
    return *this;
}

Child::~Child() {
    if (pidfd_ && !status_) end(std::chrono::milliseconds{0});
}

std::optional<int> Child::wait(std::chrono::milliseconds limit) {
    if (status_) return status_;
    const auto deadline = std::chrono::steady_clock::now() + limit;
    for (;;) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd ended{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
        const int ready = ::poll(&ended, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
        if (ready > 0) return wait();
        if (ready == 0) return std::nullopt;
        ASSERT(errno == EINTR);
    }
}

int Child::wait() {
    while (!status_) {
        siginfo_t info{};
        if (::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED) == 0)
            status_ = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
        else if (errno != EINTR)
            status_ = 255; // somebody else reaped it
    }
    return *status_;
}

int Child::end(std::chrono::milliseconds grace) {
    if (status_) return *status_;
    if (grace.count() > 0) {
        send_signal(pidfd_, SIGTERM);
        if (const auto status = wait(grace)) return *status;
    }
    send_signal(pidfd_, SIGKILL);
    return wait();
}

Outcome<std::string> output_of(const std::vector<std::string>& argv) {
    std::array<int, 2> pipe_fds;
    if (::pipe2(pipe_fds.data(), O_CLOEXEC) < 0) return failure("pipe", Errno{errno});
    const Fd read_end{pipe_fds[0]};
    Fd write_end{pipe_fds[1]};
    TRY(auto child,
        Child::start({.argv = argv, .stdin_fd = -1, .stdout_fd = write_end.get(), .kept_fds = {}}));
    write_end.reset();
    std::string text;
    std::array<char, 64 * 1024> buffer;
    for (;;) {
        const ssize_t got = ::read(read_end.get(), buffer.data(), buffer.size());
        if (got == 0) break;
        if (got > 0) text.append(buffer.data(), static_cast<std::size_t>(got));
        if (got < 0 && errno != EINTR) return failure("cannot read from " + argv.front(), Errno{errno});
    }
    if (const int status = child.wait(); status != 0)
        return failure(argv.front() + " failed with status " + std::to_string(status));
    return text;
}

std::optional<std::string> find_program(const std::string& name) {
    if (name.contains('/')) return ::access(name.c_str(), X_OK) == 0 ? std::optional{name} : std::nullopt;
    const char* const path = std::getenv("PATH");
    std::string folders = path != nullptr ? path : "";
    folders += ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
    for (std::size_t begin = 0; begin < folders.size();) {
        const auto end = std::min(folders.find(':', begin), folders.size());
        std::string candidate = folders.substr(begin, end - begin) + "/" + name;
        if (end > begin && ::access(candidate.c_str(), X_OK) == 0) return candidate;
        begin = end + 1;
    }
    return std::nullopt;
}

} // namespace viaduct::guestvm
