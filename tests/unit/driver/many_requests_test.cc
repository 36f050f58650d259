// SPDX-License-Identifier: Apache-2.0
//
// Very many requests over eight queues whose rings hold four each, so that most are parked.
#include <gtest/gtest.h>

#include "unit/driver/scripted_device.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace viaduct::driver {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kQueues = 8;
constexpr std::uint64_t kDepth = 16; // outstanding on each queue
constexpr std::uint64_t kThreads = 2;

// One of those outstanding, sent again as soon as it has come back.
class AgainRequest final : public Request {
public:
    explicit AgainRequest(DmaArena& arena) : memory_(arena.allocate(sizeof(fuse_in_header) + 16).value()) {
        header() = {.len = sizeof(fuse_in_header), .opcode = FUSE_GETATTR};
        const iovec in{.iov_base = memory_.data(), .iov_len = sizeof(fuse_in_header)};
        const iovec out{.iov_base = memory_.data() + sizeof(fuse_in_header), .iov_len = 16};
        EXPECT_TRUE(prepare(arena, {&in, 1}, {&out, 1}));
    }
    fuse_in_header& header() { return *reinterpret_cast<fuse_in_header*>(memory_.data()); }
    std::vector<AgainRequest*>* back = nullptr; // where it goes when it has ended

private:
    void done(Result<std::uint32_t> reply_bytes) override {
        ASSERT_EQ(reply_bytes, 16U);
        ASSERT_EQ(reply_header().unique, header().unique); // its own answer
        back->push_back(this);
    }
    DmaBuffer memory_;
};

// One queue, driven by one thread, served by another.
struct Pair {
    Pair() {
        for (auto& request : requests) {
            request = std::make_unique<AgainRequest>(device.arena());
            request->back = &idle;
            idle.push_back(request.get());
        }
        // Those of one queue come in order: a lost, doubled or overtaking one breaks the row.
        device.run([this](const virtio::Chain& chain) {
            wrong += ScriptedDevice::header_of(chain).unique != 2 * ++seen ? 1U : 0U;
            device.answer(chain);
        });
    }
    ~Pair() { device.stop_thread(); }

    void send(std::uint64_t total) {
        batch.clear();
        for (AgainRequest* const request : idle) {
            if (sent == total) break;
            request->header().unique = 2 * ++sent;
            batch.push_back(request);
        }
        idle.erase(idle.begin(), idle.begin() + static_cast<std::ptrdiff_t>(batch.size()));
        if (!batch.empty()) EXPECT_TRUE(device.queue().submit(batch));
    }

    ScriptedDevice device{{.event_idx = true, .size = 4}};
    std::vector<AgainRequest*> idle;
    std::vector<Request*> batch;
    std::uint64_t sent = 0;
    std::uint64_t seen = 0;  // the device's
    std::uint64_t wrong = 0; // the device's
    std::array<std::unique_ptr<AgainRequest>, kDepth> requests;
};

std::uint64_t requests_wanted() {
    const char* const text = std::getenv("VIADUCT_MANY_REQUESTS");
    std::uint64_t count = 1'000'000;
    if (text != nullptr) std::from_chars(text, text + std::strlen(text), count);
    return count;
}

TEST(ManyRequests, none_is_lost_doubled_or_out_of_order) {
    const std::uint64_t each = requests_wanted() / kQueues;
    std::vector<std::unique_ptr<Pair>> pairs;
    for (std::uint64_t queue = 0; queue < kQueues; ++queue) pairs.push_back(std::make_unique<Pair>());
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            for (bool more = true; more;) {
                more = false;
                std::size_t ended = 0;
                for (std::uint64_t queue = thread; queue < kQueues; queue += kThreads) {
                    Pair& pair = *pairs[queue];
                    pair.send(each);
                    ended += pair.device.queue().poll();
                    more = more || pair.sent < each || pair.device.queue().in_flight() > 0;
                }
                if (ended == 0) std::this_thread::yield();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& pair : pairs) {
        pair->device.stop_thread();
        EXPECT_EQ(pair->idle.size(), kDepth);
        EXPECT_EQ(pair->seen, each);
        EXPECT_EQ(pair->wrong, 0U);
        EXPECT_EQ(pair->device.queue().stats().submitted.get(), each);
        EXPECT_EQ(pair->device.queue().stats().ended.get(), each);
        EXPECT_GT(pair->device.queue().stats().parked.get(), each / 2);
    }
}

} // namespace
} // namespace viaduct::driver
