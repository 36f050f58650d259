// SPDX-License-Identifier: Apache-2.0
//
// INTERRUPT and the stop of a queue end requests that wait: for a server mounted in the share, and for a
// delay.
#include "driver/device.h"
#include "driver/fuse_client.h"
#include "support/daemon.h"
#include "support/fuse_server.h"
#include "support/mounted_share.h"
#include "support/mounts.h"
#include "support/temp_dir.h"
#include "support/waiting.h"

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <optional>
#include <sys/wait.h>

namespace viaduct {
namespace {

using namespace std::chrono_literals;
using driver::FuseClient;

constexpr auto kLimit = test::kPatience;

// "local" in the share and, below "mounted", a server that ends what is interrupted; two queues and workers.
class Interrupts : public testing::TestWithParam<const char*> {
protected:
    void mount_server(bool direct_io = true) {
        test::use_private_mounts();
        folder_.write("share/local", std::string(4096, 'l'));
        auto mounted = test::TestFuseServer::mount(
            folder_.make_folder("share/mounted"),
            {.direct_io = direct_io, .valid_seconds = 60, .heeds_interrupts = true, .async_dio = false});
        if (!mounted) GTEST_SKIP() << mounted.error().message;
        server_ = std::move(*mounted);
        server_->set_content("slow", std::string(8192, 's'));
    }
    void start(const std::vector<std::string>& more = {}) {
        std::vector<std::string> argv = {test::program("viaduct"),
                                         "serve",
                                         "--share",
                                         share_,
                                         "--socket",
                                         socket_,
                                         "--queues",
                                         "2",
                                         "--workers",
                                         "2",
                                         "--ring",
                                         GetParam()};
        argv.insert(argv.end(), more.begin(), more.end());
        auto started = test::Daemon::start({.argv = argv, .socket = socket_});
        ASSERT_TRUE(started) << started.error().message;
        daemon_ = std::move(*started);
        auto connected = driver::Device::connect({.socket = socket_, .request_queues = 2});
        ASSERT_TRUE(connected) << connected.error().message;
        device_ = std::move(*connected);
        client_.emplace(*device_);
        ASSERT_TRUE(client_->init());
    }
    void open_slow() {
        const auto entry = client_->lookup_path("mounted/slow");
        ASSERT_TRUE(entry) << entry.error().name();
        node_ = entry->nodeid;
        const auto handle = client_->open(node_, O_RDONLY);
        ASSERT_TRUE(handle) << handle.error().name();
        handle_ = *handle;
    }
    driver::CallOptions open_call() {
        auto options = client_->call_options(FUSE_OPEN, node_);
        options.add(fuse_open_in{.flags = O_RDONLY});
        options.reply_bytes_max = sizeof(fuse_open_out);
        return options;
    }
    void expect_interrupted(driver::Call& call) {
        ASSERT_TRUE(client_->interrupt(call));
        const auto reply = call.wait(driver::after(kLimit));
        ASSERT_FALSE(reply);
        EXPECT_EQ(reply.error(), Errno{EINTR});
    }
    void expect_served(std::uint32_t queue) {
        auto beside = client_->on_queue(queue);
        const auto entry = beside.lookup(FuseClient::kRoot, "local");
        ASSERT_TRUE(entry) << entry.error().name();
        const auto handle = beside.open(entry->nodeid, O_RDONLY);
        ASSERT_TRUE(handle) << handle.error().name();
        EXPECT_EQ(beside.read(entry->nodeid, *handle, 0, 4096), std::string(4096, 'l'));
        EXPECT_TRUE(beside.release(entry->nodeid, *handle));
    }

