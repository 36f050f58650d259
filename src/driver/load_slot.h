// SPDX-License-Identifier: Apache-2.0
//
// One of a load's outstanding requests, with its memory: it is sent, ends, and is sent again with the next
// step.
#pragma once

#include "driver/dma_arena.h"
#include "driver/load.h"
#include "driver/request.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace viaduct::driver {

class LoadThread;

// The FORGET that follows an unlinked file; nobody waits for it.
class LoadForget final : public Request {
public:
    explicit LoadForget(DmaArena& arena);
    bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
    const std::atomic<bool>& flag() const noexcept { return ended_; }
    void send(RequestQueue& hiprio, std::uint64_t node);

private:
    void done(Result<std::uint32_t>) override { ended_.store(true, std::memory_order_release); }
    DmaBuffer memory_;
    std::atomic<bool> ended_{true};
};

// Its thread's, but for done().
class LoadSlot final : public Request {
public:
    struct Place {
        std::uint32_t number = 0; // of all slots of the load
        std::uint32_t slots = 0;
    };
    static Result<std::unique_ptr<LoadSlot>> make(Load& load, RequestQueue& queue, const Place& place);

    RequestQueue& queue() const noexcept { return *queue_; }
    void set_queue(RequestQueue& queue) noexcept { queue_ = &queue; }
    void set_owner(LoadThread& owner) noexcept { owner_ = &owner; }
    // The first step of an operation.
    void begin();
    // What has come back: true when the operation is complete, false when there is a step more to send.
    bool go_on();
    std::uint32_t opcode() const noexcept { return header().opcode; }
    // Of the step that has just come back; 0 for success.
    int error() const noexcept { return error_; }
    bool mismatch() const noexcept { return mismatch_; }
    // Read or written by the operation that is complete.
    std::uint64_t bytes() const noexcept;

    // For whoever measures; the thread's.
    std::uint64_t begun_ns = 0; // the operation
    int submitted_cpu = -1;     // the request
    int ended_cpu = -1;

    // What blocks of the file hold that this slot has written: block to generation.
    const std::map<std::uint64_t, std::uint64_t>& written() const noexcept { return written_; }
    // How often the known name was looked up; read and set to 0.
    std::uint64_t take_lookups() noexcept { return std::exchange(lookups_, 0); }
    // How often READDIRPLUS has looked up each entry of the folder that is listed.
    const std::vector<std::uint64_t>& entry_lookups() const noexcept { return entry_lookups_; }

private:
    LoadSlot(Load& load, RequestQueue& queue, const Place& place);
    void done(Result<std::uint32_t> reply_bytes) override;
    Status lay_out();

    fuse_in_header& header() const noexcept { return *reinterpret_cast<fuse_in_header*>(memory_.data()); }
    std::byte* body() const noexcept { return memory_.data() + sizeof(fuse_in_header); }
    // What is read, written or listed.
    std::span<std::byte> block() const noexcept { return block_.bytes().first(block_bytes_); }
    // The request of the next step: what follows the header, and room for `out_bytes` behind the reply's
    // header.
    void set_step(std::uint32_t opcode, std::uint64_t node, std::size_t body_bytes, std::size_t out_bytes);
    void put_name(std::size_t offset, std::string_view name) noexcept;
    void open(std::uint32_t opcode, std::uint64_t node);
    void release(std::uint32_t opcode, std::uint64_t node);
    const LoadPart& choose_part();
    void choose_block();
    void list();
    bool go_on_listing();
    int check_reply() const;

    Load& load_;
    RequestQueue* queue_;
    const Place place_;
    const std::string name_; // of the file that create_unlink makes
    LoadThread* owner_ = nullptr;
    DmaBuffer memory_; // header and body, then what comes back but for a block
    DmaBuffer block_;  // for the longest READ, WRITE or READDIR
    std::vector<iovec> in_;
    std::vector<iovec> out_;
    const LoadPart* part_;           // of the present operation
    std::size_t block_bytes_ = 0;    // of the present step
    std::uint32_t laid_out_ = 0;     // opcode whose segments are in force
    std::size_t laid_out_bytes_ = 0; // the block's, in there
    LoadForget forget_;
    std::minstd_rand random_;
    std::uint64_t unique_next_;
    std::uint64_t offset_ = 0;
    std::uint64_t next_block_ = 0; // in order
    std::uint64_t generation_ = 0;
    std::uint64_t node_ = 0; // of the file made
    std::uint64_t handle_ = 0;
    std::uint64_t lookups_ = 0;
    std::uint64_t listed_ = 0; // entries so far
    std::vector<std::uint64_t> entry_lookups_;
    std::map<std::uint64_t, std::uint64_t> written_;
    Result<std::uint32_t> reply_bytes_ = 0;
    int error_ = 0;
    bool mismatch_ = false;
};

} // namespace viaduct::driver
