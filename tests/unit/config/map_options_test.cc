// SPDX-License-Identifier: Apache-2.0
#include "config/map_options.h"

#include "support/mistakes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

namespace viaduct::config {
namespace {

using testing::HasSubstr;
using testing::Not;

Outcome<MapCommand> parsed(std::vector<const char*> words) {
    words.insert(words.begin(), "map");
    return parse_map(static_cast<int>(words.size()), words.data());
}

TEST(MapOptions, all_of_them_are_read) {
    const auto command =
        parsed({"--queues", "6", "--topology=Core:4 PU:2", "--policy", "even", "--clusters", "--json"});
    ASSERT_TRUE(command) << command.error().message;
    EXPECT_EQ(command->queues, 6U);
    EXPECT_EQ(command->topology, "Core:4 PU:2");
    EXPECT_EQ(command->policy, "even");
    EXPECT_TRUE(command->clusters);
    EXPECT_TRUE(command->json);
    EXPECT_EQ(parsed({"--help"})->request, Request::help) << "even without --queues";
    EXPECT_THAT(parsed({"--help"})->help, Not(HasSubstr("[0]"))) << "no default is shown where there is none";
}

TEST(MapOptions, a_mistake_is_a_sentence_with_option_value_and_remedy) {
    test::expect_refused(
        parsed, {
                    {{}, {"--queues is missing", "number of request queues"}},
                    {{"--queues", "0"}, {"--queues", "\"0\"", "from 1 to"}},
                    {{"--queues", "many"}, {"--queues", "\"many\"", "from 1 to"}},
                    {{"--queues", "70000"}, {"--queues", "\"70000\"", "65533"}},
                    {{"--queues", "2", "--policy", "odd"}, {"--policy", "\"odd\"", "even or modulo"}},
                    {{"--queues", "2", "--topology", ""}, {"--topology", "FILE.xml"}},
                    {{"--queues", "2", "--policy", "modulo", "--clusters"},
                     {"--clusters", "\"modulo\"", "--policy even"}},
                    {{"--queue", "2"}, {"\"--queue\"", "--queues"}},
                });
}

} // namespace
} // namespace viaduct::config
