// SPDX-License-Identifier: Apache-2.0
//
// Driver queue against device queue, single threaded: every format and feature.
#include "unit/virtio/queue_pair.h"

#include <algorithm>
#include <deque>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

namespace viaduct::virtio {
namespace {

class QueuePairs : public ::testing::TestWithParam<DriverQueueOptions> {};

std::uintptr_t token_of(const DriverQueue::Used& used) {
    return reinterpret_cast<std::uintptr_t>(used.token);
}

// Polls one chain that must be there.
DriverQueue::Used take_used(DriverQueue& driver) {
    const auto used = driver.poll();
    EXPECT_TRUE(used);
    EXPECT_TRUE(used && used->has_value());
    return used && *used ? **used : DriverQueue::Used{};
}

TEST_P(QueuePairs, a_request_reaches_the_device_and_its_reply_the_driver) {
    QueuePair pair{GetParam()};
    std::memcpy(pair.data_host(0), "ping", 4);
    ASSERT_TRUE(pair.add(7));
    EXPECT_TRUE(pair.driver().should_kick());
    EXPECT_TRUE(pair.device().has_work());

    Chain chain;
    ASSERT_TRUE(pair.device().pop(chain).value());
    ASSERT_EQ(chain.readable.size(), 1U);
    ASSERT_EQ(chain.writable.size(), 1U);
    EXPECT_EQ(chain.readable_bytes, 80U);
    EXPECT_EQ(chain.writable_bytes, 104U);
    EXPECT_EQ(std::memcmp(chain.readable[0].iov_base, "ping", 4), 0);
    std::memcpy(chain.writable[0].iov_base, "pong", 4);
    EXPECT_FALSE(pair.device().pop(chain).value());
    EXPECT_FALSE(pair.device().has_work());

    pair.device().push(chain.ticket, 4);
    EXPECT_FALSE(pair.driver().poll()->has_value()) << "seen before publish()";
    EXPECT_TRUE(pair.device().publish());
    EXPECT_FALSE(pair.device().publish()) << "nothing was staged";
    const auto used = take_used(pair.driver());
    EXPECT_EQ(token_of(used), 7U);
    EXPECT_EQ(used.written_bytes, 4U);
    EXPECT_EQ(std::memcmp(pair.data_host(1024), "pong", 4), 0);
    EXPECT_FALSE(pair.driver().poll()->has_value());
    EXPECT_EQ(pair.driver().in_flight(), 0U);
    EXPECT_EQ(pair.driver().free_descriptors(), GetParam().size);
}

TEST_P(QueuePairs, what_is_staged_reaches_the_device_when_published_or_asked_about) {
    QueuePair pair{GetParam()};
    const GuestRange readable[] = {pair.data(0, 80)};
    ASSERT_TRUE(pair.driver().stage(readable, {}, nullptr));
    pair.driver().publish();
    EXPECT_TRUE(pair.device().has_work());
    Chain chain;
    ASSERT_TRUE(pair.device().pop(chain).value());
    EXPECT_FALSE(pair.device().has_work());
    pair.device().expect(); // the next one where this one was

    ASSERT_TRUE(pair.driver().stage(readable, {}, nullptr));
    EXPECT_TRUE(pair.driver().should_kick());
    ASSERT_TRUE(pair.device().pop(chain).value());
    EXPECT_EQ(chain.readable_bytes, 80U);
    EXPECT_FALSE(pair.device().has_work());
}

TEST_P(QueuePairs, a_driver_sees_whether_something_has_come_back_without_taking_it) {
    QueuePair pair{GetParam()};
    EXPECT_FALSE(pair.driver().has_used());
    for (std::uintptr_t token = 0; token < 2; ++token) ASSERT_TRUE(pair.add(token));
    Chain chain;
    while (pair.device().pop(chain).value()) pair.device().push(chain.ticket, 0);
    EXPECT_FALSE(pair.driver().has_used());
    pair.device().publish();
    for (std::uintptr_t token = 0; token < 2; ++token) {
        EXPECT_TRUE(pair.driver().has_used());
        EXPECT_EQ(token_of(take_used(pair.driver())), token);
    }
    EXPECT_FALSE(pair.driver().has_used());
}

TEST_P(QueuePairs, requests_come_back_in_any_order_past_every_wrap_of_the_indexes) {
    constexpr std::uintptr_t kRequests = 140'000;
    QueuePair pair{GetParam()};
    constexpr std::uint32_t kSeed = 20240229;
    std::mt19937 random{kSeed};
    std::vector<Chain> taken;
    std::vector<bool> seen(kRequests);
    std::uintptr_t added = 0;
    std::uintptr_t done = 0;
    while (done < kRequests) {
        while (added < kRequests && pair.add(added)) ++added;
        for (Chain chain; pair.device().pop(chain).value();) taken.push_back(chain);
        std::ranges::shuffle(taken, random);
        const std::size_t stay = taken.size() > 2 ? random() % (taken.size() / 2) : 0;
        while (taken.size() > stay) {
            pair.device().push(taken.back().ticket, 16);
            taken.pop_back();
        }
        pair.device().publish();
        for (auto used = pair.driver().poll(); used.value(); used = pair.driver().poll()) {
            ASSERT_LT(token_of(**used), kRequests);
            ASSERT_FALSE(seen[token_of(**used)]) << "seed " << kSeed;
            ASSERT_EQ((*used)->written_bytes, 16U);
            seen[token_of(**used)] = true;
            ++done;
        }
    }
    EXPECT_EQ(pair.driver().in_flight(), 0U);
    EXPECT_EQ(pair.driver().free_descriptors(), GetParam().size);
}

TEST_P(QueuePairs, a_full_ring_refuses_more_and_takes_them_again_when_chains_came_back) {
    QueuePair pair{GetParam()};
    std::uint32_t added = 0;
    while (pair.add(added)) ++added;
    EXPECT_EQ(pair.add(0).error(), Errno{ENOSPC});
    EXPECT_EQ(added, GetParam().indirect ? GetParam().size : GetParam().size / 2);
    EXPECT_EQ(pair.driver().in_flight(), added);

    Chain chain;
    ASSERT_TRUE(pair.device().pop(chain).value());
    pair.device().push(chain.ticket, 0);
    pair.device().publish();
    EXPECT_EQ(pair.add(0).error(), Errno{ENOSPC});
    take_used(pair.driver());
    EXPECT_TRUE(pair.add(0));
}

TEST_P(QueuePairs, a_device_made_again_midway_answers_what_the_old_one_took) {
    QueuePair pair{GetParam()};
    const std::uintptr_t together = GetParam().indirect ? GetParam().size : GetParam().size / 2;
    std::uintptr_t token = 0;
    // Several rounds, so that the restart falls on every place of small rings.
    for (std::uintptr_t round = 0; round < 2 * together + 3; ++round) {
        std::deque<Chain> taken;
        const std::uintptr_t first = token;
        for (std::uintptr_t count = 0; count < together; ++count) ASSERT_TRUE(pair.add(token++));
        for (std::uintptr_t count = 0; count < (together + 1) / 2; ++count) {
            ASSERT_TRUE(pair.device().pop(taken.emplace_back()).value());
        }
        const Chain early = taken.back();
        taken.pop_back();
        pair.device().push(early.ticket, 1);
        pair.device().publish();

        pair.restart_device();
        for (Chain chain; pair.device().pop(chain).value();) taken.push_back(chain);
        for (const Chain& chain : taken) pair.device().push(chain.ticket, 1);
        if (!taken.empty()) {
            EXPECT_TRUE(pair.device().publish()) << "the first publication signals";
        }
        std::vector<std::uintptr_t> tokens;
        for (auto used = pair.driver().poll(); used.value(); used = pair.driver().poll()) {
            tokens.push_back(token_of(**used));
        }
        std::ranges::sort(tokens);
        ASSERT_EQ(tokens.size(), together);
        EXPECT_EQ(tokens.front(), first);
        EXPECT_EQ(tokens.back(), token - 1);
    }
}

TEST_P(QueuePairs, a_changed_memory_table_finds_the_ring_again_and_keeps_the_indexes) {
    QueuePair pair{GetParam()};
    ASSERT_TRUE(pair.add(1));
    Chain first;
    ASSERT_TRUE(pair.device().pop(first).value());
    const std::uint32_t base = pair.device().base();

    std::vector<MemoryRegion> regions = pair.view().regions();
    std::vector<std::byte> more(4096);
    regions.push_back({.guest_address = GuestAddress{0},
                       .user_address = 0x1000,
                       .bytes = more.size(),
                       .host = more.data()});
    const GuestMemory larger = GuestMemory::make(regions).value();
    ASSERT_TRUE(pair.device().set_memory(larger));
    EXPECT_EQ(pair.device().base(), base);

    const GuestRange readable[] = {{.address = GuestAddress{64}, .bytes = 8}};
    ASSERT_TRUE(pair.driver().add(readable, {}, nullptr));
    Chain second;
    ASSERT_TRUE(pair.device().pop(second).value());
    EXPECT_EQ(second.readable[0].iov_base, more.data() + 64);
    pair.device().push(first.ticket, 1);
    pair.device().push(second.ticket, 0);
    EXPECT_TRUE(pair.device().publish());
    EXPECT_EQ(token_of(take_used(pair.driver())), 1U);
    EXPECT_EQ(token_of(take_used(pair.driver())), 0U);
}

TEST_P(QueuePairs, a_memory_table_without_the_ring_makes_the_queue_unusable_and_harmless) {
    QueuePair pair{GetParam()};
    ASSERT_TRUE(pair.add(1));
    ASSERT_TRUE(pair.add(2));
    Chain chain;
    ASSERT_TRUE(pair.device().pop(chain).value());

    const GuestMemory empty;
    EXPECT_EQ(pair.device().set_memory(empty).error(), Errno{EINVAL});
    EXPECT_TRUE(pair.device().broken());
    EXPECT_THAT(pair.device().reason(), testing::HasSubstr("memory table"));
    pair.device().approach();
    pair.device().expect();
    EXPECT_FALSE(pair.device().has_work());
    EXPECT_EQ(pair.device().pop(chain).error(), Errno{EPROTO});
    pair.device().suppress_kicks();
    EXPECT_FALSE(pair.device().enable_kicks());
    pair.device().push(chain.ticket, 1);
    EXPECT_FALSE(pair.device().publish());
}

TEST_P(QueuePairs, suppressed_kicks_stay_away_and_enabling_tells_what_came_meanwhile) {
    QueuePair pair{GetParam()};
    Chain chain;
    const auto serve = [&] {
        while (pair.device().pop(chain).value()) pair.device().push(chain.ticket, 0);
        pair.device().publish();
        while (pair.driver().poll().value()) {
        }
    };
    ASSERT_TRUE(pair.add(0));
    EXPECT_TRUE(pair.driver().should_kick()) << "kicks are on at the start";
    serve();

    pair.device().suppress_kicks();
    for (int round = 0; round < 3; ++round) {
        ASSERT_TRUE(pair.add(0));
        EXPECT_FALSE(pair.driver().should_kick());
        serve();
    }
    EXPECT_FALSE(pair.device().enable_kicks());
    ASSERT_TRUE(pair.add(0));
    EXPECT_TRUE(pair.driver().should_kick());
    serve();

    pair.device().suppress_kicks();
    ASSERT_TRUE(pair.add(0));
    EXPECT_FALSE(pair.driver().should_kick());
    EXPECT_TRUE(pair.device().enable_kicks()) << "this request got no kick";
    serve();
    EXPECT_FALSE(pair.device().enable_kicks());
}

TEST_P(QueuePairs, a_batch_gets_one_kick_however_far_it_runs_past_the_event) {
    QueuePair pair{GetParam()};
    Chain chain;
    const std::uint32_t batch_max = GetParam().indirect ? GetParam().size : GetParam().size / 2;
    // 200 rounds of changing length: events fall on every place of a small ring.
    for (std::uint32_t round = 0; round < 200; ++round) {
        EXPECT_FALSE(pair.device().enable_kicks());
        const std::uint32_t batch = 1 + round % batch_max;
        for (std::uint32_t count = 0; count < batch; ++count) ASSERT_TRUE(pair.add(count));
        EXPECT_TRUE(pair.driver().should_kick()) << "round " << round;
        EXPECT_FALSE(pair.driver().should_kick()) << "nothing was added since";
        for (std::uint32_t count = 0; count < batch; ++count) {
            ASSERT_TRUE(pair.device().pop(chain).value());
            pair.device().push(chain.ticket, 0);
        }
        pair.device().publish();
        while (pair.driver().poll().value()) {
        }
    }
}

TEST_P(QueuePairs, disabled_interrupts_stay_away_and_enabling_tells_what_came_meanwhile) {
    QueuePair pair{GetParam()};
    Chain chain;
    const auto request = [&] {
        EXPECT_TRUE(pair.add(0));
        EXPECT_TRUE(pair.device().pop(chain).value());
        pair.device().push(chain.ticket, 0);
        return pair.device().publish();
    };
    pair.driver().disable_interrupts();
    EXPECT_TRUE(request()) << "the first publication signals whatever the driver says";
    take_used(pair.driver());

    EXPECT_FALSE(pair.driver().enable_interrupts());
    EXPECT_TRUE(request());
    take_used(pair.driver());
    pair.driver().disable_interrupts();
    for (int round = 0; round < 3; ++round) {
        EXPECT_FALSE(request());
        take_used(pair.driver());
    }
    EXPECT_FALSE(request());
    EXPECT_TRUE(pair.driver().enable_interrupts()) << "this one got no interrupt";
    take_used(pair.driver());
    EXPECT_FALSE(pair.driver().enable_interrupts());
    EXPECT_TRUE(request());
}

// For every batch and every number of chains asked for: when enable_interrupts_after() says that nothing
// needs to be polled, an interrupt comes no later than the last of them.
TEST_P(QueuePairs, an_interrupt_asked_for_after_some_chains_comes_by_the_last_of_them) {
    const std::uint32_t together = GetParam().indirect ? GetParam().size : GetParam().size / 2;
    QueuePair pair{GetParam()};
    Chain chain;
    ASSERT_TRUE(pair.add(0)); // uses up the first publication
    ASSERT_TRUE(pair.device().pop(chain).value());
    pair.device().push(chain.ticket, 0);
    ASSERT_TRUE(pair.device().publish());
    take_used(pair.driver());

    const std::uint32_t rounds = std::min(together, 64U);
    for (std::uint32_t after = 1; after <= rounds; ++after) {
        for (std::uint32_t batch = 1; batch <= rounds; batch += 1 + batch / 4) {
            for (std::uint32_t count = 0; count < together; ++count) ASSERT_TRUE(pair.add(count));
            ASSERT_FALSE(pair.driver().enable_interrupts_after(static_cast<std::uint16_t>(after)));
            std::uint32_t done = 0;
            bool interrupted = false;
            while (done < after) {
                for (std::uint32_t count = 0; count < batch && done < together; ++count, ++done) {
                    ASSERT_TRUE(pair.device().pop(chain).value());
                    pair.device().push(chain.ticket, 0);
                }
                const bool signalled = pair.device().publish();
                if (GetParam().event_idx && !GetParam().packed) {
                    EXPECT_EQ(signalled, !interrupted && done >= after) << after << " by " << batch;
                }
                interrupted |= signalled;
            }
            EXPECT_TRUE(interrupted) << after << " by " << batch;
            while (pair.device().pop(chain).value()) pair.device().push(chain.ticket, 0);
            pair.device().publish();
            while (pair.driver().poll().value()) {
            }
        }
    }
}

TEST_P(QueuePairs, a_wait_for_more_chains_than_are_out_ends_with_the_last_one) {
    QueuePair pair{GetParam()};
    Chain chain;
    for (std::uint32_t round = 0; round < 10; ++round) {
        ASSERT_TRUE(pair.add(0));
        ASSERT_TRUE(pair.add(1));
        EXPECT_FALSE(pair.driver().enable_interrupts_after(60'000));
        while (pair.device().pop(chain).value()) pair.device().push(chain.ticket, 0);
        EXPECT_TRUE(pair.device().publish());
        while (pair.driver().poll().value()) {
        }
    }
}

TEST_P(QueuePairs, a_chain_may_take_every_entry_of_the_ring) {
    QueuePair pair{GetParam()};
    const std::uint32_t size = GetParam().size;
    if (GetParam().indirect && size > DriverQueue::kIndirectEntriesMax)
        GTEST_SKIP() << "goes out as a direct chain";
    std::vector<GuestRange> readable(size / 2, pair.data(0, 1));
    std::vector<GuestRange> writable(size - size / 2, pair.data(100, 1));
    Chain chain;
    for (int round = 0; round < 5; ++round) {
        ASSERT_TRUE(pair.driver().add(readable, writable, nullptr));
        ASSERT_TRUE(pair.device().pop(chain).value());
        EXPECT_EQ(chain.readable.size(), readable.size());
        EXPECT_EQ(chain.writable.size(), writable.size());
        pair.device().push(chain.ticket, static_cast<std::uint32_t>(chain.writable_bytes));
        pair.device().publish();
        EXPECT_EQ(take_used(pair.driver()).written_bytes, writable.size());
    }
}

INSTANTIATE_TEST_SUITE_P(
    EveryFormat, QueuePairs,
    ::testing::Values(DriverQueueOptions{.size = 8}, DriverQueueOptions{.event_idx = true, .size = 8},
                      DriverQueueOptions{.event_idx = true, .indirect = true, .size = 8},
                      DriverQueueOptions{.size = 1024}, DriverQueueOptions{.event_idx = true, .size = 1024},
                      DriverQueueOptions{.event_idx = true, .indirect = true, .size = 128},
                      DriverQueueOptions{.packed = true, .size = 7},
                      DriverQueueOptions{.packed = true, .event_idx = true, .size = 7},
                      DriverQueueOptions{.packed = true, .event_idx = true, .indirect = true, .size = 7},
                      DriverQueueOptions{.packed = true, .event_idx = true, .size = 100},
                      DriverQueueOptions{.packed = true, .event_idx = true, .indirect = true, .size = 100},
                      DriverQueueOptions{.packed = true, .size = 1024},
                      DriverQueueOptions{.packed = true, .event_idx = true, .size = 1024}),
    [](const auto& info) { return name_of(info.param); });

} // namespace
} // namespace viaduct::virtio
