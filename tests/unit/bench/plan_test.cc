// SPDX-License-Identifier: Apache-2.0
#include "bench/plan.h"

#include "bench/workload.h"
#include "support/mistakes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

namespace viaduct::bench {
namespace {

using testing::ElementsAre;

Outcome<Plan> plan_of(std::vector<const char*> words) {
    words.insert(words.begin(), "bench");
    TRY(const auto command, config::parse_bench(static_cast<int>(words.size()), words.data()));
    return make_plan(command);
}

std::vector<std::string> names_of(const Plan& plan) {
    std::vector<std::string> names;
    for (const driver::LoadOptions& load : plan.points) names.push_back(workload_name(load));
    return names;
}

TEST(Plan, has_a_row_for_each_kind_and_each_mix) {
    const auto plan =
        plan_of({"/s", "--kind", "null,randread", "--mix", "read=1,getattr=2", "--block", "8K"});
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_THAT(names_of(*plan), ElementsAre("null", "randread:8K", "read:8K=1,getattr=2"));
    EXPECT_THAT(names_of(*plan_of({"/s", "--mix", "rw:4K"})), ElementsAre("rw:4K"));
    EXPECT_FALSE(plan_of({"/s"})->points.empty()) << "there are rows without --kind";
}

TEST(Plan, options_override_a_preset_and_a_sweep_multiplies_it) {
    const auto plan =
        plan_of({"/s", "--preset", "s2", "--threads", "4", "--block", "64K", "--completion", "poll"});
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_EQ(plan->points.size(), 5U) << "one for each number of queues";
    EXPECT_THAT(names_of(*plan), testing::Each("read:64K"));
    EXPECT_EQ(plan->points[0].threads, 4U);
    EXPECT_EQ(plan->points[0].depth, 128U);
    EXPECT_EQ(plan->points[0].completion, driver::Completion::poll);
    EXPECT_EQ(plan->device.request_queues, 24U);
    EXPECT_EQ(plan_of({"/s", "--preset", "s0", "--sweep", "queues=1,2,4"})->points.size(), 3U);
}

TEST(Plan, affinity_brings_its_threads) {
    EXPECT_EQ(plan_of({"/s"})->points[0].completion, driver::Completion::poll);
    const auto plan = plan_of({"/s", "--affinity", "on"});
    EXPECT_EQ(plan->points[0].completion, driver::Completion::threads);
    EXPECT_TRUE(plan->points[0].affinity);
    EXPECT_EQ(plan_of({"/s", "--sweep", "affinity=off,on"})->points[0].completion,
              driver::Completion::threads);
    const auto preset = plan_of({"/s", "--preset", "s0", "--affinity", "on"});
    ASSERT_TRUE(preset) << preset.error().message;
    EXPECT_EQ(preset->points[0].completion, driver::Completion::threads);
}

TEST(Plan, devices_have_names_and_processes) {
    const auto plan =
        plan_of({"compare", "ours=/run/a=b", "/run/c=d", "--server-pid", "ours=7", "--server-pid", "ours=8"});
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_EQ(plan->targets.size(), 2U);
    EXPECT_EQ(plan->targets[0].name, "ours");
    EXPECT_EQ(plan->targets[0].socket, "/run/a=b");
    EXPECT_THAT(plan->targets[0].pids, ElementsAre(7, 8));
    EXPECT_EQ(plan->targets[1].name, "/run/c=d") << "a name has no slash";
    EXPECT_EQ(plan->targets[1].socket, "/run/c=d");
    EXPECT_THAT(plan_of({"/s", "--server-pid", "7"})->targets[0].pids, ElementsAre(7));
}

TEST(Plan, memory_is_enough_for_what_is_outstanding) {
    const auto small = plan_of({"/s", "--kind", "getattr"});
    EXPECT_EQ(small->device.memory.bytes, 256ULL << 20);
    const auto large =
        plan_of({"/s", "--kind", "read:256K", "--threads", "24", "--queues", "24", "--depth", "128"});
    ASSERT_TRUE(large) << large.error().message;
    EXPECT_GE(large->device.memory.bytes, 24ULL * 128 * (256 << 10));
}

TEST(Plan, a_run_ends_by_time_or_by_count) {
    EXPECT_EQ(plan_of({"/s"})->limit.time, std::chrono::seconds{1});
    const auto plan = plan_of({"/s", "--count", "9"});
    EXPECT_FALSE(plan->limit.time);
    EXPECT_EQ(plan->limit.operations, 9U);
}

TEST(Plan, a_mistake_is_a_sentence_with_option_value_and_remedy) {
    test::expect_refused(
        plan_of,
        {
            {{"/s", "--kind", "stat"}, {"--kind", "\"stat\"", "getattr"}},
            {{"/s", "--mix", "read=x"}, {"--mix", "\"read=x\"", "whole number"}},
            {{"/s", "--block", "20"}, {"--block", "\"20\"", "multiple of 8"}},
            {{"/s", "--cpus", "0,x"}, {"--cpus", "\"0,x\"", "0,2-5"}},
            {{"/s", "--cpus", "8000"}, {"--cpus", "CPU 8000", "is not there"}},
            {{"/s", "--queues", "2", "--completion", "wait"}, {"--completion", "\"wait\"", "--threads"}},
            {{"/s", "--preset", "s1"}, {"--preset", "\"s1\"", "sequential"}},
            {{"/s", "--preset", "s0", "--kind", "null"}, {"--preset", "\"s0\"", "--kind"}},
            {{"/s", "--sweep", "queues=x"}, {"--sweep", "\"queues=x\"", "whole numbers"}},
            {{"/s", "--sweep", "queues=1,2", "--queues", "4"}, {"--sweep", "--queues is given as well"}},
            {{"/s", "--sweep", "dispatch=staged", "--dispatch", "staged"},
             {"--sweep", "--dispatch is given as well"}},
            {{"/s", "--affinity", "on", "--completion", "poll"}, {"--affinity", "\"threads\""}},
            {{"/s", "--affinity", "maybe"}, {"--affinity", "\"maybe\"", "on or off"}},
            {{"/s", "--dispatch", "late"}, {"--dispatch", "\"late\"", "direct or staged"}},
            {{"/s", "--queue-by", "cpu", "--queues", "2", "--threads", "2", "--completion", "wait"},
             {"--queue-by", "--completion \"wait\""}},
            {{"/s", "--mix", "write:4K,write:8K", "--verify"}, {"--verify", "one size"}},
            {{"/s", "--queue-size", "100"}, {"--queue-size", "\"100\"", "power of two"}},
            {{"/s", "--kind", "read:1M", "--file", "4K"}, {"--file", "\"4K\"", "1M"}},
            {{"/s", "--kind", "read:4K", "--file", "64K", "--verify"}, {"--verify", "--file", "128K"}},
            {{"/s", "--kind", "read:1M", "--threads", "4096", "--depth", "65536"}, {"GiB", "--depth"}},
            {{"/s", "--server-pid", "x"}, {"--server-pid", "\"x\"", "number of a process"}},
            {{"/s", "--server-pid", "b=1"}, {"--server-pid", "\"b=1\"", "no device"}},
            {{"compare", "/s", "/t", "--server-pid", "1"}, {"--server-pid", "\"1\"", "NAME=PID"}},
            {{"compare", "/s", "/s"}, {"\"/s\"", "name of another"}},
        });
}

} // namespace
} // namespace viaduct::bench
