// SPDX-License-Identifier: Apache-2.0
//
// The same work done locally by one thread: what a server cannot go below.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "driver/load.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace viaduct::bench {

class BareCall {
public:
    // Makes a folder in `parent` (on the file system that the server shares), with a file as the load has it.
    static Outcome<BareCall> make(const std::string& parent, const driver::LoadOptions& load);
    BareCall(BareCall&& other) noexcept;
    BareCall& operator=(BareCall&&) = delete;
    ~BareCall();

    // CPU time of one operation, nanoseconds: calls made for `time`, on `cpu` (-1: anywhere).
    double measure(std::chrono::milliseconds time, int cpu);
    // So many operations, on the calling thread; how many of them succeeded.
    std::uint64_t repeat(std::uint64_t count);
    // false where a kind of the load has no local counterpart.
    static bool possible(const driver::LoadOptions& load);

private:
    explicit BareCall(const driver::LoadOptions& load);
    Outcome<void> make_file();
    Outcome<void> make_entries();
    const driver::LoadPart& next_part();
    bool once(); // false: it failed
    bool move_block(const driver::LoadPart& part);
    bool list(bool plus);

    driver::LoadOptions load_;
    std::vector<driver::LoadPart> parts_;
    unsigned weight_ = 0; // of all parts
    std::uint32_t block_bytes_max_ = 0;
    std::string path_; // empty in a moved-from object
    Fd folder_;
    Fd file_;
    // As many blocks as the load has outstanding: as much for the caches to hold.
    std::byte* memory_ = nullptr;
    std::size_t memory_bytes_ = 0;
    std::uint64_t calls_ = 0;
    std::minstd_rand random_;
};

} // namespace viaduct::bench
