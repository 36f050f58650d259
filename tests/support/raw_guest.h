// SPDX-License-Identifier: Apache-2.0
//
// A guest without a driver: memory, rings and eventfds, and every vhost-user message said by the test itself.
//
// Memory is one memfd, seen by the device from kGuestStart on: rings first, then pieces that add() cuts
// requests and replies from.  A queue and its pieces may be used from one thread each.
#pragma once

#include "base/fd.h"
#include "fuse/protocol.h"
#include "support/fuse_message.h"
#include "support/waiting.h"
#include "vhost/front_end.h"
#include "virtio/driver_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <poll.h>
#include <span>
#include <string>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace viaduct::test {

// Of a client that moves a MiB at a time.
inline std::vector<std::byte> init_request() {
    return FuseMessage{FUSE_INIT, 0, 1}
        .with(fuse_init_in{.major = 7,
                           .minor = 38,
                           .max_readahead = 1U << 17,
                           .flags = FUSE_BIG_WRITES | FUSE_MAX_PAGES,
                           .flags2 = 0,
                           .unused = {}})
        .bytes();
}
// `unique` is also in the reply.
inline std::vector<std::byte> getattr_request(std::uint64_t unique = 77) {
    return FuseMessage{FUSE_GETATTR, 1, unique}.with(fuse_getattr_in{}).bytes();
}
inline std::vector<std::byte> statfs_request(std::uint64_t unique = 78) {
    return FuseMessage{FUSE_STATFS, 1, unique}.bytes();
}
inline constexpr std::uint32_t kGetattrReplyBytes = sizeof(fuse_out_header) + sizeof(fuse_attr_out);

inline bool readable_within(int fd, std::chrono::milliseconds limit) {
    pollfd waited{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&waited, 1, static_cast<int>(limit.count())) == 1;
}
inline void write_event(int fd, std::uint64_t count = 1) {
    ASSERT_EQ(::write(fd, &count, sizeof count), static_cast<ssize_t>(sizeof count));
}
// What was written since the last time.
inline std::uint64_t read_event(int fd) {
    std::uint64_t count = 0;
    return ::read(fd, &count, sizeof count) == static_cast<ssize_t>(sizeof count) ? count : 0;
}

class RawGuest {
public:
    static constexpr std::uint64_t kGuestStart = 1ULL << 32;
    static constexpr std::uint32_t kPieceBytes = 4096; // half for the request, half for the reply
    static constexpr std::uint32_t kPiecesPerQueue = 512;
    static constexpr std::chrono::milliseconds kLimit = kPatience;

    struct Options {
        std::string socket;
        std::uint32_t queues = 2; // hiprio included
        std::uint32_t size = 64;
        bool packed = false;
        bool event_idx = false;
        bool indirect = true;
        bool negotiate = true; // and share the memory
        std::uint64_t protocol_wanted = ~0ULL;
        std::chrono::milliseconds timeout = kPatience;
    };

    // nullptr, and a failure of the test that says why.
    static std::unique_ptr<RawGuest> connect(const Options& options) {
        auto front_end = vhost::FrontEnd::connect(options.socket, options.timeout);
        if (!front_end) {
            ADD_FAILURE() << front_end.error().message;
            return nullptr;
        }
        std::unique_ptr<RawGuest> guest{new RawGuest{options, *std::move(front_end)}};
        if (!options.negotiate) return guest;
        const Status negotiated = guest->negotiate();
        const Status shared = negotiated ? guest->share() : negotiated;
        if (shared) return guest;
        ADD_FAILURE() << "set-up: " << shared.error().name();
        return nullptr;
    }
    ~RawGuest() { ::munmap(memory_, bytes_); }
    RawGuest(const RawGuest&) = delete;
    RawGuest& operator=(const RawGuest&) = delete;

