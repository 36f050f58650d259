// SPDX-License-Identifier: Apache-2.0
//
// What others do meanwhile: in the directory itself, in mounts below it, and in calls that wait.
#include "support/truth.h"
#include "support/waiting.h"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <thread>

namespace viaduct::test {
namespace {

namespace stdfs = std::filesystem;

class TruthOthers : public Truth {};
INSTANTIATE_TEST_SUITE_P(Cache, TruthOthers, each_cache_mode(), cache_mode_name);

TEST_P(TruthOthers, file_that_is_being_replaced_is_there_and_whole) {
    ASSERT_NO_FATAL_FAILURE(start());
    constexpr int kVersions = 300;
    const auto version = [](int number) {
        return std::string(1000 + static_cast<std::size_t>(number % 7), static_cast<char>('a' + number % 26));
    };
    ASSERT_TRUE(put(behind + "/value", version(0)));
    std::atomic<bool> over{false};
    std::thread other{[&] {
        for (int number = 1; number <= kVersions; ++number) {
            put(behind + "/new", version(number));
            ::rename((behind + "/new").c_str(), (behind + "/value").c_str());
        }
        over = true;
    }};
    const std::string path = through + "/value";
    int opened = 0;
    int stale = 0;
    do {
        const Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
        if (!file && errno == ESTALE) {
            ++stale;
            continue;
        }
        EXPECT_TRUE(file) << Errno{errno}.name();
        if (!file) break;
        ++opened;
        char text[4096];
        const ssize_t got = ::read(file.get(), text, sizeof text);
        EXPECT_GE(got, 1000);
        EXPECT_LE(got, 1006);
        for (ssize_t at = 1; at < got; ++at) EXPECT_EQ(text[at], text[0]);
    } while (!over && !HasFailure());
    other.join();
    EXPECT_LE(stale * 50, opened + stale);
    if (!looks_again()) return; // it may see the first version for a day
    EXPECT_TRUE(wait_until([&] { return contents_of(path) == version(kVersions); }, kPatience));
}

TEST_P(TruthOthers, change_in_the_directory_is_seen) {
    if (!looks_again()) GTEST_SKIP() << "this mode believes what it knows for a day";
    ASSERT_NO_FATAL_FAILURE(start());
    const auto here = [&](const char* name) { return through + "/" + name; };
    const auto there = [&](const char* name) { return behind + "/" + name; };
    const auto seen = [](const auto& condition) { return wait_until(condition, kPatience); };
    ASSERT_EQ(::mkdir(there("dir").c_str(), 0755), 0);
    ASSERT_TRUE(put(there("dir/f"), "first"));
    ASSERT_TRUE(put(there("file"), "first"));
    EXPECT_EQ(contents_of(here("dir/f")), "first");
    EXPECT_EQ(contents_of(here("file")), "first");
    EXPECT_FALSE(stdfs::exists(here("later")));
    const Fd held{::open(here("file").c_str(), O_RDONLY | O_CLOEXEC)};

    ASSERT_EQ(::unlink(there("file").c_str()), 0);
    ASSERT_TRUE(put(there("file"), "second!"));
    stdfs::remove_all(there("dir"));
    ASSERT_EQ(::mkdir(there("dir").c_str(), 0755), 0);
    ASSERT_TRUE(put(there("dir/f"), "second!"));
    ASSERT_TRUE(put(there("dir/g"), "g"));
    ASSERT_TRUE(put(there("later"), "l"));
    EXPECT_TRUE(seen([&] { return contents_of(here("file")) == "second!"; }));
    EXPECT_TRUE(seen([&] { return contents_of(here("dir/f")) == "second!"; }));
    EXPECT_TRUE(seen([&] { return stdfs::exists(here("dir/g")) && stdfs::exists(here("later")); }));
    EXPECT_TRUE(seen([&] { return tree_text(here("dir")) == tree_text(there("dir")); }));
    char text[16]{};
    EXPECT_EQ(::pread(held.get(), text, sizeof text, 0), 5);
    EXPECT_STREQ(text, "first");

    ASSERT_EQ(::unlink(there("file").c_str()), 0);
    ASSERT_EQ(::mkdir(there("file").c_str(), 0755), 0);
    EXPECT_TRUE(seen([&] { return stdfs::is_directory(here("file")); }));
    EXPECT_TRUE(put(here("file/made"), "x"));
    EXPECT_EQ(contents_of(there("file/made")), "x");

    ASSERT_EQ(::rename(there("dir").c_str(), there("dir2").c_str()), 0);
    EXPECT_TRUE(seen([&] { return contents_of(here("dir2/f")) == "second!"; }));
    EXPECT_TRUE(seen([&] { return !stdfs::exists(here("dir")); }));
    {
        const Fd file{::open(there("dir2/f").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)};
        ASSERT_EQ(::write(file.get(), " grown", 6), 6);
    }
    EXPECT_TRUE(seen([&] { return contents_of(here("dir2/f")) == "second! grown"; }));
    ASSERT_EQ(::truncate(there("dir2/f").c_str(), 3), 0);
    EXPECT_TRUE(seen([&] { return contents_of(here("dir2/f")) == "sec"; }));
    ASSERT_EQ(::chmod(there("dir2/f").c_str(), 0640), 0);
    EXPECT_TRUE(seen([&] { return status_text(here("dir2/f")) == status_text(there("dir2/f")); }));
    ASSERT_EQ(::setxattr(there("dir2/f").c_str(), "user.k", "v", 1, 0), 0);
    EXPECT_EQ(::getxattr(here("dir2/f").c_str(), "user.k", text, sizeof text), 1);
}

// Two file systems below the share whose inode numbers are the same.
TEST_P(TruthOthers, files_of_different_file_systems_are_different_files) {
    ASSERT_NO_FATAL_FAILURE(start());
    std::vector<std::unique_ptr<Mount>> tmpfs;
    for (const char* const top : {"a", "b"}) {
        const std::string point = behind + "/" + top;
        ASSERT_EQ(::mkdir(point.c_str(), 0755), 0);
        auto made = Mount::tmpfs(point);
        if (!made) GTEST_SKIP() << made.error().message;
        tmpfs.push_back(*std::move(made));
        for (int number = 0; number < 20; ++number)
            ASSERT_TRUE(put(point + "/n" + std::to_string(number), top + std::to_string(number)));
        ASSERT_EQ(::mkdir((point + "/deep").c_str(), 0755), 0);
        ASSERT_EQ(::link((point + "/n1").c_str(), (point + "/n1-again").c_str()), 0);
    }
    std::map<std::pair<dev_t, ino_t>, std::set<std::string>> files;
    for (const auto& entry : stdfs::recursive_directory_iterator{through}) {
        struct stat st{};
        ASSERT_EQ(::lstat(entry.path().c_str(), &st), 0);
        files[{st.st_dev, st.st_ino}].insert(entry.path().lexically_relative(through));
    }
    for (const auto& [identity, names] : files) {
        if (names.size() == 2 && names.contains(names.begin()->substr(0, 4) + "-again")) continue;
        EXPECT_EQ(names.size(), 1U) << *names.begin() << " and " << *names.rbegin();
    }
    EXPECT_EQ(files.size(), 2U * 22U);
    for (const char* const top : {"a", "b"})
        for (int number = 0; number < 20; ++number)
            EXPECT_EQ(contents_of(through + "/" + top + "/n" + std::to_string(number)),
                      top + std::to_string(number));
    EXPECT_EQ(::link((through + "/a/n2").c_str(), (through + "/b/x").c_str()), -1);
    EXPECT_EQ(errno, EXDEV);
    EXPECT_EQ(::rename((through + "/a/n2").c_str(), (through + "/b/x").c_str()), -1);
    EXPECT_EQ(errno, EXDEV);
}

TEST_P(TruthOthers, file_system_below_the_share_can_be_unmounted_after_use) {
    ASSERT_NO_FATAL_FAILURE(start());
    const std::string point = behind + "/sub";
    ASSERT_EQ(::mkdir(point.c_str(), 0755), 0);
    auto made = Mount::tmpfs(point);
    if (!made) GTEST_SKIP() << made.error().message;
    for (int number = 0; number < 30; ++number) ASSERT_TRUE(put(point + "/" + std::to_string(number), "x"));
    ASSERT_EQ(::mkdir((point + "/deep").c_str(), 0755), 0);
    EXPECT_EQ(tree_text(through + "/sub"), tree_text(point));
    const auto unmounted = [&] {
        // The kernel forgets names that nobody uses when a mount's options are set anew.
        ::mount(nullptr, mounted.mountpoint().c_str(), nullptr, MS_REMOUNT, nullptr);
        return ::umount2(point.c_str(), 0) == 0;
    };
    EXPECT_TRUE(wait_until(unmounted, kPatience)) << Errno{errno}.name();
    if (looks_again()) EXPECT_TRUE(wait_until([&] { return stdfs::is_empty(through + "/sub"); }, kPatience));
}

// Ordinary work; empty when all of it went well.
std::string work_in(const std::string& folder) {
    return as_user({}, [&](Transcript& transcript) {
        for (int round = 0; round < 50; ++round) {
            const std::string name = folder + "/work" + std::to_string(round);
            const std::string text(static_cast<std::size_t>(round) * 100, 'd');
            if (!put(name, text) || ::rename(name.c_str(), (name + "r").c_str()) != 0 ||
                contents_of(name + "r") != text || ::unlink((name + "r").c_str()) != 0)
                transcript.line("work", Errno{errno}.name());
        }
    });
}

enum class LockKind { posix, open_file, bsd };

int lock(int fd, LockKind kind, short type, bool wait) {
    if (kind == LockKind::bsd) {
        const int how = type == F_UNLCK ? LOCK_UN : type == F_RDLCK ? LOCK_SH : LOCK_EX;
        return ::flock(fd, how | (wait ? 0 : LOCK_NB));
    }
    struct flock range{};
    range.l_type = type;
    range.l_whence = SEEK_SET;
    const bool posix = kind == LockKind::posix;
    const int command = wait ? (posix ? F_SETLKW : F_OFD_SETLKW) : (posix ? F_SETLK : F_OFD_SETLK);
    return ::fcntl(fd, command, &range);
}

// A process that waits for a lock, gets it and gives it back; 0 in the end.
pid_t start_waiter(const std::string& path, LockKind kind, int ready) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    [[maybe_unused]] const auto told = ::write(ready, "r", 1);
    const bool good = fd >= 0 && lock(fd, kind, F_WRLCK, true) == 0 && lock(fd, kind, F_UNLCK, false) == 0;
    ::_exit(good ? 0 : 1);
}

TEST_P(TruthOthers, program_that_waits_for_a_lock_holds_up_nobody) {
    ASSERT_NO_FATAL_FAILURE(start());
    constexpr int kWaiters = 6;
    const std::string path = through + "/locked";
    ASSERT_TRUE(put(path, std::string(100, 'x')));
    for (const LockKind kind : {LockKind::posix, LockKind::open_file, LockKind::bsd}) {
        const Fd file{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
        ASSERT_EQ(lock(file.get(), kind, F_WRLCK, false), 0) << Errno{errno}.name();
        int ready[2];
        ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
        const Fd is_ready{ready[0]};
        const Fd tell{ready[1]};
        std::vector<pid_t> waiters;
        for (int count = 0; count < kWaiters; ++count) {
            waiters.push_back(start_waiter(path, kind, ready[1]));
            char byte = 0;
            ASSERT_EQ(::read(ready[0], &byte, 1), 1);
        }
        EXPECT_EQ(work_in(through), "");
        EXPECT_EQ(as_user({},
                          [&](Transcript& inner) {
                              const Fd own{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
                              inner.call("at once", lock(own.get(), kind, F_WRLCK, false));
                              inner.call("shared", lock(own.get(), kind, F_RDLCK, false));
                              // A timer ends the wait; it goes on so that it cannot come before it.
                              struct sigaction action{};
                              action.sa_handler = [](int) {};
                              ::sigaction(SIGALRM, &action, nullptr);
                              const itimerval often{.it_interval = {.tv_sec = 0, .tv_usec = 20'000},
                                                    .it_value = {.tv_sec = 0, .tv_usec = 20'000}};
                              ::setitimer(ITIMER_REAL, &often, nullptr);
                              inner.call("with a signal", lock(own.get(), kind, F_WRLCK, true));
                          }),
                  "at once: EAGAIN\nshared: EAGAIN\nwith a signal: EINTR\n");
        for (const pid_t pid : waiters) EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), 0) << "it did not wait";
        ASSERT_EQ(lock(file.get(), kind, F_UNLCK, false), 0);
        for (const pid_t pid : waiters) {
            int status = -1;
            EXPECT_EQ(::waitpid(pid, &status, 0), pid);
            EXPECT_EQ(status, 0);
        }
        EXPECT_EQ(lock(file.get(), kind, F_WRLCK, false), 0);
    }
}

// Chmod, times, names and attributes of a special file never open it.
void use_special(const std::string& path, Transcript& transcript) {
    const timespec times[2]{{.tv_sec = 3, .tv_nsec = 0}, {.tv_sec = 4, .tv_nsec = 0}};
    char value[16];
    const std::string other = path + "~";
    transcript.call("chmod", ::chmod(path.c_str(), 0600));
    transcript.call("times", ::utimensat(AT_FDCWD, path.c_str(), times, 0));
    transcript.count("listxattr", ::listxattr(path.c_str(), value, sizeof value));
    transcript.count("getxattr", ::getxattr(path.c_str(), "user.x", value, sizeof value));
    transcript.call("setxattr", ::setxattr(path.c_str(), "user.x", "v", 1, 0));
    transcript.call("truncate", ::truncate(path.c_str(), 0));
    transcript.call("access", ::access(path.c_str(), R_OK));
    transcript.call("rename", ::rename(path.c_str(), other.c_str()));
    transcript.call("link", ::link(other.c_str(), path.c_str()));
    transcript.call("unlink", ::unlink(other.c_str()));
    transcript.line("status", status_text(path));
}

TEST_P(TruthOthers, special_files_are_used_without_waiting) {
    ASSERT_NO_FATAL_FAILURE(start());
    for (const auto& folder : {native, behind}) ASSERT_EQ(::mkfifo((folder + "/before").c_str(), 0644), 0);
    compare([](const std::string& folder, Transcript& transcript) {
        transcript.call("mkfifo", ::mkfifo((folder + "/pipe").c_str(), 0644));
        const Fd socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        const Fd directory{::open(folder.c_str(), O_PATH | O_CLOEXEC)};
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/socket", directory.get());
        const auto* const where = reinterpret_cast<const sockaddr*>(&address);
        transcript.call("bind", ::bind(socket.get(), where, sizeof address));
        transcript.call("listen", ::listen(socket.get(), 1));
        const Fd client{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        transcript.call("connect", ::connect(client.get(), where, sizeof address));
        transcript.call("null", ::mknod((folder + "/null").c_str(), S_IFCHR | 0666, ::makedev(1, 3)));
        transcript.call("block", ::mknod((folder + "/block").c_str(), S_IFBLK | 0600, ::makedev(7, 250)));
        transcript.call("regular", ::mknod((folder + "/regular").c_str(), S_IFREG | 0644, 0));
        for (const char* const name : {"pipe", "before", "socket", "null", "block"}) {
            transcript.line("file", name);
            use_special(folder + "/" + name, transcript);
        }
        transcript.line("open a socket", Fd{::open((folder + "/socket").c_str(), O_RDONLY | O_CLOEXEC)}
                                             ? "done"
                                             : Errno{errno}.name());
        transcript.line("open a pipe", Fd{::open((folder + "/pipe").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC)}
                                           ? "done"
                                           : Errno{errno}.name());
        const Fd null{::open((folder + "/null").c_str(), O_RDWR | O_CLOEXEC)};
        transcript.count("write to null", ::write(null.get(), "x", 1));
        struct stat st{};
        ::lstat((folder + "/null").c_str(), &st);
        transcript.line("number",
                        std::to_string(::major(st.st_rdev)) + ":" + std::to_string(::minor(st.st_rdev)));
    });
}

TEST_P(TruthOthers, program_that_waits_for_a_pipe_holds_up_nobody) {
    ASSERT_NO_FATAL_FAILURE(start());
    const std::string path = through + "/pipe";
    ASSERT_EQ(::mkfifo(path.c_str(), 0644), 0);
    std::vector<pid_t> readers;
    for (int count = 0; count < 6; ++count) {
        const pid_t pid = ::fork();
        if (pid == 0) {
            const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC); // until somebody writes
            char byte = 0;
            ::_exit(::read(fd, &byte, 1) == 1 && byte == 'h' ? 0 : 1);
        }
        readers.push_back(pid);
    }
    EXPECT_EQ(work_in(through), "");
    const Fd writer{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
    ASSERT_TRUE(writer);
    // A reader that comes late would find none.
    const Fd reader{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
    ASSERT_EQ(::write(writer.get(), "hhhhhh", 6), 6);
    for (const pid_t pid : readers) {
        int status = -1;
        EXPECT_EQ(::waitpid(pid, &status, 0), pid);
        EXPECT_EQ(status, 0);
    }
}

} // namespace
} // namespace viaduct::test
