// SPDX-License-Identifier: Apache-2.0
//
// The driver end as a library: the headers of include/viaduct against a daemon of ours.
#include "support/served_share.h"

#include <viaduct/driver.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <linux/fuse.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>

namespace viaduct::client {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr auto kLong = 20s;

std::string refusal(const DeviceOptions& options) {
    const auto device = Device::connect(options);
    return device ? "connected" : device.error().message;
}

// None: there is no error.
template <class T> std::error_code error(const Result<T>& result) {
    return result ? std::error_code{} : result.error();
}

void write_file(const std::string& path, std::string_view text) {
    std::ofstream{path} << text;
}

// A daemon, and a session with it.
class ClientTest : public testing::Test {
protected:
    Device connect(DeviceOptions options) {
        options.socket = served_.socket();
        options.message_timeout = kLong;
        options.call_timeout = kLong;
        auto device = Device::connect(options);
        EXPECT_TRUE(device) << device.error().message;
        EXPECT_TRUE(device->begin_session());
        return *std::move(device);
    }

    // Returns when all its threads stand.
    void stop_daemon() {
        served_.daemon().send_signal(SIGSTOP);
        siginfo_t stopped{};
        ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(served_.daemon().pid()), &stopped, WSTOPPED | WNOWAIT),
                  0);
    }

    test::ServedShare served_;
};

// GETATTR of the root, with all that a raw request needs.
struct RootAttributes {
    explicit RootAttributes(Device& device, std::size_t out_bytes = 16 + sizeof(fuse_attr_out))
        : in(*device.allocate(sizeof(fuse_in_header) + sizeof(fuse_getattr_in))),
          out(*device.allocate(out_bytes)) {
        fill(Device::next_unique());
        auto made = device.make_request({.in = {in.bytes()}, .out = {out.bytes()}},
                                        {.function = &RootAttributes::done, .context = this});
        EXPECT_TRUE(made) << made.error().message();
        request = *std::move(made);
    }
    void fill(std::uint64_t unique) {
        std::memset(in.data(), 0, in.size());
        const fuse_in_header header{.len = static_cast<std::uint32_t>(in.size()),
                                    .opcode = FUSE_GETATTR,
                                    .unique = unique,
                                    .nodeid = FUSE_ROOT_ID,
                                    .uid = 0,
                                    .gid = 0,
                                    .pid = 1,
                                    .total_extlen = 0,
                                    .padding = 0};
        std::memcpy(in.data(), &header, sizeof header);
    }
    static void done(void* context, Result<std::uint32_t> reply_bytes) {
        auto& self = *static_cast<RootAttributes*>(context);
        self.reply_bytes = reply_bytes;
        self.thread = std::this_thread::get_id();
        self.ends.fetch_add(1);
    }

    Buffer in;
    Buffer out;
    Request request;
    Result<std::uint32_t> reply_bytes = 0;
    std::thread::id thread;
    std::atomic<int> ends{0};
};

TEST(ClientOptions, what_is_out_of_bounds_is_refused_by_name) {
    const std::string socket = "/nowhere";
    EXPECT_THAT(refusal({.socket = socket}), HasSubstr("/nowhere"));
    EXPECT_THAT(refusal({.socket = socket, .request_queues = 1025}), HasSubstr("request_queues is 1025"));
    EXPECT_THAT(refusal({.socket = socket, .queue_size = 96}), HasSubstr("queue_size is 96"));
    EXPECT_THAT(refusal({.socket = socket, .queue_size = 2}), HasSubstr("queue_size is 2"));
    EXPECT_THAT(refusal({.socket = socket, .queue_of_cpu = {1}}),
                HasSubstr("queue_of_cpu names request queue 1"));
    EXPECT_THAT(refusal({.socket = socket, .cpus_of_queue = {{0}, {1}}}),
                HasSubstr("cpus_of_queue has 2 lists"));
    EXPECT_THAT(refusal({.socket = socket, .cpus_of_queue = {{8192}}}), HasSubstr("CPU 8192"));
    EXPECT_THAT(refusal({.socket = socket, .queue_of_cpu = {0}, .cpus_of_queue = {{0}}}),
                HasSubstr("both given"));
    EXPECT_THAT(refusal({.socket = socket, .memory_bytes = 0}), HasSubstr("memory_bytes is 0"));
    EXPECT_THAT(refusal({.socket = socket, .memory_bytes = 2, .memory_bytes_max = 1}),
                HasSubstr("more than memory_bytes_max"));
    EXPECT_THAT(refusal({.socket = socket, .call_timeout = 0ms}), HasSubstr("call_timeout"));
}

