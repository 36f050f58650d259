// SPDX-License-Identifier: Apache-2.0
//
// The load loop against a real daemon, as a check on both.
#include "driver/load.h"
#include "support/daemon.h"
#include "support/temp_dir.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

namespace viaduct {
namespace {

using driver::Completion;
using driver::LoadKind;

class Load : public testing::Test {
protected:
    void SetUp() override {
        share_ = folder_.make_folder("share");
        const std::string socket = folder_.file("socket");
        auto daemon = test::Daemon::start({.argv = {test::program("viaduct"), "serve", "--share", share_,
                                                    "--socket", socket, "--queues", "2"},
                                           .socket = socket});
        ASSERT_TRUE(daemon) << daemon.error().message;
        daemon_ = *std::move(daemon);
        auto device = driver::Device::connect({.socket = socket, .request_queues = 2, .queue_size = 16});
        ASSERT_TRUE(device) << device.error().message;
        device_ = *std::move(device);
        ASSERT_TRUE(driver::FuseClient(*device_, {.queue = 0}).init());
    }

    const test::TempDir folder_;
    std::string share_;
    std::unique_ptr<test::Daemon> daemon_;
    std::unique_ptr<driver::Device> device_;
};

class LoadOfKind : public Load, public testing::WithParamInterface<LoadKind> {};

std::string kind_name(const testing::TestParamInfo<LoadKind>& info) {
    std::string name = driver::name_of(info.param);
    std::ranges::replace(name, '-', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Kinds, LoadOfKind,
                         testing::Values(LoadKind::null, LoadKind::getattr, LoadKind::lookup,
                                         LoadKind::open_release, LoadKind::read, LoadKind::write,
                                         LoadKind::create_unlink, LoadKind::readdir, LoadKind::readdirplus),
                         kind_name);

// More outstanding than a queue holds, so that requests are parked.
TEST_P(LoadOfKind, every_operation_is_right_and_nothing_is_left_behind) {
    for (const Completion completion : {Completion::poll, Completion::wait}) {
        const auto load = driver::Load::prepare(
            *device_, {.kind = GetParam(),
                       .queues = 2,
                       .threads = completion == Completion::poll ? 1U : 3U, // two share a queue
                       .depth = 24,
                       .file_bytes = 1 << 20,
                       .completion = completion,
                       .verify = true});
        ASSERT_TRUE(load) << load.error().message;
        const auto result = (*load)->run({.time = {}, .operations = 3000});
        EXPECT_EQ(result.operations, 3000U);
        EXPECT_EQ(result.errors, 0U) << result.first_error << "\n" << daemon_->log();
        EXPECT_EQ(result.mismatches, 0U);
        EXPECT_GT(result.parked, 0U);
    }
    EXPECT_TRUE(std::filesystem::is_empty(share_));
}

TEST_F(Load, a_block_that_is_not_what_was_written_is_found) {
    const auto load =
        driver::Load::prepare(*device_, {.kind = LoadKind::read, .file_bytes = 1 << 20, .verify = true});
    ASSERT_TRUE(load) << load.error().message;
    for (const auto& entry : std::filesystem::recursive_directory_iterator{share_}) {
        if (!entry.is_regular_file()) continue;
        std::fstream file{entry.path(), std::ios::in | std::ios::out | std::ios::binary};
        file << std::string(1 << 20, 'x');
    }
    EXPECT_GT((*load)->run({.time = {}, .operations = 100}).mismatches, 0U);
}

TEST_P(LoadOfKind, a_daemon_that_dies_ends_the_run) {
    const auto load =
        driver::Load::prepare(*device_, {.kind = GetParam(), .queues = 2, .file_bytes = 1 << 20});
    ASSERT_TRUE(load) << load.error().message;
    std::thread killer{[&] {
        while (device_->request_queue(1).stats().ended.get() < 1000 && device_->alive())
            std::this_thread::yield();
        daemon_->send_signal(SIGKILL);
    }};
    const auto result = (*load)->run({.time = std::chrono::minutes{1}, .operations = {}});
    killer.join();
    EXPECT_GT(result.errors, 0U);
    EXPECT_FALSE(device_->alive());
}

} // namespace
} // namespace viaduct
