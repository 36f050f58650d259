// SPDX-License-Identifier: Apache-2.0
//
// Child processes: started with exactly the descriptors they are meant to have, watched by pidfd, never left
// behind.
#pragma once

#include "base/fd.h"
#include "base/result.h"

#include <chrono>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace viaduct::guestvm {

struct ChildOptions {
    std::vector<std::string> argv; // argv[0] is looked up in PATH
    // Descriptors of the caller; -1 is /dev/null.
    int stdin_fd = -1;
    int stdout_fd = -1;
    int stderr_fd = 2;
    // Kept open in the child under the same number; everything else above 2 is closed.
    std::vector<int> kept_fds;
};

class Child {
public:
    // Fails when the program cannot be executed.  The child runs in a process group of its own (a Ctrl-C at
    // the terminal is the caller's to handle), with no signal blocked, and dies with the calling thread.
    static Outcome<Child> start(const ChildOptions& options);

    Child(Child&& other) noexcept = default;
    Child& operator=(Child&& other) noexcept;
    ~Child();

    pid_t pid() const noexcept { return pid_; }
    // Becomes readable when the child has ended.
    FdRef pidfd() const noexcept { return pidfd_; }

    // The exit status (128 + n after signal n), or nullopt when the child still runs after `limit`.
    std::optional<int> wait(std::chrono::milliseconds limit);
    // Waits without limit.
    int wait();
    // SIGTERM, and SIGKILL after `grace`; the exit status.
    int end(std::chrono::milliseconds grace);

private:
    Child(pid_t pid, Fd pidfd) noexcept : pid_(pid), pidfd_(std::move(pidfd)) {}

    pid_t pid_;
    Fd pidfd_; // empty in a moved-from object
    std::optional<int> status_;
};

// Standard output of a program that must succeed.
Outcome<std::string> output_of(const std::vector<std::string>& argv);

// Path of a program in PATH or the usual folders; nullopt when there is none.
std::optional<std::string> find_program(const std::string& name);

} // namespace viaduct::guestvm
