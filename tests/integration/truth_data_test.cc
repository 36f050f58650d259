// SPDX-License-Identifier: Apache-2.0
//
// The data of files of a mount, compared with the directory itself.
#include "support/truth.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <sys/mman.h>

namespace viaduct::test {
namespace {

class TruthData : public Truth {};
INSTANTIATE_TEST_SUITE_P(Cache, TruthData, each_cache_mode(), cache_mode_name);

std::string pattern(std::size_t bytes, unsigned seed) {
    std::mt19937 random{seed};
    std::string text(bytes, '\0');
    for (char& c : text) c = static_cast<char>(random());
    return text;
}

// Two handles and a process, in any order, wherever their positions are.
TEST_P(TruthData, appended_data_goes_to_the_end) {
    ASSERT_NO_FATAL_FAILURE(start());
    const auto seed = static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed());
    compare([seed](const std::string& folder, Transcript& transcript) {
        std::mt19937 random{seed};
        const std::string path = folder + "/log";
        const Fd first{::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_APPEND | O_CLOEXEC, 0644)};
        const Fd second{::open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC)};
        transcript.count("head", ::write(first.get(), std::string(4090, 'h').data(), 4090));
        for (int round = 0; round < 200; ++round) {
            const Fd& file = random() % 2 == 0 ? first : second;
            const std::string line = std::to_string(round) + std::string(random() % 150, 'z') + "\n";
            switch (random() % 7) {
            case 0:
                transcript.count("seek", ::lseek(file.get(), static_cast<off_t>(random() % 5000), SEEK_SET));
                break;
            case 1:
                transcript.count("pwrite", ::pwrite(file.get(), line.data(), line.size(), 3));
                break;
            case 2:
                transcript.call("fsync", ::fsync(file.get()));
                break;
            case 3:
                transcript.append(as_user({}, [&](Transcript& inner) {
                    const Fd own{::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)};
                    inner.count("write of a process", ::write(own.get(), "other\n", 6));
                }));
                break;
            default:
                transcript.count("write", ::write(file.get(), line.data(), line.size()));
            }
            struct stat st{};
            ::fstat(first.get(), &st);
            transcript.line("size", std::to_string(st.st_size));
            transcript.count("position", ::lseek(file.get(), 0, SEEK_CUR));
        }
        // The flag can be taken off and put on.
        transcript.call("off", ::fcntl(second.get(), F_SETFL, 0));
        transcript.count("write", ::pwrite(second.get(), "START", 5, 0));
        transcript.call("on", ::fcntl(second.get(), F_SETFL, O_APPEND));
        transcript.count("write", ::pwrite(second.get(), "END", 3, 0));
    });
}

