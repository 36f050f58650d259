// SPDX-License-Identifier: Apache-2.0
//
// Locks that hold beyond one client: among owners of a device, between devices, mounts and programs of the
// host.
#include "driver/fuse_client.h"
#include "support/mounted_share.h"
#include "support/run_program.h"
#include "support/served_share.h"
#include "support/waiting.h"

#include <gtest/gtest.h>

#include <csignal>
#include <fcntl.h>
#include <future>
#include <optional>
#include <poll.h>
#include <sys/file.h>
#include <sys/wait.h>

namespace viaduct::test {
namespace {

using namespace std::chrono_literals;
using driver::FuseClient;

constexpr std::uint64_t kLockFlags = FUSE_POSIX_LOCKS | FUSE_FLOCK_LOCKS;

// A program of the host with the file open; its locks are those of its descriptor.
class HostFile {
public:
    explicit HostFile(const std::string& path)
        : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {}
    Status set(short type, off_t start = 0, off_t length = 0, int command = F_OFD_SETLK) const {
        struct flock range{};
        range.l_type = type;
        range.l_start = start;
        range.l_len = length;
        if (::fcntl(fd_.get(), command, &range) != 0) return fail(errno == EACCES ? EAGAIN : errno);
        return {};
    }
    Status flock(int how) const {
        if (::flock(fd_.get(), how) != 0) return fail(errno);
        return {};
    }
    void close() { fd_.reset(); }

private:
    Fd fd_;
};

// A guest with a file open.
class Guest {
public:
    explicit Guest(const std::string& socket) {
        auto connected = driver::Device::connect({.socket = socket, .request_queues = 2, .queue_size = 64});
        if (!connected) {
            ADD_FAILURE() << connected.error().message;
            return;
        }
        device = *std::move(connected);
        client.emplace(*device);
    }
    void begin(const std::string& name = "file") {
        ASSERT_TRUE(client);
        ASSERT_TRUE(client->init(FuseClient::kInitFlags | kLockFlags));
        const auto entry = client->lookup(FuseClient::kRoot, name);
        ASSERT_TRUE(entry);
        node = entry->nodeid;
        const auto opened = client->open(node, O_RDWR);
        ASSERT_TRUE(opened);
        handle = *opened;
    }
    driver::CallOptions lock_call(std::uint32_t opcode, std::uint64_t owner, std::uint32_t type,
                                  std::uint64_t first = 0, std::uint64_t last = INT64_MAX,
                                  std::uint32_t flags = 0) const {
        auto options = client->call_options(opcode, node);
        fuse_lk_in in{};
        in.fh = handle;
        in.owner = owner;
        in.lk = {.start = first, .end = last, .type = type, .pid = static_cast<std::uint32_t>(1000 + owner)};
        in.lk_flags = flags;
        options.add(in);
        options.reply_bytes_max = opcode == FUSE_GETLK ? sizeof(fuse_lk_out) : 0;
        return options;
    }
    Status set(std::uint64_t owner, std::uint32_t type, std::uint64_t first = 0,
               std::uint64_t last = INT64_MAX) {
        const auto reply = client->call(lock_call(FUSE_SETLK, owner, type, first, last));
        if (!reply) return fail(reply.error());
        return {};
    }
    Status flock(std::uint64_t owner, std::uint32_t type) {
        const auto reply = client->call(lock_call(FUSE_SETLK, owner, type, 0, INT64_MAX, FUSE_LK_FLOCK));
        if (!reply) return fail(reply.error());
        return {};
    }
    Result<fuse_file_lock> get(std::uint64_t owner, std::uint32_t type) {
        TRY(const auto reply, client->call(lock_call(FUSE_GETLK, owner, type)));
        if (reply.size() < sizeof(fuse_lk_out)) return fail(EIO);
        fuse_lk_out out{};
        std::memcpy(&out, reply.data(), sizeof out);
        return out.lk;
    }
    std::shared_ptr<driver::Call> begin_wait(std::uint64_t owner, std::uint32_t type,
                                             std::uint32_t flags = 0) {
        auto call = client->begin(lock_call(FUSE_SETLKW, owner, type, 0, INT64_MAX, flags));
        EXPECT_TRUE(call);
        // Served in order: it waits when this one is answered.
        EXPECT_TRUE(client->getattr(node));
        return *call;
    }
    static Status end_of(driver::Call& call) {
        const auto reply = call.wait(driver::after(kPatience));
        if (!reply) return fail(reply.error());
        return {};
    }

