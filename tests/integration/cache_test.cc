// SPDX-License-Identifier: Apache-2.0
//
// What the client may keep, and for how long: time-outs of names, attributes and absences, and write-back.
#include "driver/fuse_client.h"
#include "support/served_share.h"
#include "support/truth.h"
#include "support/waiting.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <sys/mman.h>

namespace viaduct::test {
namespace {

namespace stdfs = std::filesystem;
using testing::HasSubstr;

class Cache : public testing::Test {
protected:
    void SetUp() override {
        if (const std::string reason = no_mounts_because(); !reason.empty()) GTEST_SKIP() << reason;
    }
    mode_t mode_of(const std::string& name) const {
        struct stat st{};
        return ::stat(mounted.in_mount(name).c_str(), &st) == 0 ? st.st_mode & 07777 : 0;
    }
    bool exists(const std::string& name) const { return stdfs::exists(mounted.in_mount(name)); }

    MountedShare mounted;
};

TEST_F(Cache, absence_is_believed_only_as_long_as_was_asked) {
    ASSERT_TRUE(mounted.mount({"--cache", "always"}));
    EXPECT_FALSE(exists("later"));
    ASSERT_TRUE(put(mounted.in_share("later"), "x"));
    EXPECT_TRUE(exists("later"));
    ASSERT_TRUE(mounted.unmount());
    mounted.daemon().wait(kPatience);

    ASSERT_TRUE(mounted.mount({"--cache", "never", "--negative-timeout", "1h"}));
    EXPECT_FALSE(exists("much-later"));
    ASSERT_TRUE(put(mounted.in_share("much-later"), "x"));
    EXPECT_FALSE(exists("much-later"));
    // The client's own work is seen at once, and so is what was never asked for.
    EXPECT_FALSE(exists("own"));
    ASSERT_TRUE(put(mounted.in_mount("own"), "x"));
    EXPECT_TRUE(exists("own"));
    ASSERT_TRUE(put(mounted.in_share("new"), "x"));
    EXPECT_TRUE(exists("new"));
    ASSERT_TRUE(mounted.unmount());
    mounted.daemon().wait(kPatience);

    ASSERT_TRUE(mounted.mount({"-o", "negative_timeout=200ms"}));
    EXPECT_FALSE(exists("soon"));
    ASSERT_TRUE(put(mounted.in_share("soon"), "x"));
    EXPECT_TRUE(wait_until([&] { return exists("soon"); }, kPatience));
}

TEST_F(Cache, names_and_attributes_have_time_outs_of_their_own) {
    ASSERT_TRUE(put(mounted.in_share("file"), "x", 0600));
    ASSERT_TRUE(mounted.mount({"--cache", "never", "--attr-timeout", "1h", "--entry-timeout", "1h"}));
    EXPECT_EQ(mode_of("file"), 0600U);
    ASSERT_EQ(::chmod(mounted.in_share("file").c_str(), 0640), 0);
    EXPECT_EQ(mode_of("file"), 0600U);
    ASSERT_EQ(::rename(mounted.in_share("file").c_str(), mounted.in_share("other").c_str()), 0);
    EXPECT_TRUE(exists("file"));
    ASSERT_TRUE(mounted.unmount());
    mounted.daemon().wait(kPatience);

    ASSERT_TRUE(mounted.mount({"--cache", "always", "--attr-timeout", "0", "--entry-timeout", "0"}));
    EXPECT_EQ(mode_of("other"), 0640U);
    ASSERT_EQ(::chmod(mounted.in_share("other").c_str(), 0600), 0);
    EXPECT_EQ(mode_of("other"), 0600U);
    ASSERT_EQ(::rename(mounted.in_share("other").c_str(), mounted.in_share("file").c_str()), 0);
    EXPECT_FALSE(exists("other"));
}

TEST_F(Cache, written_data_waits_in_the_client_until_it_is_asked_for) {
    ASSERT_TRUE(mounted.mount({"--writeback"}));
    const Fd file{::open(mounted.in_mount("file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)};
    ASSERT_TRUE(file);
    ASSERT_EQ(::pwrite(file.get(), "text", 4, 0), 4);
    EXPECT_EQ(stdfs::file_size(mounted.in_share("file")), 0U);
    EXPECT_EQ(stdfs::file_size(mounted.in_mount("file")), 4U);
    ASSERT_EQ(::fsync(file.get()), 0);
    EXPECT_EQ(contents_of(mounted.in_share("file")), "text");
    // Written back by the end of the daemon too.
    ASSERT_EQ(::pwrite(file.get(), "TEXT", 4, 4), 4);
    mounted.daemon().send_signal(SIGTERM);
    EXPECT_TRUE(wait_until([&] { return contents_of(mounted.in_share("file")) == "textTEXT"; }, kPatience));
}

TEST_F(Cache, write_back_without_a_cache_is_left_out_and_said) {
    ASSERT_TRUE(mounted.mount({"--writeback", "--cache", "metadata"}));
    EXPECT_THAT(mounted.daemon().log(), HasSubstr("--writeback"));
    const Fd file{::open(mounted.in_mount("file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)};
    ASSERT_EQ(::pwrite(file.get(), "text", 4, 0), 4);
    EXPECT_EQ(contents_of(mounted.in_share("file")), "text");
}

// A daemon that may not go past permissions cannot read what its user may only write.
TEST_F(Cache, file_that_cannot_be_read_is_written_all_the_same) {
    if (::access("/usr/bin/setpriv", X_OK) != 0) GTEST_SKIP() << "there is no setpriv (package util-linux)";
    ASSERT_TRUE(put(mounted.in_share("file"), "0123456789"));
    ASSERT_EQ(::chmod(mounted.in_share("file").c_str(), 0200), 0);
    ASSERT_TRUE(mounted.mount({"--writeback"}, {"setpriv", "--bounding-set=-dac_override,-dac_read_search"}));
    const std::string path = mounted.in_mount("file");
    const Fd file{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
    ASSERT_TRUE(file) << Errno{errno}.name();
    EXPECT_EQ(::pwrite(file.get(), "abc", 3, 4), 3);
    EXPECT_EQ(::fsync(file.get()), 0);
    EXPECT_EQ(contents_of(mounted.in_share("file")), "0123abc789");
    EXPECT_FALSE(Fd{::open(path.c_str(), O_RDWR | O_CLOEXEC)});
    EXPECT_EQ(errno, EACCES);
}

TEST_F(Cache, file_that_is_not_kept_can_be_mapped_when_that_is_allowed) {
    for (const bool allowed : {false, true}) {
        ASSERT_TRUE(put(mounted.in_share("file"), std::string(4096, 'a')));
        std::vector<std::string> options{"--cache", "never"};
        if (allowed) options.emplace_back("--allow-mmap");
        ASSERT_TRUE(mounted.mount(options));
        {
            const Fd file{::open(mounted.in_mount("file").c_str(), O_RDWR | O_CLOEXEC)};
            void* const map = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
            if (allowed && map == MAP_FAILED && errno == ENODEV)
                GTEST_SKIP() << "this kernel maps no file that is read directly (before Linux 6.6)";
            EXPECT_EQ(map != MAP_FAILED, allowed);
            if (map != MAP_FAILED) {
                static_cast<char*>(map)[1] = 'b';
                EXPECT_EQ(::msync(map, 4096, MS_SYNC), 0);
                EXPECT_EQ(::munmap(map, 4096), 0);
                EXPECT_EQ(contents_of(mounted.in_share("file")).substr(0, 3), "aba");
            }
        }
        ASSERT_TRUE(mounted.unmount());
        mounted.daemon().wait(kPatience);
    }
}

// What INIT settles, as a guest of a device sees it.
struct InitCase {
    const char* name;
    std::vector<std::string> options;
    std::uint64_t present;
    std::uint64_t absent;
};
void PrintTo(const InitCase& init, std::ostream* out) {
    *out << init.name;
}
class CacheInit : public testing::TestWithParam<InitCase> {};

TEST_P(CacheInit, asks_the_client_for_what_was_chosen) {
    ServedShare served{GetParam().options};
    ASSERT_TRUE(served.runs());
    auto device = driver::Device::connect({.socket = served.socket()});
    ASSERT_TRUE(device) << device.error().message;
    driver::FuseClient client{**device};
    const auto reply = client.init(~0ULL);
    ASSERT_TRUE(reply);
    const std::uint64_t flags = reply->flags | static_cast<std::uint64_t>(reply->flags2) << 32U;
    EXPECT_EQ(flags & GetParam().present, GetParam().present);
    EXPECT_EQ(flags & GetParam().absent, 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Options, CacheInit,
    testing::Values(
        InitCase{"plain", {}, FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO, FUSE_WRITEBACK_CACHE},
        InitCase{"readdirplus_on", {"--readdirplus", "on"}, FUSE_DO_READDIRPLUS, FUSE_READDIRPLUS_AUTO},
        InitCase{"readdirplus_off", {"--readdirplus=off"}, 0, FUSE_DO_READDIRPLUS},
        InitCase{"no_readdirplus", {"--no-readdirplus"}, 0, FUSE_DO_READDIRPLUS},
        InitCase{"never", {"--cache=never"}, 0, FUSE_DO_READDIRPLUS},
        InitCase{"never_but_names", {"--cache=never", "--entry-timeout=1"}, FUSE_DO_READDIRPLUS, 0},
        InitCase{"never_but_readdirplus", {"--cache=never", "--readdirplus=on"}, FUSE_DO_READDIRPLUS, 0},
        InitCase{"writeback", {"--writeback"}, FUSE_WRITEBACK_CACHE, FUSE_DIRECT_IO_ALLOW_MMAP},
        InitCase{"writeback_without_cache", {"--writeback", "--cache=never"}, 0, FUSE_WRITEBACK_CACHE},
        InitCase{"allow_mmap", {"--allow-mmap"}, FUSE_DIRECT_IO_ALLOW_MMAP, 0}),
    [](const auto& init) { return init.param.name; });

} // namespace
} // namespace viaduct::test
