// SPDX-License-Identifier: Apache-2.0
#include "guestvm/cpio.h"

#include <gtest/gtest.h>

#include <charconv>
#include <string>
#include <vector>

namespace viaduct::guestvm {
namespace {

struct Found {
    std::string path;
    std::string contents;
    unsigned mode = 0;
    unsigned device_major = 0;
    unsigned device_minor = 0;
};

unsigned hex(std::string_view archive, std::size_t entry, std::size_t field) {
    unsigned value = 0;
    const char* const begin = archive.data() + entry + 6 + field * 8;
    std::from_chars(begin, begin + 8, value, 16);
    return value;
}

// A reader after the format's description (cpio(5)), up to the trailer; `end` is where that one ends.
std::vector<Found> parse(std::string_view archive, std::size_t& end) {
    const auto align = [](std::size_t at) { return (at + 3) / 4 * 4; };
    std::vector<Found> all;
    std::size_t at = end;
    for (;;) {
        EXPECT_EQ(archive.substr(at, 6), "070701");
        const std::size_t name_bytes = hex(archive, at, 11);
        const std::size_t bytes = hex(archive, at, 6);
        const std::size_t contents = align(at + 110 + name_bytes);
        Found found{.path = std::string{archive.substr(at + 110, name_bytes - 1)},
                    .contents = std::string{archive.substr(contents, bytes)},
                    .mode = hex(archive, at, 1),
                    .device_major = hex(archive, at, 9),
                    .device_minor = hex(archive, at, 10)};
        EXPECT_EQ(archive[at + 110 + name_bytes - 1], '\0');
        at = align(contents + bytes);
        end = at;
        if (found.path == "TRAILER!!!") return all;
        all.push_back(found);
    }
}

TEST(Cpio, entries_come_back_with_kind_contents_and_mode) {
    CpioWriter writer;
    writer.directory("etc");
    writer.file("etc/motd", "hello", 0640);
    writer.symlink("etc/link", "motd");
    writer.character_device("etc/console", 5, 1);
    std::size_t end = 0;
    const auto entries = parse(writer.finish(), end);

    ASSERT_EQ(entries.size(), 4U);
    EXPECT_EQ(entries[0].mode, 0040755U);
    EXPECT_EQ(entries[1].path, "etc/motd");
    EXPECT_EQ(entries[1].contents, "hello");
    EXPECT_EQ(entries[1].mode, 0100640U);
    EXPECT_EQ(entries[2].contents, "motd");
    EXPECT_EQ(entries[2].mode, 0120777U);
    EXPECT_EQ(entries[3].mode, 0020600U);
    EXPECT_EQ(entries[3].device_major, 5U);
    EXPECT_EQ(entries[3].device_minor, 1U);
}

TEST(Cpio, folders_above_a_path_are_made_once_and_first) {
    CpioWriter writer;
    writer.file("a/b/one", "1");
    writer.file("a/b/two", "2");
    std::size_t end = 0;
    const auto entries = parse(writer.finish(), end);

    ASSERT_EQ(entries.size(), 4U);
    EXPECT_EQ(entries[0].path, "a");
    EXPECT_EQ(entries[1].path, "a/b");
    EXPECT_EQ(entries[2].path, "a/b/one");
    EXPECT_EQ(entries[3].path, "a/b/two");
}

TEST(Cpio, names_and_contents_of_every_length_stay_aligned) {
    CpioWriter writer;
    for (std::size_t length = 1; length < 12; ++length)
        writer.file(std::string(length, 'n'), std::string(length, 'c'));
    std::size_t end = 0;
    const auto entries = parse(writer.finish(), end);

    ASSERT_EQ(entries.size(), 11U);
    for (std::size_t i = 0; i < entries.size(); ++i) EXPECT_EQ(entries[i].contents, std::string(i + 1, 'c'));
}

TEST(Cpio, archives_can_be_appended) {
    CpioWriter writer;
    writer.file("one", "1");
    const std::string first = writer.finish();
    EXPECT_EQ(first.size() % 512, 0U);
    writer.file("two", "2");
    const std::string both = first + writer.finish();
    std::size_t end = 0;
    parse(both, end);
    end = first.size();
    const auto entries = parse(both, end);

    ASSERT_EQ(entries.size(), 1U);
    EXPECT_EQ(entries[0].path, "two");
}

} // namespace
} // namespace viaduct::guestvm
