// SPDX-License-Identifier: Apache-2.0
#include "unit/passthrough/share.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace viaduct::passthrough {
namespace {

// Takes entries of 24 (plus: 152) bytes and a name each, as the wire format does, until the room is used up.
struct RoomSink final : DirentSink {
    std::size_t room;
    std::size_t header;
    std::size_t refuse_after = SIZE_MAX; // says that there is room, and then refuses
    std::vector<std::string> names;
    std::vector<std::uint64_t> offsets;
    std::vector<NodeId> nodes;
    std::uint64_t next = 0;

    RoomSink(std::size_t bytes, bool plus) : room(bytes), header(plus ? 152 : 24) {}
    std::size_t cost(std::size_t name_bytes) const { return (header + name_bytes + 7) / 8 * 8; }
    bool has_room(std::size_t name_bytes) const override { return cost(name_bytes) <= room; }
    bool add(const Dirent& dirent, const Entry* entry) override {
        if (!has_room(dirent.name.size()) || names.size() == refuse_after) return false;
        room -= cost(dirent.name.size());
        names.emplace_back(dirent.name);
        offsets.push_back(dirent.next_offset);
        if (entry != nullptr) nodes.push_back(entry->node);
        next = dirent.next_offset;
        return true;
    }
};

struct ReadDir : testing::TestWithParam<InlineMode> {
    Share share{{.inline_mode = GetParam()}};
    HandleId handle{};
    std::set<std::string> all{".", ".."};