    std::unique_ptr<driver::Device> device;
    std::optional<FuseClient> client;
    std::uint64_t node = 0;
    std::uint64_t handle = 0;
};

TEST(Locks, a_device_leaves_them_to_its_client_unless_told) {
    ServedShare share;
    HostFile{share.share() + "/file"}.close();
    Guest guest{share.socket()};
    ASSERT_TRUE(guest.client);
    const auto init = guest.client->init(FuseClient::kInitFlags | kLockFlags);
    ASSERT_TRUE(init);
    EXPECT_EQ(init->flags & kLockFlags, 0U);
    const auto entry = guest.client->lookup(FuseClient::kRoot, "file");
    ASSERT_TRUE(entry);
    guest.node = entry->nodeid;
    EXPECT_EQ(guest.set(1, F_WRLCK).error(), Errno{ENOSYS});
}

class DeviceLocks : public testing::Test {
protected:
    void SetUp() override { guest.begin(); }

    // One worker: who waits must not hold it.
    ServedShare share{{"--posix-lock", "--flock", "--workers", "1"}};
    HostFile host{share.share() + "/file"};
    Guest guest{share.socket()};
};

TEST_F(DeviceLocks, owners_exclude_each_other_and_getlk_says_who) {
    EXPECT_TRUE(guest.set(1, F_WRLCK, 10, 19));
    EXPECT_EQ(guest.set(2, F_RDLCK, 19, 30).error(), Errno{EAGAIN});
    EXPECT_TRUE(guest.set(2, F_RDLCK, 20, 30));
    const auto found = guest.get(3, F_WRLCK);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->type, static_cast<std::uint32_t>(F_WRLCK));
    EXPECT_EQ(found->start, 10U);
    EXPECT_EQ(found->end, 19U);
    EXPECT_EQ(found->pid, 1001U);
    EXPECT_TRUE(guest.set(1, F_UNLCK));
    EXPECT_TRUE(guest.set(2, F_UNLCK));
    EXPECT_EQ(guest.get(3, F_WRLCK)->type, static_cast<std::uint32_t>(F_UNLCK));
    EXPECT_EQ(guest.set(1, F_WRLCK, 20, 10).error(), Errno{EINVAL});
    EXPECT_EQ(guest.set(1, 99).error(), Errno{EINVAL});
}

TEST_F(DeviceLocks, a_lock_is_waited_for_without_holding_the_worker) {
    EXPECT_TRUE(guest.set(1, F_WRLCK));
    const auto second = guest.begin_wait(2, F_WRLCK);
    const auto third = guest.begin_wait(3, F_WRLCK);
    for (int round = 0; round < 100; ++round) EXPECT_TRUE(guest.client->getattr(guest.node));
    EXPECT_FALSE(second->ended());
    EXPECT_TRUE(guest.set(1, F_UNLCK));
    EXPECT_TRUE(Guest::end_of(*second));
    EXPECT_FALSE(third->ended());
    EXPECT_TRUE(guest.set(2, F_UNLCK));
    EXPECT_TRUE(Guest::end_of(*third));
}

TEST_F(DeviceLocks, flush_lets_go_of_the_owners_and_release_of_the_files) {
    EXPECT_TRUE(guest.set(1, F_WRLCK));
    auto flush = guest.client->call_options(FUSE_FLUSH, guest.node);
    flush.add(fuse_flush_in{.fh = guest.handle, .lock_owner = 1});
    EXPECT_TRUE(guest.client->call(flush));
    EXPECT_TRUE(host.set(F_WRLCK));
    EXPECT_TRUE(host.set(F_UNLCK));

    // An OFD lock's owner is the open file, which FLUSH does not name.
    EXPECT_TRUE(guest.set(7, F_WRLCK));
    EXPECT_TRUE(guest.flock(8, F_WRLCK));
    EXPECT_TRUE(guest.client->call(flush));
    EXPECT_EQ(host.set(F_WRLCK).error(), Errno{EAGAIN});
    EXPECT_EQ(host.flock(LOCK_EX | LOCK_NB).error(), Errno{EWOULDBLOCK});
    EXPECT_TRUE(guest.client->release(guest.node, guest.handle));
    EXPECT_TRUE(host.set(F_WRLCK));
    EXPECT_TRUE(host.flock(LOCK_EX | LOCK_NB));
}

TEST_F(DeviceLocks, an_interrupt_ends_a_wait) {
    EXPECT_TRUE(guest.set(1, F_WRLCK));
    const auto wait = guest.begin_wait(2, F_WRLCK);
    EXPECT_TRUE(guest.client->interrupt(*wait));
    EXPECT_EQ(Guest::end_of(*wait).error(), Errno{EINTR});
    EXPECT_TRUE(guest.set(1, F_UNLCK));
    EXPECT_TRUE(guest.set(3, F_WRLCK));
}

TEST_F(DeviceLocks, the_end_of_a_session_ends_waits_and_locks) {
    EXPECT_TRUE(guest.set(1, F_WRLCK));
    EXPECT_TRUE(guest.flock(1, F_WRLCK));
    const auto wait = guest.begin_wait(2, F_WRLCK);
    const auto flock_wait = guest.begin_wait(2, F_WRLCK, FUSE_LK_FLOCK);
    EXPECT_TRUE(guest.client->destroy());
    EXPECT_EQ(Guest::end_of(*wait).error(), Errno{ENOLCK});
    EXPECT_EQ(Guest::end_of(*flock_wait).error(), Errno{ENOLCK});
    EXPECT_TRUE(host.set(F_WRLCK));
    EXPECT_TRUE(host.flock(LOCK_EX | LOCK_NB));
}

// A stop of the queues waits for requests; the default would be ten seconds, after which the device is dead.
TEST_F(DeviceLocks, a_front_end_that_goes_is_not_held_up_by_a_wait) {
    EXPECT_TRUE(guest.set(1, F_WRLCK));
    (void)guest.begin_wait(2, F_WRLCK); // what the device has keeps itself; ours must not outlive the device
    guest.client.reset();
    guest.device.reset();
    EXPECT_TRUE(wait_until([&] { return host.set(F_WRLCK).has_value(); }, kPatience));
    EXPECT_EQ(share.daemon().log().find("dead"), std::string::npos);
    EXPECT_TRUE(host.set(F_UNLCK));
    Guest next{share.socket()};
    ASSERT_NO_FATAL_FAILURE(next.begin());
    EXPECT_TRUE(next.set(1, F_WRLCK));
}

TEST_F(DeviceLocks, the_daemon_ends_while_somebody_waits) {
    EXPECT_TRUE(guest.set(1, F_WRLCK));
    const auto wait = guest.begin_wait(2, F_WRLCK);
    EXPECT_EQ(share.daemon().end(), 0);
}

TEST_F(DeviceLocks, programs_of_the_host_and_clients_exclude_each_other) {
    EXPECT_TRUE(host.set(F_WRLCK, 0, 10));
    EXPECT_EQ(guest.set(1, F_RDLCK).error(), Errno{EAGAIN});
    EXPECT_TRUE(guest.set(1, F_WRLCK, 10, 99));
    const auto found = guest.get(2, F_RDLCK);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->start, 10U); // that of the table comes first
    EXPECT_TRUE(guest.set(1, F_UNLCK));
    const auto foreign = guest.get(2, F_RDLCK);
    ASSERT_TRUE(foreign);
    EXPECT_EQ(foreign->type, static_cast<std::uint32_t>(F_WRLCK));
    EXPECT_EQ(foreign->end, 9U);
    EXPECT_EQ(foreign->pid, 0U);
    EXPECT_TRUE(guest.set(1, F_RDLCK, 20, 29));
    EXPECT_EQ(host.set(F_WRLCK, 25, 1).error(), Errno{EAGAIN});
    EXPECT_TRUE(host.set(F_RDLCK, 25, 1));
    EXPECT_EQ(guest.set(1, F_WRLCK, 20, 29).error(), Errno{EAGAIN});

