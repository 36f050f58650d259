// SPDX-License-Identifier: Apache-2.0
#include "unit/passthrough/share.h"

#include <climits>
#include <cstring>
#include <random>
#include <sys/stat.h>

namespace viaduct::passthrough {
namespace {

std::string noise(std::size_t bytes) {
    std::mt19937 random{7};
    std::string text(bytes, '\0');
    for (char& c : text) c = static_cast<char>(random());
    return text;
}

struct Io : testing::TestWithParam<InlineMode> {
    Share share{{.inline_mode = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Modes, Io,
                         testing::Values(InlineMode::automatic, InlineMode::always, InlineMode::never),
                         [](const auto& info) -> std::string {
                             if (info.param == InlineMode::automatic) return "automatic";
                             return info.param == InlineMode::always ? "always" : "never";
                         });

TEST_P(Io, read_is_short_only_at_the_end_of_the_file) {
    const std::string text = noise(300'000);
    put(share.dir.path("f"), text);
    const HandleId handle = share.handle("f", O_RDONLY);
    EXPECT_EQ(share.read(handle, 0, 4096), text.substr(0, 4096));
    EXPECT_EQ(share.read(handle, 0, 1 << 20), text);
    EXPECT_EQ(share.read(handle, 299'000, 4096), text.substr(299'000));
    EXPECT_EQ(share.read(handle, 300'000, 4096), "");
    EXPECT_EQ(share.read(handle, 1ULL << 40, 4096), "");
    EXPECT_EQ(share.read(handle, ~0ULL, 4096).error(), Errno{EINVAL});
    EXPECT_EQ(share.read(HandleId{77}, 0, 1).error(), Errno{EBADF});
}

TEST_P(Io, more_segments_than_one_call_takes_are_all_filled_and_all_written) {
    const std::size_t count = 2 * IOV_MAX + 100;
    std::string text = noise(count * 3);
    put(share.dir.path("f"), text);
    std::string read_back(text.size(), '\0');
    std::vector<iovec> segments;
    for (std::size_t i = 0; i < count; ++i) segments.push_back({.iov_base = &read_back[i * 3], .iov_len = 3});
    const HandleId handle = share.handle("f", O_RDWR);
    const auto got = share.call([&] { return share.fs->read(kRoot, handle, 0, segments); });
    ASSERT_TRUE(got);
    EXPECT_EQ(*got, text.size());
    EXPECT_EQ(read_back, text);
    const auto put_back = share.call([&] { return share.fs->write(kRoot, handle, 10, segments, {}); });
    EXPECT_EQ(put_back, text.size());
    EXPECT_EQ(contents(share.dir.path("f")), text.substr(0, 10) + text);
}

TEST_P(Io, write_lands_where_it_is_sent) {
    put(share.dir.path("f"), "0123456789");
    const HandleId handle = share.handle("f", O_RDWR);
    EXPECT_EQ(share.write(handle, 3, "abc"), 3U);
    EXPECT_EQ(share.write(handle, 12, "xy"), 2U);
    EXPECT_EQ(contents(share.dir.path("f")), std::string("012abc6789\0\0xy", 14));
    EXPECT_EQ(share.write(share.handle("f", O_RDONLY), 0, "no").error(), Errno{EBADF});
    EXPECT_EQ(share.read(share.handle("f", O_WRONLY), 0, 1).error(), Errno{EBADF});
}

TEST_P(Io, append_goes_to_the_end_as_it_is_now_and_cached_pages_to_their_place) {
    put(share.dir.path("f"), "aaaa");
    const HandleId handle = share.handle("f", O_WRONLY | O_APPEND);
    std::ofstream{share.dir.path("f"), std::ios::app} << "bbbb"; // somebody on the host
    EXPECT_EQ(share.write(handle, 4, "cc"), 2U);
    EXPECT_EQ(contents(share.dir.path("f")), "aaaabbbbcc");
    EXPECT_EQ(share.write(handle, 1, "XX", {.cached = true}), 2U);
    EXPECT_EQ(contents(share.dir.path("f")), "aXXabbbbcc");
    EXPECT_EQ(share.write(handle, 0, "Y", {.append = false}), 1U); // the flag was taken back
    EXPECT_EQ(contents(share.dir.path("f")), "YXXabbbbcc");
    const HandleId plain = share.handle("f", O_WRONLY);
    EXPECT_EQ(share.write(plain, 0, "Z", {.append = true}), 1U);
    EXPECT_EQ(contents(share.dir.path("f")), "YXXabbbbccZ");
}

TEST_P(Io, write_on_behalf_of_a_user_drops_set_id_bits) {
    put(share.dir.path("f"), "x");
    ::chmod(share.dir.path("f").c_str(), 06755);
    const HandleId handle = share.handle("f", O_WRONLY);
    EXPECT_EQ(share.write(handle, 0, "y"), 1U);
    struct stat st{};
    ::stat(share.dir.path("f").c_str(), &st);
    EXPECT_EQ(st.st_mode & 07777, ::geteuid() == 0 ? 06755U : 0755U);
    EXPECT_EQ(share.write(handle, 0, "z", {.kill_suid_sgid = true}), 1U);
    ::stat(share.dir.path("f").c_str(), &st);
    EXPECT_EQ(st.st_mode & 07777, 0755U);
}

TEST_P(Io, file_calls_do_what_the_host_does) {
    put(share.dir.path("f"), "0123456789");
    put(share.dir.path("g"), "");
    const HandleId from = share.handle("f", O_RDWR);
    const HandleId to = share.handle("g", O_RDWR);
    EXPECT_TRUE(share.call([&] { return share.fs->flush(kRoot, from); }));
    EXPECT_TRUE(share.call([&] { return share.fs->fsync(kRoot, from, false); }));
    EXPECT_TRUE(share.call([&] { return share.fs->fsync(kRoot, from, true); }));
    const auto copied =
        share.call([&] { return share.fs->copy_file_range(kRoot, from, 2, to, 1, 1'000'000, 0); });
    EXPECT_EQ(copied, 8U);
    EXPECT_EQ(contents(share.dir.path("g")), std::string("\0", 1) + "23456789");
    EXPECT_EQ(share.call([&] { return share.fs->copy_file_range(kRoot, from, 0, to, 0, 1, 5); }).error(),
              Errno{EINVAL});
    EXPECT_EQ(share.call([&] { return share.fs->lseek(kRoot, from, 0, SEEK_DATA); }), 0U);
    EXPECT_EQ(share.call([&] { return share.fs->lseek(kRoot, from, 0, SEEK_HOLE); }), 10U);
    EXPECT_EQ(share.call([&] { return share.fs->lseek(kRoot, from, 10, SEEK_DATA); }).error(), Errno{ENXIO});
    ASSERT_TRUE(share.call([&] { return share.fs->fallocate(kRoot, from, 0, 0, 4096); }));
    EXPECT_EQ(std::filesystem::file_size(share.dir.path("f")), 4096U);
    EXPECT_FALSE(share.call([&] { return share.fs->fallocate(kRoot, from, 0xffff, 0, 4096); }));
    const auto st = share.call([&] { return share.fs->statfs(kRoot, kRootNode); });
    ASSERT_TRUE(st);
    EXPECT_EQ(st->name_bytes_max, 255U);
    EXPECT_GT(st->blocks, 0U);
    EXPECT_TRUE(share.call([&] { return share.fs->syncfs(kRoot, kRootNode); }));
}

TEST(PassthroughCopy, one_call_copies_a_bounded_part) {
    Share share;
    put(share.dir.path("f"), "");
    put(share.dir.path("g"), "");
    constexpr std::uint64_t kPart = 64U << 20;
    std::filesystem::resize_file(share.dir.path("f"), kPart + 4096); // a hole: quick to copy
    const HandleId from = share.handle("f", O_RDONLY);
    const HandleId to = share.handle("g", O_WRONLY);
    const auto copy = [&](std::uint64_t at) {
        return share.call([&] { return share.fs->copy_file_range(kRoot, from, at, to, at, 1U << 30, 0); });
    };
    EXPECT_EQ(copy(0), kPart);
    EXPECT_EQ(copy(kPart), 4096U);
    EXPECT_EQ(share.fs->calls(OpClass::whole, Place::helper), 2U);
}

TEST(PassthroughInline, getattr_read_and_write_take_no_lock_and_write_nothing_shared) {
    Share share;
    put(share.dir.path("f"), std::string(8192, 'x'));
    const NodeId node = share.node("f");
    const HandleId handle = share.handle("f", O_RDWR);
    share.run([&] {
        if (!sync::kCounting) return;
        std::string buffer(4096, '\0');
        const iovec iov{.iov_base = buffer.data(), .iov_len = buffer.size()};
        for (int warm = 0; warm < 2; ++warm) {
            const auto before = sync::counted();
            for (int i = 0; i < 10'000; ++i) {
                auto attr = share.fs->getattr(kRoot, node, std::nullopt);
                auto read = share.fs->read(kRoot, handle, 0, Segments{&iov, 1});
                auto written = share.fs->write(kRoot, handle, 4096, Segments{&iov, 1}, {});
                ASSERT_TRUE(attr.ready() && attr.value());
                ASSERT_TRUE(read.ready() && read.value() == 4096U);
                ASSERT_TRUE(written.ready() && written.value() == 4096U);
            }
            if (warm == 0) continue; // the first read learns what the file system can do
            EXPECT_EQ(sync::counted().locks, before.locks);
            EXPECT_EQ(sync::counted().shared_writes, before.shared_writes);
        }
    });
    EXPECT_EQ(share.fs->calls(OpClass::read, Place::worker), 20'000U);
    EXPECT_EQ(share.fs->calls(OpClass::attr, Place::worker), 20'000U);
    EXPECT_EQ(share.fs->calls(OpClass::attr, Place::helper), 0U);
}

// Opened on a worker, a file has O_NONBLOCK; a ring would give up at once on what is not in memory.
TEST(PassthroughInline, read_of_what_is_not_in_memory_waits_for_it) {
    Share share;
    const std::string text = noise(1 << 20);
    put(share.dir.path("f"), text);
    const HandleId handle = share.handle("f", O_RDONLY);
    EXPECT_EQ(share.fs->calls(OpClass::open, Place::worker), 1U);
    const Fd file{::open(share.dir.path("f").c_str(), O_RDONLY | O_CLOEXEC)};
    ASSERT_EQ(::fsync(file.get()), 0);
    ASSERT_EQ(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
    EXPECT_EQ(share.read(handle, 0, text.size()), text);
    if (share.fs->calls(OpClass::read, Place::ring) == 0)
        GTEST_SKIP() << "this file system keeps its files in memory, or does not know RWF_NOWAIT";
    EXPECT_EQ(share.read(handle, 4096, 100), text.substr(4096, 100));
}

TEST(PassthroughInline, never_sends_everything_elsewhere) {
    Share share{{.inline_mode = InlineMode::never}};
    put(share.dir.path("f"), "x");
    const NodeId node = share.node("f");
    const HandleId handle = share.handle("f", O_RDWR);
    EXPECT_TRUE(share.getattr(node));
    EXPECT_EQ(share.read(handle, 0, 10), "x");
    for (const OpClass op : {OpClass::attr, OpClass::lookup, OpClass::open, OpClass::read})
        EXPECT_EQ(share.fs->calls(op, Place::worker), 0U);
    EXPECT_EQ(share.fs->calls(OpClass::read, Place::ring), 1U);
    EXPECT_EQ(share.fs->calls(OpClass::attr, Place::helper), 1U);
}

TEST(PassthroughInline, requests_beyond_the_rings_bound_wait_their_turn) {
    Share share{{.inline_mode = InlineMode::never, .ring_operations_max = 2}};
    const std::string text = noise(64 * 1024);
    put(share.dir.path("f"), text);
    const HandleId handle = share.handle("f", O_RDONLY);
    std::string into(text.size(), '\0');
    std::vector<iovec> pieces;
    for (std::size_t at = 0; at < text.size(); at += 1024)
        pieces.push_back({.iov_base = &into[at], .iov_len = 1024});
    struct Reading {
        static rt::Task<void> one(Passthrough& fs, HandleId id, const iovec& iov, std::uint64_t offset) {
            auto read = fs.read(kRoot, id, offset, Segments{&iov, 1});
            const auto bytes = co_await std::move(read);
            EXPECT_EQ(bytes, 1024U);
        }
        static rt::Task<void> all(Passthrough& fs, HandleId id, std::vector<iovec>& iovs) {
            rt::Gate gate;
            for (std::size_t i = 0; i < iovs.size(); ++i) gate.spawn(one(fs, id, iovs[i], i * 1024));
            co_await gate.empty();
        }
    };
    test::run_on(*share.worker, Reading::all(*share.fs, handle, pieces));
    EXPECT_EQ(into, text);
}

struct Direct : testing::TestWithParam<InlineMode> {
    Share share{{.inline_mode = GetParam(), .allow_direct_io = true}};
    void SetUp() override {
        put(share.dir.path("f"), noise(409'600 + 1234));
        const Fd probe{::open(share.dir.path("f").c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC)};
        if (!probe) GTEST_SKIP() << "no O_DIRECT on this file system";
    }
};
INSTANTIATE_TEST_SUITE_P(Modes, Direct, testing::Values(InlineMode::automatic, InlineMode::never),
                         [](const auto& info) {
                             return info.param == InlineMode::never ? "away" : "inline";
                         });

TEST_P(Direct, reads_are_exact_whatever_their_alignment) {
    const std::string text = contents(share.dir.path("f"));
    const HandleId handle = share.handle("f", O_RDONLY | O_DIRECT);
    std::unique_ptr<char, decltype(&std::free)> aligned{static_cast<char*>(std::aligned_alloc(4096, 1 << 20)),
                                                        &std::free};
    const iovec iov{.iov_base = aligned.get(), .iov_len = 1 << 20};
    const auto all = share.call([&] { return share.fs->read(kRoot, handle, 0, Segments{&iov, 1}); });
    EXPECT_EQ(all, text.size());
    EXPECT_EQ(std::memcmp(aligned.get(), text.data(), text.size()), 0);
    EXPECT_EQ(share.read(handle, 0, 4096), text.substr(0, 4096));
    EXPECT_EQ(share.read(handle, 100, 5000), text.substr(100, 5000));
    EXPECT_EQ(share.read(handle, 409'600, 4096), text.substr(409'600));
    EXPECT_EQ(share.read(handle, 409'601, 10), text.substr(409'601, 10));
    EXPECT_EQ(share.read(handle, text.size(), 4096), "");
    EXPECT_EQ(share.read(handle, text.size() + 100'000, 4096), "");
    EXPECT_EQ(share.fs->calls(OpClass::read, Place::worker), 0U);
}

TEST_P(Direct, writes_are_exact_whatever_their_alignment) {
    std::string text = contents(share.dir.path("f"));
    const HandleId handle = share.handle("f", O_RDWR | O_DIRECT);
    const auto write = [&](std::size_t offset, const std::string& what) {
        EXPECT_EQ(share.write(handle, offset, what), what.size());
        if (text.size() < offset + what.size()) text.resize(offset + what.size());
        text.replace(offset, what.size(), what);
        EXPECT_EQ(contents(share.dir.path("f")), text);
        EXPECT_EQ(share.read(handle, offset, what.size()), what);
    };
    write(4096, std::string(8192, 'a'));
    write(100, std::string(5000, 'b'));
    write(409'600 + 512, std::string(10, 'c'));
    write(500'000, std::string(4096, 'd'));
    const HandleId append = share.handle("f", O_WRONLY | O_DIRECT | O_APPEND);
    EXPECT_EQ(share.write(append, 0, "end"), 3U);
    EXPECT_EQ(contents(share.dir.path("f")), text + "end");
    EXPECT_EQ(share.fs->calls(OpClass::write, Place::worker), 0U);
}

TEST(PassthroughDirect, flag_is_left_out_unless_allowed) {
    Share share;
    put(share.dir.path("f"), "short");
    const HandleId handle = share.handle("f", O_RDONLY | O_DIRECT);
    EXPECT_EQ(share.read(handle, 1, 3), "hor");
    EXPECT_EQ(share.fs->calls(OpClass::read, Place::worker), 1U);
}

} // namespace
} // namespace viaduct::passthrough
