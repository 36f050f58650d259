// SPDX-License-Identifier: Apache-2.0
//
// Names, links and directories of a mount, compared with the directory itself.
#include "support/truth.h"

#include <algorithm>
#include <cstring>
#include <dirent.h>
#include <random>
#include <set>
#include <sys/xattr.h>

namespace viaduct::test {
namespace {

class TruthNames : public Truth {};
INSTANTIATE_TEST_SUITE_P(Cache, TruthNames, each_cache_mode(), cache_mode_name);

std::set<std::string> listing(const std::string& folder) {
    std::set<std::string> names;
    DIR* const directory = ::opendir(folder.c_str());
    if (directory == nullptr) return names;
    while (const dirent* const entry = ::readdir(directory)) names.emplace(entry->d_name);
    ::closedir(directory);
    return names;
}

std::string joined(const std::set<std::string>& names) {
    std::string text;
    for (const auto& name : names) text += "[" + name + "]";
    return text;
}

// Every byte that a name may have, alone and in a long one, and every length about the limit.
TEST_P(TruthNames, any_byte_and_length) {
    compare([](const std::string& folder, Transcript& transcript) {
        std::vector<std::string> names{"...", " lead", "trail ", "caf\xc3\xa9", "cafe\xcc\x81", "-rf", "%00"};
        for (int byte = 1; byte < 256; ++byte) {
            if (byte == '/') continue;
            const char letter = static_cast<char>(byte);
            names.push_back("x" + std::string(1, letter) + "y");
            if (byte % 16 == 0) names.emplace_back(255, letter);
        }
        for (const std::size_t length : {1, 2, 127, 128, 254, 255, 256, 300, 4095})
            names.emplace_back(length, 'n');
        for (const auto& name : names) {
            const std::string path = folder + "/" + name;
            transcript.line("write", put(path, name) ? "done" : Errno{errno}.name());
            transcript.line("read", contents_of(path) == name ? "same" : "other");
        }
        transcript.line("listing", joined(listing(folder)));
        for (const std::size_t length : {255, 256}) {
            const std::string name = folder + "/" + std::string(length, 'L');
            const std::string from = folder + "/-rf";
            transcript.call("mkdir", ::mkdir(name.c_str(), 0755));
            transcript.call("rmdir", ::rmdir(name.c_str()));
            transcript.call("mkfifo", ::mkfifo(name.c_str(), 0644));
            transcript.call("unlink", ::unlink(name.c_str()));
            transcript.call("symlink", ::symlink("target", name.c_str()));
            transcript.call("unlink", ::unlink(name.c_str()));
            transcript.call("link", ::link(from.c_str(), name.c_str()));
            transcript.call("unlink", ::unlink(name.c_str()));
            transcript.call("rename", ::rename(from.c_str(), name.c_str()));
            transcript.line("source", status_text(from));
            transcript.call("rename back", ::rename(name.c_str(), from.c_str()));
            struct stat st{};
            transcript.call("stat", ::stat(name.c_str(), &st));
        }
        for (const std::size_t length : {1, 59, 60, 61, 255, 1023, 1024, 4094, 4095, 4096}) {
            const std::string link = folder + "/link" + std::to_string(length);
            transcript.call("symlink", ::symlink(std::string(length, 't').c_str(), link.c_str()));
            std::string target(5000, '\0');
            transcript.count("readlink", ::readlink(link.c_str(), target.data(), target.size()));
            transcript.line("link", status_text(link));
        }
    });
}

std::vector<dirent64> entries(int fd, std::size_t room) {
    std::vector<std::byte> buffer(room);
    const long got = ::syscall(SYS_getdents64, fd, buffer.data(), room);
    std::vector<dirent64> found;
    for (long at = 0; at < got;) {
        dirent64 entry{};
        unsigned short bytes = 0;
        std::memcpy(&bytes, buffer.data() + at + offsetof(dirent64, d_reclen), sizeof bytes);
        std::memcpy(&entry, buffer.data() + at, std::min<std::size_t>(bytes, sizeof entry));
        found.push_back(entry);
        at += bytes;
    }
    return found;
}

TEST_P(TruthNames, listing_goes_on_anywhere_in_a_large_directory) {
    ASSERT_NO_FATAL_FAILURE(start());
    std::set<std::string> wanted{".", ".."};
    for (int number = 0; number < 2000; ++number) {
        const std::string name =
            std::to_string(number) + std::string(static_cast<std::size_t>(number % 60), 'x');
        ASSERT_TRUE(put(through + "/" + name, ""));
        wanted.insert(name);
    }
    for (const std::size_t room : {600U, 1024U, 4096U, 65536U}) {
        const Fd folder{::open(through.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
        ASSERT_TRUE(folder);
        std::vector<dirent64> all;
        for (auto some = entries(folder.get(), room); !some.empty(); some = entries(folder.get(), room))
            all.insert(all.end(), some.begin(), some.end());
        ASSERT_EQ(all.size(), wanted.size()) << "room for " << room << " bytes";
        std::set<std::string> seen;
        for (const auto& entry : all) seen.emplace(entry.d_name);
        EXPECT_EQ(seen, wanted);
        std::mt19937 random{testing::UnitTest::GetInstance()->random_seed() + room};
        for (int round = 0; round < 50; ++round) {
            const std::size_t at = random() % (all.size() - 1);
            ASSERT_GE(::lseek(folder.get(), all[at].d_off, SEEK_SET), 0);
            const auto next = entries(folder.get(), room);
            ASSERT_FALSE(next.empty()) << "behind entry " << at;
            EXPECT_STREQ(next.front().d_name, all[at + 1].d_name);
        }
        // From the beginning again, it is as it is now.
        ASSERT_TRUE(put(through + "/late", ""));
        ASSERT_EQ(::lseek(folder.get(), 0, SEEK_SET), 0);
        std::set<std::string> again;
        for (auto some = entries(folder.get(), room); !some.empty(); some = entries(folder.get(), room))
            for (const auto& entry : some) again.emplace(entry.d_name);
        EXPECT_TRUE(again.contains("late"));
        ASSERT_EQ(::unlink((through + "/late").c_str()), 0);
    }
}

// All kinds of source and target with all flags.
TEST_P(TruthNames, rename_with_each_flag) {
    compare([](const std::string& folder, Transcript& transcript) {
        const std::string at = folder + "/r";
        const auto make = [&] {
            std::filesystem::remove_all(at);
            ::mkdir(at.c_str(), 0755);
            put(at + "/file", "F");
            put(at + "/other", "O");
            ::mkdir((at + "/empty").c_str(), 0755);
            ::mkdir((at + "/filled").c_str(), 0755);
            put(at + "/filled/in", "I");
            ::symlink("file", (at + "/link").c_str());
        };
        make();
        for (const unsigned flags : {0U, 1U, 2U, 4U, 3U, 5U, 0x100U}) {
            for (const char* const source : {"file", "empty", "filled", "filled/in", "link", "missing"}) {
                for (const char* const target : {"other", "file", "empty", "filled", "link", "missing",
                                                 "filled/in", "file/x", "empty/new"}) {
                    const std::string from = at + "/" + source;
                    const std::string to = at + "/" + target;
                    const long renamed = transcript.call(
                        "rename " + from.substr(at.size()) + " " + target + " " + std::to_string(flags),
                        ::syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags));
                    transcript.append(tree_text(at));
                    if (renamed == 0) make();
                }
            }
        }
    });
}

TEST_P(TruthNames, each_name_of_a_file_shows_the_same_file) {
    compare([](const std::string& folder, Transcript& transcript) {
        const std::string a = folder + "/a";
        const std::string b = folder + "/sub/b";
        ::mkdir((folder + "/sub").c_str(), 0755);
        put(a, std::string(312, 'A'));
        transcript.call("link", ::link(a.c_str(), b.c_str()));
        struct stat st[2]{};
        ::stat(a.c_str(), &st[0]);
        ::stat(b.c_str(), &st[1]);
        transcript.line("inode",
                        st[0].st_ino == st[1].st_ino && st[0].st_dev == st[1].st_dev ? "same" : "other");
        const auto both = [&] {
            transcript.line("a", status_text(a) + " " + contents_of(a));
            transcript.line("b", status_text(b) + " " + contents_of(b));
        };
        both();
        const Fd held{::open(a.c_str(), O_RDWR | O_APPEND | O_CLOEXEC)};
        transcript.count("append", ::write(held.get(), "more", 4));
        both();
        transcript.call("chmod", ::chmod(b.c_str(), 0600));
        both();
        transcript.call("truncate", ::truncate(b.c_str(), 17));
        both();
        transcript.call("unlink", ::unlink(a.c_str()));
        both();
        for (const off_t size : {200, 0, 5000}) {
            const Fd file{::open(b.c_str(), O_RDWR | O_CLOEXEC)};
            transcript.count("write", ::pwrite(file.get(), "xyz", 3, 100));
            transcript.call("ftruncate", ::ftruncate(file.get(), size));
            transcript.count("write through the old handle", ::write(held.get(), "held", 4));
            both();
        }
        transcript.call("link again", ::link(b.c_str(), a.c_str()));
        both();
        for (int number = 0; number < 40; ++number)
            transcript.call("link", ::link(b.c_str(), (a + std::to_string(number)).c_str()));
        for (int number = 0; number < 40; number += 3)
            transcript.call("unlink", ::unlink((a + std::to_string(number)).c_str()));
        both();
    });
}

TEST_P(TruthNames, file_without_a_name_can_get_one) {
    compare([](const std::string& folder, Transcript& transcript) {
        const auto name_it = [&](const Fd& file, const std::string& path) {
            const std::string source = "/proc/self/fd/" + std::to_string(file.get());
            return ::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW);
        };
        for (const mode_t mask : {022, 027, 077, 0}) {
            const mode_t before = ::umask(mask);
            for (const int flags : {O_RDWR, O_WRONLY, O_RDWR | O_EXCL, O_RDONLY}) {
                const std::string name =
                    folder + "/named" + std::to_string(flags) + "-" + std::to_string(mask);
                const Fd file{::open(folder.c_str(), O_TMPFILE | flags | O_CLOEXEC, 0666)};
                transcript.line("open " + std::to_string(flags), file ? "done" : Errno{errno}.name());
                if (!file) continue;
                transcript.line("listed", std::to_string(listing(folder).size()));
                transcript.count("write", ::write(file.get(), "hello", 5));
                struct stat st{};
                transcript.call("fstat", ::fstat(file.get(), &st));
                transcript.line("status", std::to_string(st.st_mode) + " " + std::to_string(st.st_nlink) +
                                              " " + std::to_string(st.st_size));
                transcript.call("link", name_it(file, name));
                transcript.line("named", status_text(name) + " " + contents_of(name));
                transcript.count("write", ::write(file.get(), "!", 1));
                transcript.line("named", status_text(name) + " " + contents_of(name));
            }
            ::umask(before);
        }
        put(folder + "/file", "");
        const Fd none{::open((folder + "/file").c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666)};
        transcript.line("below a file", none ? "done" : Errno{errno}.name());
    });
}

TEST_P(TruthNames, open_file_lives_on_without_its_name) {
    compare([](const std::string& folder, Transcript& transcript) {
        const std::string path = folder + "/victim";
        const Fd file{::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)};
        transcript.count("write", ::write(file.get(), "old data", 8));
        transcript.call("unlink", ::unlink(path.c_str()));
        put(path, "new file, same name");
        const auto show = [&](const char* what) {
            struct stat st{};
            transcript.call(what, ::fstat(file.get(), &st));
            char text[64]{};
            const ssize_t got = ::pread(file.get(), text, 40, 0);
            transcript.line("old", std::to_string(st.st_mode) + " " + std::to_string(st.st_uid) + ":" +
                                       std::to_string(st.st_gid) + " " + std::to_string(st.st_nlink) + " " +
                                       std::to_string(st.st_size) + " " + std::to_string(got) + " " + text);
            transcript.line("new", status_text(path) + " " + contents_of(path));
        };
        show("at first");
        transcript.call("ftruncate", ::ftruncate(file.get(), 16384));
        show("larger");
        transcript.count("pwrite", ::pwrite(file.get(), "end", 3, 16381));
        show("written");
        transcript.call("fchmod", ::fchmod(file.get(), 0600));
        show("mode");
        transcript.call("fchown", ::fchown(file.get(), 12, 34));
        show("owner");
        transcript.call("fallocate", ::fallocate(file.get(), 0, 0, 20000));
        show("allocated");
        transcript.call("ftruncate", ::ftruncate(file.get(), 4));
        transcript.call("fsync", ::fsync(file.get()));
        const timespec times[2]{{.tv_sec = 5, .tv_nsec = 0}, {.tv_sec = 6, .tv_nsec = 7}};
        transcript.call("futimens", ::futimens(file.get(), times));
        struct stat st{};
        ::fstat(file.get(), &st);
        transcript.line("modified",
                        std::to_string(st.st_mtim.tv_sec) + "." + std::to_string(st.st_mtim.tv_nsec));
        transcript.call("fsetxattr", ::fsetxattr(file.get(), "user.k", "v", 1, 0));
        char value[8];
        transcript.count("fgetxattr", ::fgetxattr(file.get(), "user.k", value, sizeof value));
        const std::string again = "/proc/self/fd/" + std::to_string(file.get());
        for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR, O_RDWR | O_TRUNC}) {
            const Fd reopened{::open(again.c_str(), flags | O_CLOEXEC)};
            transcript.line("opened again", reopened ? "done" : Errno{errno}.name());
        }
        show("at last");
    });
}

