// SPDX-License-Identifier: Apache-2.0
//
// `viaduct mount`: from the mount to the end, in the ways in which it ends.
#include "support/mounted_share.h"
#include "support/waiting.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>

namespace viaduct::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
namespace stdfs = std::filesystem;

constexpr auto kLimit = 60s;

// What can be read of it; a stream would throw at an error.
std::string contents(const std::string& path) {
    const Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    std::string text;
    char part[65536];
    for (ssize_t got = 0; file && (got = ::read(file.get(), part, sizeof part)) > 0;)
        text.append(part, static_cast<std::size_t>(got));
    return text;
}

bool write_file(const std::string& path, std::string_view text) {
    std::ofstream file{path, std::ios::binary};
    file << text;
    return file.flush().good();
}

// Relative path to type, mode, size and what is in it.
std::map<std::string, std::string> tree(const std::string& root) {
    std::map<std::string, std::string> found;
    for (const auto& entry : stdfs::recursive_directory_iterator{root}) {
        struct stat status{};
        EXPECT_EQ(::lstat(entry.path().c_str(), &status), 0);
        std::string text = std::to_string(status.st_mode) + " " + std::to_string(status.st_nlink);
        if (S_ISREG(status.st_mode)) text += " " + contents(entry.path());
        if (S_ISLNK(status.st_mode)) text += " " + stdfs::read_symlink(entry.path()).string();
        found.emplace(entry.path().lexically_relative(root), text);
    }
    return found;
}

std::string big_text() {
    std::string text(3'000'017, '\0');
    for (std::size_t index = 0; index < text.size(); ++index) text[index] = static_cast<char>(index * 7 >> 3);
    return text;
}

class MountTest : public testing::Test {
protected:
    void SetUp() override {
        if (const std::string reason = no_mounts_because(); !reason.empty()) GTEST_SKIP() << reason;
    }
    // A page of a file that is dirty in the mount and nowhere else.
    void make_dirty(const std::string& name) {
        ASSERT_TRUE(write_file(mounted.in_share(name), std::string(4096, 'a')));
        dirty_file = Fd{::open(mounted.in_mount(name).c_str(), O_RDWR | O_CLOEXEC)};
        ASSERT_TRUE(dirty_file);
        dirty = static_cast<char*>(
            ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, dirty_file.get(), 0));
        ASSERT_NE(dirty, MAP_FAILED);
        dirty[0] = 'D';
    }
    void TearDown() override {
        if (dirty != nullptr) ::munmap(dirty, 4096);
    }
    void expect_end(int status) {
        EXPECT_EQ(mounted.daemon().wait(kLimit), status);
        EXPECT_EQ(mount_line(mounted.mountpoint()), "");
    }

    MountedShare mounted;
    char* dirty = nullptr;
    Fd dirty_file; // closing it would write back
};

class MountOnEachRing : public MountTest, public testing::WithParamInterface<const char*> {};

TEST_P(MountOnEachRing, shows_the_directory_as_it_is) {
    ASSERT_TRUE(write_file(mounted.in_share("small"), "some text"));
    ASSERT_TRUE(write_file(mounted.in_share("big"), big_text()));
    ASSERT_TRUE(stdfs::create_directories(mounted.in_share("a/b/c")));
    ASSERT_TRUE(write_file(mounted.in_share("a/b/c/deep"), "deep"));
    stdfs::create_symlink("a/b/c/deep", mounted.in_share("link"));
    stdfs::create_hard_link(mounted.in_share("small"), mounted.in_share("a/second name"));
    ASSERT_EQ(::chmod(mounted.in_share("small").c_str(), 0640), 0);
    ASSERT_TRUE(stdfs::create_directory(mounted.in_share("many")));
    for (int number = 0; number < 3000; ++number)
        ASSERT_TRUE(write_file(mounted.in_share("many/" + std::to_string(number)), ""));

    ASSERT_TRUE(mounted.mount({"--ring", GetParam()}));
    EXPECT_EQ(tree(mounted.mountpoint()), tree(mounted.share()));
    ASSERT_TRUE(mounted.unmount());
    expect_end(0);
}