    EXPECT_TRUE(host.flock(LOCK_SH));
    EXPECT_TRUE(guest.flock(1, F_RDLCK));
    EXPECT_EQ(guest.flock(1, F_WRLCK).error(), Errno{EAGAIN});
}

TEST_F(DeviceLocks, a_lock_of_the_host_is_waited_for) {
    EXPECT_TRUE(host.set(F_WRLCK));
    EXPECT_TRUE(host.flock(LOCK_EX));
    const auto wait = guest.begin_wait(1, F_WRLCK);
    const auto flock_wait = guest.begin_wait(1, F_WRLCK, FUSE_LK_FLOCK);
    EXPECT_FALSE(wait->ended());
    EXPECT_FALSE(flock_wait->ended());
    host.close();
    EXPECT_TRUE(Guest::end_of(*wait));
    EXPECT_TRUE(Guest::end_of(*flock_wait));
}

TEST_F(DeviceLocks, two_devices_of_one_folder_exclude_each_other) {
    const TempDir folder;
    const std::string socket = folder.file("socket");
    auto other = Daemon::start(
        {.argv = {program("viaduct"), "serve", "--share", share.share(), "--socket", socket, "--posix-lock"},
         .socket = socket});
    ASSERT_TRUE(other) << other.error().message;
    Guest second{socket};
    ASSERT_NO_FATAL_FAILURE(second.begin());
    EXPECT_TRUE(guest.set(1, F_WRLCK));
    EXPECT_EQ(second.set(1, F_WRLCK).error(), Errno{EAGAIN});
    const auto wait = second.begin_wait(1, F_WRLCK);
    EXPECT_TRUE(guest.set(1, F_UNLCK));
    EXPECT_TRUE(Guest::end_of(*wait));
    EXPECT_EQ(guest.set(1, F_WRLCK).error(), Errno{EAGAIN});
}

