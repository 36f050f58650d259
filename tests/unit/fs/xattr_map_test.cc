// SPDX-License-Identifier: Apache-2.0
#include "fs/xattr_map.h"

#include "fs/xattr_names.h"

#include <gtest/gtest.h>

#include <array>

namespace viaduct::fs {
namespace {

using Seen = std::optional<std::string_view>;

XattrMap map_of(std::string_view rules) {
    auto map = XattrMap::parse(rules);
    EXPECT_TRUE(map) << map.error().message;
    return *map;
}

TEST(XattrMap, prefix_of_the_client_is_put_in_front_and_the_server_keeps_its_names) {
    const auto map = map_of(":prefix:client:trusted.:user.virtiofs.:");
    EXPECT_EQ(map.to_host("trusted.overlay"), "user.virtiofs.trusted.overlay");
    EXPECT_EQ(map.to_client("user.virtiofs.trusted.overlay"), Seen{});
}

TEST(XattrMap, prefix_of_the_server_is_stripped) {
    const auto map = map_of(":prefix:server::user.virtiofs.:");
    EXPECT_EQ(map.to_client("user.virtiofs.trusted.x"), Seen{"trusted.x"});
    EXPECT_EQ(map.to_host("trusted.x").error(), Errno{EPERM});
}

TEST(XattrMap, prefix_for_all_works_both_ways) {
    const auto map = map_of(":prefix:all:trusted.:user.virtiofs.:");
    EXPECT_EQ(map.to_host("trusted.x"), "user.virtiofs.trusted.x");
    EXPECT_EQ(map.to_client("user.virtiofs.trusted.x"), Seen{"trusted.x"});
}

TEST(XattrMap, ok_lets_names_through_in_its_scope) {
    const auto client = map_of(":ok:client:user.::");
    EXPECT_EQ(client.to_host("user.x"), "user.x");
    EXPECT_EQ(client.to_host("trusted.x").error(), Errno{EPERM});
    const auto server = map_of(":ok:server::security.:");
    EXPECT_EQ(server.to_client("security.selinux"), Seen{"security.selinux"});
    EXPECT_EQ(server.to_client("user.x"), Seen{});
    const auto all = map_of(":ok:all:::");
    EXPECT_EQ(all.to_host("anything"), "anything");
    EXPECT_EQ(all.to_client("anything"), Seen{"anything"});
}

TEST(XattrMap, bad_hides_from_the_client_what_the_server_has) {
    const auto map = map_of(":bad:server::security.::ok:all:::");
    EXPECT_EQ(map.to_client("security.selinux"), Seen{});
    EXPECT_EQ(map.to_client("user.x"), Seen{"user.x"});
    EXPECT_EQ(map.to_host("security.selinux"), "security.selinux");
}

TEST(XattrMap, unsupported_is_bad_with_another_errno) {
    const auto map = map_of(":unsupported:all:security.:security.: :ok:all:::");
    EXPECT_EQ(map.to_host("security.selinux").error(), Errno{EOPNOTSUPP});
    EXPECT_EQ(map.to_client("security.selinux"), Seen{});
}

TEST(XattrMap, everything_under_one_prefix_leaves_no_way_around_it) {
    for (const char* const rules : {":prefix:all::user.virtiofs.::bad:all:::", ":map::user.virtiofs.:"}) {
        const auto map = map_of(rules);
        EXPECT_EQ(map.to_host("security.selinux"), "user.virtiofs.security.selinux");
        EXPECT_EQ(map.to_host("user.virtiofs.x"), "user.virtiofs.user.virtiofs.x");
        EXPECT_EQ(map.to_client("user.virtiofs.security.selinux"), Seen{"security.selinux"});
        EXPECT_EQ(map.to_client("security.selinux"), Seen{});
    }
}

TEST(XattrMap, one_namespace_under_a_prefix_lets_the_others_through) {
    for (const char* const rules : {"/prefix/all/trusted./user.virtiofs./\n"
                                    "    /bad/server//trusted./\n"
                                    "    /bad/client/user.virtiofs.//\n"
                                    "    /ok/all///\n",
                                    "/map/trusted./user.virtiofs./"}) {
        const auto map = map_of(rules);
        EXPECT_EQ(map.to_host("trusted.x"), "user.virtiofs.trusted.x");
        EXPECT_EQ(map.to_host("user.virtiofs.trusted.x").error(), Errno{EPERM});
        EXPECT_EQ(map.to_host("user.x"), "user.x");
        EXPECT_EQ(map.to_client("user.virtiofs.trusted.x"), Seen{"trusted.x"});
        EXPECT_EQ(map.to_client("trusted.x"), Seen{});
        EXPECT_EQ(map.to_client("user.x"), Seen{"user.x"});
    }
}

TEST(XattrMap, a_namespace_can_be_hidden_both_ways) {
    const auto map = map_of("/bad/all/security./security./ /ok/all///");
    EXPECT_EQ(map.to_host("security.selinux").error(), Errno{EPERM});
    EXPECT_EQ(map.to_client("security.selinux"), Seen{});
    EXPECT_EQ(map.to_host("user.x"), "user.x");
}

TEST(XattrMap, each_rule_may_have_its_own_separator) {
    const auto map = map_of(":bad:client:a:: ,ok,all,,,");
    EXPECT_EQ(map.to_host("a").error(), Errno{EPERM});
    EXPECT_EQ(map.to_host("b"), "b");
}

TEST(XattrMap, mistakes_name_the_rule_and_what_would_be_right) {
    const auto message = [](std::string_view rules) {
        const auto map = XattrMap::parse(rules);
        return map ? std::string{"accepted"} : map.error().message;
    };
    EXPECT_EQ(message(""), "there is no rule; \":map::user.virtiofs.:\" is a common one");
    EXPECT_EQ(message(" \n"), message(""));
    EXPECT_EQ(message(":ok:all::: :no:all:::"),
              "rule 2 has the type \"no\"; it takes prefix, ok, bad, unsupported or map");
    EXPECT_EQ(message(":ok:some:::"), "rule 1 has the scope \"some\"; it takes client, server or all");
    EXPECT_EQ(message(":map::user.::ok:all:::"), "rule 2 follows a map rule; that one comes last");
    for (const char* const rules :
         {":", ":ok", ":ok:all", ":ok:all:", ":ok:all::", ":map:a:b", ":ok:all:::x"})
        EXPECT_NE(message(rules).find("is not complete"), std::string::npos) << rules;
}

TEST(XattrNames, are_put_as_far_as_they_are_shown_and_fit) {
    using namespace std::literals;
    const auto all = "user.a\0trusted.b\0user.c\0"sv;
    const auto shown = [](std::string_view name) {
        return name.starts_with("user.") ? Seen{name.substr(5)} : Seen{};
    };
    std::array<std::byte, 8> room;
    const auto bytes = put_xattr_names(all, room, shown);
    ASSERT_EQ(bytes, 4U);
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(room.data()), 4), "a\0c\0"sv);
    EXPECT_EQ(put_xattr_names(all, {}, shown), 4U);
    EXPECT_EQ(put_xattr_names(all, std::span{room}.first(3), shown).error(), Errno{ERANGE});
    EXPECT_EQ(put_xattr_names("", room, shown), 0U);
}

} // namespace
} // namespace viaduct::fs
