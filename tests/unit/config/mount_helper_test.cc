// SPDX-License-Identifier: Apache-2.0
#include "config/mount_helper.h"

#include <gmock/gmock.h>

namespace viaduct::config {
namespace {

using testing::ElementsAre;

std::vector<std::string> words_of(std::vector<const char*> argv) {
    argv.insert(argv.begin(), "mount.fuse.viaduct");
    const auto words = mount_helper_words(static_cast<int>(argv.size()), argv.data());
    if (!words) return {"refused", words.error().message};
    return words->value_or(std::vector<std::string>{"nothing"});
}

TEST(MountHelper, is_known_by_its_name) {
    EXPECT_TRUE(is_mount_helper("/sbin/mount.fuse.viaduct"));
    EXPECT_TRUE(is_mount_helper("mount.viaduct"));
    EXPECT_FALSE(is_mount_helper("/usr/bin/viaduct"));
    EXPECT_FALSE(is_mount_helper("/mount.viaduct/viaduct"));
}

TEST(MountHelper, options_of_the_kernel_and_of_ours_are_told_apart) {
    EXPECT_THAT(words_of({"/srv", "/mnt", "-n", "-o", "ro,allow_other,cache=never,max_read=4096,no-xattr"}),
                ElementsAre("--daemon", "/srv", "/mnt", "-o", "ro", "-o", "allow_other", "--cache", "never",
                            "-o", "max_read=4096", "--no-xattr"));
}

TEST(MountHelper, options_of_fstab_are_left_out) {
    EXPECT_THAT(
        words_of({"/srv", "/mnt", "-sv", "-o", "rw,noauto,user,nofail,_netdev,x-systemd.automount,comment=a,",
                  "-t", "fuse.viaduct"}),
        ElementsAre("--daemon", "/srv", "/mnt", "-o", "rw"));
}

TEST(MountHelper, nothing_is_done_when_only_asked) {
    EXPECT_THAT(words_of({"/srv", "/mnt", "-fn"}), ElementsAre("nothing"));
}

TEST(MountHelper, what_it_does_not_know_is_refused) {
    EXPECT_EQ(words_of({"/srv", "/mnt", "-x"}).front(), "refused");
    EXPECT_EQ(words_of({"/srv", "/mnt", "-o"}).front(), "refused");
    EXPECT_EQ(words_of({"/srv", "/mnt", "-N", "/proc/1/ns/mnt"}).front(), "refused");
}

} // namespace
} // namespace viaduct::config
