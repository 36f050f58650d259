// SPDX-License-Identifier: Apache-2.0
#include "fs/id_map.h"

#include <gtest/gtest.h>

namespace viaduct::fs {
namespace {

IdMap map_of(const std::vector<std::string>& rules) {
    auto map = IdMap::parse(rules);
    EXPECT_TRUE(map) << map.error().message;
    return *map;
}

TEST(IdMap, without_rules_every_id_stays_as_it_is) {
    const IdMap map = map_of({});
    EXPECT_TRUE(map.empty());
    EXPECT_EQ(map.to_host(7), 7U);
    EXPECT_EQ(map.to_client(4294967294U), 4294967294U);
}

TEST(IdMap, a_range_of_the_guest_moves_and_the_way_back_does_not) {
    const IdMap map = map_of({"guest:1000:5000:10"});
    EXPECT_EQ(map.to_host(999), 999U);
    EXPECT_EQ(map.to_host(1000), 5000U);
    EXPECT_EQ(map.to_host(1009), 5009U);
    EXPECT_EQ(map.to_host(1010), 1010U);
    EXPECT_EQ(map.to_client(5000), 5000U);
}

TEST(IdMap, a_range_of_the_host_moves_and_the_way_back_does_not) {
    const IdMap map = map_of({"host:5000:1000:10"});
    EXPECT_EQ(map.to_client(5009), 1009U);
    EXPECT_EQ(map.to_client(5010), 5010U);
    EXPECT_EQ(map.to_host(1000), 1000U);
}

TEST(IdMap, a_map_goes_both_ways) {
    const IdMap map = map_of({"map:0:100000:65536"});
    EXPECT_EQ(map.to_host(0), 100000U);
    EXPECT_EQ(map.to_client(165535), 65535U);
    EXPECT_EQ(map.to_client(0), 0U);
}

TEST(IdMap, many_squash_to_one) {
    const IdMap map =
        map_of({"squash-guest:0:1001:4294967295", "host:1001:1000:1", "squash-host:2000:7:100"});
    EXPECT_EQ(map.to_host(0), 1001U);
    EXPECT_EQ(map.to_host(4294967294U), 1001U);
    EXPECT_EQ(map.to_client(1001), 1000U);
    EXPECT_EQ(map.to_client(1002), 1002U);
    EXPECT_EQ(map.to_client(2099), 7U);
}

TEST(IdMap, forbidden_ids_are_refused_and_shown) {
    const IdMap map = map_of({"forbid-guest:0:1000", "map:1000:1000:1", "forbid-guest:1001:4294966294"});
    EXPECT_EQ(map.to_host(0).error(), Errno{EPERM});
    EXPECT_EQ(map.to_host(1000), 1000U);
    EXPECT_EQ(map.to_host(4294967294U).error(), Errno{EPERM});
    EXPECT_EQ(map.to_client(0), 0U);
}

TEST(IdMap, an_empty_range_is_no_mistake) {
    const IdMap map = map_of({"guest:0:5:0", "guest:0:5:1"});
    EXPECT_EQ(map.to_host(0), 5U);
}

TEST(IdMap, mistakes_name_the_rule_and_what_would_be_right) {
    const auto message = [](std::vector<std::string> rules) {
        const auto map = IdMap::parse(rules);
        return map ? std::string{"accepted"} : map.error().message;
    };
    EXPECT_EQ(message({"0:1000:1"}), "\"0:1000:1\" begins with no known word; it takes guest, host, map, "
                                     "squash-guest, squash-host or forbid-guest");
    EXPECT_EQ(message({"guest:0:10"}), "\"guest:0:10\" is not of the form guest:GUEST_ID:HOST_ID:COUNT");
    EXPECT_EQ(message({"forbid-guest:0:10:3"}),
              "\"forbid-guest:0:10:3\" is not of the form forbid-guest:GUEST_ID:COUNT");
    for (const char* const number : {"a", "", "-1", "4294967296", "0x10", "1 "})
        EXPECT_EQ(message({std::string{"map:"} + number + ":0:1"}),
                  std::string{"\"map:"} + number + ":0:1\" has \"" + number +
                      "\" for a number; it takes 0 to 4294967295");
    EXPECT_EQ(message({"guest:1:1000:4294967295"}),
              "\"guest:1:1000:4294967295\" reaches beyond the last id, 4294967294; give a smaller count");
    EXPECT_EQ(message({"squash-guest:0:4294967295:1"}),
              "\"squash-guest:0:4294967295:1\" reaches beyond the last id, 4294967294; give a smaller count");
    for (const auto& [first, second] :
         {std::pair{"guest:0:5:10", "forbid-guest:9:5"}, std::pair{"guest:5:5:10", "map:0:0:6"},
          std::pair{"guest:5:5:1", "squash-guest:0:0:100"}})
        EXPECT_EQ(message({first, second}), std::string{"\""} + second + "\" covers ids that \"" + first +
                                                "\" covers too; the number at the end is a count");
}

} // namespace
} // namespace viaduct::fs
