// SPDX-License-Identifier: Apache-2.0
//
// The load loop against a real daemon, as a check on both.
#include "driver/load.h"
#include "support/affinity.h"
#include "support/daemon.h"
#include "support/temp_dir.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sched.h>
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

// Two workers that share a CPU with something busy: each is kept from running for milliseconds, in the middle
// of a pass, while the other opens and closes as many files as there may be descriptors.
TEST(LoadWithFewDescriptors, files_closed_beside_a_starved_worker_are_open_files_to_nobody) {
    const test::TempDir folder;
    const std::string socket = folder.file("socket");
    const topology::CpuId cpu = test::allowed_cpus(0).next(0).value();
    auto daemon = test::Daemon::start(
        {.argv = {"prlimit", "--nofile=1024", "taskset", "-c", std::to_string(cpu), test::program("viaduct"),
                  "serve", "--share", folder.make_folder("share"), "--socket", socket, "--workers", "2"},
         .socket = socket});
    ASSERT_TRUE(daemon) << daemon.error().message;
    auto device = driver::Device::connect({.socket = socket, .request_queues = 2, .queue_size = 64});
    ASSERT_TRUE(device) << device.error().message;
    ASSERT_TRUE(driver::FuseClient(**device, {.queue = 0}).init());

    std::jthread busy{[cpu](const std::stop_token& stop) {
        cpu_set_t mask;
        CPU_ZERO(&mask);
        CPU_SET(cpu, &mask);
        ::sched_setaffinity(0, sizeof mask, &mask);
        while (!stop.stop_requested()) {
        }
    }};
    const auto load =
        driver::Load::prepare(**device, {.kind = LoadKind::open_release, .queues = 2, .depth = 32});
    ASSERT_TRUE(load) << load.error().message;
    const auto result = (*load)->run({.time = {}, .operations = 100'000});
    EXPECT_EQ(result.operations, 100'000U);
    EXPECT_EQ(result.errors, 0U) << result.first_error << "\n" << (*daemon)->log();
}

struct Way {
    const char* name;
    driver::Dispatch dispatch;
    Completion completion;
    bool by_cpu;
};

class LoadInWay : public Load, public testing::WithParamInterface<Way> {};

INSTANTIATE_TEST_SUITE_P(
    Ways, LoadInWay,
    testing::Values(Way{"staged_polled", driver::Dispatch::staged, Completion::poll, false},
                    Way{"staged_waited", driver::Dispatch::staged, Completion::wait, false},
                    Way{"staged_threads", driver::Dispatch::staged, Completion::threads, true},
                    Way{"direct_threads", driver::Dispatch::direct, Completion::threads, false},
                    Way{"direct_by_cpu", driver::Dispatch::direct, Completion::poll, true}),
    [](const auto& info) { return std::string{info.param.name}; });

TEST_P(LoadInWay, a_mix_is_right_and_counted) {
    const auto load = driver::Load::prepare(*device_, {.mix = {{.kind = LoadKind::read, .weight = 7},
                                                               {.kind = LoadKind::write, .weight = 2},
                                                               {.kind = LoadKind::readdirplus}},
                                                       .queues = 2,
                                                       .threads = 2,
                                                       .by_cpu = GetParam().by_cpu,
                                                       .depth = 24,
                                                       .file_bytes = 1 << 20,
                                                       .directory_entries = 20,
                                                       .dispatch = GetParam().dispatch,
                                                       .completion = GetParam().completion,
                                                       .affinity = true,
                                                       .verify = true});
    ASSERT_TRUE(load) << load.error().message;
    for (int round = 0; round < 2; ++round) {
        const auto result = (*load)->run({.time = {}, .operations = 3000});
        EXPECT_EQ(result.operations, 3000U);
        EXPECT_EQ(result.errors, 0U) << result.first_error << "\n" << daemon_->log();
        EXPECT_EQ(result.mismatches, 0U);
        EXPECT_EQ(result.latency.count(), 3000U);
        EXPECT_GT(result.latency.percentile(50), 0U);
        EXPECT_LE(result.on_submitter_cpu, result.requests);
        EXPECT_GT(result.client_cpu_ns, 0U);
        // 90 of 100 operations move a block.
        EXPECT_GT(result.bytes, 3000U / 2 * 4096);
        EXPECT_LT(result.bytes, 3000U * 4096);
    }
}

TEST_P(LoadInWay, a_daemon_that_dies_ends_the_run) {
    const auto load = driver::Load::prepare(*device_, {.queues = 2,
                                                       .threads = 2,
                                                       .by_cpu = GetParam().by_cpu,
                                                       .dispatch = GetParam().dispatch,
                                                       .completion = GetParam().completion});
    ASSERT_TRUE(load) << load.error().message;
    std::thread killer{[&] {
        const auto ended = [&] {
            return device_->request_queue(0).stats().ended.get() +
                   device_->request_queue(1).stats().ended.get();
        };
        while (ended() < 1000 && device_->alive()) std::this_thread::yield();
        daemon_->send_signal(SIGKILL);
    }};
    const auto result = (*load)->run({.time = std::chrono::minutes{10}, .operations = {}});
    killer.join();
    EXPECT_GT(result.errors, 0U);
    EXPECT_FALSE(device_->alive());
}

// Submitting and completing on one thread that may not move.
TEST_F(Load, a_pinned_thread_that_polls_completes_where_it_submits) {
    cpu_set_t mask;
    ASSERT_EQ(::sched_getaffinity(0, sizeof mask, &mask), 0);
    int cpu = 0;
    while (!CPU_ISSET(static_cast<std::size_t>(cpu), &mask)) ++cpu;
    const auto load = driver::Load::prepare(*device_, {.queues = 2, .latencies = false, .cpus = {cpu}});
    ASSERT_TRUE(load) << load.error().message;
    const auto result = (*load)->run({.time = {}, .operations = 1000});
    EXPECT_EQ(result.on_submitter_cpu, result.requests);
    EXPECT_EQ(result.migrations, 0U);
    EXPECT_EQ(result.latency.count(), 0U); // were not asked for
}

TEST_F(Load, what_cannot_be_measured_is_refused_with_a_sentence) {
    const std::vector<driver::LoadOptions> refused{
        {.queues = 0},
        {.queues = 3},
        {.threads = 0},
        {.mix = {{.kind = LoadKind::null, .weight = 0}}},
        {.mix = {{.kind = LoadKind::read, .block_bytes = 100}}},
        {.mix = {{.kind = LoadKind::write, .block_bytes = 4096},
                 {.kind = LoadKind::write, .block_bytes = 8192}},
         .verify = true},
        {.queues = 2, .threads = 1, .completion = Completion::wait},
        {.queues = 2, .threads = 2, .by_cpu = true, .completion = Completion::wait},
    };
    for (const auto& options : refused) {
        const auto load = driver::Load::prepare(*device_, options);
        ASSERT_FALSE(load);
        EXPECT_EQ(load.error().exit_status, 2);
    }
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
    const auto result = (*load)->run({.time = std::chrono::minutes{10}, .operations = {}});
    killer.join();
    EXPECT_GT(result.errors, 0U);
    EXPECT_FALSE(device_->alive());
}

} // namespace
} // namespace viaduct
