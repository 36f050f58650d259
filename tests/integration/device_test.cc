// SPDX-License-Identifier: Apache-2.0
//
// driver::Device on a real daemon: set-up, stop and start, memory, the end.
#include "driver/device.h"
#include "driver/fuse_client.h"
#include "support/daemon.h"
#include "support/temp_dir.h"

#include <gtest/gtest.h>

#include <csignal>
#include <fcntl.h>

namespace viaduct {
namespace {

using namespace std::chrono_literals;
using driver::FuseClient;

class DriverDevice : public testing::TestWithParam<bool> {
protected:
    void start(const std::vector<std::string>& more = {}) {
        const std::string share = folder_.make_folder("share");
        folder_.write("share/file", "text");
        socket_ = folder_.file("socket");
        std::vector<std::string> argv{
            test::program("viaduct"), "serve", "--share", share, "--socket", socket_};
        argv.insert(argv.end(), more.begin(), more.end());
        auto daemon = test::Daemon::start({.argv = argv, .socket = socket_});
        ASSERT_TRUE(daemon) << daemon.error().message;
        daemon_ = *std::move(daemon);
    }
    void connect(std::uint32_t queues = 2) {
        auto device =
            driver::Device::connect({.socket = socket_, .request_queues = queues, .packed = GetParam()});
        ASSERT_TRUE(device) << device.error().message << "\n" << daemon_->log();
        device_ = *std::move(device);
        client_.emplace(*device_, driver::FuseClientOptions{.queue = 0});
        ASSERT_TRUE(client_->init());
    }
    Result<std::string> read_file() {
        TRY(const auto entry, client_->lookup(FuseClient::kRoot, "file"));
        TRY(const auto handle, client_->open(entry.nodeid, O_RDONLY));
        auto text = client_->read(entry.nodeid, handle, 0, 100);
        TRY_STATUS(client_->release(entry.nodeid, handle));
        return text;
    }

    const test::TempDir folder_;
    std::string socket_;
    std::unique_ptr<test::Daemon> daemon_;
    std::unique_ptr<driver::Device> device_;
    std::optional<FuseClient> client_;
};

INSTANTIATE_TEST_SUITE_P(Rings, DriverDevice, testing::Bool(),
                         [](const auto& info) { return info.param ? "packed" : "split"; });

TEST_P(DriverDevice, queues_are_cut_down_to_what_the_device_has) {
    start({"--queues", "3"});
    connect(10);
    EXPECT_EQ(device_->request_queue_count(), 3U);
    EXPECT_EQ(device_->peer_pid(), daemon_->pid());
}

TEST_P(DriverDevice, a_stopped_queue_takes_nothing_and_goes_on_after_a_start) {
    start();
    connect();
    for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(read_file(), "text");
        ASSERT_TRUE(device_->stop());
        EXPECT_EQ(read_file().error(), Errno{ENOTCONN});
        ASSERT_TRUE(device_->start());
    }
    EXPECT_EQ(read_file(), "text");
}

TEST_P(DriverDevice, a_reset_begins_anew) {
    start();
    connect();
    EXPECT_EQ(read_file(), "text");
    ASSERT_TRUE(device_->reset()) << daemon_->log();
    ASSERT_TRUE(client_->init()) << daemon_->log();
    EXPECT_EQ(read_file(), "text");
}

TEST_P(DriverDevice, a_disabled_queue_waits) {
    start();
    connect();
    ASSERT_TRUE(device_->enable_queue(1, false));
    auto options = client_->call_options(FUSE_STATFS, FuseClient::kRoot);
    options.reply_bytes_max = sizeof(fuse_statfs_out);
    const auto call = client_->begin(options);
    ASSERT_TRUE(call);
    EXPECT_EQ((*call)->wait(driver::after(50ms)).error(), Errno{ETIMEDOUT});
    ASSERT_TRUE(device_->enable_queue(1, true));
    EXPECT_TRUE((*call)->wait(driver::after(test::kPatience)));
}

TEST_P(DriverDevice, memory_comes_and_goes_while_requests_run) {
    start();
    connect();
    EXPECT_EQ(read_file(), "text");
    const auto region = device_->add_memory(8 << 20);
    ASSERT_TRUE(region) << region.error().name();
    // More than the first region has left: the calls' memory comes from the second, or lies across both.
    std::vector<driver::DmaBuffer> taken;
    while (auto buffer = device_->memory().allocate(1 << 20)) taken.push_back(*std::move(buffer));
    const auto place = [&](const driver::DmaBuffer& buffer) { return buffer.data() >= (*region)->host; };
    ASSERT_TRUE(place(taken.back()));
    taken.pop_back();
    EXPECT_EQ(read_file(), "text");
    taken.clear();
    ASSERT_TRUE(device_->remove_memory(**region));
    EXPECT_EQ(read_file(), "text");
}

TEST_P(DriverDevice, the_death_of_the_daemon_ends_what_is_under_way) {
    start({"--faults", "read:delay=60000"});
    connect();
    const auto entry = client_->lookup(FuseClient::kRoot, "file");
    ASSERT_TRUE(entry);
    const auto handle = client_->open(entry->nodeid, O_RDONLY);
    ASSERT_TRUE(handle);
    const auto call = client_->begin_read(entry->nodeid, *handle, 0, 100);
    ASSERT_TRUE(call);
    EXPECT_EQ((*call)->wait(driver::after(20ms)).error(), Errno{ETIMEDOUT});
    daemon_->send_signal(SIGKILL);
    EXPECT_EQ((*call)->wait(driver::after(test::kPatience)).error(), Errno{ECONNABORTED});
    EXPECT_EQ(client_->getattr(FuseClient::kRoot).error(), Errno{ENOTCONN});
    EXPECT_EQ(device_->stop_queue(1), fail(EPIPE));
}

TEST_P(DriverDevice, disconnecting_ends_what_is_under_way) {
    start({"--faults", "read:delay=3000"});
    connect();
    const auto entry = client_->lookup(FuseClient::kRoot, "file");
    const auto handle = client_->open(entry->nodeid, O_RDONLY);
    const auto call = client_->begin_read(entry->nodeid, *handle, 0, 100);
    ASSERT_TRUE(call);
    device_->disconnect();
    EXPECT_EQ((*call)->wait(driver::after(test::kPatience)).error(), Errno{ECONNABORTED});
    EXPECT_EQ(device_->start(), fail(ENOTCONN));
}

TEST(DriverDeviceAlone, a_socket_without_a_daemon_is_a_sentence) {
    const auto device = driver::Device::connect({.socket = "/nowhere/at/all"});
    ASSERT_FALSE(device);
    EXPECT_NE(device.error().message.find("/nowhere/at/all"), std::string::npos);
    EXPECT_EQ(driver::Device::connect({.socket = std::string(200, 'x')}).error().exit_status, 2);
}

} // namespace
} // namespace viaduct
