// SPDX-License-Identifier: Apache-2.0
//
// How a request and its reply are cut into descriptors makes no difference to what is served.
#include "support/raw_guest.h"
#include "support/raw_ring.h"
#include "support/served_share.h"

#include <gtest/gtest.h>

#include <array>
#include <fcntl.h>
#include <fstream>

namespace viaduct::test {
namespace {

using Ranges = std::vector<virtio::GuestRange>;

constexpr std::uint32_t kMegabyte = 1U << 20;

virtio::GuestRange range(std::uint64_t offset, std::size_t bytes) {
    return {.address = virtio::GuestAddress{RawGuest::address(offset)},
            .bytes = static_cast<std::uint32_t>(bytes)};
}

// `bytes` from `offset` on: first those of `lengths`, then `pieces` of about the same length.
Ranges cut_ranges(std::uint64_t offset, std::size_t bytes, const std::vector<std::size_t>& lengths,
                  std::size_t pieces) {
    Ranges ranges;
    const auto put = [&](std::size_t length) {
        ranges.push_back(range(offset, length));
        offset += length;
        bytes -= length;
    };
    for (const std::size_t length : lengths) put(length);
    for (; pieces > 0; --pieces) put(bytes / pieces);
    return ranges;
}

class ChainLayout : public testing::TestWithParam<bool> {
protected:
    // Requests of queue 1 lie in what queue 2 has for its own: 2 MiB.
    std::unique_ptr<RawGuest> connect(std::uint32_t size, bool indirect) {
        auto guest = RawGuest::connect({.socket = share.socket(),
                                        .queues = 3,
                                        .size = size,
                                        .packed = GetParam(),
                                        .indirect = indirect});
        if (!guest || !guest->start_session(1)) return nullptr;
        request_at = guest->piece_offset(2, 0);
        reply_at = request_at + kMegabyte + 16384;
        return guest;
    }
    void put(RawGuest& guest, const std::vector<std::byte>& request) const {
        std::memcpy(guest.at(request_at), request.data(), request.size());
        std::memset(guest.at(reply_at), 0xee, 8192);
    }
    // used.len, once the chain is back.
    static std::optional<std::uint32_t> serve(RawGuest& guest, const Ranges& readable,
                                              const Ranges& writable) {
        if (!guest.ring(1).add(readable, writable, &guest)) return std::nullopt;
        guest.kick(1);
        return wait(guest);
    }
    static std::optional<std::uint32_t> wait(RawGuest& guest) {
        const auto used = guest.next_used(1);
        return used ? std::optional{used->written_bytes} : std::nullopt;
    }
    fuse_out_header reply_header(const RawGuest& guest) const {
        fuse_out_header header;
        std::memcpy(&header, guest.at(reply_at), sizeof header);
        return header;
    }
    std::vector<std::byte> reply(const RawGuest& guest, std::size_t bytes) const {
        return {guest.at(reply_at), guest.at(reply_at) + bytes};
    }
    // Opens what lies in the shared folder.
    struct Opened {
        std::uint64_t node = 0;
        std::uint64_t handle = 0;
    };
    Opened open(RawGuest& guest, const std::string& name) {
        Opened opened;
        const auto look_up = FuseMessage{FUSE_LOOKUP, 1}.with_string(name).bytes();
        auto piece = guest.add(1, look_up);
        guest.kick(1);
        EXPECT_TRUE(guest.wait_for_all(1));
        auto answer = guest.take(1, piece.value());
        EXPECT_EQ(answer.size(), sizeof(fuse_out_header) + sizeof(fuse_entry_out));
        if (answer.size() < 24) return opened;
        std::memcpy(&opened.node, answer.data() + sizeof(fuse_out_header), 8);
        piece = guest.add(
            1,
            FuseMessage{FUSE_OPEN, opened.node}.with(fuse_open_in{.flags = O_RDWR, .open_flags = 0}).bytes());
        guest.kick(1);
        EXPECT_TRUE(guest.wait_for_all(1));
        answer = guest.take(1, piece.value());
        EXPECT_EQ(answer.size(), sizeof(fuse_out_header) + sizeof(fuse_open_out));
        if (answer.size() >= 24) std::memcpy(&opened.handle, answer.data() + sizeof(fuse_out_header), 8);
        return opened;
    }
    static std::vector<std::byte> write_request(const Opened& file, std::uint64_t offset,
                                                const std::string& data) {
        return FuseMessage{FUSE_WRITE, file.node}
            .with(fuse_write_in{.fh = file.handle,
                                .offset = offset,
                                .size = static_cast<std::uint32_t>(data.size()),
                                .write_flags = 0,
                                .lock_owner = 0,
                                .flags = 0,
                                .padding = 0})
            .with_bytes(data.data(), data.size())
            .bytes();
    }
    static std::vector<std::byte> read_request(const Opened& file, std::uint64_t offset,
                                               std::uint32_t bytes) {
        return FuseMessage{FUSE_READ, file.node}
            .with(fuse_read_in{.fh = file.handle,
                               .offset = offset,
                               .size = bytes,
                               .read_flags = 0,
                               .lock_owner = 0,
                               .flags = 0,
                               .padding = 0})
            .bytes();
    }
    std::string content(const std::string& name) const {
        std::ifstream file{share.share() + "/" + name, std::ios::binary | std::ios::ate};
        std::string text(static_cast<std::size_t>(file.tellg()), '\0');
        file.seekg(0);
        file.read(text.data(), static_cast<std::streamsize>(text.size()));
        return text;
    }
    void make(const std::string& name, const std::string& text) const {
        std::ofstream{share.share() + "/" + name, std::ios::binary} << text;
    }
    static std::string pattern(std::size_t bytes, char seed) {
        std::string text(bytes, '\0');
        for (std::size_t index = 0; index < bytes; ++index)
            text[index] = static_cast<char>(static_cast<unsigned char>(seed) + index * 7 + index / 251);
        return text;
    }
    ServedShare share;
    std::uint64_t request_at = 0;
    std::uint64_t reply_at = 0;
};

INSTANTIATE_TEST_SUITE_P(Formats, ChainLayout, testing::Bool(),
                         [](const auto& info) { return info.param ? "packed" : "split"; });

TEST_P(ChainLayout, headers_and_data_may_come_in_descriptors_of_one_byte) {
    for (const bool indirect : {false, true}) {
        SCOPED_TRACE(indirect);
        make("file", "");
        const auto guest = connect(256, indirect);
        ASSERT_TRUE(guest);
        const Opened file = open(*guest, "file");
        const std::string data = pattern(100, 'a');
        const auto request = write_request(file, 0, data);
        ASSERT_EQ(request.size(), 180U);
        // Both headers in single bytes, the data whole; then all of it in single bytes, and the reply too.
        put(*guest, request);
        EXPECT_EQ(serve(*guest, cut_ranges(request_at, 180, std::vector<std::size_t>(80, 1), 1),
                        {range(reply_at, 24)}),
                  24U);
        EXPECT_EQ(reply_header(*guest).error, 0);
        EXPECT_EQ(content("file"), data);
        put(*guest, write_request(file, 50, data));
        EXPECT_EQ(serve(*guest, cut_ranges(request_at, 180, {}, 180), cut_ranges(reply_at, 24, {}, 24)), 24U);
        EXPECT_EQ(reply_header(*guest).error, 0);
        EXPECT_EQ(content("file"), data.substr(0, 50) + data);
    }
}

TEST_P(ChainLayout, a_request_may_be_cut_anywhere) {
    make("file", "");
    const auto guest = connect(128, true);
    ASSERT_TRUE(guest);
    const Opened file = open(*guest, "file");
    for (std::size_t at = 1; at < 180; ++at) {
        const std::string data = pattern(100, static_cast<char>(at));
        put(*guest, write_request(file, 0, data));
        ASSERT_EQ(serve(*guest, cut_ranges(request_at, 180, {at}, 1), {range(reply_at, 24)}), 24U) << at;
        ASSERT_EQ(reply_header(*guest).error, 0) << at;
        ASSERT_EQ(content("file"), data) << at;
    }
}

TEST_P(ChainLayout, a_reply_may_be_cut_anywhere_and_its_length_is_exact) {
    make("file", pattern(300, 'r'));
    const auto guest = connect(128, true);
    ASSERT_TRUE(guest);
    const Opened file = open(*guest, "file");
    const auto check = [&](const std::vector<std::byte>& request, std::uint32_t bytes, std::size_t room) {
        put(*guest, request);
        const Ranges plain{range(request_at, request.size())};
        ASSERT_EQ(serve(*guest, plain, {range(reply_at, room)}), bytes);
        const auto right = reply(*guest, bytes);
        for (std::size_t at = 1; at < room; ++at) {
            put(*guest, request);
            ASSERT_EQ(serve(*guest, plain, cut_ranges(reply_at, room, {at}, 1)), bytes) << at;
            ASSERT_EQ(reply(*guest, bytes), right) << at;
            // What was not written is as it was.
            for (std::size_t behind = bytes; behind < room; ++behind)
                ASSERT_EQ(*guest->at(reply_at + behind), std::byte{0xee}) << at;
        }
    };
    check(getattr_request(), kGetattrReplyBytes, kGetattrReplyBytes);
    check(getattr_request(), kGetattrReplyBytes, 200);
    check(read_request(file, 0, 100), 116, 116);
    check(read_request(file, 250, 200), 66, 216); // less than was asked for
    check(read_request(file, 300, 100), 16, 116); // the end
    check(FuseMessage{FUSE_LOOKUP, 1}.with_string("nothing").bytes(), 16, 144);
}

TEST_P(ChainLayout, a_chain_may_take_exactly_as_many_entries_as_the_ring_has) {
    for (const std::uint32_t size : {8U, 64U, 128U}) {
        SCOPED_TRACE(size);
        const auto guest = connect(size, false);
        ASSERT_TRUE(guest);
        const auto request = getattr_request();
        for (int round = 0; round < 5; ++round) {
            put(*guest, request);
            const std::size_t in = std::min<std::size_t>(size / 2, request.size());
            ASSERT_EQ(serve(*guest, cut_ranges(request_at, request.size(), {}, in),
                            cut_ranges(reply_at, kGetattrReplyBytes, {}, size - in)),
                      kGetattrReplyBytes);
            EXPECT_EQ(reply_header(*guest).error, 0);
            EXPECT_TRUE(guest->serves(1));
        }
    }
}

TEST_P(ChainLayout, an_indirect_table_may_be_longer_than_the_ring) {
    make("file", "");
    for (const std::uint32_t size : {8U, 128U}) {
        const auto guest = connect(size, true);
        ASSERT_TRUE(guest);
        const Opened file = open(*guest, "file");
        char seed = 0;
        // Pieces of the data; three more are headers of request and reply.
        const auto counts = size == 8 ? std::array{254U, 256U, 509U} : std::array{253U, 255U, 257U};
        for (const std::size_t pieces : counts) {
            SCOPED_TRACE(testing::Message() << "ring of " << size << ", table of " << pieces + 3);
            const std::string data = pattern(kMegabyte, ++seed);
            put(*guest, write_request(file, 0, data));
            ASSERT_EQ(serve(*guest, cut_ranges(request_at, 80 + kMegabyte, {40, 40}, pieces),
                            {range(reply_at, 24)}),
                      24U);
            EXPECT_EQ(reply_header(*guest).error, 0);
            ASSERT_TRUE(content("file") == data);
            // The way back, to where the request does not lie.
            const auto request = read_request(file, 0, kMegabyte);
            std::memcpy(guest->at(reply_at), request.data(), request.size());
            ASSERT_EQ(serve(*guest, cut_ranges(reply_at, request.size(), {40}, 1),
                            cut_ranges(request_at, 16 + kMegabyte, {16}, pieces)),
                      16 + kMegabyte);
            ASSERT_EQ(std::memcmp(guest->at(request_at + 16), data.data(), data.size()), 0);
        }
    }
}

// Longer than our own driver makes them.
TEST_P(ChainLayout, an_indirect_table_may_have_513_514_and_many_more_entries) {
    make("file", "");
    for (const std::size_t entries : {513U, 514U, 4000U}) {
        SCOPED_TRACE(entries);
        const auto guest = connect(8, true);
        ASSERT_TRUE(guest);
        const Opened file = open(*guest, "file");
        ASSERT_TRUE(guest->front_end().get_vring_base(1));
        guest->lay_out(1);
        const std::string data = pattern(kMegabyte - 100, 'z');
        const auto request = write_request(file, 0, data);
        put(*guest, request);
        auto ranges = cut_ranges(request_at, request.size(), {40, 40}, entries - 3);
        ranges.push_back(range(reply_at, 24));
        const std::uint64_t table_at = reply_at + 8192;
        for (std::size_t index = 0; index < ranges.size(); ++index) {
            const bool last = index + 1 == ranges.size();
            const auto flags = static_cast<std::uint16_t>(last ? virtio::kDescWrite : virtio::kDescNext);
            const auto address = static_cast<std::uint64_t>(ranges[index].address);
            const virtio::SplitDescriptor split{address, ranges[index].bytes, flags,
                                                static_cast<std::uint16_t>(last ? 0 : index + 1)};
            const virtio::PackedDescriptor packed{address, ranges[index].bytes, 0, flags};
            std::memcpy(guest->at(table_at + 16 * index),
                        GetParam() ? static_cast<const void*>(&packed) : &split, 16);
        }
        const auto table_bytes = static_cast<std::uint32_t>(16 * ranges.size());
        SplitRing ring{*guest, 1, 8};
        if (GetParam()) {
            write_packed(*guest, 1, {{RawGuest::address(table_at), table_bytes, 0, virtio::kDescIndirect}});
        } else {
            ring.descriptor(0) = {RawGuest::address(table_at), table_bytes, virtio::kDescIndirect, 0};
            ring.offer(0);
            ring.publish();
        }
        read_event(guest->call_fd(1));
        ASSERT_TRUE(guest->start(1));
        ASSERT_TRUE(readable_within(guest->call_fd(1), kPatience));
        EXPECT_EQ(reply_header(*guest).error, 0);
        EXPECT_EQ(reply_header(*guest).len, 24U);
        if (!GetParam()) EXPECT_EQ(ring.used(0).bytes, 24U);
        EXPECT_TRUE(content("file") == data);
    }
}

// Split rings only; in a packed ring an indirect table stands alone (virtio 1.2, 2.8.19).
TEST_P(ChainLayout, a_chain_may_end_in_an_indirect_table_where_the_format_has_that) {
    const auto guest = connect(8, true);
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->front_end().get_vring_base(1));
    guest->lay_out(1);
    put(*guest, getattr_request());
    if (GetParam()) {
        const virtio::PackedDescriptor inner{RawGuest::address(reply_at), 1000, 0, virtio::kDescWrite};
        std::memcpy(guest->at(reply_at + 8192), &inner, sizeof inner);
        write_packed(*guest, 1,
                     {{RawGuest::address(request_at), 56, 0, virtio::kDescNext},
                      {RawGuest::address(reply_at + 8192), 16, 0, virtio::kDescIndirect}});
        ASSERT_TRUE(guest->start(1));
        EXPECT_TRUE(readable_within(guest->error_fd(1), kPatience));
        return;
    }
    SplitRing ring{*guest, 1, 8};
    const std::uint64_t table_at = reply_at + 8192 + 1; // no alignment is asked for
    const std::array table{
        virtio::SplitDescriptor{RawGuest::address(request_at + 40), 16, virtio::kDescNext, 1},
        virtio::SplitDescriptor{RawGuest::address(reply_at), 16, virtio::kDescWrite | virtio::kDescNext, 2},
        virtio::SplitDescriptor{RawGuest::address(reply_at + 16), 1000, virtio::kDescWrite, 0}};
    std::memcpy(guest->at(table_at), table.data(), sizeof table);
    ring.descriptor(5) = {RawGuest::address(request_at), 20, virtio::kDescNext, 3};
    ring.descriptor(3) = {RawGuest::address(request_at + 20), 20, virtio::kDescNext, 7};
    ring.descriptor(7) = {RawGuest::address(table_at), sizeof table, virtio::kDescIndirect, 0};
    ring.offer(5);
    ring.publish();
    read_event(guest->call_fd(1));
    ASSERT_TRUE(guest->start(1));
    ASSERT_TRUE(readable_within(guest->call_fd(1), kPatience));
    EXPECT_EQ(ring.used_index(), 1U);
    EXPECT_EQ(ring.used(0).id, 5U);
    EXPECT_EQ(ring.used(0).bytes, kGetattrReplyBytes);
    EXPECT_EQ(reply_header(*guest).error, 0);
}

TEST_P(ChainLayout, descriptors_without_bytes_may_stand_between_the_others) {
    const auto guest = connect(128, true);
    ASSERT_TRUE(guest);
    const auto request = getattr_request();
    put(*guest, request);
    Ranges readable;
    Ranges writable;
    for (std::size_t at = 0; at < request.size(); at += 8) {
        readable.push_back(range(request_at, 0));
        readable.push_back(range(request_at + at, 8));
    }
    for (std::size_t at = 0; at < kGetattrReplyBytes; at += 8) {
        writable.push_back(range(0, 0));
        writable.push_back(range(reply_at + at, 8));
    }
    EXPECT_EQ(serve(*guest, readable, writable), kGetattrReplyBytes);
    EXPECT_EQ(reply_header(*guest).error, 0);
}

} // namespace
} // namespace viaduct::test
