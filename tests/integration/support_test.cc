// SPDX-License-Identifier: Apache-2.0
//
// The tests' own tools: a FUSE server that holds requests, an ext4 on top of it.
#include "support/fuse_server.h"
#include "support/mounts.h"
#include "support/temp_dir.h"
#include "support/waiting.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace viaduct::test {
namespace {

TEST(TestFuseServer, a_read_waits_until_it_is_let_go) {
    const TempDir folder;
    const auto server = TestFuseServer::mount(folder.make_folder("mount"));
    if (!server) GTEST_SKIP() << server.error().message;
    (*server)->set_content("file", "text");
    (*server)->hold(FUSE_READ);
    const Fd fd{::open((*server)->file("file").c_str(), O_RDONLY | O_CLOEXEC)};
    ASSERT_TRUE(fd);
    std::atomic<ssize_t> got{-1};
    std::string buffer(10, '\0');
    std::thread reader{[&] { got = ::read(fd.get(), buffer.data(), buffer.size()); }};
    EXPECT_TRUE((*server)->wait_for_held(FUSE_READ, 1, kPatience));
    EXPECT_EQ(got, -1);
    (*server)->set_content("file", "other"); // what is right when it is let go
    (*server)->let_go(FUSE_READ);
    reader.join();
    EXPECT_EQ(got, 5);
    EXPECT_EQ(buffer.substr(0, 5), "other");
}

TEST(TestFuseServer, its_end_ends_what_is_held) {
    const TempDir folder;
    const auto server = TestFuseServer::mount(folder.make_folder("mount"));
    if (!server) GTEST_SKIP() << server.error().message;
    (*server)->set_content("file", "text");
    (*server)->hold(FUSE_LOOKUP);
    std::atomic<int> error{0};
    std::thread looker{[&] {
        struct stat status;
        error = ::stat((*server)->file("file").c_str(), &status) == 0 ? 0 : errno;
    }};
    EXPECT_TRUE((*server)->wait_for_held(FUSE_LOOKUP, 1, kPatience));
    (*server)->abort();
    looker.join();
    EXPECT_EQ(error, ECONNABORTED);
}

TEST(TestFuseServer, files_are_listed_written_and_removed) {
    const TempDir folder;
    const auto server = TestFuseServer::mount(folder.make_folder("mount"));
    if (!server) GTEST_SKIP() << server.error().message;
    {
        std::ofstream stream{(*server)->file("new")};
        stream << "written";
    }
    EXPECT_EQ((*server)->content("new"), "written");
    EXPECT_EQ(::unlink((*server)->file("new").c_str()), 0);
    EXPECT_NE(::access((*server)->file("new").c_str(), F_OK), 0);
}

TEST(LoopMount, a_direct_read_of_an_ext4_waits_for_the_server_under_it) {
    const TempDir folder;
    auto image = make_ext4_image(16 << 20);
    if (!image) GTEST_SKIP() << image.error().message;
    const auto server = TestFuseServer::mount(folder.make_folder("fuse"));
    if (!server) GTEST_SKIP() << server.error().message;
    (*server)->set_content("image", *std::move(image));
    const auto disk = LoopMount::mount((*server)->file("image"), folder.make_folder("disk"));
    if (!disk) GTEST_SKIP() << disk.error().message;
    const std::string path = (*disk)->path() + "/file";
    {
        std::ofstream stream{path};
        stream << std::string(8192, 'x');
    }
    const Fd fd{::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC)};
    ASSERT_TRUE(fd);
    ASSERT_EQ(::fsync(fd.get()), 0);
    (*server)->hold(FUSE_READ);
    std::atomic<ssize_t> got{-1};
    auto* const buffer = static_cast<char*>(std::aligned_alloc(4096, 8192));
    std::thread reader{[&] { got = ::read(fd.get(), buffer, 8192); }};
    EXPECT_TRUE((*server)->wait_for_held(FUSE_READ, 1, kPatience));
    EXPECT_EQ(got, -1);
    (*server)->let_go(FUSE_READ);
    reader.join();
    EXPECT_EQ(got, 8192);
    EXPECT_EQ(buffer[8191], 'x');
    std::free(buffer);
}

} // namespace
} // namespace viaduct::test