// A process that locks and then sleeps, or waits to be told to go.
class Locker {
public:
    enum class Kind { posix, ofd, flock };
    Locker(const std::string& path, Kind kind, bool keep) {
        if (::pipe2(pipe_, O_CLOEXEC) != 0) std::abort();
        pid_ = ::fork();
        if (pid_ != 0) {
            ::close(pipe_[1]);
            return;
        }
        // System calls only: other threads' locks are held for ever here.
        ::signal(SIGUSR1, SIG_DFL);
        const int fd = ::open(path.c_str(), O_RDWR);
        struct flock range{};
        range.l_type = F_WRLCK;
        const int locked = kind == Kind::flock
                               ? ::flock(fd, LOCK_EX)
                               : ::fcntl(fd, kind == Kind::posix ? F_SETLKW : F_OFD_SETLKW, &range);
        const char result = locked == 0 ? 'L' : 'E';
        if (::write(pipe_[1], &result, 1) != 1) ::_exit(3);
        while (keep) ::pause();
        ::_exit(0);
    }
    ~Locker() {
        kill();
        ::close(pipe_[0]);
    }
    Locker(const Locker&) = delete;
    Locker& operator=(const Locker&) = delete;

    // Has it got its lock within that time?
    bool locked(std::chrono::milliseconds limit) const {
        pollfd look{.fd = pipe_[0], .events = POLLIN, .revents = 0};
        char result = 0;
        return ::poll(&look, 1, static_cast<int>(limit.count())) == 1 && ::read(pipe_[0], &result, 1) == 1 &&
               result == 'L';
    }
    // false: it did not end.
    bool kill() {
        if (pid_ <= 0) return true;
        ::kill(pid_, SIGKILL);
        const bool ended =
            wait_until([this] { return ::waitpid(pid_, nullptr, WNOHANG) == pid_; }, kPatience);
        pid_ = 0;
        return ended;
    }

private:
    pid_t pid_ = 0;
    int pipe_[2] = {-1, -1};
};

class MountLocks : public testing::TestWithParam<Locker::Kind> {
protected:
    void SetUp() override {
        if (const std::string reason = no_mounts_because(); !reason.empty()) GTEST_SKIP() << reason;
        HostFile{mounted.in_share("file")}.close();
        ASSERT_TRUE(mounted.mount({"--workers", "1"}));
    }
    void TearDown() override {
        // Busy for a moment after the last close: seen for up to 2.5 ms.
        if (!mount_line(mounted.mountpoint()).empty())
            EXPECT_TRUE(wait_until([&] { return mounted.unmount().has_value(); }, kPatience));
    }
    // Without waiting, by an open file of the test's own.
    bool is_free(const std::string& path) const {
        const HostFile file{path};
        if (GetParam() == Locker::Kind::flock) return file.flock(LOCK_EX | LOCK_NB).has_value();
        return file.set(F_WRLCK).has_value();
    }
    // For what must not happen; long enough to see it when it does.
    static constexpr auto kMoment = 30ms;

    MountedShare mounted;
};

TEST_P(MountLocks, a_process_that_holds_one_excludes_others_in_the_mount_and_on_the_host) {
    Locker holder{mounted.in_mount("file"), GetParam(), true};
    ASSERT_TRUE(holder.locked(kPatience));
    EXPECT_FALSE(is_free(mounted.in_mount("file")));
    EXPECT_FALSE(is_free(mounted.in_share("file")));
    EXPECT_TRUE(holder.kill());
    // Closing tells the daemon by itself, and is not waited for.
    EXPECT_TRUE(wait_until([&] { return is_free(mounted.in_share("file")); }, kPatience));
    EXPECT_TRUE(is_free(mounted.in_mount("file")));
}

