// SPDX-License-Identifier: Apache-2.0
#include "backend/passthrough/labels.h"

#include "unit/passthrough/share.h"

#include <sys/stat.h>
#include <sys/xattr.h>

namespace viaduct::passthrough {
namespace {

namespace stdfs = std::filesystem;

SecurityLabel labelled(const char* attribute, std::string_view value = "of_the_client") {
    const auto bytes = std::as_bytes(std::span{value});
    return {.name = attribute, .value = {bytes.begin(), bytes.end()}};
}

std::string attribute_of(const std::string& path, const char* attribute) {
    char value[64];
    const ssize_t bytes = ::lgetxattr(path.c_str(), attribute, value, sizeof value);
    return bytes < 0 ? Errno{errno}.name() : std::string(value, static_cast<std::size_t>(bytes));
}

TEST(Labels, that_of_selinux_is_the_kernel_s_business_where_it_has_one) {
    const TempDir dir;
    put(dir.path("create"), "");
    put(dir.path("made"), "");
    const Labels labels{dir.path("create")};
    const SecurityLabel selinux = labelled("security.selinux", "system_u:object_r:x");
    const Fd made{::open(dir.path("made").c_str(), O_PATH | O_CLOEXEC)};
    {
        const auto making = labels.begin(&selinux);
        ASSERT_TRUE(making);
        EXPECT_EQ(contents(dir.path("create")), "system_u:object_r:x");
        EXPECT_TRUE(making->finish(made.get()));
    }
    EXPECT_EQ(attribute_of(dir.path("made"), "security.selinux"), "ENODATA");

    const Labels none{dir.path("there_is_no_such_file")};
    EXPECT_EQ(none.begin(&selinux).error(), Errno{ENOENT});
    EXPECT_TRUE(none.begin(nullptr));
}

struct Labelling : testing::TestWithParam<InlineMode> {
    Share share{{.inline_mode = GetParam(), .xattr = true}};

    // Makes one of each kind under that label: what each call gave.
    std::vector<std::string> make(const SecurityLabel& label) {
        const Caller caller{.label = &label};
        const auto& fs = share.fs;
        std::vector<std::string> gave;
        const auto note = [&](const auto& result) {
            gave.push_back(result ? "done" : result.error().name());
        };
        note(share.call([&] { return fs->mkdir(caller, kRootNode, name("dir"), 0755, 0); }));
        note(share.call([&] { return fs->mknod(caller, kRootNode, name("node"), S_IFREG | 0644, 0, 0); }));
        note(share.call(
            [&] { return fs->create(caller, kRootNode, name("file"), O_CREAT | O_RDWR, 0644, 0, false); }));
        note(share.call([&] { return fs->symlink(caller, kRootNode, name("link"), "to"); }));
        note(share.call([&] { return fs->tmpfile(caller, kRootNode, O_RDWR, 0644, 0); }));
        return gave;
    }
    std::vector<std::string> there() const {
        std::vector<std::string> names;
        for (const auto& entry : stdfs::directory_iterator{share.dir.path()})
            names.push_back(entry.path().filename());
        std::ranges::sort(names);
        return names;
    }
};
INSTANTIATE_TEST_SUITE_P(Modes, Labelling, testing::Values(InlineMode::automatic, InlineMode::never),
                         [](const auto& info) {
                             return info.param == InlineMode::never ? "away" : "inline";
                         });

using Names = std::vector<std::string>;

TEST_P(Labelling, what_is_made_has_the_label) {
    put(share.dir.path("probe"), "");
    if (::setxattr(share.dir.path("probe").c_str(), "trusted.label", "x", 1, 0) != 0)
        GTEST_SKIP() << "needs CAP_SYS_ADMIN and trusted attributes: " << Errno{errno}.name();
    stdfs::remove(share.dir.path("probe"));
    EXPECT_EQ(make(labelled("trusted.label")), (Names{"done", "done", "done", "done", "done"}));
    for (const auto& child : {"dir", "node", "file", "link"})
        EXPECT_EQ(attribute_of(share.dir.path(child), "trusted.label"), "of_the_client") << child;
}

// An attribute of a user is none of a symbolic link.
TEST_P(Labelling, what_cannot_be_labelled_is_not_made) {
    EXPECT_EQ(make(labelled("user.label")), (Names{"done", "done", "done", "EPERM", "done"}));
    EXPECT_EQ(there(), (Names{"dir", "file", "node"}));
    for (const auto& child : there()) stdfs::remove(share.dir.path(child));
    EXPECT_EQ(make(labelled("none.x")), Names(5, "EOPNOTSUPP"));
    EXPECT_EQ(make(labelled("system.posix_acl_access")), Names(5, "EOPNOTSUPP"));
    EXPECT_EQ(there(), Names{});
}

} // namespace
} // namespace viaduct::passthrough