    void fill(int count) {
        for (int i = 0; i < count; ++i) {
            const auto child = "entry-" + std::to_string(i);
            put(share.dir.path(child), "");
            all.insert(child);
        }
        handle = share.call([&] { return share.fs->opendir(kRoot, kRootNode); })->handle;
    }
    Status list(std::uint64_t offset, bool plus, RoomSink& sink) {
        return share.call([&] { return share.fs->readdir(kRoot, handle, offset, plus, sink); });
    }
};
INSTANTIATE_TEST_SUITE_P(Modes, ReadDir, testing::Values(InlineMode::automatic, InlineMode::never),
                         [](const auto& info) {
                             return info.param == InlineMode::never ? "away" : "inline";
                         });

TEST_P(ReadDir, gives_every_name_once_whatever_the_room) {
    fill(300);
    for (const std::size_t bytes : {64UL, 1024UL, 4096UL, 1UL << 20}) {
        std::multiset<std::string> seen;
        for (std::uint64_t offset = 0;;) {
            RoomSink sink{bytes, false};
            ASSERT_TRUE(list(offset, false, sink));
            if (sink.names.empty()) break;
            seen.insert(sink.names.begin(), sink.names.end());
            offset = sink.next;
        }
        EXPECT_TRUE(std::ranges::equal(seen, all)) << bytes;
    }
    EXPECT_EQ(share.settled_nodes(), 1U);
}

TEST_P(ReadDir, goes_on_behind_any_entry_it_gave) {
    fill(400);
    RoomSink whole{1 << 20, false};
    ASSERT_TRUE(list(0, false, whole));
    ASSERT_EQ(whole.names.size(), all.size());
    std::mt19937 random{11};
    for (int i = 0; i < 30; ++i) {
        const std::size_t at = random() % (whole.names.size() - 1);
        RoomSink sink{64, false};
        ASSERT_TRUE(list(whole.offsets[at], false, sink));
        EXPECT_EQ(sink.names.front(), whole.names[at + 1]);
    }
}

TEST_P(ReadDir, plus_gives_a_count_for_exactly_what_the_client_got) {
    fill(40);
    for (std::size_t bytes = 168; bytes <= 400; bytes += 4) {
        std::map<NodeId, std::uint64_t> held;
        std::size_t names = 0;
        for (std::uint64_t offset = 0;;) {
            RoomSink sink{bytes, true};
            ASSERT_TRUE(list(offset, true, sink));
            if (sink.names.empty()) break;
            names += sink.names.size();
            for (const NodeId node : sink.nodes) ++held[node];
            offset = sink.next;
        }
        ASSERT_EQ(names, all.size()) << bytes;
        ASSERT_EQ(held.size(), all.size() - 2);
        share.run([&] {
            for (const auto& [node, count] : held) share.fs->forget(node, count);
        });
    }
    EXPECT_EQ(share.settled_nodes(), 1U);
}

TEST_P(ReadDir, lookup_that_the_sink_refuses_is_undone) {
    fill(20);
    RoomSink sink{1 << 20, true};
    sink.refuse_after = 10;
    ASSERT_TRUE(list(0, true, sink));
    EXPECT_EQ(sink.names.size(), 10U);
    share.run([&] {
        for (const NodeId node : sink.nodes) share.fs->forget(node, 1);
    });
    EXPECT_EQ(share.settled_nodes(), 1U);
}

TEST_P(ReadDir, entry_whose_lookup_fails_is_listed_without_a_node) {
    Share tight{{.inline_mode = GetParam(), .nodes_max = 4, .handles_max = 4}};
    for (int i = 0; i < 10; ++i) put(tight.dir.path("f" + std::to_string(i)), "");
    const HandleId dir = tight.call([&] { return tight.fs->opendir(kRoot, kRootNode); })->handle;
    RoomSink sink{1 << 20, true};
    ASSERT_TRUE(tight.call([&] { return tight.fs->readdir(kRoot, dir, 0, true, sink); }));
    EXPECT_EQ(sink.names.size(), 12U);
    EXPECT_EQ(sink.nodes.size(), 4U);
}

TEST_P(ReadDir, rewinding_shows_what_has_changed) {
    fill(10);
    RoomSink before{1 << 20, false};
    ASSERT_TRUE(list(0, false, before));
    std::filesystem::remove(share.dir.path("entry-3"));
    put(share.dir.path("added"), "");
    RoomSink after{1 << 20, false};
    ASSERT_TRUE(list(0, false, after));
    EXPECT_EQ(std::ranges::count(after.names, "added"), 1);
    EXPECT_EQ(std::ranges::count(after.names, "entry-3"), 0);
}

TEST_P(ReadDir, wrong_handles_and_offsets_are_errors) {
    fill(1);
    RoomSink sink{4096, false};
    EXPECT_EQ(list(~0ULL, false, sink).error(), Errno{EINVAL});
    const HandleId file = share.handle("entry-0", O_RDONLY);
    EXPECT_EQ(share.call([&] { return share.fs->readdir(kRoot, file, 0, false, sink); }).error(),
              Errno{ENOTDIR});
    EXPECT_EQ(share.call([&] { return share.fs->readdir(kRoot, HandleId{9}, 0, false, sink); }).error(),
              Errno{EBADF});
    EXPECT_EQ(share.read(handle, 0, 10).error(), Errno{EISDIR});
    EXPECT_TRUE(share.call([&] { return share.fs->fsyncdir(kRoot, handle, false); }));
    EXPECT_TRUE(share.call([&] { return share.fs->releasedir(handle); }));
    EXPECT_EQ(list(0, false, sink).error(), Errno{EBADF});
}

TEST_P(ReadDir, two_passes_at_once_on_one_handle_take_turns) {
    fill(600);
    struct Both {
        static rt::Task<void> one(Passthrough& fs, HandleId id, RoomSink& sink) {
            auto listing = fs.readdir(kRoot, id, 0, true, sink);
            const auto status = co_await std::move(listing);
            EXPECT_TRUE(status);
        }
        static rt::Task<void> all(Passthrough& fs, HandleId id, RoomSink& first, RoomSink& second) {
            rt::Gate gate;
            gate.spawn(one(fs, id, first));
            gate.spawn(one(fs, id, second));
            co_await gate.empty();
        }
    };
    RoomSink first{1 << 20, true};
    RoomSink second{1 << 20, true};
    test::run_on(*share.worker, Both::all(*share.fs, handle, first, second));
    EXPECT_EQ(first.names, second.names);
    EXPECT_EQ(first.names.size(), all.size());
}

} // namespace
} // namespace viaduct::passthrough
