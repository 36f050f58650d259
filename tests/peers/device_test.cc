// SPDX-License-Identifier: Apache-2.0
//
// What load.sh does not reach of our driver, on the daemons of others: memory that comes and goes, queues
// that stop and start, a reset.  QEMU's virtiofsd has no RESET_DEVICE.
#include "driver/device.h"
#include "driver/fuse_client.h"
#include "support/daemon.h"
#include "support/temp_dir.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace viaduct {
namespace {

struct Peer {
    const char* name;
    const char* program;
    std::vector<std::string> (*arguments)(const std::string& share, const std::string& socket);
    const char* how_to_get_it;
};

constexpr std::uint64_t kRoot = 1; // FUSE_ROOT_ID

class Peers : public testing::TestWithParam<Peer> {
protected:
    void SetUp() override {
        if (::geteuid() != 0) GTEST_SKIP() << "these daemons run as root";
        if (::access(GetParam().program, X_OK) != 0)
            GTEST_SKIP() << GetParam().program << " is missing: " << GetParam().how_to_get_it;
        const std::string socket = folder_.file("socket");
        std::vector<std::string> argv = GetParam().arguments(folder_.make_folder("share"), socket);
        argv.insert(argv.begin(), GetParam().program);
        auto daemon = test::Daemon::start({.argv = argv, .socket = socket});
        ASSERT_TRUE(daemon) << daemon.error().message;
        daemon_ = *std::move(daemon);
        auto device = driver::Device::connect({.socket = socket, .request_queues = 2, .queue_size = 64});
        ASSERT_TRUE(device) << device.error().message;
        device_ = *std::move(device);
        client_.emplace(*device_, driver::FuseClientOptions{.queue = 0});
        ASSERT_TRUE(client_->init());
    }

    const test::TempDir folder_;
    std::unique_ptr<test::Daemon> daemon_;
    std::unique_ptr<driver::Device> device_;
    std::optional<driver::FuseClient> client_;
};

INSTANTIATE_TEST_SUITE_P(
    Daemons, Peers,
    testing::Values(
        Peer{"rust", RUST_VIRTIOFSD,
             [](const std::string& share, const std::string& socket) -> std::vector<std::string> {
                 return {"--sandbox=none", "--seccomp=none", "--log-level=error", "--shared-dir=" + share,
                         "--socket-path=" + socket};
             },
             "tools/peer-virtiofsd fetches it"},
        Peer{"qemu", "/usr/lib/qemu/virtiofsd",
             [](const std::string& share, const std::string& socket) -> std::vector<std::string> {
                 return {"-f", "-o", "source=" + share, "-o", "sandbox=chroot", "--socket-path=" + socket};
             },
             "it is in Debian 12's package qemu-system-common"}),
    [](const auto& info) { return std::string{info.param.name}; });

TEST_P(Peers, memory_comes_and_goes) {
    for (int round = 0; round < 3; ++round) {
        const auto region = device_->add_memory(16ULL << 20);
        ASSERT_TRUE(region) << region.error().name();
        EXPECT_TRUE(client_->getattr(kRoot));
        ASSERT_TRUE(device_->remove_memory(**region));
        EXPECT_TRUE(client_->getattr(kRoot));
    }
}

TEST_P(Peers, queues_that_stop_go_on_where_they_were) {
    for (int round = 0; round < 3; ++round) {
        ASSERT_TRUE(client_->getattr(kRoot));
        ASSERT_TRUE(device_->stop());
        ASSERT_TRUE(device_->start());
    }
    EXPECT_TRUE(client_->getattr(kRoot));
    EXPECT_TRUE(device_->alive());
}

TEST_P(Peers, a_reset_begins_anew) {
    for (int round = 0; round < 3; ++round) {
        ASSERT_TRUE(client_->getattr(kRoot));
        ASSERT_TRUE(device_->reset());
        ASSERT_TRUE(client_->init());
    }
    EXPECT_TRUE(client_->getattr(kRoot));
    EXPECT_TRUE(device_->alive());
}

} // namespace
} // namespace viaduct
