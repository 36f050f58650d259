// SPDX-License-Identifier: Apache-2.0
//
// The same work done locally by one thread: what a server cannot go below.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "driver/load.h"

#include <chrono>
#include <cstdint>
#include <random>
#include <string>

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
    // false for kinds without a local counterpart.
    static bool possible(driver::LoadKind kind) {
        using driver::LoadKind;
        return kind != LoadKind::null && kind != LoadKind::readdir && kind != LoadKind::readdirplus;
    }

private:
    explicit BareCall(const driver::LoadOptions& load) : load_(load) {}
    Outcome<void> make_file();
    bool once(); // false: it failed
    std::uint64_t next_offset();

    driver::LoadOptions load_;
    std::string path_; // empty in a moved-from object
    Fd folder_;
    Fd file_;
    std::byte* memory_ =
        nullptr; // as many blocks as the load has outstanding: as much for the caches to hold
    std::size_t memory_bytes_ = 0;
    std::uint64_t calls_ = 0;
    std::minstd_rand random_;
};

} // namespace viaduct::bench
