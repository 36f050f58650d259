// SPDX-License-Identifier: Apache-2.0
//
// A load on a device: so many requests of one kind kept outstanding, by so many threads on so many queues.
//
// prepare() makes a folder on the share for what the load needs; the destructor takes it away.  run() goes
// from idle to idle, so that whoever measures the device around it has all of its work and no more.
#pragma once

#include "base/result.h"
#include "driver/device.h"
#include "driver/fuse_client.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct::driver {

class LoadSlot;

enum class LoadKind : std::uint8_t {
    null,          // an opcode that no server knows
    getattr,       // of one file
    lookup,        // of a name that is there
    open_release,  // two requests are one operation
    read,          // a block of a file
    write,         // the same
    create_unlink, // create, release, unlink are one operation; a forget goes on hiprio beside it
};
const char* name_of(LoadKind kind);
std::optional<LoadKind> load_kind(std::string_view name);

struct LoadOptions {
    LoadKind kind = LoadKind::getattr;
    std::uint32_t queues = 1;
    // A thread drives every threads-th queue; with more threads than queues several share one.
    std::uint32_t threads = 1;
    std::uint32_t depth = 32; // outstanding, of each thread on each of its queues
    std::uint32_t block_bytes = 4096;
    std::uint32_t segment_bytes = 4096; // of a block, in one descriptor: a guest's page
    std::uint64_t file_bytes = 64ULL << 20;
    bool random = true;    // offsets; otherwise in order
    bool wait = false;     // for interrupts; otherwise completions are polled for
    bool verify = false;   // what is read and written
    std::vector<int> cpus; // thread t on cpus[t mod size]; empty: anywhere
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
};

// The end of a run: the first of those that are given.
struct LoadLimit {
    std::optional<std::chrono::milliseconds> time;
    std::optional<std::uint64_t> operations;
};

struct LoadResult {
    std::uint64_t operations = 0;
    std::uint64_t requests = 0;
    std::uint64_t bytes = 0; // read or written
    double seconds = 0;
    std::uint64_t client_cpu_ns = 0; // of the load's threads
    std::uint64_t kicks = 0;
    std::uint64_t interrupts = 0;
    std::uint64_t parked = 0;
    std::uint64_t mismatches = 0; // blocks that were not what they should be
    std::uint64_t errors = 0;
    std::string first_error; // "READ: EIO"
};

class Load {
public:
    // On a device whose session has begun (INIT).  The device outlives the load.
    static Outcome<std::unique_ptr<Load>> prepare(Device& device, const LoadOptions& options);
    ~Load();
    Load(const Load&) = delete;
    Load& operator=(const Load&) = delete;

    LoadResult run(const LoadLimit& limit);
    const LoadOptions& options() const noexcept { return options_; }

private:
    friend class LoadSlot;
    friend class LoadThread;

    Load(Device& device, const LoadOptions& options);
    Outcome<void> make_files();
    Outcome<void> make_slots();
    std::uint64_t block_count() const noexcept { return options_.file_bytes / options_.block_bytes; }
    void count_queues(LoadResult& result, int sign) const;
    std::uint64_t verify_written();

    Device& device_;
    const LoadOptions options_;
    FuseClient client_; // as root, for what is made beforehand
    const std::string folder_name_;
    std::uint64_t folder_ = 0; // node
    std::uint64_t file_ = 0;   // node
    std::uint64_t handle_ = 0;
    std::uint64_t generation_ = 0; // of what the file holds, see load_pattern.h; of blocks not written since
    std::vector<std::vector<std::unique_ptr<LoadSlot>>> slots_; // by thread
};

} // namespace viaduct::driver