TEST_P(MountOnEachRing, what_is_changed_is_changed_in_the_directory) {
    ASSERT_TRUE(mounted.mount({"--ring", GetParam()}));
    ASSERT_TRUE(write_file(mounted.in_mount("file"), big_text()));
    EXPECT_TRUE(contents(mounted.in_mount("file")) == big_text());
    EXPECT_TRUE(contents(mounted.in_share("file")) == big_text());
    ASSERT_TRUE(stdfs::create_directory(mounted.in_mount("folder")));
    ASSERT_EQ(::rename(mounted.in_mount("file").c_str(), mounted.in_mount("folder/moved").c_str()), 0);
    EXPECT_TRUE(stdfs::exists(mounted.in_share("folder/moved")));
    EXPECT_FALSE(stdfs::exists(mounted.in_share("file")));
    EXPECT_EQ(stdfs::remove_all(mounted.in_mount("folder")), 2U);
    EXPECT_TRUE(stdfs::is_empty(mounted.share()));
    ASSERT_TRUE(mounted.unmount());
    expect_end(0);
}

INSTANTIATE_TEST_SUITE_P(Mount, MountOnEachRing, testing::Values("io_uring", "poll"),
                         [](const auto& ring) { return std::string{ring.param}; });

TEST_F(MountTest, mount_table_names_program_and_directory) {
    ASSERT_TRUE(mounted.mount());
    const std::string line = mount_line(mounted.mountpoint());
    EXPECT_THAT(line, testing::StartsWith(mounted.share() + " " + mounted.mountpoint() + " fuse.viaduct "));
    EXPECT_THAT(line, HasSubstr("default_permissions"));
    EXPECT_THAT(line, HasSubstr("nosuid,nodev"));
    EXPECT_THAT(line, testing::Not(HasSubstr("allow_other")));
}

TEST_F(MountTest, options_reach_the_kernel) {
    ASSERT_TRUE(mounted.mount({"-o", "ro,allow_other,suid", "-o", "dev,noexec,noatime,max_read=65536"}));
    const std::string line = mount_line(mounted.mountpoint());
    for (const char* const word : {"ro,", "allow_other", "noexec", "noatime", "max_read=65536"})
        EXPECT_THAT(line, HasSubstr(word));
    EXPECT_THAT(line, testing::Not(HasSubstr("nosuid")));
    EXPECT_THAT(line, testing::Not(HasSubstr("nodev")));
    EXPECT_FALSE(write_file(mounted.in_mount("file"), "text"));
}

TEST_F(MountTest, fusermount_unmounts) {
    if (!guestvm::find_program("fusermount3")) GTEST_SKIP() << "there is no fusermount3 (package fuse3)";
    ASSERT_TRUE(mounted.mount());
    auto tool = Daemon::start({.argv = {"fusermount3", "-u", mounted.mountpoint()}, .socket = {}});
    ASSERT_TRUE(tool);
    EXPECT_EQ((*tool)->wait(kLimit), 0);
    expect_end(0);
}