TEST_P(MountLocks, a_program_of_the_host_is_waited_for_and_its_death_ends_it) {
    Locker holder{mounted.in_share("file"), GetParam(), true};
    ASSERT_TRUE(holder.locked(kPatience));
    EXPECT_FALSE(is_free(mounted.in_mount("file")));
    Locker waiter{mounted.in_mount("file"), GetParam(), true};
    EXPECT_FALSE(waiter.locked(kMoment));
    EXPECT_TRUE(holder.kill());
    EXPECT_TRUE(waiter.locked(kPatience));
}

TEST_P(MountLocks, six_who_wait_hold_up_nobody_and_get_it_one_by_one) {
    Locker holder{mounted.in_mount("file"), GetParam(), true};
    ASSERT_TRUE(holder.locked(kPatience));
    std::vector<std::unique_ptr<Locker>> waiters;
    for (int count = 0; count < 6; ++count)
        waiters.push_back(std::make_unique<Locker>(mounted.in_mount("file"), GetParam(), false));
    for (const auto& waiter : waiters) EXPECT_FALSE(waiter->locked(kMoment / 6));
    for (int round = 0; round < 100; ++round) {
        const std::string path = mounted.in_mount("other" + std::to_string(round));
        const Fd made{::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)};
        EXPECT_TRUE(made);
        EXPECT_EQ(::unlink(path.c_str()), 0);
    }
    EXPECT_TRUE(holder.kill());
    for (const auto& waiter : waiters) EXPECT_TRUE(waiter->locked(kPatience));
}

TEST_P(MountLocks, a_process_that_waits_can_be_killed) {
    Locker holder{mounted.in_mount("file"), GetParam(), true};
    ASSERT_TRUE(holder.locked(kPatience));
    Locker waiter{mounted.in_mount("file"), GetParam(), true};
    EXPECT_FALSE(waiter.locked(kMoment));
    EXPECT_TRUE(waiter.kill());
    EXPECT_TRUE(holder.kill());
    EXPECT_TRUE(wait_until([&] { return is_free(mounted.in_mount("file")); }, kPatience));
}

TEST_P(MountLocks, two_mounts_of_one_folder_exclude_each_other) {
    const TempDir folder;
    const std::string second = folder.make_folder("second");
    auto other = Daemon::start(
        {.argv = {program("viaduct"), "mount", mounted.share(), second, "--workers", "1"}, .socket = {}});
    ASSERT_TRUE(other) << other.error().message;
    ASSERT_TRUE((*other)->wait_for_log("mounted /", kPatience));
    {
        Locker holder{mounted.in_mount("file"), GetParam(), true};
        ASSERT_TRUE(holder.locked(kPatience));
        EXPECT_FALSE(is_free(second + "/file"));
        Locker waiter{second + "/file", GetParam(), true};
        EXPECT_FALSE(waiter.locked(kMoment));
        EXPECT_TRUE(holder.kill());
        EXPECT_TRUE(waiter.locked(kPatience));
        EXPECT_FALSE(is_free(mounted.in_mount("file")));
    }
    EXPECT_EQ((*other)->end(), 0);
    EXPECT_EQ(mount_line(second), "");
}

TEST_P(MountLocks, without_the_options_they_hold_in_the_mount_only) {
    ASSERT_TRUE(mounted.unmount());
    EXPECT_EQ(mounted.daemon().wait(kPatience), 0);
    ASSERT_TRUE(mounted.mount({"--no-posix-lock", "--no-flock"}));
    Locker holder{mounted.in_mount("file"), GetParam(), true};
    ASSERT_TRUE(holder.locked(kPatience));
    EXPECT_FALSE(is_free(mounted.in_mount("file")));
    EXPECT_TRUE(is_free(mounted.in_share("file")));
}

TEST_P(MountLocks, the_daemon_ends_while_somebody_waits) {
    Locker holder{mounted.in_mount("file"), GetParam(), true};
    ASSERT_TRUE(holder.locked(kPatience));
    Locker waiter{mounted.in_mount("file"), GetParam(), true};
    EXPECT_FALSE(waiter.locked(kMoment));
    EXPECT_EQ(mounted.daemon().end(), 0);
    EXPECT_TRUE(is_free(mounted.in_share("file")));
    EXPECT_EQ(mounted.daemon().log().find("did not end in time"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Kinds, MountLocks,
                         testing::Values(Locker::Kind::posix, Locker::Kind::ofd, Locker::Kind::flock),
                         [](const auto& info) {
                             return info.param == Locker::Kind::posix ? "posix"
                                    : info.param == Locker::Kind::ofd ? "ofd"
                                                                      : "flock";
                         });

} // namespace
} // namespace viaduct::test
