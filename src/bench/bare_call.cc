// SPDX-License-Identifier: Apache-2.0
#include "bench/bare_call.h"

#include "bench/workload.h"

#include <algorithm>
#include <array>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
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
constexpr const char* kListedName = "listed";
// Between two looks at the clock.
constexpr std::uint64_t kCallsPerLook = 64;

std::uint64_t now_ns(clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

std::string entry_name(std::uint32_t number) {
    return "entry-" + std::to_string(number);
}

struct CloseFolder {
    void operator()(DIR* folder) const { ::closedir(folder); }
};

} // namespace

bool BareCall::possible(const driver::LoadOptions& load) {
    return std::ranges::none_of(parts_of(load), [](const auto& part) { return part.kind == LoadKind::null; });
}

BareCall::BareCall(const driver::LoadOptions& load)
    : load_(load), parts_(parts_of(load)), block_bytes_max_(block_of(load)) {
    for (const driver::LoadPart& part : parts_) weight_ += part.weight;
}

Outcome<BareCall> BareCall::make(const std::string& parent, const driver::LoadOptions& load) {
    BareCall call{load};
    std::string path = parent + "/viaduct-bare-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) return failure("cannot make a folder in " + parent, Errno{errno});
    call.path_ = path;
    call.folder_ = Fd{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!call.folder_) return failure(path, Errno{errno});
    TRY_STATUS(call.make_file());
    TRY_STATUS(call.make_entries());
    if (call.block_bytes_max_ == 0) return call;
    // Shared memory, as a guest's is.
    call.memory_bytes_ = static_cast<std::size_t>(call.block_bytes_max_) * load.depth;
    void* const memory = ::mmap(nullptr, call.memory_bytes_, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) return failure("no memory for the bare call", Errno{errno});
    call.memory_ = static_cast<std::byte*>(memory);
    return call;
}

Outcome<void> BareCall::make_file() {
    file_ = Fd{::openat(folder_.get(), kFileName, O_RDWR | O_CREAT | O_CLOEXEC, 0666)};
    if (!file_) return failure(path_, Errno{errno});
    if (block_bytes_max_ == 0) return {};
    const std::vector<char> part(1U << 20, 'b');
    for (std::uint64_t offset = 0; offset < load_.file_bytes; offset += part.size()) {
        const auto bytes = std::min<std::uint64_t>(part.size(), load_.file_bytes - offset);
        if (::pwrite(file_.get(), part.data(), bytes, static_cast<off_t>(offset)) < 0)
            return failure("cannot fill a file in " + path_, Errno{errno});
    }
    return {};
}

Outcome<void> BareCall::make_entries() {
    const auto lists = [](const auto& part) {
        return part.kind == LoadKind::readdir || part.kind == LoadKind::readdirplus;
    };
    if (std::ranges::none_of(parts_, lists)) return {};
    if (::mkdirat(folder_.get(), kListedName, 0777) != 0) return failure(path_, Errno{errno});
    const Fd listed{::openat(folder_.get(), kListedName, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    for (std::uint32_t number = 0; number < load_.directory_entries; ++number) {
        const Fd entry{
            ::openat(listed.get(), entry_name(number).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)};
        if (!entry) return failure("cannot make files in " + path_, Errno{errno});
    }
    return {};
}

BareCall::BareCall(BareCall&& other) noexcept
    : load_(std::move(other.load_)), parts_(std::move(other.parts_)), weight_(other.weight_),
      block_bytes_max_(other.block_bytes_max_), path_(std::exchange(other.path_, {})),
      folder_(std::move(other.folder_)), file_(std::move(other.file_)),
      memory_(std::exchange(other.memory_, nullptr)), memory_bytes_(other.memory_bytes_),
      calls_(other.calls_), random_(other.random_) {}

BareCall::~BareCall() {
    if (memory_ != nullptr) ::munmap(memory_, memory_bytes_);
    if (path_.empty()) return;
    ::unlinkat(folder_.get(), kMadeName, 0);
    ::unlinkat(folder_.get(), kFileName, 0);
    if (const Fd listed{::openat(folder_.get(), kListedName, O_RDONLY | O_DIRECTORY | O_CLOEXEC)}; listed) {
        for (std::uint32_t number = 0; number < load_.directory_entries; ++number)
            ::unlinkat(listed.get(), entry_name(number).c_str(), 0);
        ::unlinkat(folder_.get(), kListedName, AT_REMOVEDIR);
    }
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
        repeat(kCallsPerLook); // warm
        const std::uint64_t end =
            now_ns(CLOCK_MONOTONIC) + static_cast<std::uint64_t>(time.count()) * 1'000'000;
        const std::uint64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);
        std::uint64_t calls = 0;
        do {
            calls += repeat(kCallsPerLook);
        } while (now_ns(CLOCK_MONOTONIC) < end);
        const std::uint64_t used = now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
        if (calls > 0) ns_per_call = static_cast<double>(used) / static_cast<double>(calls);
    }};
    thread.join();
    return ns_per_call;
}

const driver::LoadPart& BareCall::next_part() {
    if (parts_.size() == 1) return parts_.front();
    auto place = static_cast<unsigned>(random_() % weight_);
    for (const driver::LoadPart& part : parts_) {
        if (place < part.weight) return part;
        place -= part.weight;
    }
    return parts_.back();
}

bool BareCall::move_block(const driver::LoadPart& part) {
    const iovec block{.iov_base = memory_ + calls_ % load_.depth * block_bytes_max_,
                      .iov_len = part.block_bytes};
    const std::uint64_t blocks = load_.file_bytes / part.block_bytes;
    const auto offset = static_cast<off_t>((part.random ? random_() : calls_) % blocks * part.block_bytes);
    const ssize_t done = part.kind == LoadKind::read ? ::preadv(file_.get(), &block, 1, offset)
                                                     : ::pwritev(file_.get(), &block, 1, offset);
    return done == static_cast<ssize_t>(part.block_bytes);
}

// A whole listing, with the attributes of each entry or without.
bool BareCall::list(bool plus) {
    Fd fd{::openat(folder_.get(), kListedName, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    const std::unique_ptr<DIR, CloseFolder> folder{::fdopendir(fd.get())};
    if (!folder) return false;
    const int number = fd.release();
    std::uint32_t count = 0;
    for (const dirent* entry = ::readdir(folder.get()); entry != nullptr; entry = ::readdir(folder.get())) {
        struct statx status;
        if (plus && ::statx(number, entry->d_name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &status) != 0)
            return false;
        ++count;
    }
    return count == load_.directory_entries + 2; // "." and ".."
}

std::uint64_t BareCall::repeat(std::uint64_t count) {
    std::uint64_t good = 0;
    for (; count > 0; --count) good += once() ? 1 : 0;
    return good;
}

bool BareCall::once() {
    ++calls_;
    const driver::LoadPart& part = next_part();
    struct statx status;
    switch (part.kind) {
    case LoadKind::null:
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
    case LoadKind::write:
        return move_block(part);
    case LoadKind::create_unlink: {
        const Fd fd{::openat(folder_.get(), kMadeName, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644)};
        return ::unlinkat(folder_.get(), kMadeName, 0) == 0;
    }
    case LoadKind::readdir:
    case LoadKind::readdirplus:
        return list(part.kind == LoadKind::readdirplus);
    }
    return false;
}

} // namespace viaduct::bench
