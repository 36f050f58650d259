// SPDX-License-Identifier: Apache-2.0
#include "config/bench_options.h"

#include "support/mistakes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

namespace viaduct::config {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Outcome<BenchCommand> parsed(std::vector<const char*> words) {
    words.insert(words.begin(), "bench");
    return parse_bench(static_cast<int>(words.size()), words.data());
}

TEST(BenchOptions, the_socket_stands_anywhere_between_them) {
    for (const std::vector<const char*>& words : {std::vector<const char*>{"/s", "--queues", "4", "--verify"},
                                                  {"--queues", "4", "/s", "--verify"},
                                                  {"--queues=4", "--verify", "/s"}}) {
        const auto command = parsed(words);
        ASSERT_TRUE(command) << command.error().message;
        EXPECT_THAT(command->servers, ElementsAre("/s"));
        EXPECT_EQ(command->queues, 4U);
        EXPECT_TRUE(command->verify);
        EXPECT_FALSE(command->compare);
    }
}

TEST(BenchOptions, what_is_not_given_is_left_to_a_preset) {
    const auto command = parsed({"/s"});
    ASSERT_TRUE(command) << command.error().message;
    EXPECT_FALSE(command->queues);
    EXPECT_FALSE(command->threads);
    EXPECT_FALSE(command->depth);
    EXPECT_FALSE(command->block_bytes);
    EXPECT_FALSE(command->bare_cpu);
}

TEST(BenchOptions, sizes_and_times_have_units) {
    const auto command = parsed({"/s", "--block", "256K", "--file=1G", "--time", "500ms", "--ramp", "0",
                                 "--repeat", "3", "--bare", "/share", "--bare-time", "2"});
    ASSERT_TRUE(command) << command.error().message;
    EXPECT_EQ(command->block_bytes, 256U << 10);
    EXPECT_EQ(command->file_bytes, 1ULL << 30);
    EXPECT_EQ(command->time, 500ms);
    EXPECT_EQ(command->ramp, 0ms);
    EXPECT_EQ(command->bare_time, 2s);
}

TEST(BenchOptions, json_goes_to_stdout_or_where_the_equals_sign_says) {
    EXPECT_EQ(parsed({"--json", "/s"})->json, "-");
    EXPECT_THAT(parsed({"--json", "/s"})->servers, ElementsAre("/s"));
    EXPECT_EQ(parsed({"--json=lines", "/s"})->json, "lines");
    EXPECT_EQ(parsed({"/s"})->json, "");
}

TEST(BenchOptions, compare_takes_several_sockets) {
    const auto command = parsed({"compare", "a=/s", "/t", "--server-pid", "a=1", "--server-pid", "/t=2"});
    ASSERT_TRUE(command) << command.error().message;
    EXPECT_TRUE(command->compare);
    EXPECT_THAT(command->servers, ElementsAre("a=/s", "/t"));
    EXPECT_THAT(command->server_pids, ElementsAre("a=1", "/t=2"));
}

TEST(BenchOptions, the_help_shows_no_default_where_there_is_none) {
    const auto command = parsed({"--help"});
    ASSERT_TRUE(command) << command.error().message;
    EXPECT_EQ(command->request, Request::help);
    EXPECT_THAT(command->help, HasSubstr("--json[=FILE]"));
    EXPECT_THAT(command->help, HasSubstr("[64M]"));
    EXPECT_THAT(command->help, Not(HasSubstr("any [0]")));
}

TEST(BenchOptions, a_mistake_is_a_sentence_with_option_value_and_remedy) {
    test::expect_refused(parsed,
                         {
                             {{}, {"socket is missing"}},
                             {{"/s", "/t"}, {"\"/t\"", "compare"}},
                             {{"compare", "/s"}, {"\"/s\"", "at least two"}},
                             {{"/s", "--queues", "0"}, {"--queues", "\"0\"", "from 1 to"}},
                             {{"/s", "--threads", "many"}, {"--threads", "\"many\"", "from 1 to"}},
                             {{"/s", "--depth", "-1"}, {"--depth", "from 1 to"}},
                             {{"/s", "--block", "4KB"}, {"--block", "\"4KB\"", "K, M or G"}},
                             {{"/s", "--block", "2M"}, {"--block", "\"2M\"", "to 1M"}},
                             {{"/s", "--file", "0"}, {"--file", "\"0\"", "4K"}},
                             {{"/s", "--time", "0"}, {"--time", "\"0\"", "at least 1ms"}},
                             {{"/s", "--ramp", "soon"}, {"--ramp", "\"soon\"", "ms, s, m or h"}},
                             {{"/s", "--repeat", "0"}, {"--repeat", "\"0\"", "from 1 to"}},
                             {{"/s", "--completion", "sleep"}, {"--completion", "\"sleep\"", "poll"}},
                             {{"/s", "--bare-cpu", "1"}, {"--bare-cpu", "--bare, which is not given"}},
                             {{"/s", "--bare-time", "1"}, {"--bare-time", "--bare, which is not given"}},
                             {{"/s", "--json="}, {"--json"}},
                             {{"/s", "--quees", "2"}, {"\"--quees\"", "--queues"}},
                             {{"/s", "--verify=yes"}, {"--verify", "\"yes\""}},
                         });
}

} // namespace
} // namespace viaduct::config
