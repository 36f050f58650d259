// SPDX-License-Identifier: Apache-2.0
//
// The mount against the directory itself: the same calls on both, and what each gave compared.
#pragma once

#include "support/mounted_share.h"
#include "support/transcript.h"

#include <gtest/gtest.h>

namespace viaduct::test {

// The parameter is the cache mode; "writeback" and "mmap" are auto and never with that option.
class Truth : public testing::TestWithParam<const char*> {
protected:
    void SetUp() override {
        if (const std::string reason = no_mounts_because(); !reason.empty()) GTEST_SKIP() << reason;
        ::umask(022);
        // For other users.
        for (const auto& path : {mounted.folder().path(), mounted.share(), mounted.mountpoint()})
            ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
    }
    void start(std::vector<std::string> options = {}) {
        const char* const mode = mode_is("writeback") ? "auto" : mode_is("mmap") ? "never" : GetParam();
        for (const char* const word : {"--cache", mode, "-o", "suid,dev,allow_other"})
            options.emplace_back(word);
        if (mode_is("writeback")) options.emplace_back("--writeback");
        if (mode_is("mmap")) options.emplace_back("--allow-mmap");
        ASSERT_TRUE(mounted.mount(options));
        native = mounted.folder().make_folder("native");
        behind = mounted.in_share("work");
        through = mounted.in_mount("work");
        ASSERT_EQ(::mkdir(through.c_str(), 0755), 0);
        for (const auto& path : {native, through}) ASSERT_EQ(::chmod(path.c_str(), 0777), 0);
    }
    bool mode_is(std::string_view mode) const { return mode == GetParam(); }
    // Is what others change in the directory seen by and by?
    bool looks_again() const { return mode_is("never") || mode_is("mmap") || mode_is("auto"); }

    // `steps(folder, transcript)` in a folder of the host and in one of the mount.
    template <class Steps> void compare(Steps steps) {
        if (native.empty()) ASSERT_NO_FATAL_FAILURE(start());
        Transcript host;
        Transcript mount;
        steps(native, host);
        steps(through, mount);
        EXPECT_FALSE(host.text().empty());
        EXPECT_EQ(mount.text(), host.text());
        EXPECT_EQ(tree_text(through), tree_text(native));
        EXPECT_EQ(tree_text(behind), tree_text(native));
    }

    MountedShare mounted;
    std::string native;  // a folder beside the share, on the same file system
    std::string behind;  // a folder in the share ...
    std::string through; // ... as it is in the mount
};

inline bool put(const std::string& path, std::string_view text, mode_t mode = 0644) {
    const Fd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode)};
    return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

inline auto each_cache_mode() {
    return testing::Values("never", "metadata", "auto", "always", "writeback", "mmap");
}
inline std::string cache_mode_name(const testing::TestParamInfo<const char*>& mode) {
    return mode.param;
}

} // namespace viaduct::test
