// SPDX-License-Identifier: Apache-2.0
//
// A share that hangs: requests on it wait, requests beside it do not, and what was promised to a front end
// about its memory holds.
#include "driver/fuse_client.h"
#include "support/daemon.h"
#include "support/fuse_server.h"
#include "support/mounts.h"
#include "support/temp_dir.h"
#include "support/waiting.h"

#include <algorithm>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <set>
#include <sys/mount.h>
#include <unistd.h>

namespace viaduct {
namespace {

using namespace std::chrono_literals;
using driver::FuseClient;

constexpr auto kLimit = test::kPatience;

// A share with a local file and, below "mounted", a FUSE server; a daemon with one worker; a client.
class HungShare : public testing::Test {
protected:
    void SetUp() override {
        test::use_private_mounts();
        share_ = folder_.make_folder("share");
        folder_.write("share/local", std::string(8192, 'l'));
    }

    void mount_server(const test::TestFuseServer::Options& options) {
        auto mounted = test::TestFuseServer::mount(folder_.make_folder("share/mounted"), options);
        if (!mounted) GTEST_SKIP() << mounted.error().message;
        server_ = std::move(*mounted);
        server_->set_content("slow", std::string(8192, 's'));
    }

    void start(std::vector<std::string> more = {}) {
        std::vector<std::string> argv = {test::program("viaduct"),
                                         "serve",
                                         "--share",
                                         share_,
                                         "--socket",
                                         socket_,
                                         "--queues",
                                         "2",
                                         "--workers",
                                         "1"};
        argv.insert(argv.end(), more.begin(), more.end());
        auto started = test::Daemon::start({.argv = argv, .socket = socket_});
        ASSERT_TRUE(started) << started.error().message;
        daemon_ = std::move(*started);
        connect();
    }

    void connect() {
        client_.reset();
        auto connected = driver::Device::connect({.socket = socket_, .request_queues = 2});
        ASSERT_TRUE(connected) << connected.error().message;
        device_ = std::move(*connected);
        client_.emplace(*device_);
        ASSERT_TRUE(client_->init());
    }

    // Opens "mounted/slow".
    void open_slow(std::uint32_t flags = O_RDONLY) {
        const auto entry = client_->lookup_path("mounted/slow");
        ASSERT_TRUE(entry) << entry.error().name();
        node_ = entry->nodeid;
        const auto handle = client_->open(node_, flags);
        ASSERT_TRUE(handle) << handle.error().name();
        handle_ = *handle;
    }

    // Requests that do not touch what hangs are answered, on both queues.
    void expect_others_are_served() {
        for (const std::uint32_t queue : {0U, 1U}) {
            auto beside = client_->on_queue(queue);
            for (int round = 0; round < 50; ++round) {
                const auto entry = beside.lookup(FuseClient::kRoot, "local");
                ASSERT_TRUE(entry) << entry.error().name();
                const auto handle = beside.open(entry->nodeid, O_RDONLY);
                ASSERT_TRUE(handle) << handle.error().name();
                ASSERT_EQ(beside.read(entry->nodeid, *handle, 0, 4096), std::string(4096, 'l'));
                ASSERT_TRUE(beside.getattr(entry->nodeid));
                ASSERT_TRUE(beside.statfs(FuseClient::kRoot));
                ASSERT_TRUE(beside.release(entry->nodeid, *handle));
            }
        }
    }

