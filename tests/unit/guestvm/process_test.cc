// SPDX-License-Identifier: Apache-2.0
#include "guestvm/process.h"

#include "guestvm/daemon.h"
#include "guestvm/files.h"
#include "guestvm/temp_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace viaduct::guestvm {
namespace {

using namespace std::chrono_literals;

Child shell(const std::string& script) {
    auto child = Child::start({.argv = {"sh", "-c", script}, .kept_fds = {}});
    EXPECT_TRUE(child);
    return std::move(*child);
}

TEST(Process, exit_statuses_and_signals_come_back) {
    EXPECT_EQ(shell("exit 7").wait(), 7);
    EXPECT_EQ(shell("kill -9 $$").wait(), 137);
}

TEST(Process, program_that_does_not_exist_is_a_failure_of_start) {
    const auto child = Child::start({.argv = {"/nowhere/program"}, .kept_fds = {}});
    ASSERT_FALSE(child);
    EXPECT_EQ(child.error().message, "cannot start /nowhere/program: ENOENT (No such file or directory)");
}

TEST(Process, child_has_only_the_descriptors_it_was_given) {
    const Fd given{::open("/dev/null", O_RDWR | O_CLOEXEC)};
    const Fd leaky{::open("/dev/null", O_RDWR)};
    const auto fds = "test -e /proc/self/fd/" + std::to_string(given.get()) + " && ! test -e /proc/self/fd/" +
                     std::to_string(leaky.get());
    auto child = Child::start({.argv = {"sh", "-c", fds}, .kept_fds = {given.get()}});
    ASSERT_TRUE(child);
    EXPECT_EQ(child->wait(), 0);
}

TEST(Process, wait_has_a_limit_and_end_kills_what_ignores_sigterm) {
    std::array<int, 2> pipe_fds;
    ASSERT_EQ(::pipe2(pipe_fds.data(), O_CLOEXEC), 0);
    const Fd ready{pipe_fds[0]};
    const Fd write_end{pipe_fds[1]};
    auto child = Child::start({.argv = {"sh", "-c", "trap '' TERM; echo; exec sleep 1000"},
                               .stdout_fd = write_end.get(),
                               .kept_fds = {}});
    ASSERT_TRUE(child);
    char line = 0;
    ASSERT_EQ(::read(ready.get(), &line, 1), 1);
    EXPECT_FALSE(child->wait(1ms));
    EXPECT_EQ(child->end(50ms), 137);
    EXPECT_EQ(child->end(50ms), 137);
}

TEST(Process, child_dies_with_its_object) {
    Fd pidfd;
    {
        const auto child = shell("exec sleep 1000");
        pidfd = Fd{::fcntl(child.pidfd().get(), F_DUPFD_CLOEXEC, 3)};
    }
    pollfd ended{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&ended, 1, 0), 1);
}

TEST(Process, output_is_collected_and_failure_is_one) {
    EXPECT_EQ(output_of({"sh", "-c", "printf abc"}).value_or(""), "abc");
    EXPECT_FALSE(output_of({"sh", "-c", "exit 3"}));
}

TEST(Daemon, one_that_ends_before_it_listens_is_reported_at_once) {
    const TempDir scratch = *TempDir::create();
    const auto daemon = DaemonProcess::start({"sh", "-c", "exit 3"}, scratch.file("s"));
    ASSERT_FALSE(daemon);
    EXPECT_NE(daemon.error().message.find("ended with status 3 before it listened"), std::string::npos);
}

TEST(Daemon, one_that_never_listens_is_given_up) {
    const TempDir scratch = *TempDir::create();
    const auto daemon = DaemonProcess::start({"sleep", "1000"}, scratch.file("s"), 20ms);
    ASSERT_FALSE(daemon);
    EXPECT_NE(daemon.error().message.find("does not listen"), std::string::npos);
}

TEST(Daemon, a_listener_is_told_from_a_socket_that_is_only_bound) {
    const std::string head =
        "Num       RefCount Protocol Flags    Type St Inode Path\n0000000000000000: 00000002 00000000 ";
    EXPECT_TRUE(listens(head + "00010000 0001 01 123 /run/s\n", "/run/s", {}));
    EXPECT_FALSE(listens(head + "00000000 0001 01 123 /run/s\n", "/run/s", {"123"}));
    EXPECT_FALSE(listens(head + "00010000 0001 01 12 /run/other\n" + head + "00000000 0001 01 123 /run/s\n",
                         "/run/s", {"12", "123"}));
}

// Between the moment at which bind() makes the file and the one at which the table has it.
TEST(Daemon, a_socket_that_is_not_in_the_table_is_no_listener_unless_one_of_the_daemon_s_own_listens) {
    const std::string head =
        "Num       RefCount Protocol Flags    Type St Inode Path\n0000000000000000: 00000002 00000000 ";
    EXPECT_FALSE(listens("", "/run/s", {"123"}));
    EXPECT_FALSE(listens(head + "00010000 0001 01 123 /run/other\n", "/run/s", {"12", "23"}));
    EXPECT_FALSE(listens(head + "00000000 0001 01 123 /run/other\n", "/run/s", {"123"}));
    EXPECT_TRUE(listens(head + "00010000 0001 01 123 /run/other\n", "/run/s", {"12", "123"})); // renamed
}

TEST(Daemon, the_sockets_of_a_process_are_found_by_inode) {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const Fd ends[] = {Fd{pair[0]}, Fd{pair[1]}};
    struct stat facts{};
    ASSERT_EQ(::fstat(pair[0], &facts), 0);
    EXPECT_THAT(socket_inodes(::getpid()), testing::Contains(std::to_string(facts.st_ino)));
}

} // namespace
} // namespace viaduct::guestvm
