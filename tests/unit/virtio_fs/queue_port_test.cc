// SPDX-License-Identifier: Apache-2.0
//
// What the requests of a queue may hold of our memory.
#include "transport/virtio_fs/queue_port.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace viaduct::transport {
namespace {

constexpr std::size_t kRingSize = 256;
constexpr std::uint32_t kTableEntries = 1024;
constexpr std::size_t kMost = 32; // chains that the bound allows
constexpr std::size_t kAvailableAt = 0x1000;
constexpr std::size_t kUsedAt = 0x2000;
constexpr std::size_t kTableAt = 0x4000;
constexpr std::size_t kBytes = kTableAt + 16UL * kTableEntries;
constexpr std::uint64_t kUserBase = 0x7f0000000000;

struct Descriptor {
    std::uint64_t address;
    std::uint32_t bytes;
    std::uint16_t flags;
    std::uint16_t next;
};
constexpr std::uint16_t kWrite = 2;
constexpr std::uint16_t kWriteAndNext = 3;
constexpr std::uint16_t kIndirect = 4;

class Keeper final : public fuse::RequestSink {
public:
    std::vector<fuse::RawRequest*> requests;
    void handle(fuse::RawRequest& request) override { requests.push_back(&request); }
    void complete(std::size_t count) {
        for (; count > 0; --count) {
            requests.back()->complete(0);
            requests.pop_back();
        }
    }
};

// A split ring whose every chain is the same indirect table of 1024 writable bytes.
class QueuePortTest : public testing::Test {
protected:
    QueuePortTest()
        : worker(std::move(*rt::Worker::make({.name = "test"}))),
          port(1, *worker, sink, kMost * kTableEntries) {
        Fd file{::memfd_create("guest", MFD_CLOEXEC)};
        EXPECT_EQ(::ftruncate(file.get(), kBytes), 0);
        auto mapping = vhost::Mapping::map(
            {.guest_address = 0, .bytes = kBytes, .user_address = kUserBase, .mmap_offset = 0},
            std::move(file));
        memory = (*mapping)->host();
        for (std::uint32_t index = 0; index < kTableEntries; ++index) {
            const bool last = index + 1 == kTableEntries;
            put(kTableAt + 16UL * index, Descriptor{.address = kTableAt,
                                                    .bytes = 1,
                                                    .flags = last ? kWrite : kWriteAndNext,
                                                    .next = static_cast<std::uint16_t>(index + 1)});
        }
        for (std::uint16_t index = 0; index < kRingSize; ++index) {
            put(16UL * index,
                Descriptor{.address = kTableAt, .bytes = 16 * kTableEntries, .flags = kIndirect, .next = 0});
            put(kAvailableAt + 4 + 2UL * index, index);
        }
        vhost::QueueSetup setup{.layout = {.indirect = true,
                                           .size = kRingSize,
                                           .descriptor_area = kUserBase,
                                           .driver_area = kUserBase + kAvailableAt,
                                           .device_area = kUserBase + kUsedAt},
                                .kick = {},
                                .call = {},
                                .error = {},
                                .enabled = true};
        EXPECT_TRUE(port.start(std::move(setup), *vhost::MemoryTable::make({*mapping})));
    }
    ~QueuePortTest() override {
        sink.complete(sink.requests.size());
        port.finish();
    }

    template <class T> void put(std::size_t offset, T value) {
        std::memcpy(memory + offset, &value, sizeof value);
    }
    void offer(std::uint16_t index_next) { put(kAvailableAt + 2, index_next); }
    // As a worker does until there is nothing to do.
    void sweep() {
        while (port.sweep({}) == rt::Source::Visit::worked) {
        }
    }

    Keeper sink;
    std::unique_ptr<rt::Worker> worker;
    QueuePort port;
    std::byte* memory = nullptr;
};

TEST_F(QueuePortTest, chains_wait_on_the_ring_while_requests_hold_too_much_memory) {
    offer(kRingSize);
    sweep();
    EXPECT_EQ(sink.requests.size(), kMost);
    EXPECT_FALSE(port.arm()); // the worker may sleep: what ends wakes it
    for (std::size_t left = kRingSize - kMost; left > 0; --left) {
        sink.complete(1);
        sweep();
        ASSERT_EQ(sink.requests.size(), kMost);
    }
    EXPECT_EQ(port.stats().requests.get(), kRingSize);
    sink.complete(kMost);
    EXPECT_EQ(port.in_flight(), 0U);

    // All that they held is there again.
    offer(kRingSize + kMost);
    sweep();
    EXPECT_EQ(sink.requests.size(), kMost);
}

} // namespace
} // namespace viaduct::transport
