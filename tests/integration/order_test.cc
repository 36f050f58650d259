// SPDX-License-Identifier: Apache-2.0
//
// The messages of QEMU 7.2 and QEMU 10 in their order, from the start of a guest over its reboot to its end,
// and what the daemons do when a front end is gone or a signal comes.
#include "support/raw_guest.h"
#include "support/served_share.h"
#include "support/waiting.h"

#include <gtest/gtest.h>

#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sys/socket.h>
#include <sys/wait.h>

namespace viaduct::test {
namespace {

using vhost::Request;

constexpr std::uint32_t kQueues = 5;

enum class Version : std::uint8_t { qemu_7_2, qemu_10 };

// A VMM: what QEMU says, with the acknowledgements that it asks for.
class Qemu {
public:
    Qemu(Version version, RawGuest& guest) : new_(version == Version::qemu_10), guest_(guest) {}

    // The VMM starts; the guest's driver is not there yet.
    void start() {
        const std::uint64_t offered = ask(Request::get_features);
        ASSERT_NE(offered & vhost::kFeatureProtocolFeatures, 0U);
        const std::uint64_t protocol = ask(Request::get_protocol_features);
        tell(Request::set_protocol_features, protocol & ~vhost::kProtocolConfig);
        ASSERT_EQ(ask(Request::get_queue_num), kQueues);
        ASSERT_GE(ask(Request::get_max_mem_slots), 1U);
        int ends[2];
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        channel_ = Fd{ends[0]};
        const Fd theirs{ends[1]};
        send(Request::set_backend_req_fd, {}, theirs.get(), true);
        send(Request::set_owner, {});
        ask(Request::get_features);
        for (std::uint32_t queue = 0; queue < kQueues; ++queue) {
            event(Request::set_vring_call, queue, guest_.call_fd(queue));
            event(Request::set_vring_err, queue, guest_.error_fd(queue));
        }
        if (!new_) return;
        send(Request::reset_device, {});
        send(Request::reset_device, {}); // the driver's first reset
    }
    // DRIVER_OK.
    void run(bool memory_is_known) {
        for (std::uint32_t queue = 0; queue < kQueues; ++queue)
            event(Request::set_vring_call, queue, guest_.call_fd(queue));
        tell(Request::set_features,
             guest_.wanted_features() | vhost::kFeatureProtocolFeatures | virtio::kFeatureRingReset);
        if (!memory_is_known) {
            const vhost::RegionDescription region = guest_.region(0, guest_.bytes()).description;
            send(Request::add_mem_reg,
                 vhost::encode(vhost::SingleRegion{.padding = 0,
                                                   .region = {.guest_address = region.guest_address,
                                                              .bytes = region.bytes,
                                                              .user_address = region.user_address,
                                                              .mmap_offset = region.mmap_offset}}),
                 guest_.file(), true);
        }
        for (std::uint32_t queue = 0; queue < kQueues; ++queue) {
            guest_.lay_out(queue);
            const auto addresses = guest_.ring_addresses(queue);
            state(Request::set_vring_num, queue, 64);
            state(Request::set_vring_base, queue, guest_.first_base());
            send(Request::set_vring_addr,
                 vhost::encode(vhost::VringAddress{.index = queue,
                                                   .flags = 0,
                                                   .descriptor = addresses.descriptor,
                                                   .used = addresses.device,
                                                   .available = addresses.driver,
                                                   .log = 0}));
            event(Request::set_vring_kick, queue, guest_.kick_fd(queue));
        }
        for (std::uint32_t queue = 0; queue < kQueues; ++queue) enable(queue, true);
        for (std::uint32_t queue = 0; queue < kQueues; ++queue)
            event(Request::set_vring_call, queue, guest_.call_fd(queue));
    }
    void stop() {
        for (std::uint32_t queue = 0; queue < kQueues; ++queue) enable(queue, false);
        for (std::uint32_t queue = 0; queue < kQueues; ++queue)
            ASSERT_TRUE(guest_.front_end().get_vring_base(queue));
        for (std::uint32_t queue = 0; queue < kQueues; ++queue)
            event(Request::set_vring_call, queue, guest_.call_fd(queue));
    }
    void reboot() {
        stop();
        if (new_)
            for (int count = 0; count < 3; ++count) send(Request::reset_device, {});
    }

private:
    void send(Request request, const std::vector<std::byte>& payload, int fd = -1,
              bool acknowledged = false) {
        const std::span<const int> fds{&fd, fd < 0 ? 0U : 1U};
        ASSERT_TRUE(
            guest_.front_end().send_request(request, payload, fds, acknowledged ? vhost::kFlagNeedReply : 0));
        if (!acknowledged) return;
        const auto reply = guest_.front_end().receive();
        ASSERT_TRUE(reply) << vhost::name_of(request);
        ASSERT_EQ(reply->request(), request);
        ASSERT_EQ(vhost::decode<std::uint64_t>(reply->payload), 0U) << vhost::name_of(request);
    }
    void tell(Request request, std::uint64_t value) { send(request, vhost::encode(value)); }
    std::uint64_t ask(Request request) {
        send(request, {});
        const auto reply = guest_.front_end().receive();
        EXPECT_TRUE(reply && reply->request() == request) << vhost::name_of(request);
        return reply ? vhost::decode<std::uint64_t>(reply->payload).value_or(0) : 0;
    }
    void event(Request request, std::uint32_t queue, int fd) {
        send(request, vhost::encode(std::uint64_t{queue}), fd);
    }
    void state(Request request, std::uint32_t queue, std::uint32_t value) {
        send(request, vhost::encode(vhost::VringState{.index = queue, .num = value}));
    }
    void enable(std::uint32_t queue, bool on) {
        send(Request::set_vring_enable, vhost::encode(vhost::VringState{.index = queue, .num = on ? 1U : 0U}),
             -1, new_);
    }

