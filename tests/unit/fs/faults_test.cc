// SPDX-License-Identifier: Apache-2.0
#include "fs/layers/faults.h"

#include "rt/worker.h"
#include "support/on_worker.h"

#include <gtest/gtest.h>

namespace viaduct::fs {
namespace {

// Reads and writes everything it is given and knows nothing else.
struct Endless final : Forwarding {
    Endless() : Forwarding(nullptr) {}
    Async<std::size_t> read(const Caller&, HandleId, std::uint64_t, Segments into) override {
        return segments_bytes(into);
    }
    Async<FsStat> statfs(const Caller&, NodeId) override { return FsStat{.blocks = 1}; }
};

struct FaultsTest : testing::Test {
    Faults faults{std::make_unique<Endless>()};
    Caller caller;
    char bytes[100];
    iovec pieces[2] = {{.iov_base = bytes, .iov_len = 60}, {.iov_base = bytes + 60, .iov_len = 40}};

    template <class T>
    static rt::Task<void> await_into(rt::Async<T> async, std::optional<Result<T>>& result) {
        result = co_await std::move(async);
    }
    Result<std::size_t> read() {
        const auto worker = *rt::Worker::start({.name = "test"});
        std::optional<Result<std::size_t>> result;
        test::run_on(*worker, await_into(faults.read(caller, HandleId{1}, 0, pieces), result));
        return *result;
    }
};

TEST_F(FaultsTest, without_a_rule_calls_pass_at_once) {
    auto read = faults.read(caller, HandleId{1}, 0, pieces);
    ASSERT_TRUE(read.ready());
    EXPECT_EQ(read.value(), 100U);
    EXPECT_EQ(faults.applied(), 0U);
}

TEST_F(FaultsTest, error_is_answered_as_often_as_the_rule_says) {
    faults.set(Faults::Operation::read, {.error = EIO, .calls = 2});
    EXPECT_EQ(read().error(), Errno{EIO});
    EXPECT_EQ(read().error(), Errno{EIO});
    EXPECT_EQ(read(), 100U);
    EXPECT_TRUE(faults.statfs(caller, kRootNode).ready());
    EXPECT_EQ(faults.applied(), 2U);
}

TEST_F(FaultsTest, short_transfer_sees_only_part_of_the_segments) {
    faults.set(Faults::Operation::read, {.bytes_max = 70});
    EXPECT_EQ(read(), 70U);
    faults.clear();
    EXPECT_EQ(read(), 100U);
}

TEST_F(FaultsTest, delay_passes_before_the_answer) {
    using namespace std::chrono_literals;
    for (const bool blocking : {false, true}) {
        faults.set(Faults::Operation::read, {.delay = 20ms, .blocking = blocking});
        const auto began = std::chrono::steady_clock::now();
        EXPECT_EQ(read(), 100U);
        EXPECT_GE(std::chrono::steady_clock::now() - began, 20ms);
    }
}

} // namespace
} // namespace viaduct::fs