    vhost::FrontEnd& front_end() noexcept { return front_end_; }
    std::uint64_t wanted_features() const {
        return virtio::kFeatureVersion1 | (options_.packed ? virtio::kFeatureRingPacked : 0) |
               (options_.event_idx ? virtio::kFeatureEventIdx : 0) |
               (options_.indirect ? virtio::kFeatureIndirectDesc : 0);
    }
    Status negotiate() { return front_end_.negotiate(wanted_features(), options_.protocol_wanted); }
    Status share() { return front_end_.set_memory({{region(0, bytes_)}}); }

    // Memory.
    std::byte* at(std::uint64_t offset) const { return memory_ + offset; }
    static std::uint64_t address(std::uint64_t offset) { return kGuestStart + offset; }
    std::uint64_t user(std::uint64_t offset) const { return reinterpret_cast<std::uintptr_t>(at(offset)); }
    std::uint64_t bytes() const noexcept { return bytes_; }
    int file() const noexcept { return file_.get(); }
    std::vector<std::byte> snapshot() const { return {memory_, memory_ + bytes_}; }
    // A part of the memory as a region of its own.
    vhost::SharedRegion region(std::uint64_t offset, std::uint64_t bytes) const {
        return {.description = {.guest_address = address(offset),
                                .bytes = bytes,
                                .user_address = user(offset),
                                .mmap_offset = offset},
                .fd = file_.get()};
    }