TEST_P(TruthData, ranges_are_copied_exactly) {
    ASSERT_NO_FATAL_FAILURE(start());
    const auto seed = static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed());
    compare([seed](const std::string& folder, Transcript& transcript) {
        std::mt19937 random{seed};
        const Fd from{::open((folder + "/from").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)};
        const Fd to{::open((folder + "/to").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)};
        const std::string data = pattern(300'000, 1);
        transcript.count("data", ::pwrite(from.get(), data.data(), data.size(), 0));
        transcript.count("below it", ::pwrite(to.get(), std::string(400'000, '#').data(), 400'000, 0));
        const auto whole = [&] {
            std::string text(700'000, '\0');
            text.resize(static_cast<std::size_t>(
                std::max<ssize_t>(::pread(to.get(), text.data(), text.size(), 0), 0)));
            return std::to_string(text.size()) + " " + std::to_string(std::hash<std::string>{}(text));
        };
        for (int round = 0; round < 30; ++round) {
            off64_t source = random() % 310'000;
            off64_t target = random() % 400'000;
            const std::size_t wanted = round % 3 == 0 ? 4096 : random() % 90'000;
            std::size_t copied = 0;
            ssize_t got = 0;
            while (copied < wanted &&
                   (got = ::copy_file_range(from.get(), &source, to.get(), &target, wanted - copied, 0)) > 0)
                copied += static_cast<std::size_t>(got);
            transcript.line("copied", got < 0 ? Errno{errno}.name() : std::to_string(copied));
            transcript.line("whole", whole()); // what was cached of it is not shown any more
        }
        ::lseek(from.get(), 7, SEEK_SET);
        ::lseek(to.get(), 99, SEEK_SET);
        transcript.count("by position", ::copy_file_range(from.get(), nullptr, to.get(), nullptr, 20, 0));
        transcript.count("position", ::lseek(from.get(), 0, SEEK_CUR));
        transcript.count("position", ::lseek(to.get(), 0, SEEK_CUR));
        off64_t zero = 0;
        off64_t near = 50;
        transcript.count("overlapping", ::copy_file_range(from.get(), &zero, from.get(), &near, 100, 0));
        zero = 0;
        near = 1000;
        transcript.count("within a file", ::copy_file_range(from.get(), &zero, from.get(), &near, 100, 0));
        for (const int flags : {O_RDONLY, O_WRONLY | O_APPEND}) {
            const Fd other{::open((folder + "/to").c_str(), flags | O_CLOEXEC)};
            transcript.count("into " + std::to_string(flags),
                             ::copy_file_range(from.get(), nullptr, other.get(), nullptr, 10, 0));
        }
        transcript.count("flags", ::copy_file_range(from.get(), nullptr, to.get(), nullptr, 10, 1));
        transcript.line("whole", whole());
    });
}

TEST_P(TruthData, maps_reads_and_size_agree) {
    if (mode_is("never") || mode_is("metadata"))
        GTEST_SKIP() << "shared maps need the page cache, which this mode goes past";
    compare([](const std::string& folder, Transcript& transcript) {
        const std::string path = folder + "/db";
        const Fd file{::open(path.c_str(), O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0644)};
        for (const std::size_t bytes :
             {std::size_t{1}, std::size_t{1024}, std::size_t{4096}, std::size_t{10'000}}) {
            transcript.call("truncate", ::ftruncate(file.get(), static_cast<off_t>(bytes)));
            void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
            transcript.line("map", memory == MAP_FAILED ? Errno{errno}.name() : "done");
            if (memory == MAP_FAILED) continue;
            auto* const map = static_cast<char*>(memory);
            for (std::size_t at = 0; at < bytes; at += 97) map[at] = static_cast<char>('A' + at % 26);
            map[bytes - 1] = 'Z';
            transcript.line("read", contents_of(path));
            transcript.call("msync", ::msync(map, bytes, MS_SYNC));
            transcript.line("status", status_text(path));
            const Fd other{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
            transcript.count("pwrite", ::pwrite(other.get(), "PW", 2, 0));
            transcript.line("in the map", std::string(map, std::min<std::size_t>(bytes, 2)));
            transcript.append(as_user({}, [&](Transcript& inner) {
                map[bytes / 2] = 'c';
                inner.line("child", contents_of(path));
            }));
            transcript.line("from the child", std::string(1, map[bytes / 2]));
            ::munmap(map, bytes);
            transcript.line("unmapped", status_text(path) + contents_of(path));
        }
        const Fd reading{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
        for (const int protection : {PROT_READ, PROT_READ | PROT_WRITE}) {
            for (const int kind : {MAP_PRIVATE, MAP_SHARED}) {
                void* const memory = ::mmap(nullptr, 4096, protection, kind, reading.get(), 0);
                transcript.line("map to read", memory == MAP_FAILED ? Errno{errno}.name() : "done");
                if (memory == MAP_FAILED) continue;
                if (protection != PROT_READ) *static_cast<char*>(memory) = 'p';
                ::munmap(memory, 4096);
            }
        }
        transcript.line("at last", contents_of(path));
        transcript.call("fsync", ::fsync(file.get()));
    });
}

TEST_P(TruthData, direct_and_buffered_agree) {
    ASSERT_NO_FATAL_FAILURE(start({"--allow-direct-io"}));
    if (!Fd{::open((native + "/x").c_str(), O_CREAT | O_RDWR | O_DIRECT | O_CLOEXEC, 0600)})
        GTEST_SKIP() << "the file system of the temporary folder has no O_DIRECT";
    ::unlink((native + "/x").c_str());
    compare([](const std::string& folder, Transcript& transcript) {
        const std::string path = folder + "/file";
        const std::string data = pattern(100 * 4096 + 1234, 2);
        put(path, data);
        const std::unique_ptr<void, decltype(&std::free)> memory{std::aligned_alloc(4096, 1 << 20),
                                                                 &std::free};
        auto* const buffer = static_cast<char*>(memory.get());
        const auto show = [&](const char* what, ssize_t got) {
            transcript.count(what, got);
            if (got > 0)
                transcript.line("data", std::to_string(std::hash<std::string>{}(
                                            {buffer, static_cast<std::size_t>(got)})));
        };
        for (const int flags : {O_RDONLY, O_RDWR, O_RDWR | O_CREAT}) {
            const Fd file{::open(path.c_str(), flags | O_DIRECT | O_CLOEXEC, 0600)};
            transcript.line("open", file ? "done" : Errno{errno}.name());
            for (const off_t block : {0, 1, 50, 99, 100, 101, 1000})
                for (const std::size_t bytes : {4096U, 8192U, 1U << 20U})
                    show("read", ::pread(file.get(), buffer, bytes, block * 4096));
            if (flags == O_RDONLY) continue;
            std::fill_n(buffer, 8192, static_cast<char>('0' + flags % 10));
            transcript.count("write", ::pwrite(file.get(), buffer, 8192, 8192));
            const Fd other{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
            show("buffered read", ::pread(other.get(), buffer, 20'000, 5000));
            transcript.count("buffered write", ::pwrite(other.get(), "buffered", 8, 20'000));
            show("direct read", ::pread(file.get(), buffer, 8192, 16'384));
        }
        const Fd made{
            ::open((folder + "/new").c_str(), O_CREAT | O_EXCL | O_RDWR | O_DIRECT | O_CLOEXEC, 0600)};
        std::fill_n(buffer, 4096, 'n');
        transcript.count("write to a new file", ::pwrite(made.get(), buffer, 4096, 4096));
    });
}

// Asked at each edge, in the file itself and through the mount.
TEST_P(TruthData, holes_are_found_where_they_are) {
    ASSERT_NO_FATAL_FAILURE(start());
    constexpr off_t kSize = 2 << 20;
    const Fd file{::open((through + "/sparse").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)};
    ASSERT_TRUE(file);
    for (const off_t at : {0, 1 << 20}) {
        const std::string block(65536, 'b');
        ASSERT_EQ(::pwrite(file.get(), block.data(), block.size(), at), 65536);
    }
    ASSERT_EQ(::ftruncate(file.get(), kSize), 0);
    ASSERT_EQ(::fsync(file.get()), 0);
    const Fd empty{::open((through + "/empty").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)};
    for (const char* const name : {"/sparse", "/empty"}) {
        const Fd here{::open((through + name).c_str(), O_RDONLY | O_CLOEXEC)};
        const Fd there{::open((behind + name).c_str(), O_RDONLY | O_CLOEXEC)};
        Transcript mount;
        Transcript host;
        for (const off_t base :
             {off_t{0}, off_t{65536}, off_t{1 << 20}, off_t{(1 << 20) + 65536}, kSize, 4 * kSize}) {
            for (const off_t beside : {-4096, -1, 0, 1, 10, 4096}) {
                for (const int whence : {SEEK_DATA, SEEK_HOLE}) {
                    const std::string what = std::to_string(base + beside) + " " + std::to_string(whence);
                    mount.count(what, ::lseek(here.get(), base + beside, whence));
                    host.count(what, ::lseek(there.get(), base + beside, whence));
                    mount.count("position", ::lseek(here.get(), 0, SEEK_CUR));
                    host.count("position", ::lseek(there.get(), 0, SEEK_CUR));
                }
            }
        }
        EXPECT_EQ(mount.text(), host.text()) << name;
    }
}

// Through handles that cannot read what is beside it.
TEST_P(TruthData, part_of_a_page_is_written_and_the_rest_is_kept) {
    ASSERT_NO_FATAL_FAILURE(start());
    const auto seed = static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed());
    for (const auto& folder : {native, behind})
        ASSERT_TRUE(put(folder + "/data", pattern(3 * 4096 + 100, 3)));
    compare([seed](const std::string& folder, Transcript& transcript) {
        std::mt19937 random{seed};
        const std::string path = folder + "/data";
        for (int round = 0; round < 60; ++round) {
            const int flags = round % 5 == 0 ? O_APPEND : 0;
            const Fd file{::open(path.c_str(), O_WRONLY | flags | O_CLOEXEC)};
            const std::string text(1 + random() % (round % 2 == 0 ? 7 : 5000),
                                   static_cast<char>('a' + round % 26));
            const off_t at = round % 3 == 0 ? 4096 - 3 : static_cast<off_t>(random() % 14'000);
            transcript.count("write", ::pwrite(file.get(), text.data(), text.size(), at));
            char byte = 0;
            transcript.count("read", ::pread(file.get(), &byte, 1, 0));
            if (round % 7 == 0) transcript.line("contents", contents_of(path));
        }
        put(folder + "/blind", "secret", 0200);
        const Fd blind{::open((folder + "/blind").c_str(), O_WRONLY | O_CLOEXEC)};
        transcript.count("write", ::pwrite(blind.get(), "S", 1, 0));
    });
}

TEST_P(TruthData, offsets_and_sizes_up_to_the_limits) {
    compare([](const std::string& folder, Transcript& transcript) {
        const Fd file{::open((folder + "/big").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)};
        const auto size = [&] {
            struct stat st{};
            ::fstat(file.get(), &st);
            return std::to_string(st.st_size);
        };
        constexpr std::int64_t kGiB = 1LL << 30;
        for (const std::int64_t base : {2 * kGiB, 4 * kGiB, 8 * kGiB, std::int64_t{1} << 40}) {
            for (const std::int64_t beside : {-3, 0, 7}) {
                const std::int64_t at = base + beside;
                transcript.count("write", ::pwrite(file.get(), "marker", 6, at));
                char text[8]{};
                transcript.count("read", ::pread(file.get(), text, 6, at));
                transcript.line("text", text);
                transcript.count("read below", ::pread(file.get(), text, 6, at & 0xffffffff));
                transcript.count("seek", ::lseek(file.get(), at, SEEK_SET));
                transcript.count("read on", ::read(file.get(), text, 3));
                transcript.line("size", size());
            }
        }
        for (const std::int64_t length :
             {6 * kGiB, std::int64_t{1} << 43, std::int64_t{1} << 50, std::int64_t{1} << 62, INT64_MAX,
              std::int64_t{-1}, std::int64_t{0}}) {
            transcript.call("truncate", ::ftruncate(file.get(), length));
            transcript.line("size", size());
            char text[8]{};
            transcript.count("read past the end", ::pread(file.get(), text, 6, length));
        }
        transcript.count("seek to nowhere", ::lseek(file.get(), -1, SEEK_SET));
        transcript.count("read at a negative offset", ::pread(file.get(), nullptr, 1, -1));
        // FALLOC_FL_COLLAPSE_RANGE and INSERT_RANGE are refused by Linux' FUSE itself.
        for (const int mode : {0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                               FALLOC_FL_ZERO_RANGE, FALLOC_FL_PUNCH_HOLE, 0x80}) {
            for (const off_t at : {0, 4096, 100, -1}) {
                for (const off_t bytes : {0, 4096, 10'000}) {
                    transcript.call("fallocate", ::fallocate(file.get(), mode, at, bytes));
                    transcript.line("size", size());
                }
            }
        }
        transcript.call("truncate", ::ftruncate(file.get(), 0));
    });
}

TEST_P(TruthData, each_call_fails_as_in_the_directory) {
    compare([](const std::string& folder, Transcript& transcript) {
        const auto at = [&](const char* name) { return folder + "/" + name; };
        ::mkdir(at("full").c_str(), 0755);
        put(at("full/x"), "1");
        ::mkdir(at("empty").c_str(), 0755);
        put(at("file"), "f");
        ::symlink("nowhere", at("dangling").c_str());
        ::symlink("file", at("link").c_str());
        ::symlink("empty", at("dirlink").c_str());
        ::symlink("loop2", at("loop1").c_str());
        ::symlink("loop1", at("loop2").c_str());
        ::mkfifo(at("fifo").c_str(), 0644);
        const char* const names[] = {"full",    "empty",  "file",   "dangling", "link",    "dirlink",
                                     "loop1",   "fifo",   "none",   "file/",    "file/x",  "empty/.",
                                     "full/..", "none/x", "empty/", "dirlink/", "loop1/x", "full/x"};
        for (const char* const name : names) {
            const std::string path = at(name);
            struct stat st{};
            char target[64];
            transcript.line("name", name);
            transcript.call("stat", ::stat(path.c_str(), &st));
            transcript.call("lstat", ::lstat(path.c_str(), &st));
            transcript.call("access", ::access(path.c_str(), R_OK));
            transcript.count("readlink", ::readlink(path.c_str(), target, sizeof target));
            transcript.call("chmod", ::chmod(path.c_str(), 0755));
            transcript.call("truncate", ::truncate(path.c_str(), 0));
            for (const int flags :
                 {O_RDONLY, O_WRONLY | O_NONBLOCK, O_RDONLY | O_DIRECTORY, O_RDONLY | O_NOFOLLOW | O_NONBLOCK,
                  O_RDWR | O_TRUNC | O_NONBLOCK, O_PATH, O_PATH | O_NOFOLLOW}) {
                if (std::string_view{name} == "fifo" && flags == O_RDONLY) continue; // it would wait
                const Fd file{::open(path.c_str(), flags | O_CLOEXEC)};
                transcript.line("open " + std::to_string(flags), file ? "done" : Errno{errno}.name());
            }
            transcript.line("exclusive",
                            Fd{::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600)}
                                ? "done"
                                : Errno{errno}.name());
            transcript.call("mkdir", ::mkdir(path.c_str(), 0755));
            transcript.call("symlink", ::symlink("x", path.c_str()));
            transcript.call("mkfifo", ::mkfifo(path.c_str(), 0644));
            transcript.call("link to it", ::link(path.c_str(), at("new").c_str()));
            ::unlink(at("new").c_str());
            transcript.call("link onto it", ::link(at("file").c_str(), path.c_str()));
            transcript.call("rename a file onto it", ::rename(at("none2").c_str(), path.c_str()));
            transcript.call("rmdir of what is not empty",
                            ::rmdir(path.c_str()) == 0 ? ::mkdir(path.c_str(), 0755) : -1);
            transcript.call("rmdir of a parent", ::rmdir((path + "/.").c_str()));
            if (S_ISDIR(st.st_mode)) transcript.call("unlink", ::unlink(path.c_str()));
        }
        transcript.call("create through a dangling link",
                        ::open(at("dangling").c_str(), O_CREAT | O_WRONLY, 0644) >= 0 ? 0 : -1);
        const Fd reading{::open(at("file").c_str(), O_RDONLY | O_CLOEXEC)};
        transcript.count("write", ::write(reading.get(), "x", 1));
        transcript.call("ftruncate", ::ftruncate(reading.get(), 0));
        transcript.call("fallocate", ::fallocate(reading.get(), 0, 0, 10));
        const Fd writing{::open(at("file").c_str(), O_WRONLY | O_CLOEXEC)};
        char byte = 0;
        transcript.count("read", ::read(writing.get(), &byte, 1));
        const Fd directory{::open(at("empty").c_str(), O_RDONLY | O_CLOEXEC)};
        transcript.count("read of a directory", ::read(directory.get(), &byte, 1));
        transcript.call("fsync of a directory", ::fsync(directory.get()));
    });
}

} // namespace
} // namespace viaduct::test