    const bool new_;
    RawGuest& guest_;
    Fd channel_;
};

struct Way {
    const char* name;
    Version version;
    bool packed = false;
};

class Order : public testing::TestWithParam<Way> {
protected:
    std::unique_ptr<RawGuest> connect() {
        return RawGuest::connect({.socket = share.socket(),
                                  .queues = kQueues,
                                  .size = 64,
                                  .packed = GetParam().packed,
                                  .event_idx = true,
                                  .negotiate = false});
    }
    static void mount_and_use(RawGuest& guest) {
        ASSERT_TRUE(guest.say(1, init_request()));
        for (std::uint32_t queue = 0; queue < kQueues; ++queue) EXPECT_TRUE(guest.serves(queue)) << queue;
    }
    ServedShare share;
};

INSTANTIATE_TEST_SUITE_P(Versions, Order,
                         testing::Values(Way{"qemu_7_2", Version::qemu_7_2}, Way{"qemu_10", Version::qemu_10},
                                         Way{"qemu_10_packed", Version::qemu_10, true}),
                         [](const auto& info) { return info.param.name; });

TEST_P(Order, a_guest_boots_mounts_and_ends) {
    for (int round = 0; round < 3; ++round) {
        const auto guest = connect();
        ASSERT_TRUE(guest);
        Qemu qemu{GetParam().version, *guest};
        qemu.start();
        qemu.run(false);
        mount_and_use(*guest);
        qemu.reboot();
    }
}

TEST_P(Order, a_guest_that_reboots_finds_its_memory_known_and_its_session_gone) {
    std::ofstream{share.share() + "/file"} << "text";
    const auto guest = connect();
    ASSERT_TRUE(guest);
    Qemu qemu{GetParam().version, *guest};
    qemu.start();
    std::size_t fds = 0;
    for (int boot = 0; boot < 5; ++boot) {
        SCOPED_TRACE(boot);
        qemu.run(boot > 0);
        // After a reset of the device there is no session; without one it ends with the next INIT.
        if (boot > 0 && GetParam().version == Version::qemu_10)
            EXPECT_EQ(guest->say(1, getattr_request())->error, -EIO);
        mount_and_use(*guest);
        // Left open, as by a guest that is switched off.
        const auto piece = guest->add(1, FuseMessage{FUSE_LOOKUP, 1}.with_string("file").bytes());
        guest->kick(1);
        ASSERT_TRUE(guest->wait_for_all(1));
        std::uint64_t node = 0;
        const auto entry = guest->take(1, piece.value());
        ASSERT_GT(entry.size(), 24U);
        std::memcpy(&node, entry.data() + sizeof(fuse_out_header), sizeof node);
        const auto opened = guest->say(
            1, FuseMessage{FUSE_OPEN, node}.with(fuse_open_in{.flags = O_RDONLY, .open_flags = 0}).bytes());
        ASSERT_TRUE(opened);
        EXPECT_EQ(opened->error, 0);
        qemu.reboot();
        // Nothing acknowledges the last reset: what is answered after it comes after it.
        ASSERT_TRUE(guest->front_end().get_features());
        if (boot == 0) fds = share.daemon().open_fds();
    }
    EXPECT_TRUE(wait_until([&] { return share.daemon().open_fds() <= fds; }, kPatience))
        << fds << " became " << share.daemon().open_fds();
}

TEST_P(Order, a_driver_that_is_bound_again_goes_on) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    Qemu qemu{GetParam().version, *guest};
    qemu.start();
    for (int round = 0; round < 5; ++round) {
        qemu.run(round > 0);
        mount_and_use(*guest);
        // umount: no message of vhost-user at all.
        EXPECT_EQ(guest->say(1, FuseMessage{FUSE_DESTROY, 0}.bytes())->error, 0);
        mount_and_use(*guest);
        qemu.stop();
    }
}

TEST_P(Order, a_front_end_that_is_killed_makes_room_for_the_next) {
    for (int round = 0; round < 3; ++round) {
        int ends[2];
        ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
        const Fd reader{ends[0]};
        Fd writer{ends[1]};
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            const auto guest = connect();
            if (!guest) ::_exit(1);
            Qemu qemu{GetParam().version, *guest};
            qemu.start();
            qemu.run(false);
            mount_and_use(*guest);
            if (HasFailure() || ::write(writer.get(), "x", 1) != 1) ::_exit(1);
            while (guest->serves(1 + static_cast<std::uint32_t>(::rand()) % 4)) { // until it is killed
            }
            ::_exit(1);
        }
        writer.reset();
        char byte = 0;
        EXPECT_EQ(::read(reader.get(), &byte, 1), 1);
        ::kill(child, SIGKILL);
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFSIGNALED(status));
    }
    const auto next = connect();
    ASSERT_TRUE(next);
    Qemu qemu{GetParam().version, *next};
    qemu.start();
    qemu.run(false);
    mount_and_use(*next);
}

