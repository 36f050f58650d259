// SPDX-License-Identifier: Apache-2.0
//
// A load on a device: so many operations kept outstanding, of one kind or a mix, by so many threads on so
// many queues.
//
// prepare() makes a folder on the share for what the load needs; the destructor takes it away.  run() goes
// from idle to idle, so that whoever measures the device around it has all of its work and no more.
#pragma once

#include "base/result.h"
#include "driver/completion_threads.h"
#include "driver/device.h"
#include "driver/fuse_client.h"
#include "driver/latency.h"
#include "driver/load_files.h"
#include "driver/staged_dispatch.h"

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
    readdir,       // a whole listing is one operation: OPENDIR, READDIR to the end, RELEASEDIR
    readdirplus,   // the same with READDIRPLUS
};
const char* name_of(LoadKind kind);
std::optional<LoadKind> load_kind(std::string_view name);

// One of the kinds that a load is mixed of.
struct LoadPart {
    LoadKind kind = LoadKind::getattr;
    unsigned weight = 1; // of all operations, this one's share of the sum of weights
    bool random = true;
    std::uint32_t block_bytes = 4096;
};

// Whether operations of that kind read or write a block.
constexpr bool moves_data(LoadKind kind) {
    return kind == LoadKind::read || kind == LoadKind::write;
}

// How requests get onto their queue.
enum class Dispatch : std::uint8_t {
    direct, // by the thread that submits
    staged, // through a list and a thread that takes them from it, see staged_dispatch.h
};

// Who looks for what has come back.
enum class Completion : std::uint8_t {
    poll,    // the load's threads, over and over
    wait,    // the load's threads, asleep in between
    threads, // one thread per queue, which hands it to the load's threads; see completion_threads.h
};

struct LoadOptions {
    LoadKind kind = LoadKind::getattr;
    std::vector<LoadPart> mix; // empty: `kind`, `random` and `block_bytes` alone
    std::uint32_t queues = 1;
    // A thread drives every threads-th queue; with more threads than queues several share one.
    std::uint32_t threads = 1;
    // Instead: each request goes on the queue of the CPU that its thread is on (the first where the map names
    // one beyond `queues`).
    bool by_cpu = false;
    std::uint32_t depth = 32; // outstanding, of each thread on each of its queues
    std::uint32_t block_bytes = 4096;
    std::uint32_t segment_bytes = 4096; // of a block, in one descriptor: a guest's page
    std::uint64_t file_bytes = 64ULL << 20;
    std::uint32_t directory_entries = 100; // of the folder that is listed
    bool random = true;                    // offsets; otherwise in order
    Dispatch dispatch = Dispatch::direct;
    Completion completion = Completion::poll;
    bool affinity = false; // with Completion::threads: each on the CPUs that the device's map gives its queue
    bool latencies = true; // fill LoadResult::latency
    bool verify = false;   // what is read and written
    std::vector<int> cpus; // thread t on cpus[t mod size]; empty: anywhere
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
};

// What the load consists of: its mix, or its one kind.
std::vector<LoadPart> parts_of(const LoadOptions& options);

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
    std::uint64_t client_cpu_ns = 0; // of this process: dispatching and completion threads are in it
    std::uint64_t kicks = 0;
    std::uint64_t interrupts = 0;
    std::uint64_t parked = 0;
    Latency latency; // of operations: from the first request put on its queue to the last reply found
    std::uint64_t on_submitter_cpu = 0; // requests whose end ran on the CPU that they were submitted from
    std::uint64_t migrations = 0;       // changes of CPU that the load's threads have seen
    std::uint64_t context_switches = 0; // of the load's threads
    std::uint64_t mismatches = 0;       // blocks and listings that were not what they should be
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
    bool has(LoadKind kind) const noexcept;
    void begin_run();
    void end_run();
    StagedDispatch* staged(const RequestQueue& queue) const;
    void count_queues(LoadResult& result, int sign) const;
    std::uint64_t verify_written();

    Device& device_;
    const LoadOptions options_;
    const std::vector<LoadPart> parts_; // at least one
    const std::uint64_t weight_;        // of all parts together
    FuseClient client_;                 // as root, for what is made beforehand
    LoadFiles files_;
    std::vector<std::vector<std::unique_ptr<LoadSlot>>> slots_; // by thread
    // While a run lasts, and as far as the options ask for them; by request queue.
    std::vector<std::unique_ptr<StagedDispatch>> staged_;
    std::unique_ptr<CompletionThreads> completions_;
};

} // namespace viaduct::driver