TEST_F(ClientTest, files_are_listed_and_read) {
    std::string text(3'000'000, 'a');
    for (std::size_t at = 0; at < text.size(); at += 1000) text[at] = static_cast<char>('b' + at / 1000 % 20);
    ASSERT_EQ(::mkdir((served_.share() + "/folder").c_str(), 0755), 0);
    write_file(served_.share() + "/folder/large", text);
    ASSERT_EQ(::symlink("large", (served_.share() + "/folder/link").c_str()), 0);
    const Device device = connect({.request_queues = 2});
    FileClient files{device};

    const auto folder = files.lookup_path("/folder/");
    ASSERT_TRUE(folder) << folder.error().message();
    EXPECT_TRUE(S_ISDIR(folder->attributes.mode));
    const auto listing = files.opendir(folder->node);
    ASSERT_TRUE(listing);
    std::vector<std::string> names;
    for (std::uint64_t offset = 0;;) {
        const auto entries = files.readdir(folder->node, *listing, offset);
        ASSERT_TRUE(entries);
        if (entries->empty()) break;
        for (const DirectoryEntry& entry : *entries) names.push_back(entry.name);
        offset = entries->back().next_offset;
    }
    EXPECT_TRUE(files.releasedir(folder->node, *listing));
    EXPECT_THAT(names, testing::IsSupersetOf({"large", "link"}));

    const auto large = files.lookup(folder->node, "large");
    ASSERT_TRUE(large);
    EXPECT_EQ(large->attributes.size_bytes, text.size());
    const auto handle = files.open(large->node, O_RDONLY);
    ASSERT_TRUE(handle);
    std::string read(text.size() + 100, '\0');
    EXPECT_EQ(files.read(large->node, *handle, 0, std::as_writable_bytes(std::span{read})), text.size());
    read.resize(text.size());
    EXPECT_TRUE(read == text);
    EXPECT_EQ(files.read(large->node, *handle, text.size(), std::as_writable_bytes(std::span{read})), 0U);
    EXPECT_TRUE(files.release(large->node, *handle));
    const auto link = files.lookup(folder->node, "link");
    ASSERT_TRUE(link);
    EXPECT_EQ(files.readlink(link->node), "large");
    EXPECT_GT(files.statfs()->blocks, 0U);
    EXPECT_TRUE(files.forget(link->node));
}

TEST_F(ClientTest, errors_are_error_codes) {
    Device device = connect({});
    FileClient files{device};
    EXPECT_EQ(error(files.lookup(FileClient::kRoot, "missing")), std::errc::no_such_file_or_directory);
    EXPECT_EQ(error(files.lookup_path("missing/deeper")), std::errc::no_such_file_or_directory);
    EXPECT_EQ(error(files.lookup(FileClient::kRoot, "a/b")), std::errc::invalid_argument);
    EXPECT_EQ(error(device.allocate(1ULL << 40)), std::errc::not_enough_memory);
    EXPECT_EQ(error(device.allocate(1, 3)), std::errc::invalid_argument);
    EXPECT_EQ(error(device.add_memory(1ULL << 41)), std::errc::no_space_on_device);
}

TEST_F(ClientTest, requests_end_on_the_thread_that_waits_for_them) {
    // All CPUs use the first queue, so that INIT goes there.
    Device device = connect({.request_queues = 2, .queue_of_cpu = {0}});
    RootAttributes attributes{device};
    std::thread submitter{[&] { EXPECT_TRUE(device.submit(attributes.request, 1)); }};
    submitter.join();
    EXPECT_EQ(device.wait(1, kLong), 1U);
    EXPECT_EQ(attributes.ends, 1);
    EXPECT_EQ(attributes.thread, std::this_thread::get_id());
    EXPECT_EQ(attributes.reply_bytes, attributes.out.size());
    EXPECT_FALSE(attributes.request.server_error());
    fuse_attr_out reply{};
    std::memcpy(&reply, attributes.out.data() + sizeof(fuse_out_header), sizeof reply);
    EXPECT_TRUE(S_ISDIR(reply.attr.mode));
    const QueueCounters counters = device.counters(1);
    EXPECT_EQ(counters.submitted, 1U);
    EXPECT_EQ(counters.ended, 1U);
    EXPECT_EQ(counters.in_flight, 0U);
    EXPECT_EQ(device.counters(7).submitted, 0U);
}

TEST_F(ClientTest, the_servers_own_error_is_told_apart) {
    Device device = connect({});
    RootAttributes attributes{device};
    fuse_in_header header{};
    std::memcpy(&header, attributes.in.data(), sizeof header);
    header.opcode = 3999;
    std::memcpy(attributes.in.data(), &header, sizeof header);
    ASSERT_TRUE(device.submit(attributes.request));
    ASSERT_TRUE(device.drain(kLong));
    EXPECT_EQ(attributes.reply_bytes, sizeof(fuse_out_header));
    EXPECT_EQ(attributes.request.server_error(), std::errc::function_not_supported);
}