// How the programs end.
class Ending : public testing::Test {
protected:
    std::unique_ptr<Daemon> start_viaductd(const std::vector<std::string>& options = {}) {
        std::vector<std::string> argv{program("viaductd"), "--shared-dir", share, "--socket-path", socket};
        argv.insert(argv.end(), options.begin(), options.end());
        auto started = Daemon::start({.argv = std::move(argv), .socket = socket});
        if (started) return *std::move(started);
        ADD_FAILURE() << started.error().message;
        return nullptr;
    }
    std::unique_ptr<RawGuest> connect() {
        auto guest = RawGuest::connect({.socket = socket});
        if (guest && guest->start_session(1) && guest->serves(1)) return guest;
        ADD_FAILURE() << "no session";
        return nullptr;
    }
    const TempDir folder;
    const std::string share = folder.make_folder("share");
    const std::string socket = folder.file("socket");
};

TEST_F(Ending, viaductd_ends_with_its_front_end) {
    const auto daemon = start_viaductd();
    ASSERT_TRUE(daemon);
    ASSERT_TRUE(connect());
    EXPECT_EQ(daemon->wait(kPatience), 0) << daemon->log();
}

TEST_F(Ending, viaductd_listens_again_where_it_is_told_to) {
    const auto daemon = start_viaductd({"--keep-listening"});
    ASSERT_TRUE(daemon);
    for (int round = 0; round < 3; ++round) ASSERT_TRUE(connect());
    EXPECT_TRUE(daemon->running());
    daemon->send_signal(SIGTERM);
    EXPECT_EQ(daemon->wait(kPatience), 1) << daemon->log();
}

TEST_F(Ending, viaductd_says_1_when_a_signal_ends_it) {
    for (const bool connected : {false, true}) {
        const auto daemon = start_viaductd();
        ASSERT_TRUE(daemon);
        const auto guest = connected ? connect() : nullptr;
        daemon->send_signal(SIGTERM);
        EXPECT_EQ(daemon->wait(kPatience), 1) << daemon->log();
    }
}

TEST_F(Ending, serve_says_0_when_a_signal_ends_it_with_or_without_a_front_end) {
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
        for (const bool connected : {false, true}) {
            const auto daemon =
                Daemon::start({.argv = {program("viaduct"), "serve", "--share", share, "--socket", socket},
                               .socket = socket});
            ASSERT_TRUE(daemon) << daemon.error().message;
            const auto guest = connected ? connect() : nullptr;
            (*daemon)->send_signal(signal);
            EXPECT_EQ((*daemon)->wait(kPatience), 0) << (*daemon)->log();
            if (guest) EXPECT_EQ(guest->front_end().receive().error(), Errno{EPIPE});
        }
    }
}

TEST_F(Ending, serve_ends_with_its_first_front_end_where_it_is_told_to) {
    const auto daemon =
        Daemon::start({.argv = {program("viaduct"), "serve", "--share", share, "--socket", socket, "--once"},
                       .socket = socket});
    ASSERT_TRUE(daemon) << daemon.error().message;
    ASSERT_TRUE(connect());
    EXPECT_EQ((*daemon)->wait(kPatience), 0) << (*daemon)->log();
}

} // namespace
} // namespace viaduct::test