std::string time_text(const timespec& time) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    if (std::abs(time.tv_sec - now.tv_sec) < 600) return "now"; // the coarse clock of a slow machine
    return std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec);
}

TEST_P(TruthNames, times_are_set_in_every_form) {
    compare([](const std::string& folder, Transcript& transcript) {
        const std::string path = folder + "/file";
        const std::string link = folder + "/link";
        const std::string dangling = folder + "/dangling";
        put(path, "x");
        ::symlink("file", link.c_str());
        ::symlink("missing", dangling.c_str());
        const Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
        const auto show = [&] {
            for (const auto& each : {path, link, dangling}) {
                struct stat st{};
                ::lstat(each.c_str(), &st);
                transcript.line("times", time_text(st.st_atim) + " " + time_text(st.st_mtim));
            }
        };
        const timespec kinds[]{{.tv_sec = 1'000'000'000, .tv_nsec = 123'456'789},
                               {.tv_sec = 5, .tv_nsec = UTIME_OMIT},
                               {.tv_sec = 7, .tv_nsec = UTIME_NOW},
                               {.tv_sec = -1000, .tv_nsec = 1},
                               {.tv_sec = 4'000'000'000, .tv_nsec = 2},
                               {.tv_sec = 0, .tv_nsec = 0},
                               {.tv_sec = 9, .tv_nsec = 1'000'000'000}};
        for (const auto& accessed : kinds) {
            for (const auto& modified : kinds) {
                const timespec both[2]{accessed, modified};
                transcript.call("by path", ::utimensat(AT_FDCWD, path.c_str(), both, 0));
                transcript.call("by handle", ::futimens(file.get(), both));
                transcript.call("a link's target", ::utimensat(AT_FDCWD, link.c_str(), both, 0));
                show();
                transcript.call("a link", ::utimensat(AT_FDCWD, link.c_str(), both, AT_SYMLINK_NOFOLLOW));
                transcript.call("dangling",
                                ::utimensat(AT_FDCWD, dangling.c_str(), both, AT_SYMLINK_NOFOLLOW));
                transcript.call("nothing", ::utimensat(AT_FDCWD, dangling.c_str(), both, 0));
                show();
            }
        }
        transcript.call("now", ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0));
        show();
    });
}

} // namespace
} // namespace viaduct::test