TEST_F(ClientTest, many_threads_share_queues_that_are_too_small) {
    Device device = connect({.request_queues = 2, .queue_size = 4, .indirect = false});
    constexpr std::size_t kThreads = 4;
    constexpr std::size_t kDepth = 16;
    constexpr int kRounds = 50;
    std::vector<std::thread> threads;
    std::atomic<int> failures{0};
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            const auto queue = static_cast<std::uint32_t>(thread % 2);
            std::vector<std::unique_ptr<RootAttributes>> all;
            std::vector<Request*> requests;
            for (std::size_t index = 0; index < kDepth; ++index) {
                all.push_back(std::make_unique<RootAttributes>(device));
                requests.push_back(&all.back()->request);
            }
            for (int round = 1; round <= kRounds; ++round) {
                if (!device.submit(requests, queue)) ++failures;
                const auto ended = [&](const auto& one) { return one->ends == round; };
                const auto limit = std::chrono::steady_clock::now() + kLong;
                while (!std::ranges::all_of(all, ended) && std::chrono::steady_clock::now() < limit)
                    device.wait(queue, 1000ms);
                for (const auto& one : all)
                    if (one->ends != round || one->reply_bytes != one->out.size()) ++failures;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(device.drain(kLong));
    EXPECT_EQ(failures, 0);
    const QueueCounters first = device.counters(0);
    const QueueCounters second = device.counters(1);
    EXPECT_EQ(first.ended + second.ended, kThreads * kDepth * kRounds + 1); // and INIT
    EXPECT_GT(first.parked, 0U);
    EXPECT_EQ(first.lies + second.lies, 0U);
}

TEST_F(ClientTest, memory_that_is_not_the_devices_is_refused) {
    Device device = connect({});
    std::vector<std::byte> own(100);
    Buffer in = *device.allocate(100);
    const Completion completion{.function = &RootAttributes::done, .context = nullptr};
    EXPECT_EQ(error(device.make_request({.in = {own}, .out = {}}, completion)), std::errc::bad_address);
    EXPECT_EQ(error(device.make_request({.in = {in.bytes()}, .out = {own}}, completion)),
              std::errc::bad_address);
    EXPECT_EQ(error(device.make_request({.in = {in.bytes().first(39)}, .out = {}}, completion)),
              std::errc::invalid_argument);
    EXPECT_EQ(error(device.make_request({.in = {in.bytes()}, .out = {in.bytes().first(15)}}, completion)),
              std::errc::invalid_argument);
    EXPECT_EQ(error(device.make_request({.in = {in.bytes(), in.bytes().first(0)}, .out = {}}, completion)),
              std::errc::invalid_argument);
    EXPECT_EQ(error(device.make_request({.in = {in.bytes()}, .out = {}}, {})), std::errc::invalid_argument);
    EXPECT_TRUE(device.make_request({.in = {in.bytes()}, .out = {}}, completion));
    Request none;
    EXPECT_EQ(error(device.submit(none)), std::errc::invalid_argument);
    RootAttributes attributes{device};
    EXPECT_EQ(error(device.submit(attributes.request, 1)), std::errc::invalid_argument);
    ASSERT_TRUE(device.add_memory(1 << 20));
    EXPECT_TRUE(device.allocate(1 << 20));
}

TEST_F(ClientTest, cpus_use_the_queues_they_are_given) {
    // The daemon has four queues: what is beyond them is cut off, and its CPUs use the first.
    const Device device =
        connect({.request_queues = 6, .cpus_of_queue = {{}, {0, 1}, {2}, {1, 8191}, {4}, {5}}});
    EXPECT_EQ(device.request_queue_count(), 4U);
    EXPECT_EQ(device.queue_of_cpu(0), 1U);
    EXPECT_EQ(device.queue_of_cpu(1), 3U); // the later list has it
    EXPECT_EQ(device.queue_of_cpu(2), 2U);
    EXPECT_EQ(device.queue_of_cpu(3), 0U);
    EXPECT_EQ(device.queue_of_cpu(4), 0U);
    EXPECT_EQ(device.queue_of_cpu(8191), 3U);
    EXPECT_EQ(device.queue_of_cpu(8192), 0U);
    EXPECT_LT(device.queue_of_current_cpu(), 4U);
}

TEST_F(ClientTest, a_map_by_cpu_and_the_even_one) {
    {
        const Device device = connect({.request_queues = 3, .queue_of_cpu = {2, 0, 1}});
        EXPECT_EQ(device.queue_of_cpu(0), 2U);
        EXPECT_EQ(device.queue_of_cpu(1), 0U);
        EXPECT_EQ(device.queue_of_cpu(2), 1U);
        EXPECT_EQ(device.queue_of_cpu(3), 0U);
    }
    const Device device = connect({.request_queues = 1});
    EXPECT_EQ(device.queue_of_current_cpu(), 0U);
}

TEST_F(ClientTest, the_queue_of_the_current_cpu_takes_the_request) {
    cpu_set_t before;
    ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &before)) ++cpu;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    std::vector<std::uint32_t> map(static_cast<std::size_t>(cpu) + 1, 0);
    map.back() = 2;
    Device device = connect({.request_queues = 3, .queue_of_cpu = map});
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    RootAttributes attributes{device};
    EXPECT_EQ(device.submit(attributes.request), 2U);
    EXPECT_EQ(device.wait(2, kLong), 1U);
    EXPECT_EQ(device.counters(2).in_flight, 0U);
    ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
}

