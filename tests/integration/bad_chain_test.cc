// SPDX-License-Identifier: Apache-2.0
//
// Chains that are none: they break the queue that they are on and nothing else, and nobody spins.
#include "support/raw_guest.h"
#include "support/raw_ring.h"
#include "support/served_share.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

namespace viaduct::test {
namespace {

using namespace std::chrono_literals;
using virtio::kDescIndirect;
using virtio::kDescNext;
using virtio::kDescWrite;

constexpr std::uint32_t kSize = 64;

struct Entry {
    std::uint64_t address = 0;
    std::uint32_t bytes = 0;
    std::uint16_t flags = 0;
    std::uint16_t next = 0;
};

// What a bad chain is made of: a GETATTR, room for its reply, and an indirect table, by guest address.
struct Parts {
    std::uint64_t request;
    std::uint32_t request_bytes;
    std::uint64_t reply;
    std::uint64_t table;
    RawGuest& guest;

    Entry in(std::uint16_t flags = 0, std::uint16_t next = 0) const {
        return {request, request_bytes, flags, next};
    }
    Entry out(std::uint16_t flags = 0, std::uint16_t next = 0) const {
        return {reply, 1024, static_cast<std::uint16_t>(flags | kDescWrite), next};
    }
    // Writes the table; the descriptor that names it.
    Entry indirect(const std::vector<Entry>& entries, bool packed) const {
        const std::uint64_t offset = table - RawGuest::kGuestStart;
        for (std::size_t index = 0; index < entries.size(); ++index) {
            const Entry& from = entries[index];
            if (packed) {
                const virtio::PackedDescriptor to{from.address, from.bytes, 0, from.flags};
                std::memcpy(guest.at(offset + 16 * index), &to, sizeof to);
            } else {
                const virtio::SplitDescriptor to{from.address, from.bytes, from.flags, from.next};
                std::memcpy(guest.at(offset + 16 * index), &to, sizeof to);
            }
        }
        return {table, static_cast<std::uint32_t>(16 * entries.size()), kDescIndirect, 0};
    }
};

struct BadChain {
    const char* name;
    std::function<std::vector<Entry>(const Parts&, bool packed)> make;
    bool split = true;
    bool packed = true;
    bool indirect = true; // negotiated
};

const std::vector<BadChain>& bad_chains() {
    static const std::vector<BadChain> chains{
        {"a loop of one", [](const Parts& p, bool) { return std::vector{p.in(kDescNext, 0)}; }, true, false},
        {"a loop of two",
         [](const Parts& p, bool) { return std::vector{p.in(kDescNext, 1), p.out(kDescNext, 0)}; }, true,
         false},
        {"a loop behind a good beginning",
         [](const Parts& p, bool) {
             return std::vector{p.in(kDescNext, 1), p.out(kDescNext, 2), p.out(kDescNext, 2)};
         },
         true, false},
        {"a loop of descriptors without bytes",
         [](const Parts&, bool) {
             return std::vector{Entry{.flags = kDescNext, .next = 1}, Entry{.flags = kDescNext, .next = 0}};
         },
         true, false},
        {"a link just beyond the table",
         [](const Parts& p, bool) { return std::vector{p.in(kDescNext, kSize)}; }, true, false},
        {"a link far beyond the table",
         [](const Parts& p, bool) { return std::vector{p.in(kDescNext, 0xffff)}; }, true, false},
        {"a chain longer than the ring",
         [](const Parts& p, bool) { return std::vector<Entry>(kSize, p.in(kDescNext)); }, false, true},
        {"writable before readable",
         [](const Parts& p, bool) { return std::vector{p.out(kDescNext, 1), p.in()}; }},
        {"readable between writable",
         [](const Parts& p, bool) {
             return std::vector{p.in(kDescNext, 1), p.out(kDescNext, 2), p.in(kDescNext, 3), p.out()};
         }},
        {"a descriptor outside memory",
         [](const Parts& p, bool) {
             return std::vector{Entry{.address = 0x10, .bytes = 64, .flags = kDescNext, .next = 1}, p.out()};
         }},
        {"a descriptor that runs out of memory",
         [](const Parts& p, bool) {
             return std::vector{p.in(kDescNext, 1),
                                Entry{RawGuest::address(p.guest.bytes() - 8), 9, kDescWrite, 0}};
         }},
        {"a descriptor that runs through the end of the address space",
         [](const Parts& p, bool) {
             return std::vector{p.in(kDescNext, 1), Entry{UINT64_MAX - 8, 64, kDescWrite, 0}};
         }},
        {"a descriptor of four GiB",
         [](const Parts& p, bool) {
             return std::vector{p.in(kDescNext, 1), Entry{RawGuest::address(0), UINT32_MAX, kDescWrite, 0}};
         }},
        {"an indirect table in an indirect table",
         [](const Parts& p, bool packed) {
             auto inner = p.in();
             inner = {p.table, 16, kDescIndirect, 0};
             return std::vector{p.indirect({inner, p.out()}, packed)};
         }},
        {"a chain that goes on behind an indirect table",
         [](const Parts& p, bool packed) {
             auto table = p.indirect({p.in(kDescNext, 1), p.out()}, packed);
             table.flags |= kDescNext;
             table.next = 1;
             return std::vector{table, p.out()};
         }},
        {"an indirect table of no length",
         [](const Parts& p, bool packed) {
             auto table = p.indirect({p.in(kDescNext, 1), p.out()}, packed);
             table.bytes = 0;
             return std::vector{table};
         }},
        {"an indirect table of a length that is no multiple of 16",
         [](const Parts& p, bool packed) {
             auto table = p.indirect({p.in(kDescNext, 1), p.out()}, packed);
             table.bytes = 31;
             return std::vector{table};
         }},
        {"an indirect table of four GiB",
         [](const Parts& p, bool packed) {
             auto table = p.indirect({p.in(kDescNext, 1), p.out()}, packed);
             table.bytes = UINT32_MAX - 15;
             return std::vector{table};
         }},
        {"an indirect table outside memory",
         [](const Parts&, bool) {
             return std::vector{Entry{.address = 0x1000, .bytes = 32, .flags = kDescIndirect, .next = 0}};
         }},
        {"a loop in an indirect table",
         [](const Parts& p, bool packed) {
             return std::vector{p.indirect({p.in(kDescNext, 1), p.out(kDescNext, 0)}, packed)};
         },
         true, false},
        {"a link out of an indirect table",
         [](const Parts& p, bool packed) {
             return std::vector{p.indirect({p.in(kDescNext, 1), p.out(kDescNext, 2)}, packed)};
         },
         true, false},
        {"writable before readable in an indirect table",
         [](const Parts& p, bool packed) {
             return std::vector{p.indirect({p.out(kDescNext, 1), p.in()}, packed)};
         }},
        {"an indirect table that was not negotiated",
         [](const Parts& p, bool packed) {
             return std::vector{p.indirect({p.in(kDescNext, 1), p.out()}, packed)};
         },
         true, true, false},
    };
    return chains;
}

// Nanoseconds for which the daemon's threads have run.
std::uint64_t run_time_ns(pid_t pid) {
    std::uint64_t sum = 0;
    std::error_code ignored;
    for (const auto& task :
         std::filesystem::directory_iterator{"/proc/" + std::to_string(pid) + "/task", ignored}) {
        std::ifstream file{task.path() / "schedstat"};
        std::uint64_t ran = 0;
        file >> ran;
        sum += ran;
    }
    return sum;
}

class BadChainTest : public testing::TestWithParam<bool> {
protected:
    std::unique_ptr<RawGuest> connect(bool indirect) {
        return RawGuest::connect({.socket = share.socket(),
                                  .queues = 4,
                                  .size = kSize,
                                  .packed = GetParam(),
                                  .indirect = indirect});
    }
    static Parts parts(RawGuest& guest) {
        const std::uint64_t offset = guest.piece_offset(3, 0);
        const auto request = getattr_request();
        std::memcpy(guest.at(offset), request.data(), request.size());
        return {.request = RawGuest::address(offset),
                .request_bytes = static_cast<std::uint32_t>(request.size()),
                .reply = RawGuest::address(offset + 4096),
                .table = RawGuest::address(offset + 8192),
                .guest = guest};
    }
    // On a ring that is fresh and not started.
    static void offer(RawGuest& guest, std::uint32_t queue, const std::vector<Entry>& chain) {
        if (GetParam()) {
            std::vector<virtio::PackedDescriptor> entries;
            for (const Entry& entry : chain) entries.push_back({entry.address, entry.bytes, 0, entry.flags});
            return write_packed(guest, queue, entries);
        }
        SplitRing ring{guest, queue, kSize};
        for (std::size_t index = 0; index < chain.size(); ++index)
            ring.descriptor(static_cast<std::uint32_t>(index)) = {chain[index].address, chain[index].bytes,
                                                                  chain[index].flags, chain[index].next};
        ring.offer(0);
        ring.publish();
    }
    // Hardly any time is used over a while.  Looked at again for some seconds after the start.
    testing::AssertionResult idle() { return idle(share); }
    static testing::AssertionResult idle(ServedShare& served) {
        std::uint64_t used = 0;
        for (int attempt = 0; attempt < 50; ++attempt) {
            const std::uint64_t before = run_time_ns(served.daemon().pid());
            std::this_thread::sleep_for(100ms);
            used = run_time_ns(served.daemon().pid()) - before;
            if (used < 10'000'000) return testing::AssertionSuccess();
        }
        return testing::AssertionFailure() << used / 1000 << " us of 100000 are used";
    }
    // A broken queue has nothing to wait for: where its end were waited for, no front end would wait that
    // long.
    ServedShare share{{"--drain-timeout", "600000"}};
};

INSTANTIATE_TEST_SUITE_P(Formats, BadChainTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "packed" : "split"; });

TEST_P(BadChainTest, each_breaks_its_queue_alone_and_the_queue_can_be_started_again) {
    for (const BadChain& chain : bad_chains()) {
        if (GetParam() ? !chain.packed : !chain.split) continue;
        SCOPED_TRACE(chain.name);
        const auto guest = connect(chain.indirect);
        ASSERT_TRUE(guest);
        ASSERT_TRUE(guest->start_session(2));
        offer(*guest, 1, chain.make(parts(*guest), GetParam()));
        ASSERT_TRUE(guest->start(1));
        guest->kick(1);
        EXPECT_TRUE(readable_within(guest->error_fd(1), kPatience));
        EXPECT_EQ(read_event(guest->error_fd(1)), 1U);
        EXPECT_TRUE(guest->serves(2));
        EXPECT_TRUE(idle());
        // Kicks change nothing, nor does an enable.
        guest->kick(1);
        EXPECT_TRUE(guest->front_end().set_vring_enable(1, true));
        EXPECT_TRUE(guest->serves(2));
        EXPECT_EQ(read_event(guest->error_fd(1)), 0U);
        if (!GetParam()) EXPECT_EQ(guest->used_index(1), 0U);

        EXPECT_TRUE(guest->front_end().get_vring_base(1));
        EXPECT_TRUE(guest->start_session(1));
        EXPECT_TRUE(guest->serves(1));
        EXPECT_TRUE(guest->serves(2));
    }
    EXPECT_TRUE(share.runs());
}

TEST_P(BadChainTest, a_front_end_that_leaves_with_all_queues_broken_makes_room_for_the_next_at_once) {
    for (int round = 0; round < 3; ++round) {
        const auto guest = connect(true);
        ASSERT_TRUE(guest);
        for (const std::uint32_t queue : {0U, 1U, 2U}) {
            offer(*guest, queue, {parts(*guest).out(kDescNext, 1), parts(*guest).in()});
            ASSERT_TRUE(guest->start(queue));
            guest->kick(queue);
        }
        for (const std::uint32_t queue : {0U, 1U, 2U})
            EXPECT_TRUE(readable_within(guest->error_fd(queue), kPatience));
    }
    const auto next = connect(true);
    ASSERT_TRUE(next);
    EXPECT_TRUE(next->start_session(1));
}

TEST_P(BadChainTest, requests_that_were_taken_before_it_are_still_answered_or_dropped_in_order) {
    ServedShare slow{{"--faults", "getattr:delay=200"}};
    const auto guest =
        RawGuest::connect({.socket = slow.socket(), .queues = 4, .size = kSize, .packed = GetParam()});
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    for (int count = 0; count < 5; ++count) ASSERT_TRUE(guest->add(1, getattr_request()));
    // No memory has that address.
    const std::array bad{virtio::GuestRange{.address = virtio::GuestAddress{0x10}, .bytes = 64}};
    ASSERT_TRUE(guest->ring(1).add(bad, {}, guest.get()));
    guest->kick(1);
    EXPECT_TRUE(readable_within(guest->error_fd(1), kPatience));
    EXPECT_TRUE(idle(slow));
    EXPECT_TRUE(guest->front_end().get_vring_base(1));
    const auto before = guest->snapshot();
    EXPECT_FALSE(readable_within(guest->call_fd(2), 300ms));
    EXPECT_EQ(before, guest->snapshot());
    EXPECT_TRUE(guest->start_session(1));
    EXPECT_TRUE(guest->serves(1));
}

TEST_P(BadChainTest, a_broken_queue_that_is_polled_does_not_spin) {
    const auto guest = connect(true);
    ASSERT_TRUE(guest);
    auto& front_end = guest->front_end();
    offer(*guest, 1, {parts(*guest).out(kDescNext, 1), parts(*guest).in()});
    ASSERT_TRUE(front_end.set_vring_error(1, guest->error_fd(1)));
    ASSERT_TRUE(guest->describe(1, guest->first_base()));
    ASSERT_TRUE(front_end.set_vring_kick(1, -1));
    ASSERT_TRUE(front_end.set_vring_enable(1, true));
    EXPECT_TRUE(readable_within(guest->error_fd(1), kPatience));
    EXPECT_TRUE(idle());
}

// The ring is in order, what it carries is not: the chain comes back with nothing in it.
TEST_P(BadChainTest, requests_that_cannot_be_answered_come_back_empty_and_the_queue_goes_on) {
    const auto guest = connect(true);
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    const Parts p = parts(*guest);
    const auto range = [](std::uint64_t address, std::uint32_t bytes) {
        return virtio::GuestRange{.address = virtio::GuestAddress{address}, .bytes = bytes};
    };
    using Ranges = std::vector<virtio::GuestRange>;
    const std::vector<std::pair<Ranges, Ranges>> chains{
        {{range(p.request, p.request_bytes)}, {}},                   // no reply part
        {{range(p.request, p.request_bytes)}, {range(p.reply, 15)}}, // no room for a header
        {{}, {range(p.reply, 1024)}},                                // no request part
        {{range(p.request, 0)}, {range(p.reply, 1024)}},             // an empty one
        {{range(p.request, 39)}, {range(p.reply, 1024)}},            // less than a header
        {{range(p.request, 1)}, {range(p.reply, 1)}},
        {{range(p.request, 0), range(p.request, 0)}, {range(p.reply, 0)}}, // nothing at all
    };
    for (std::size_t index = 0; index < chains.size(); ++index) {
        SCOPED_TRACE(index);
        ASSERT_TRUE(guest->ring(1).add(chains[index].first, chains[index].second, guest.get()));
        guest->kick(1);
        const auto used = guest->next_used(1);
        ASSERT_TRUE(used) << used.error().name();
        EXPECT_EQ(used->written_bytes, 0U);
        EXPECT_TRUE(guest->serves(1));
    }
    // Room for a header and no more: the header says so.
    ASSERT_TRUE(guest->add(1, getattr_request(), sizeof(fuse_out_header)));
    guest->kick(1);
    EXPECT_TRUE(guest->wait_for_all(1));
    EXPECT_EQ(read_event(guest->error_fd(1)), 0U);
    EXPECT_TRUE(guest->serves(1));
    EXPECT_TRUE(idle());
}

} // namespace
} // namespace viaduct::test
