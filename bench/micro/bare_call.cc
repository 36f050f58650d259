// SPDX-License-Identifier: Apache-2.0
#include "bare_call.h"

#include <array>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <thread>
#include <time.h>
#include <utility>
#include <vector>

namespace viaduct::bench {
namespace {

using driver::LoadKind;

constexpr const char* kFileName = "file";
constexpr const char* kMadeName = "made";
// Between two looks at the clock.
constexpr int kCallsPerLook = 64;

std::uint64_t now_ns(clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

} // namespace

Outcome<BareCall> BareCall::make(const std::string& parent, const driver::LoadOptions& load) {
    BareCall call{load};
    std::string path = parent + "/viaduct-bare-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) return failure("cannot make a folder in " + parent, Errno{errno});
    call.path_ = path;
    call.folder_ = Fd{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!call.folder_) return failure(path, Errno{errno});
    TRY_STATUS(call.make_file());
    // Shared memory, as a guest's is.
    call.memory_bytes_ = static_cast<std::size_t>(load.block_bytes) * load.depth;
    void* const memory = ::mmap(nullptr, call.memory_bytes_, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) return failure("no memory for the bare call", Errno{errno});
    call.memory_ = static_cast<std::byte*>(memory);
    return call;
}

Outcome<void> BareCall::make_file() {
    file_ = Fd{::openat(folder_.get(), kFileName, O_RDWR | O_CREAT | O_CLOEXEC, 0666)};
    if (!file_) return failure(path_, Errno{errno});
    if (load_.kind != LoadKind::read && load_.kind != LoadKind::write) return {};
    const std::vector<char> part(1U << 20, 'b');
    for (std::uint64_t offset = 0; offset < load_.file_bytes; offset += part.size()) {
        const auto bytes = std::min<std::uint64_t>(part.size(), load_.file_bytes - offset);
        if (::pwrite(file_.get(), part.data(), bytes, static_cast<off_t>(offset)) < 0)
            return failure("cannot fill a file in " + path_, Errno{errno});
    }
    return {};
}

BareCall::BareCall(BareCall&& other) noexcept
    : load_(std::move(other.load_)), path_(std::exchange(other.path_, {})), folder_(std::move(other.folder_)),
      file_(std::move(other.file_)), memory_(std::exchange(other.memory_, nullptr)),
      memory_bytes_(other.memory_bytes_), calls_(other.calls_), random_(other.random_) {}

BareCall::~BareCall() {
    if (memory_ != nullptr) ::munmap(memory_, memory_bytes_);
    if (path_.empty()) return;
    ::unlinkat(folder_.get(), kMadeName, 0);
    ::unlinkat(folder_.get(), kFileName, 0);
    ::rmdir(path_.c_str());
}

double BareCall::measure(std::chrono::milliseconds time, int cpu) {
    double ns_per_call = 0;
    // A thread of its own: pinning it leaves the caller as it was.
    std::thread thread{[&] {
        if (cpu >= 0) {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET(static_cast<std::size_t>(cpu), &set);
            ::sched_setaffinity(0, sizeof set, &set);
        }
        for (int count = 0; count < kCallsPerLook; ++count) once(); // warm
        const std::uint64_t end =
            now_ns(CLOCK_MONOTONIC) + static_cast<std::uint64_t>(time.count()) * 1'000'000;
        const std::uint64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);
        std::uint64_t calls = 0;
        do {
            for (int count = 0; count < kCallsPerLook; ++count) calls += once() ? 1 : 0;
        } while (now_ns(CLOCK_MONOTONIC) < end);
        const std::uint64_t used = now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
        if (calls > 0) ns_per_call = static_cast<double>(used) / static_cast<double>(calls);
    }};
    thread.join();
    return ns_per_call;
}

std::uint64_t BareCall::next_offset() {
    const std::uint64_t blocks = load_.file_bytes / load_.block_bytes;
    return (load_.random ? random_() : calls_) % blocks * load_.block_bytes;
}

bool BareCall::once() {
    ++calls_;
    struct statx status;
    switch (load_.kind) {
    case LoadKind::null:
    case LoadKind::readdir:
    case LoadKind::readdirplus:
        return false;
    case LoadKind::getattr:
        return ::statx(file_.get(), "", AT_EMPTY_PATH, STATX_BASIC_STATS, &status) == 0;
    case LoadKind::lookup: {
        const Fd fd{::openat(folder_.get(), kFileName, O_PATH | O_NOFOLLOW | O_CLOEXEC)};
        return ::statx(fd.get(), "", AT_EMPTY_PATH, STATX_BASIC_STATS, &status) == 0;
    }
    case LoadKind::open_release: {
        const Fd fd{::openat(folder_.get(), kFileName, O_RDONLY | O_CLOEXEC)};
        return static_cast<bool>(fd);
    }
    case LoadKind::read:
    case LoadKind::write: {
        const iovec block{.iov_base = memory_ + calls_ % load_.depth * load_.block_bytes,
                          .iov_len = load_.block_bytes};
        const auto offset = static_cast<off_t>(next_offset());
        const ssize_t done = load_.kind == LoadKind::read ? ::preadv(file_.get(), &block, 1, offset)
                                                          : ::pwritev(file_.get(), &block, 1, offset);
        return done == static_cast<ssize_t>(load_.block_bytes);
    }
    case LoadKind::create_unlink: {
        const Fd fd{::openat(folder_.get(), kMadeName, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644)};
        return ::unlinkat(folder_.get(), kMadeName, 0) == 0;
    }
    }
    return false;
}

} // namespace viaduct::bench