    const test::TempDir folder_;
    std::string share_;
    const std::string socket_ = folder_.file("socket");
    std::unique_ptr<test::TestFuseServer> server_;
    std::unique_ptr<test::Daemon> daemon_;
    std::unique_ptr<driver::Device> device_;
    std::optional<FuseClient> client_;
    std::uint64_t node_ = 0;
    std::uint64_t handle_ = 0;
};

TEST_F(HungShare, reads_that_wait_on_a_mounted_server_hold_up_nobody_on_the_same_worker) {
    mount_server({.direct_io = true});
    if (IsSkipped()) return;
    start();
    open_slow();
    server_->hold(FUSE_READ);
    const auto waiting = client_->begin_read(node_, handle_, 0, 4096);
    ASSERT_TRUE(waiting);
    ASSERT_TRUE(server_->wait_for_held(FUSE_READ, 1, kLimit));
    expect_others_are_served();
    EXPECT_FALSE((*waiting)->ended());
    server_->let_go_all();
    const auto reply = (*waiting)->wait(driver::after(kLimit));
    ASSERT_TRUE(reply) << reply.error().name();
    EXPECT_EQ(reply->size(), 4096U);
    EXPECT_EQ(static_cast<char>(reply->front()), 's');
}

// Each call that goes to the server by itself.
class HungCall : public HungShare, public testing::WithParamInterface<std::uint32_t> {
protected:
    driver::CallOptions call() {
        switch (GetParam()) {
        case FUSE_LOOKUP: {
            auto options = client_->call_options(FUSE_LOOKUP, folder_node_);
            options.add_name("slow");
            options.reply_bytes_max = sizeof(fuse_entry_out);
            return options;
        }
        case FUSE_GETATTR: {
            auto options = client_->call_options(FUSE_GETATTR, node_);
            options.add(fuse_getattr_in{});
            options.reply_bytes_max = sizeof(fuse_attr_out);
            return options;
        }
        case FUSE_OPEN: {
            auto options = client_->call_options(FUSE_OPEN, node_);
            options.add(fuse_open_in{.flags = O_RDONLY});
            options.reply_bytes_max = sizeof(fuse_open_out);
            return options;
        }
        case FUSE_STATFS: {
            auto options = client_->call_options(FUSE_STATFS, node_);
            options.reply_bytes_max = sizeof(fuse_statfs_out);
            return options;
        }
        default: {
            auto options = client_->call_options(FUSE_WRITE, node_);
            options.add(fuse_write_in{.fh = handle_, .size = 4});
            options.add_bytes(std::as_bytes(std::span{"abcd", 4}));
            options.reply_bytes_max = sizeof(fuse_write_out);
            return options;
        }
        }
    }
    std::uint64_t folder_node_ = 0;
};

TEST_P(HungCall, waits_alone) {
    mount_server({.direct_io = true});
    if (IsSkipped()) return;
    start();
    open_slow(O_RDWR);
    const auto parent = client_->lookup(FuseClient::kRoot, "mounted");
    ASSERT_TRUE(parent) << parent.error().name();
    folder_node_ = parent->nodeid;
    server_->hold(GetParam());
    const auto waiting = client_->begin(call());
    ASSERT_TRUE(waiting);
    ASSERT_TRUE(server_->wait_for_held(GetParam(), 1, kLimit));
    expect_others_are_served();
    EXPECT_FALSE((*waiting)->ended());
    server_->let_go_all();
    EXPECT_TRUE((*waiting)->wait(driver::after(kLimit)));
}

std::string opcode_name(const testing::TestParamInfo<std::uint32_t>& info) {
    switch (info.param) {
    case FUSE_LOOKUP:
        return "lookup";
    case FUSE_GETATTR:
        return "getattr";
    case FUSE_OPEN:
        return "open";
    case FUSE_STATFS:
        return "statfs";
    default:
        return "write";
    }
}

INSTANTIATE_TEST_SUITE_P(Opcodes, HungCall,
                         testing::Values(FUSE_LOOKUP, FUSE_GETATTR, FUSE_OPEN, FUSE_STATFS, FUSE_WRITE),
                         opcode_name);

TEST_F(HungShare, more_waiting_calls_than_helpers_still_hold_up_nobody) {
    mount_server({.direct_io = true});
    if (IsSkipped()) return;
    start();
    open_slow();
    server_->hold(FUSE_GETATTR);
    std::vector<std::shared_ptr<driver::Call>> waiting;
    for (int index = 0; index < 100; ++index) {
        auto options = client_->call_options(FUSE_GETATTR, node_);
        options.add(fuse_getattr_in{});
        options.reply_bytes_max = sizeof(fuse_attr_out);
        const auto call = client_->begin(options);
        ASSERT_TRUE(call);
        waiting.push_back(*call);
    }
    ASSERT_TRUE(server_->wait_for_held(FUSE_GETATTR, 1, kLimit));
    expect_others_are_served();
    server_->let_go_all();
    for (const auto& call : waiting) EXPECT_TRUE(call->wait(driver::after(kLimit)));
}

// An ext4 on a loop device whose file lies on the FUSE server: direct reads of it hang in the block layer.
TEST_F(HungShare, a_direct_read_that_hangs_in_the_block_layer_holds_up_nobody) {
    mount_server({.direct_io = true, .valid_seconds = 60});
    if (IsSkipped()) return;
    auto image = test::make_ext4_image(16 << 20);
    if (!image) GTEST_SKIP() << image.error().message;
    server_->set_content("image", std::move(*image));
    const std::string point = folder_.make_folder("share/disk");
    {
        const auto filling = test::LoopMount::mount(server_->file("image"), point);
        if (!filling) GTEST_SKIP() << filling.error().message;
        folder_.write("share/disk/data", std::string(1 << 20, 'd'));
    }
    const auto disk = test::LoopMount::mount(server_->file("image"), point);
    if (!disk) GTEST_SKIP() << disk.error().message;

    start({"--allow-direct-io"});
    const auto entry = client_->lookup_path("disk/data");
    ASSERT_TRUE(entry) << entry.error().name();
    const auto handle = client_->open(entry->nodeid, O_RDONLY | O_DIRECT);
    ASSERT_TRUE(handle) << handle.error().name();
    server_->hold(FUSE_READ);
    const auto waiting = client_->begin_read(entry->nodeid, *handle, 512 << 10, 64 << 10);
    ASSERT_TRUE(waiting);
    ASSERT_TRUE(server_->wait_for_held(FUSE_READ, 1, kLimit));
    expect_others_are_served();
    EXPECT_FALSE((*waiting)->ended());
    server_->let_go_all();
    const auto reply = (*waiting)->wait(driver::after(kLimit));
    ASSERT_TRUE(reply) << reply.error().name();
    EXPECT_EQ(reply->size(), 64U << 10);
    client_->release(entry->nodeid, *handle);
    device_->disconnect(); // its nodes keep the disk busy
    EXPECT_TRUE(daemon_->wait_for_log("front end left", kLimit));
}

// What is written to memory after the device has said that it is done with it.
class LateAnswer : public HungShare, public testing::WithParamInterface<bool> {
protected:
    // Every byte of the front end's memory, and none of it changes any more.
    void fill_memory() {
        for (const auto* const region : device_->memory().regions())
            std::fill_n(region->host, region->bytes, std::byte{0xa5});
    }
    std::size_t changed_bytes() {
        std::size_t changed = 0;
        for (const auto* const region : device_->memory().regions())
            changed += region->bytes - static_cast<std::size_t>(std::count(
                                           region->host, region->host + region->bytes, std::byte{0xa5}));
        return changed;
    }
};

TEST_P(LateAnswer, changes_not_one_byte_of_memory_that_the_front_end_uses_again) {
    mount_server({.direct_io = GetParam()});
    if (IsSkipped()) return;
    start({"--drain-timeout", "200"});
    open_slow();
    server_->hold(FUSE_READ);
    auto waiting = client_->on_queue(0).begin_read(node_, handle_, 0, 8192);
    ASSERT_TRUE(waiting);
    ASSERT_TRUE(server_->wait_for_held(FUSE_READ, 1, kLimit));

    const auto begin = std::chrono::steady_clock::now();
    (void)device_->stop_queue(1); // the answer says where the ring stands; the connection ends after it
    const auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_GE(took, 150ms);
    EXPECT_TRUE((*waiting)->ended());
    ASSERT_TRUE(daemon_->wait_for_log("device is dead", kLimit)) << daemon_->log();

    device_->disconnect(); // so that no thread of ours looks at the memory any more
    fill_memory();
    server_->let_go_all();
    ASSERT_TRUE(daemon_->wait_for_log("the last requests of a dead device have ended", kLimit))
        << daemon_->log();
    EXPECT_EQ(changed_bytes(), 0U);

    // The daemon goes on, for the next front end.
    waiting->reset(); // its memory is the device's
    connect();
    expect_others_are_served();
}

INSTANTIATE_TEST_SUITE_P(Reads, LateAnswer, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "direct" : "buffered"; });

TEST_F(HungShare, direct_files_are_read_and_written_on_the_ring_only) {
    const int can_direct = ::open(folder_.file("share/local").c_str(), O_RDONLY | O_DIRECT);
    if (can_direct < 0) GTEST_SKIP() << "the file system of the temporary folder has no O_DIRECT";
    ::close(can_direct);
    if (::access("/usr/bin/strace", X_OK) != 0) GTEST_SKIP() << "strace is not installed";

    const std::string trace = folder_.file("trace");
    auto started = test::Daemon::start(
        {.argv = {"/usr/bin/strace", "-f", "-E", "ASAN_OPTIONS=detect_leaks=0", "-o", trace, "-e",
                  "trace=openat,close,pread64,preadv,preadv2,pwrite64,pwritev,pwritev2",
                  test::program("viaductd"), "--shared-dir", share_, "--socket-path", socket_,
                  "--allow-direct-io", "--workers", "1"},
         .socket = socket_});
    ASSERT_TRUE(started) << started.error().message;
    daemon_ = std::move(*started);
    connect();
    const auto entry = client_->lookup(FuseClient::kRoot, "local");
    ASSERT_TRUE(entry);
    const auto handle = client_->open(entry->nodeid, O_RDWR | O_DIRECT);
    ASSERT_TRUE(handle);
    EXPECT_EQ(client_->read(entry->nodeid, *handle, 0, 4096), std::string(4096, 'l'));
    EXPECT_EQ(client_->write(entry->nodeid, *handle, 4096, std::string(4096, 'w')), 4096U);
    // Neither offset nor length fit a block: the client's alignment is its own affair.
    EXPECT_EQ(client_->read(entry->nodeid, *handle, 4090, 12), std::string(6, 'l') + std::string(6, 'w'));
    EXPECT_EQ(client_->write(entry->nodeid, *handle, 8190, "tail"), 4U);
    EXPECT_EQ(client_->read(entry->nodeid, *handle, 8000, 4096), std::string(190, 'w') + "tail");
    client_->release(entry->nodeid, *handle);
    device_->disconnect();
    ASSERT_EQ(daemon_->wait(kLimit), 0) << daemon_->log();
    EXPECT_EQ(folder_.read("share/local"), std::string(4096, 'l') + std::string(4094, 'w') + "tail");

    std::set<std::string> direct; // descriptors open with O_DIRECT
    std::size_t opened = 0;
    std::ifstream lines{trace};
    for (std::string line; std::getline(lines, line);) {
        const std::size_t paren = line.find('(');
        if (paren == std::string::npos) continue;
        const std::string fd = line.substr(paren + 1, line.find_first_of(",)", paren) - paren - 1);
        if (line.find("openat(") != std::string::npos) {
            const std::size_t result = line.rfind("= ");
            const std::string number = line.substr(result + 2);
            direct.erase(number);
            if (line.find("O_DIRECT,") == std::string::npos && line.find("O_DIRECT|") == std::string::npos &&
                line.find("O_DIRECT)") == std::string::npos)
                continue;
            direct.insert(number);
            ++opened;
        } else if (line.find("close(") != std::string::npos) {
            direct.erase(fd);
        } else {
            EXPECT_FALSE(direct.contains(fd)) << line;
        }
    }
    EXPECT_GE(opened, 1U);
}

} // namespace
} // namespace viaduct