TEST_F(MountTest, another_user_mounts_through_fusermount) {
    if (!guestvm::find_program("fusermount3")) GTEST_SKIP() << "there is no fusermount3 (package fuse3)";
    if (!guestvm::find_program("setpriv")) GTEST_SKIP() << "there is no setpriv (package util-linux)";
    constexpr uid_t kNobody = 65534;
    // A device that everyone may open, as it should be.
    const std::string device = mounted.folder().file("fuse");
    struct stat status{};
    ASSERT_EQ(::stat("/dev/fuse", &status), 0);
    if (::mknod(device.c_str(), S_IFCHR, status.st_rdev) != 0)
        GTEST_SKIP() << "mknod: " << Errno{errno}.name();
    ASSERT_EQ(::chmod(device.c_str(), 0666), 0);
    const auto over_device = Mount::bind(device, "/dev/fuse");
    ASSERT_TRUE(over_device) << over_device.error().message;
    if (const Fd opened{::open("/dev/fuse", O_RDWR | O_CLOEXEC)}; !opened)
        GTEST_SKIP() << "devices in the temporary folder: " << Errno{errno}.name();
    for (const auto& path : {mounted.folder().path(), mounted.share(), mounted.mountpoint()})
        ASSERT_EQ(::chown(path.c_str(), kNobody, kNobody), 0);
    const std::vector<std::string> as_nobody{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
    ASSERT_TRUE(mounted.mount({}, as_nobody));
    EXPECT_THAT(mount_line(mounted.mountpoint()), HasSubstr("user_id=65534"));
    EXPECT_THAT(mount_line(mounted.mountpoint()), HasSubstr(mounted.share() + " "));
    std::vector<std::string> touch = as_nobody;
    touch.insert(touch.end(), {"touch", mounted.in_mount("file")});
    auto tool = Daemon::start({.argv = touch, .socket = {}});
    ASSERT_TRUE(tool);
    EXPECT_EQ((*tool)->wait(kLimit), 0) << (*tool)->log();
    EXPECT_TRUE(stdfs::exists(mounted.in_share("file")));
    // Root is not let in: the mount is that user's.
    EXPECT_FALSE(write_file(mounted.in_mount("other"), "text"));
    mounted.daemon().send_signal(SIGTERM);
    expect_end(0);
}

TEST_F(MountTest, each_signal_saves_what_is_dirty) {
    for (const int signal : {SIGTERM, SIGINT}) {
        ASSERT_TRUE(mounted.mount());
        make_dirty("file");
        EXPECT_EQ(contents(mounted.in_share("file"))[0], 'a');
        mounted.daemon().send_signal(signal);
        expect_end(0);
        EXPECT_EQ(contents(mounted.in_share("file"))[0], 'D');
        ::munmap(dirty, 4096);
        dirty = nullptr;
        dirty_file.reset();
    }
}

TEST_F(MountTest, dirty_data_that_the_share_refuses_is_told_of) {
    ASSERT_TRUE(mounted.mount({"--faults", "write:errno=EIO"}));
    make_dirty("file");
    mounted.daemon().send_signal(SIGTERM);
    expect_end(1);
    EXPECT_THAT(mounted.daemon().log(), HasSubstr("written data may not have reached the share: EIO"));
}

TEST_F(MountTest, dirty_data_is_waited_for_no_longer_than_was_asked) {
    ASSERT_TRUE(mounted.mount({"--faults", "write:delay=3600000", "--stop-timeout", "50"}));
    make_dirty("file");
    mounted.daemon().send_signal(SIGTERM);
    expect_end(1);
    EXPECT_THAT(mounted.daemon().log(), HasSubstr("written data may not have reached the share: ETIMEDOUT"));
}

// With an hour to stop in, it would be seen.
TEST_F(MountTest, request_that_waits_does_not_hold_up_the_end) {
    ASSERT_TRUE(write_file(mounted.in_share("file"), "text"));
    ASSERT_TRUE(mounted.mount({"--faults", "read:delay=3600000", "--stop-timeout", "3600000"}));
    const Fd file{::open(mounted.in_mount("file").c_str(), O_RDONLY | O_CLOEXEC)};
    ASSERT_TRUE(file);
    std::atomic<int> error{0};
    std::atomic<bool> begun{false};
    std::thread reader{[&] {
        char byte = 0;
        begun = true;
        error = ::pread(file.get(), &byte, 1, 0) < 0 ? errno : 0;
    }};
    EXPECT_TRUE(wait_until([&] { return begun.load(); }, kLimit));
    mounted.daemon().send_signal(SIGTERM);
    expect_end(0);
    reader.join();
    EXPECT_THAT(error.load(), testing::AnyOf(ECONNABORTED, ENOTCONN));
}

TEST_F(MountTest, second_signal_ends_at_once) {
    ASSERT_TRUE(mounted.mount({"--faults", "write:delay=3600000", "--stop-timeout", "3600000"}));
    make_dirty("file");
    mounted.daemon().send_signal(SIGTERM);
    ASSERT_TRUE(mounted.daemon().wait_for_log("stopping", kLimit));
    mounted.daemon().send_signal(SIGTERM);
    expect_end(1);
}

TEST_F(MountTest, mount_of_a_killed_daemon_is_told_of_and_can_be_replaced) {
    ASSERT_TRUE(mounted.mount());
    ASSERT_TRUE(write_file(mounted.in_mount("file"), "text"));
    mounted.daemon().send_signal(SIGKILL);
    ASSERT_EQ(mounted.daemon().wait(kLimit), 128 + SIGKILL);
    // The ring of a process that has ended lets go of its descriptors a little later.
    const auto is_dead = [&] {
        struct stat status{};
        return ::stat(mounted.in_mount("file").c_str(), &status) != 0 && errno == ENOTCONN;
    };
    EXPECT_TRUE(wait_until(is_dead, kLimit));
    EXPECT_FALSE(mounted.mount());
    EXPECT_EQ(mounted.daemon().wait(kLimit), 1);
    EXPECT_THAT(mounted.daemon().log(), HasSubstr("unmount it first: umount " + mounted.mountpoint()));
    ASSERT_TRUE(mounted.unmount());
    ASSERT_TRUE(mounted.mount());
    EXPECT_EQ(contents(mounted.in_mount("file")), "text");
    ASSERT_TRUE(mounted.unmount());
    expect_end(0);
}

TEST_F(MountTest, unmount_of_a_mount_in_use_is_refused_by_the_kernel_alone) {
    ASSERT_TRUE(mounted.mount());
    const Fd file{::open(mounted.in_mount("file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)};
    ASSERT_TRUE(file);
    EXPECT_EQ(mounted.unmount(), Status{fail(EBUSY)});
    EXPECT_EQ(::write(file.get(), "text", 4), 4);
    EXPECT_EQ(contents(mounted.in_share("file")), "text");
}

void work_until(const std::atomic<bool>& over, const std::string& folder, int number) {
    const std::string name = folder + "/work" + std::to_string(number);
    const std::string text(70'000, static_cast<char>('a' + number));
    while (!over) {
        write_file(name, text); // fails once the mount is gone
        [[maybe_unused]] const std::string read = contents(name);
        ::rename(name.c_str(), (name + ".moved").c_str());
        ::unlink((name + ".moved").c_str());
    }
}

std::size_t own_fds() {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : stdfs::directory_iterator{"/proc/self/fd"}) ++count;
    return count;
}

TEST_F(MountTest, fifty_mounts_under_load_leave_nothing) {
    ASSERT_TRUE(mounted.mount());
    ASSERT_TRUE(mounted.unmount());
    expect_end(0);
    const std::size_t fds = own_fds();
    std::size_t daemon_fds = 0;
    for (int round = 0; round < 50 && !HasFailure(); ++round) {
        ASSERT_TRUE(mounted.mount());
        if (round == 0) daemon_fds = mounted.daemon().open_fds();
        std::atomic<bool> over{false};
        std::thread first{work_until, std::cref(over), mounted.mountpoint(), 0};
        std::thread second{work_until, std::cref(over), mounted.mountpoint(), 1};
        wait_until([&] { return stdfs::exists(mounted.in_share("work0")); }, kLimit);
        // Taken out of the tree, aborted, or told to end; the load goes on meanwhile.
        if (round % 3 == 0) EXPECT_EQ(::umount2(mounted.mountpoint().c_str(), MNT_DETACH), 0);
        if (round % 3 == 1) EXPECT_EQ(::umount2(mounted.mountpoint().c_str(), MNT_DETACH | MNT_FORCE), 0);
        if (round % 3 == 2) mounted.daemon().send_signal(SIGTERM);
        if (round % 3 == 0) over = true; // who has a file open keeps the mount
        expect_end(0);
        over = true;
        first.join();
        second.join();
        for (const auto& entry : stdfs::directory_iterator{mounted.mountpoint()}) stdfs::remove(entry);
        for (const auto& entry : stdfs::directory_iterator{mounted.share()}) stdfs::remove(entry);
    }
    EXPECT_EQ(own_fds(), fds);
    ASSERT_TRUE(mounted.mount());
    EXPECT_LE(mounted.daemon().open_fds(), daemon_fds + 2);
}

TEST_F(MountTest, files_that_were_used_leave_no_descriptor) {
    ASSERT_TRUE(mounted.mount());
    struct stat status{};
    ASSERT_EQ(::stat(mounted.mountpoint().c_str(), &status), 0);
    const std::size_t fds = mounted.daemon().open_fds();
    for (int number = 0; number < 300; ++number)
        ASSERT_TRUE(write_file(mounted.in_mount(std::to_string(number)), "text"));
    for (int number = 0; number < 300; ++number) stdfs::remove(mounted.in_mount(std::to_string(number)));
    EXPECT_TRUE(wait_until([&] { return mounted.daemon().open_fds() <= fds + 2; }, kLimit))
        << mounted.daemon().open_fds() << " of " << fds;
}

TEST_F(MountTest, manager_is_told_when_it_is_ready_and_when_it_stops) {
    const std::string path = mounted.folder().file("notify");
    const Fd socket{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const timeval limit{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    const auto told = [&] {
        char text[64];
        const ssize_t got = ::recv(socket.get(), text, sizeof text, 0);
        return std::string{text, got < 0 ? 0U : static_cast<std::size_t>(got)};
    };
    ASSERT_TRUE(mounted.mount({}, {"env", "NOTIFY_SOCKET=" + path}));
    EXPECT_EQ(told(), "READY=1");
    mounted.daemon().send_signal(SIGTERM);
    EXPECT_EQ(told(), "STOPPING=1");
    expect_end(0);
}

TEST_F(MountTest, daemon_returns_when_the_mount_can_be_used) {
    ASSERT_TRUE(write_file(mounted.in_share("file"), "text"));
    ASSERT_TRUE(mounted.mount({"--daemon"}));
    EXPECT_EQ(mounted.daemon().wait(kLimit), 0);
    EXPECT_EQ(contents(mounted.in_mount("file")), "text");
    ASSERT_TRUE(mounted.unmount());
    const auto runs = [&] {
        for (const auto& entry : stdfs::directory_iterator{"/proc"})
            if (contents(entry.path() / "cmdline").find(mounted.mountpoint()) != std::string::npos)
                return true;
        return false;
    };
    EXPECT_TRUE(wait_until([&] { return !runs(); }, kLimit));
}

// Called as mount(8) calls it, and by mount(8) itself.
TEST_F(MountTest, helper_of_mount_mounts) {
    const std::string folder = mounted.folder().make_folder("sbin");
    const std::string helper = folder + "/mount.fuse.viaduct";
    stdfs::create_symlink(program("viaduct"), helper);
    ASSERT_TRUE(write_file(mounted.in_share("file"), "text"));
    const auto run = [&](const std::vector<std::string>& words, int status) {
        auto tool = Daemon::start({.argv = words, .socket = {}});
        ASSERT_TRUE(tool) << tool.error().message;
        EXPECT_EQ((*tool)->wait(kLimit), status) << (*tool)->log();
    };
    const auto expect_mounted = [&] {
        EXPECT_EQ(contents(mounted.in_mount("file")), "text");
        EXPECT_THAT(mount_line(mounted.mountpoint()), HasSubstr("fuse.viaduct ro,"));
        EXPECT_THAT(mount_line(mounted.mountpoint()), HasSubstr("allow_other"));
        EXPECT_TRUE(mounted.unmount());
    };
    const std::string options = "ro,noauto,allow_other,cache=never,x-test=1";
    run({helper, mounted.share(), mounted.mountpoint(), "-n", "-o", options, "-t", "fuse.viaduct"}, 0);
    expect_mounted();
    run({helper, mounted.share(), mounted.mountpoint(), "-f"}, 0);
    EXPECT_EQ(mount_line(mounted.mountpoint()), "");
    run({helper, mounted.share(), mounted.mountpoint(), "-o", "cash=never"}, 1);
    run({helper, mounted.folder().file("missing"), mounted.mountpoint()}, 32);

    const auto over_sbin = Mount::bind(folder, "/sbin");
    ASSERT_TRUE(over_sbin) << over_sbin.error().message;
    run({"mount", "-t", "fuse.viaduct", mounted.share(), mounted.mountpoint(), "-o", options}, 0);
    expect_mounted();
}

class MountErrors : public MountTest {
protected:
    // Runs it to its end, which comes at once; its message.
    std::string refused(const std::vector<std::string>& words, int status,
                        std::vector<std::string> prefix = {}) {
        prefix.push_back(program("viaduct"));
        prefix.emplace_back("mount");
        prefix.insert(prefix.end(), words.begin(), words.end());
        auto run = Daemon::start({.argv = prefix, .socket = {}});
        if (!run) return run.error().message;
        EXPECT_EQ((*run)->wait(kLimit), status);
        (*run)->end();
        const std::string log = (*run)->log();
        EXPECT_EQ(std::ranges::count(log, '\n'), 1) << log;
        return log;
    }
};

TEST_F(MountErrors, mount_point_that_cannot_be_one) {
    ASSERT_TRUE(write_file(mounted.folder().file("file"), ""));
    const std::string missing = mounted.folder().file("missing");
    EXPECT_THAT(refused({mounted.share(), missing}, 1), HasSubstr("create it: mkdir -p " + missing));
    EXPECT_THAT(refused({mounted.share(), mounted.folder().file("file")}, 1), HasSubstr("not a directory"));
    ASSERT_TRUE(write_file(mounted.in_mount("file"), ""));
    EXPECT_THAT(refused({mounted.share(), mounted.mountpoint()}, 1), HasSubstr("give an empty directory"));
}

TEST_F(MountErrors, share_that_cannot_be_one) {
    EXPECT_THAT(refused({mounted.folder().file("missing"), mounted.mountpoint()}, 1),
                HasSubstr("name a directory that exists"));
    ASSERT_TRUE(write_file(mounted.folder().file("file"), ""));
    EXPECT_THAT(refused({mounted.folder().file("file"), mounted.mountpoint()}, 1),
                HasSubstr("not a directory"));
}

TEST_F(MountErrors, share_that_contains_its_mount_point) {
    const std::string inside = mounted.in_share("a");
    ASSERT_TRUE(stdfs::create_directory(inside));
    for (const std::string& point : {inside, mounted.share(), mounted.share() + "/a/../a"})
        EXPECT_THAT(refused({mounted.share(), point}, 1), HasSubstr("would contain itself"));
    stdfs::create_directory_symlink(inside, mounted.folder().file("link"));
    EXPECT_THAT(refused({mounted.share(), mounted.folder().file("link")}, 1),
                HasSubstr("would contain itself"));
}

TEST_F(MountErrors, in_the_background_as_well) {
    EXPECT_THAT(refused({mounted.folder().file("missing"), mounted.mountpoint(), "--daemon"}, 1),
                HasSubstr("name a directory that exists"));
}

TEST_F(MountErrors, no_permission) {
    if (!guestvm::find_program("setpriv")) GTEST_SKIP() << "there is no setpriv (package util-linux)";
    EXPECT_THAT(refused({mounted.share(), mounted.mountpoint()}, 1, {"setpriv", "--bounding-set=-sys_admin"}),
                HasSubstr("CAP_SYS_ADMIN"));
}

TEST_F(MountErrors, no_device) {
    // A /dev of the test's own, with nothing in it but null.
    const std::string dev = mounted.folder().make_folder("dev");
    ASSERT_TRUE(write_file(dev + "/null", ""));
    const Fd null{::open("/dev/null", O_RDWR | O_CLOEXEC)};
    const auto over_dev = Mount::bind(dev, "/dev");
    ASSERT_TRUE(over_dev) << over_dev.error().message;
    const auto over_null = Mount::bind("/proc/self/fd/" + std::to_string(null.get()), "/dev/null");
    ASSERT_TRUE(over_null) << over_null.error().message;
    EXPECT_THAT(refused({mounted.share(), mounted.mountpoint()}, 1), HasSubstr("modprobe fuse"));
}

TEST_F(MountErrors, command_line) {
    EXPECT_THAT(refused({mounted.share()}, 2), HasSubstr("give the directory and the mount point"));
    EXPECT_THAT(refused({mounted.share(), mounted.mountpoint(), "-o", "ro,sync_all"}, 2),
                HasSubstr("there is no -o sync_all"));
    EXPECT_THAT(refused({mounted.share(), mounted.mountpoint(), "-o", "max_read=17"}, 2),
                HasSubstr("from 4096 to 1048576"));
}

} // namespace
} // namespace viaduct::test