TEST_F(ClientTest, rings_are_as_asked_for) {
    const Device packed = connect({.queue_size = 64, .packed = true, .event_idx = false, .indirect = false});
    EXPECT_TRUE(packed.ring().packed);
    EXPECT_FALSE(packed.ring().event_idx);
    EXPECT_FALSE(packed.ring().indirect);
    EXPECT_EQ(packed.ring().queue_size, 64U);
    EXPECT_GT(packed.server_pid(), 0);
}

TEST_F(ClientTest, what_outlives_the_device_is_told_that_it_has_gone) {
    Buffer buffer;
    std::unique_ptr<FileClient> files;
    {
        Device device = connect({});
        buffer = *device.allocate(4096);
        files = std::make_unique<FileClient>(device);
        EXPECT_TRUE(files->getattr(FileClient::kRoot));
        EXPECT_TRUE(device.end_session());
        device.disconnect();
        EXPECT_FALSE(device.alive());
        RootAttributes attributes{device};
        EXPECT_EQ(error(device.submit(attributes.request)), std::errc::not_connected);
    }
    buffer.bytes()[4095] = std::byte{1};
    EXPECT_EQ(error(files->getattr(FileClient::kRoot)), std::errc::not_connected);
}

TEST_F(ClientTest, a_daemon_that_dies_ends_what_is_in_flight) {
    Device device = connect({});
    RootAttributes attributes{device};
    stop_daemon();
    ASSERT_TRUE(device.submit(attributes.request, 0));
    EXPECT_EQ(device.counters(0).in_flight, 1U);
    EXPECT_EQ(error(device.drain(1ms)), std::errc::timed_out);
    served_.daemon().send_signal(SIGKILL);
    EXPECT_TRUE(device.drain(kLong));
    ASSERT_EQ(attributes.ends, 1);
    EXPECT_EQ(error(attributes.reply_bytes), std::errc::connection_aborted);
    EXPECT_EQ(error(device.submit(attributes.request)), std::errc::not_connected);
    EXPECT_FALSE(device.alive());
}

TEST_F(ClientTest, threads_of_the_library_end_requests_when_asked_to) {
    Device device = connect({.request_queues = 2, .completion_threads = true});
    RootAttributes attributes{device};
    ASSERT_TRUE(device.submit(attributes.request, 1));
    ASSERT_TRUE(device.drain(kLong));
    EXPECT_EQ(attributes.ends, 1);
    EXPECT_NE(attributes.thread, std::this_thread::get_id());
    EXPECT_EQ(attributes.reply_bytes, attributes.out.size());
}

TEST_F(ClientTest, removal_waits_for_the_device_no_longer_than_told) {
    Device in_time = connect({});
    EXPECT_TRUE(in_time.remove());
    EXPECT_FALSE(in_time.alive());
    Device late = connect({.drain_timeout = 1ms});
    RootAttributes attributes{late};
    stop_daemon();
    ASSERT_TRUE(late.submit(attributes.request, 0));
    EXPECT_EQ(error(late.remove()), std::errc::timed_out);
    EXPECT_EQ(error(attributes.reply_bytes), std::errc::connection_aborted);
    served_.daemon().send_signal(SIGCONT);
}

TEST_F(ClientTest, parked_requests_can_be_withdrawn) {
    Device device = connect({.queue_size = 4, .indirect = false});
    std::vector<std::unique_ptr<RootAttributes>> all;
    stop_daemon();
    for (int index = 0; index < 3; ++index) { // two descriptors each: the third has no room
        all.push_back(std::make_unique<RootAttributes>(device));
        ASSERT_TRUE(device.submit(all.back()->request, 0));
    }
    EXPECT_FALSE(device.withdraw(all[0]->request));
    EXPECT_TRUE(device.withdraw(all[2]->request));
    EXPECT_EQ(error(all[2]->reply_bytes), std::errc::interrupted);
    EXPECT_FALSE(device.withdraw(all[2]->request));
    served_.daemon().send_signal(SIGCONT);
    EXPECT_TRUE(device.drain(kLong));
    EXPECT_EQ(all[0]->ends + all[1]->ends, 2);
}

} // namespace
} // namespace viaduct::client