    // Rings.
    int kick_fd(std::uint32_t queue) const { return queues_[queue].kick.get(); }
    int call_fd(std::uint32_t queue) const { return queues_[queue].call.get(); }
    int error_fd(std::uint32_t queue) const { return queues_[queue].error.get(); }
    virtio::DriverQueue& ring(std::uint32_t queue) { return *queues_[queue].ring; }
    std::uint64_t ring_offset(std::uint32_t queue) const { return ring_bytes_ * queue; }
    std::uint32_t first_base() const { return options_.packed ? 0x8000'8000U : 0U; }
    vhost::RingAddresses ring_addresses(std::uint32_t queue) const {
        const auto parts = queues_[queue].ring->addresses();
        const std::uint64_t start = user(ring_offset(queue));
        return {.descriptor = start + parts.descriptor_area,
                .driver = start + parts.driver_area,
                .device = start + parts.device_area};
    }
    // Split: what the device has published.
    std::uint16_t used_index(std::uint32_t queue) const {
        const auto* const used = at(ring_offset(queue) + queues_[queue].ring->addresses().device_area) + 2;
        return __atomic_load_n(reinterpret_cast<const std::uint16_t*>(used), __ATOMIC_ACQUIRE);
    }
    // An empty ring in zeroed memory, as a driver has after a reset.  The device is not told.
    void lay_out(std::uint32_t queue) {
        Queue& mine = queues_[queue];
        mine.ring = virtio::DriverQueue::make(ring_options_, at(ring_offset(queue)),
                                              virtio::GuestAddress{address(ring_offset(queue))});
        mine.free.clear();
        for (std::uint32_t piece = kPiecesPerQueue; piece > 0; --piece) mine.free.push_back(piece - 1);
        mine.added = mine.came_back = 0;
    }
    // NUM, BASE and ADDR of a ring that goes on at `base`.
    Status describe(std::uint32_t queue, std::optional<std::uint32_t> base) {
        TRY_STATUS(front_end_.set_vring_num(queue, ring_options_.size));
        if (base) TRY_STATUS(front_end_.set_vring_base(queue, *base));
        return front_end_.set_vring_address(queue, ring_addresses(queue));
    }
    // All that a device needs to serve the ring.
    Status start(std::uint32_t queue, std::optional<std::uint32_t> base) {
        TRY_STATUS(front_end_.set_vring_call(queue, call_fd(queue)));
        TRY_STATUS(front_end_.set_vring_error(queue, error_fd(queue)));
        TRY_STATUS(describe(queue, base));
        TRY_STATUS(front_end_.set_vring_kick(queue, kick_fd(queue)));
        if (options_.protocol_wanted == 0) return {};
        return front_end_.set_vring_enable(queue, true);
    }
    Status start(std::uint32_t queue) { return start(queue, first_base()); }
    // Lays the ring out, starts it and has FUSE_INIT answered there.
    Status start_session(std::uint32_t queue) {
        lay_out(queue);
        TRY_STATUS(start(queue));
        return say(queue, init_request()) ? Status{} : Status{fail(EIO)};
    }

    // Requests.

    // Puts a request on the ring; the piece that it lies in.  nullopt: the ring or the memory is full.
    std::optional<std::uint32_t> add(std::uint32_t queue, std::span<const std::byte> request,
                                     std::uint32_t room = kPieceBytes / 2) {
        Queue& mine = queues_[queue];
        if (mine.free.empty()) return std::nullopt;
        const std::uint32_t piece = mine.free.back();
        const std::uint64_t offset = piece_offset(queue, piece);
        std::memcpy(at(offset), request.data(), request.size());
        std::memset(at(offset + kPieceBytes / 2), 0xee, kPieceBytes / 2);
        const std::array readable{virtio::GuestRange{.address = virtio::GuestAddress{address(offset)},
                                                     .bytes = static_cast<std::uint32_t>(request.size())}};
        const std::array writable{virtio::GuestRange{
            .address = virtio::GuestAddress{address(offset + kPieceBytes / 2)}, .bytes = room}};
        mine.pieces[piece] = {};
        if (!mine.ring->add(readable, writable, &mine.pieces[piece])) return std::nullopt;
        mine.free.pop_back();
        ++mine.added;
        return piece;
    }
    void kick(std::uint32_t queue) { write_event(kick_fd(queue)); }
    // Only when the device asks for it.
    void kick_if_wanted(std::uint32_t queue) {
        if (queues_[queue].ring->should_kick()) kick(queue);
    }
    // Takes what has come back; how many since lay_out().
    std::uint64_t came_back(std::uint32_t queue) {
        Queue& mine = queues_[queue];
        for (;;) {
            const auto used = mine.ring->poll();
            if (!used) {
                ADD_FAILURE() << "queue " << queue << ": the device lied";
                return mine.came_back;
            }
            if (!*used) return mine.came_back;
            auto* const piece = static_cast<Piece*>((*used)->token);
            piece->written_bytes = (*used)->written_bytes;
            piece->came_back = true;
            ++mine.came_back;
        }
    }
    std::uint64_t added(std::uint32_t queue) const { return queues_[queue].added; }
    // Sleeps on the call descriptor until the next chain is back, whatever was added with it.
    // EIO: the device lied; ETIMEDOUT.
    Result<virtio::DriverQueue::Used> next_used(std::uint32_t queue) {
        const auto deadline = std::chrono::steady_clock::now() + kLimit;
        for (;;) {
            TRY(const auto used, ring(queue).poll());
            if (used) return *used;
            if (ring(queue).enable_interrupts()) continue;
            const auto left =
                std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
            if (left.count() <= 0 || !readable_within(call_fd(queue), left)) return fail(ETIMEDOUT);
            read_event(call_fd(queue));
        }
    }
    // Sleeps on the call descriptor until `count` have come back since lay_out().
    bool wait_for(std::uint32_t queue, std::uint64_t count, std::chrono::milliseconds limit = kLimit) {
        const auto deadline = std::chrono::steady_clock::now() + limit;
        while (came_back(queue) < count) {
            if (queues_[queue].ring->enable_interrupts()) continue;
            const auto left =
                std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
            if (left.count() <= 0 || !readable_within(call_fd(queue), left)) return came_back(queue) >= count;
            read_event(call_fd(queue));
        }
        return true;
    }
    // Everything that was added.
    bool wait_for_all(std::uint32_t queue, std::chrono::milliseconds limit = kLimit) {
        return wait_for(queue, queues_[queue].added, limit);
    }
    bool has_come_back(std::uint32_t queue, std::uint32_t piece) const {
        return queues_[queue].pieces[piece].came_back;
    }
    // The reply, which has come back; gives the piece free.
    std::vector<std::byte> take(std::uint32_t queue, std::uint32_t piece) {
        Queue& mine = queues_[queue];
        const std::byte* const reply = at(piece_offset(queue, piece) + kPieceBytes / 2);
        std::vector<std::byte> taken{reply, reply + mine.pieces[piece].written_bytes};
        mine.free.push_back(piece);
        return taken;
    }
    // One request, kicked and waited for: the reply's header, when it has one.
    std::optional<fuse_out_header> say(std::uint32_t queue, std::span<const std::byte> request,
                                       std::chrono::milliseconds limit = kLimit) {
        const auto piece = add(queue, request);
        if (!piece) return std::nullopt;
        kick(queue);
        if (!wait_for_all(queue, limit)) return std::nullopt;
        const auto reply = take(queue, *piece);
        fuse_out_header header{};
        if (reply.size() < sizeof header) return std::nullopt;
        std::memcpy(&header, reply.data(), sizeof header);
        return header;
    }
    // A GETATTR is answered rightly.
    testing::AssertionResult serves(std::uint32_t queue, std::chrono::milliseconds limit = kLimit) {
        const auto header = say(queue, getattr_request(++unique_), limit);
        if (!header) return testing::AssertionFailure() << "queue " << queue << " does not answer";
        if (header->error != 0 || header->unique != unique_ || header->len != kGetattrReplyBytes)
            return testing::AssertionFailure()
                   << "queue " << queue << ": error " << header->error << ", unique " << header->unique
                   << ", " << header->len << " bytes";
        return testing::AssertionSuccess();
    }
    // Where a queue's pieces lie.
    std::uint64_t piece_offset(std::uint32_t queue, std::uint32_t piece) const {
        return ring_bytes_ * options_.queues + (std::uint64_t{kPiecesPerQueue} * queue + piece) * kPieceBytes;
    }

private:
    struct Piece {
        std::uint32_t written_bytes = 0;
        bool came_back = false;
    };
    struct Queue {
        std::unique_ptr<virtio::DriverQueue> ring;
        Fd kick{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
        Fd call{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
        Fd error{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
        std::vector<Piece> pieces = std::vector<Piece>(kPiecesPerQueue);
        std::vector<std::uint32_t> free;
        std::uint64_t added = 0;
        std::uint64_t came_back = 0;
    };

    RawGuest(const Options& options, vhost::FrontEnd front_end)
        : options_(options), ring_options_{.packed = options.packed,
                                           .event_idx = options.event_idx,
                                           .indirect = options.indirect,
                                           .size = options.size},
          ring_bytes_((virtio::DriverQueue::ring_bytes(ring_options_) + 4095) / 4096 * 4096),
          bytes_((ring_bytes_ + std::uint64_t{kPiecesPerQueue} * kPieceBytes) * options.queues),
          file_(::memfd_create("guest", MFD_CLOEXEC)), front_end_(std::move(front_end)),
          queues_(options.queues) {
        EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(bytes_)), 0);
        void* const mapped = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
        EXPECT_NE(mapped, MAP_FAILED);
        memory_ = static_cast<std::byte*>(mapped);
        for (std::uint32_t queue = 0; queue < options.queues; ++queue) lay_out(queue);
    }

    const Options options_;
    const virtio::DriverQueueOptions ring_options_;
    const std::uint64_t ring_bytes_;
    const std::uint64_t bytes_;
    const Fd file_;
    std::byte* memory_ = nullptr;
    vhost::FrontEnd front_end_;
    std::vector<Queue> queues_;
    std::uint64_t unique_ = 1000;
};

} // namespace viaduct::test
