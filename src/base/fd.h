// SPDX-License-Identifier: Apache-2.0
//
// Fd owns a file descriptor; FdRef borrows one.
#pragma once

#include <unistd.h>
#include <utility>

namespace viaduct {

// A borrowed descriptor.  Never carried across an await: the number may be reused meanwhile.
class FdRef {
public:
    constexpr explicit FdRef(int fd) noexcept : fd_(fd) {}
    constexpr int get() const noexcept { return fd_; }

private:
    int fd_;
};

class Fd {
public:
    constexpr Fd() noexcept = default;
    constexpr explicit Fd(int fd) noexcept : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(other.release()) {}
    Fd& operator=(Fd&& other) noexcept {
        reset(other.release());
        return *this;
    }
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    ~Fd() { reset(); }

    int get() const noexcept { return fd_; }
    explicit operator bool() const noexcept { return fd_ >= 0; }
    operator FdRef() const noexcept { return FdRef{fd_}; }
    [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
    void reset(int fd = -1) noexcept {
        if (fd_ >= 0 && fd_ != fd) ::close(fd_);
        fd_ = fd;
    }

private:
    int fd_ = -1;
};

} // namespace viaduct
