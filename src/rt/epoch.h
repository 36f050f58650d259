// SPDX-License-Identifier: Apache-2.0
//
// Epochs: memory and descriptors that workers share are freed after every worker has passed a point at which
// it holds no borrowed reference.
//
// Each worker is a member.  It says quiescent() once a pass and offline() before it waits.  retire() stamps
// something with the present epoch; collect() frees what every member has passed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace viaduct::rt {

class EpochMember {
public:
    // Joins the process's one set of members; starts online.
    static std::unique_ptr<EpochMember> join();
    ~EpochMember(); // leaves; what it retired is handed to the others

    // The calling thread's member, or nullptr; set by join().
    static EpochMember* current() noexcept;

    // Nothing borrowed is held now.
    void quiescent() noexcept;
    void offline() noexcept;
    void online() noexcept;

    // Calls free(context, argument) on some member's thread once every member has been quiescent.
    using Free = void (*)(void* context, std::uint64_t argument);
    void retire(Free free, void* context, std::uint64_t argument);
    // Frees what may be freed; the number of things still waiting.
    std::size_t collect();
    // Closes `fd`: now, or together with others when the collection ends that this thread is running.
    static void close(int fd);

    struct Slot {
        alignas(64) std::atomic<std::uint64_t> seen{0};
    };

private:
    EpochMember() = default;
    struct Retired {
        std::uint64_t stamp;
        Free free;
        void* context;
        std::uint64_t argument;
    };
    // Shared with the set of members, which reads `seen`.
    std::shared_ptr<Slot> slot_;
    std::vector<Retired> retired_; // oldest first
    std::size_t retired_first_ = 0;
    bool collecting_ = false;
    std::vector<int> closing_;
};

} // namespace viaduct::rt
