// SPDX-License-Identifier: Apache-2.0
#include "backend/passthrough/mountinfo.h"

#include <gtest/gtest.h>

namespace viaduct::passthrough {
namespace {

TEST(Mountinfo, lines_have_id_point_and_type_whatever_optional_fields_there_are) {
    MountLines lines{"36 35 98:0 /root /a\\040point rw,noatime master:1 shared:2 - ext3 /dev/sda1 rw\n"
                     "37 36 0:40 / /b rw - fuse.some x rw\n"};
    const auto first = lines.next();
    ASSERT_TRUE(first);
    EXPECT_EQ(first->id, 36U);
    EXPECT_EQ(unescaped(first->point), "/a point");
    EXPECT_EQ(first->type, "ext3");
    const auto second = lines.next();
    ASSERT_TRUE(second);
    EXPECT_EQ(second->id, 37U);
    EXPECT_EQ(second->point, "/b");
    EXPECT_EQ(second->type, "fuse.some");
    EXPECT_FALSE(lines.next());
}

TEST(Mountinfo, a_line_that_is_cut_has_no_type) {
    MountLines lines{"36 35 98:0 /root /point rw,noatime"};
    const auto line = lines.next();
    ASSERT_TRUE(line);
    EXPECT_EQ(line->id, 36U);
    EXPECT_EQ(line->point, "/point");
    EXPECT_EQ(line->type, "");
    EXPECT_FALSE(lines.next());
}

TEST(Mountinfo, the_root_of_this_machine_is_in_its_own) {
    const auto text = read_mountinfo();
    ASSERT_TRUE(text);
    MountLines lines{*text};
    bool found = false;
    while (const auto line = lines.next()) found = found || line->point == "/";
    EXPECT_TRUE(found);
}

} // namespace
} // namespace viaduct::passthrough