    const test::TempDir folder_;
    const std::string share_ = folder_.make_folder("share");
    const std::string socket_ = folder_.file("socket");
    std::unique_ptr<test::TestFuseServer> server_;
    std::unique_ptr<test::Daemon> daemon_;
    std::unique_ptr<driver::Device> device_;
    std::optional<FuseClient> client_;
    std::uint64_t node_ = 0;
    std::uint64_t handle_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Rings, Interrupts, testing::Values("io_uring", "poll"),
                         [](const auto& info) { return std::string{info.param}; });

TEST_P(Interrupts, end_a_read_that_waits_for_a_server_and_nothing_else) {
    mount_server();
    if (IsSkipped()) return;
    start();
    open_slow();
    server_->hold(FUSE_READ);
    const auto first = client_->on_queue(0).begin_read(node_, handle_, 0, 4096);
    const auto second = client_->on_queue(1).begin_read(node_, handle_, 0, 4096);
    ASSERT_TRUE(first && second);
    ASSERT_TRUE(server_->wait_for_held(FUSE_READ, 2, kLimit));
    expect_interrupted(**second);
    EXPECT_FALSE((*first)->ended());
    for (const std::uint32_t queue : {0U, 1U}) expect_served(queue);
    server_->let_go_all();
    const auto reply = (*first)->wait(driver::after(kLimit));
    ASSERT_TRUE(reply) << reply.error().name();
    EXPECT_EQ(reply->size(), 4096U);
}

TEST_P(Interrupts, end_an_open_that_waits_on_a_helper) {
    mount_server();
    if (IsSkipped()) return;
    start();
    open_slow();
    server_->hold(FUSE_OPEN);
    const auto waiting = client_->begin(open_call());
    ASSERT_TRUE(waiting);
    ASSERT_TRUE(server_->wait_for_held(FUSE_OPEN, 1, kLimit));
    expect_interrupted(**waiting);
    server_->let_go_all();
    EXPECT_TRUE(client_->open(node_, O_RDONLY));
}

// The page cache waits for its pages whatever signal comes; the answer is the read's own.
TEST_P(Interrupts, of_a_read_of_the_page_cache_change_nothing) {
    mount_server(false);
    if (IsSkipped()) return;
    start();
    open_slow();
    server_->hold(FUSE_READ);
    const auto waiting = client_->begin_read(node_, handle_, 0, 4096);
    ASSERT_TRUE(waiting);
    ASSERT_TRUE(server_->wait_for_held(FUSE_READ, 1, kLimit));
    ASSERT_TRUE(client_->interrupt(**waiting));
    ASSERT_TRUE(device_->hiprio().drain(driver::after(kLimit)));
    for (const std::uint32_t queue : {0U, 1U}) expect_served(queue);
    server_->let_go_all();
    const auto reply = (*waiting)->wait(driver::after(kLimit));
    EXPECT_TRUE(reply || reply.error() == Errno{EINTR});
}

TEST_P(Interrupts, of_requests_that_are_answered_or_unknown_do_no_harm) {
    mount_server();
    if (IsSkipped()) return;
    start();
    for (std::uint64_t unique = 2; unique < 2000; unique += 2) {
        auto interrupt = client_->call_options(FUSE_INTERRUPT, 0);
        interrupt.add(fuse_interrupt_in{.unique = unique});
        interrupt.no_reply = true;
        ASSERT_TRUE(client_->begin(interrupt));
        if (unique % 100 == 0) expect_served(unique / 100 % 2);
    }
    ASSERT_TRUE(device_->hiprio().drain(driver::after(kLimit)));
    expect_served(0);
}

TEST_P(Interrupts, by_the_thousand_leave_nothing) {
    mount_server();
    if (IsSkipped()) return;
    start();
    open_slow();
    expect_served(0);
    server_->hold(FUSE_OPEN);
    server_->hold(FUSE_READ);
    const std::size_t fds = daemon_->open_fds();
    for (int round = 0; round < 20; ++round) {
        std::vector<std::shared_ptr<driver::Call>> calls;
        for (std::uint32_t index = 0; index < 50; ++index) {
            auto on = client_->on_queue(index % 2);
            const auto call = index % 5 == 0 ? on.begin(open_call()) : on.begin_read(node_, handle_, 0, 4096);
            ASSERT_TRUE(call);
            calls.push_back(*call);
        }
        for (const auto& call : calls) expect_interrupted(*call);
    }
    EXPECT_EQ(server_->held(FUSE_OPEN), 0U);
    EXPECT_EQ(server_->held(FUSE_READ), 0U);
    server_->let_go_all();
    expect_served(0);
    EXPECT_TRUE(test::wait_until([&] { return daemon_->open_fds() <= fds + 2; }, kLimit))
        << daemon_->open_fds() << " of " << fds;
}

TEST_P(Interrupts, end_a_delay) {
    mount_server();
    if (IsSkipped()) return;
    start({"--faults", "statfs:delay=3600000"});
    auto options = client_->call_options(FUSE_STATFS, FuseClient::kRoot);
    options.reply_bytes_max = sizeof(fuse_statfs_out);
    const auto waiting = client_->begin(options);
    ASSERT_TRUE(waiting);
    expect_interrupted(**waiting);
}

TEST_P(Interrupts, stopping_a_queue_calls_off_what_waits_and_the_device_lives) {
    mount_server();
    if (IsSkipped()) return;
    start({"--drain-timeout", "1000"});
    open_slow();
    server_->hold(FUSE_READ);
    const auto waiting = client_->on_queue(0).begin_read(node_, handle_, 0, 4096);
    const auto other = client_->on_queue(1).begin_read(node_, handle_, 0, 4096);
    ASSERT_TRUE(waiting && other);
    ASSERT_TRUE(server_->wait_for_held(FUSE_READ, 2, kLimit));
    EXPECT_TRUE(device_->stop_queue(1)); // the first request queue
    EXPECT_EQ(server_->held(FUSE_READ), 1U);
    EXPECT_FALSE((*other)->ended());
    server_->let_go_all();
    EXPECT_TRUE((*other)->wait(driver::after(kLimit)));
    expect_served(1);
    EXPECT_EQ(daemon_->log().find("device is dead"), std::string::npos) << daemon_->log();
}

// A program that is in a call on a mount of ours.
class InterruptedProgram : public testing::Test {
protected:
    void SetUp() override {
        if (const std::string reason = test::no_mounts_because(); !reason.empty()) GTEST_SKIP() << reason;
        mounted_.folder().write("share/file", "text");
    }
    // Forks; the child opens and reads the file, and tells its errno (0: none) by its exit status.
    pid_t run(bool with_handler) {
        const std::string path = mounted_.in_mount("file");
        struct sigaction action{};
        action.sa_handler = [](int) {};
        struct sigaction before{};
        if (with_handler) ::sigaction(SIGINT, &action, &before); // before there is a child to be met by it
        const pid_t child = ::fork();
        if (child != 0) {
            if (with_handler) ::sigaction(SIGINT, &before, nullptr);
            return child;
        }
        const int fd = ::open(path.c_str(), O_RDONLY);
        char byte = 0;
        if (fd < 0 || ::read(fd, &byte, 1) != 1) ::_exit(errno);
        ::_exit(0);
    }
    // Sent again until it has ended: the first may come before the call.
    int interrupt(pid_t child, int signal) {
        int status = 0;
        EXPECT_TRUE(test::wait_until(
            [&] {
                ::kill(child, signal);
                return ::waitpid(child, &status, WNOHANG) == child;
            },
            kLimit));
        return status;
    }
    test::MountedShare mounted_;
};

TEST_F(InterruptedProgram, dies_of_a_signal_while_its_open_waits) {
    for (const int signal : {SIGTERM, SIGINT}) {
        ASSERT_TRUE(mounted_.mount({"--faults", "open:delay=3600000"}));
        const int status = interrupt(run(false), signal);
        EXPECT_TRUE(WIFSIGNALED(status));
        EXPECT_EQ(WTERMSIG(status), signal);
        mounted_.daemon().send_signal(SIGTERM);
        EXPECT_EQ(mounted_.daemon().wait(kLimit), 0);
    }
}

TEST_F(InterruptedProgram, that_handles_the_signal_gets_eintr) {
    ASSERT_TRUE(mounted_.mount({"--faults", "open:delay=3600000"}));
    const int status = interrupt(run(true), SIGINT);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), EINTR);
}

TEST_F(InterruptedProgram, dies_of_a_signal_while_its_read_waits) {
    ASSERT_TRUE(mounted_.mount({"--cache", "never", "--faults", "read:delay=3600000"}));
    const int status = interrupt(run(false), SIGTERM);
    EXPECT_TRUE(WIFSIGNALED(status));
}

} // namespace
} // namespace viaduct
