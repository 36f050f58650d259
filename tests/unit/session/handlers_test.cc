// SPDX-License-Identifier: Apache-2.0
//
// Each kind of request, from the bytes of the request to those of the reply.
#include "session/handlers.h"

#include "one_worker.h"

#include <map>
#include <string>

namespace viaduct::session {
namespace {

using test::FakeRequest;
using test::FuseMessage;
using test::ToyFileSystem;

FuseMessage read(std::uint64_t fh, std::uint64_t offset, std::uint32_t size) {
    FuseMessage message{FUSE_READ};
    message.with(fuse_read_in{.fh = fh, .offset = offset, .size = size});
    return message;
}

class Handlers : public testing::Test {
protected:
    Handlers() { on.init(); }

    std::uint64_t open(std::uint64_t node) {
        const auto request = on.handle(FuseMessage{FUSE_OPEN, node}.with(fuse_open_in{}));
        EXPECT_EQ(request->error(), 0);
        return request->body<fuse_open_out>().fh;
    }
    std::uint64_t opendir() {
        return on.handle(FuseMessage{FUSE_OPENDIR, 1}.with(fuse_open_in{}))->body<fuse_open_out>().fh;
    }

    ToyFileSystem fs;
    OneWorker on{fs};
};

TEST_F(Handlers, every_served_opcode_has_a_handler) {
    for (const fuse::Opcode& entry : fuse::opcodes()) {
        const bool handled =
            entry.verdict == fuse::Verdict::served && entry.group != fuse::OpcodeClass::session;
        EXPECT_EQ(handler_of(entry.number) != nullptr, handled) << entry.name;
    }
    EXPECT_EQ(handler_of(9999), nullptr);
}

TEST_F(Handlers, lookup_gives_node_attributes_and_their_validity) {
    const std::uint64_t id = fs.add_file("a", "12345");
    const auto request = on.handle(FuseMessage{FUSE_LOOKUP}.with_string("a"));
    ASSERT_EQ(request->reply_bytes(), 144U);
    const auto out = request->body<fuse_entry_out>();
    EXPECT_EQ(out.nodeid, id);
    EXPECT_EQ(out.attr.ino, id);
    EXPECT_EQ(out.attr.size, 5U);
    EXPECT_EQ(out.attr.mode, S_IFREG | 0644U);
    EXPECT_EQ(out.entry_valid, 1U);
    EXPECT_EQ(out.attr_valid, 1U);
    EXPECT_EQ(out.attr_valid_nsec, 500'000'000U);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_LOOKUP}.with_string("none"))->error(), ENOENT);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_LOOKUP, 5}.with_string("a"))->error(), ESTALE);
}

TEST(Absence, is_an_entry_without_a_node_where_the_client_may_keep_it) {
    ToyFileSystem fs;
    fs.add_file("a", "12345");
    OneWorker on{fs, {.negative_valid = std::chrono::milliseconds{2500}}};
    on.init();
    const auto absent = on.handle(FuseMessage{FUSE_LOOKUP}.with_string("none"));
    ASSERT_EQ(absent->error(), 0);
    const auto out = absent->body<fuse_entry_out>();
    EXPECT_EQ(out.nodeid, 0U);
    EXPECT_EQ(out.entry_valid, 2U);
    EXPECT_EQ(out.entry_valid_nsec, 500'000'000U);
    EXPECT_EQ(out.attr_valid, 0U);
    EXPECT_NE(on.handle(FuseMessage{FUSE_LOOKUP}.with_string("a"))->body<fuse_entry_out>().nodeid, 0U);
    // A directory that has gone is another matter than a name that is not in it.
    EXPECT_EQ(on.handle(FuseMessage{FUSE_LOOKUP, 5}.with_string("a"))->error(), ESTALE);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_UNLINK}.with_string("none"))->error(), ENOENT);
}

TEST_F(Handlers, read_fills_any_cut_of_the_room_and_nothing_behind) {
    std::string content;
    for (int i = 0; i < 300; ++i) content += static_cast<char>('a' + i % 26);
    const std::uint64_t fh = open(fs.add_file("a", content));
    for (const std::size_t piece :
         {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{16}, std::size_t{500}}) {
        const auto all = on.handle(read(fh, 0, 4096), 500, 0, piece);
        ASSERT_EQ(all->reply_bytes(), 316U);
        EXPECT_EQ(all->text(), content);
        EXPECT_TRUE(all->untouched_behind());
        const auto part = on.handle(read(fh, 290, 5), 500, 0, piece);
        EXPECT_EQ(part->text(), content.substr(290, 5));
        EXPECT_TRUE(part->untouched_behind());
        const auto huge = on.handle(read(fh, 1, 0xffffffff), 100, 0, piece);
        EXPECT_EQ(huge->text(), content.substr(1, 84));
        EXPECT_EQ(on.handle(read(fh, 300, 10), 500, 0, piece)->reply_bytes(), 16U);
    }
    EXPECT_EQ(on.handle(read(fh, ~0ULL, 10))->error(), EINVAL);
    EXPECT_EQ(on.handle(read(fh, 1ULL << 63U, 10))->error(), EINVAL);
}

TEST_F(Handlers, write_takes_its_data_from_any_cut) {
    const std::uint64_t id = fs.add_file("a");
    const std::uint64_t fh = open(id);
    const std::string data = "some bytes to be written";
    for (const std::size_t piece :
         {std::size_t{0}, std::size_t{1}, std::size_t{13}, std::size_t{40}, std::size_t{80}}) {
        fs.node(id).data.clear();
        FuseMessage message{FUSE_WRITE, id};
        message.with(fuse_write_in{.fh = fh, .offset = 2, .size = static_cast<std::uint32_t>(data.size())});
        message.with_bytes(data.data(), data.size());
        const auto request = on.handle(message, 24, piece);
        ASSERT_EQ(request->reply_bytes(), 24U);
        EXPECT_EQ(request->body<fuse_write_out>().size, data.size());
        const auto& stored = fs.node(id).data;
        ASSERT_EQ(stored.size(), data.size() + 2);
        EXPECT_EQ(std::memcmp(stored.data() + 2, data.data(), data.size()), 0);
    }
}

// Says of every READ and WRITE that all of it was done.
class BoundlessFileSystem final : public ToyFileSystem {
public:
    Async<std::size_t> read(const fs::Caller&, fs::HandleId, std::uint64_t, Segments into) override {
        return Result<std::size_t>{segments_bytes(into)};
    }
    Async<std::size_t> write(const fs::Caller&, fs::HandleId, std::uint64_t, Segments from,
                             fs::WriteOptions) override {
        return Result<std::size_t>{segments_bytes(from)};
    }
};

TEST(Transfers, no_request_moves_more_than_16_mib) {
    constexpr std::uint32_t kMost = 16U << 20U;
    BoundlessFileSystem fs;
    OneWorker on{fs};
    on.init();
    const std::vector<std::byte> data(kMost + 4096);
    for (const std::size_t piece : {0U, 1U << 20U}) {
        for (const std::uint32_t size : {kMost, kMost + 4096, 0xffffffffU}) {
            EXPECT_EQ(on.handle(read(1, 0, size), kMost + 4096 + 16, 0, piece)->reply_bytes(), kMost + 16);
        }
        FuseMessage write{FUSE_WRITE};
        write.with(fuse_write_in{.fh = 1, .size = kMost + 4096}).with_bytes(data.data(), data.size());
        EXPECT_EQ(on.handle(write, 24, piece)->body<fuse_write_out>().size, kMost);
    }
}

TEST_F(Handlers, memory_behind_the_claimed_length_is_not_written) {
    const std::uint64_t id = fs.add_file("a");
    FuseMessage message{FUSE_WRITE, id};
    message.with(fuse_write_in{.fh = open(id), .size = 4}).with_bytes("dataSECRET", 10).claiming(84);
    EXPECT_EQ(on.handle(message)->body<fuse_write_out>().size, 4U);
    EXPECT_EQ(fs.node(id).data.size(), 4U);
}

TEST_F(Handlers, names_are_made_linked_renamed_and_removed) {
    const auto made = on.handle(FuseMessage{FUSE_MKNOD}
                                    .with(fuse_mknod_in{.mode = S_IFREG | 0666, .rdev = 0, .umask = 027})
                                    .with_string("f"));
    EXPECT_EQ(made->body<fuse_entry_out>().attr.mode, S_IFREG | 0640U);
    const std::uint64_t id = made->body<fuse_entry_out>().nodeid;
    EXPECT_EQ(on.handle(FuseMessage{FUSE_MKDIR}.with(fuse_mkdir_in{0777, 022}).with_string("d"))
                  ->body<fuse_entry_out>()
                  .attr.mode,
              S_IFDIR | 0755U);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_LINK}.with(fuse_link_in{id}).with_string("g"))
                  ->body<fuse_entry_out>()
                  .nodeid,
              id);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_RENAME}.with(fuse_rename_in{1}).with_string("f").with_string("h"))
                  ->error(),
              0);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_RENAME2}
                            .with(fuse_rename2_in{.newdir = 1, .flags = 2})
                            .with_string("h")
                            .with_string("g"))
                  ->error(),
              EINVAL);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_RENAME}.with(fuse_rename_in{1}).with_string("h"))->error(), EINVAL);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_UNLINK}.with_string("g"))->error(), 0);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_UNLINK}.with_string("g"))->error(), ENOENT);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_RMDIR}.with_string("d"))->error(), 0);
}

TEST_F(Handlers, symlink_target_comes_back_as_it_was) {
    const std::string target(4095, 't');
    const auto made = on.handle(FuseMessage{FUSE_SYMLINK}.with_string("l").with_string(target));
    const std::uint64_t id = made->body<fuse_entry_out>().nodeid;
    EXPECT_EQ(on.handle(FuseMessage{FUSE_READLINK, id}, 16 + 4096)->text(), target);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_READLINK, id}, 100)->error(), EIO);
    EXPECT_EQ(
        on.handle(FuseMessage{FUSE_SYMLINK}.with_string("m").with_string(std::string(4096, 't')))->error(),
        ENAMETOOLONG);
}

TEST_F(Handlers, create_and_tmpfile_give_node_and_handle) {
    const auto made =
        on.handle(FuseMessage{FUSE_CREATE}.with(fuse_create_in{.mode = 0666, .umask = 022}).with_string("c"));
    ASSERT_EQ(made->reply_bytes(), 16U + 128 + 16);
    EXPECT_EQ(made->body<fuse_entry_out>().attr.mode, S_IFREG | 0644U);
    EXPECT_NE(made->body<fuse_open_out>(128).fh, 0U);
    const auto nameless =
        on.handle(FuseMessage{FUSE_TMPFILE}.with(fuse_create_in{.mode = 0600}).with_string("/"));
    ASSERT_EQ(nameless->reply_bytes(), 16U + 128 + 16);
    EXPECT_EQ(fs.handles_open(), 2U);
}

TEST_F(Handlers, create_is_told_whether_set_id_bits_are_to_be_dropped) {
    for (const std::uint32_t flags : {0U, std::uint32_t{FUSE_OPEN_KILL_SUIDGID}}) {
        const std::string name = "c" + std::to_string(flags);
        on.handle(FuseMessage{FUSE_CREATE}.with(fuse_create_in{.open_flags = flags}).with_string(name));
        EXPECT_EQ(fs.created_killing_, flags != 0);
    }
}

TEST_F(Handlers, setattr_passes_what_is_valid) {
    const std::uint64_t id = fs.add_file("a", "12345");
    fuse_setattr_in in{};
    in.valid = FATTR_SIZE | FATTR_MODE;
    in.size = 2;
    in.mode = 0600;
    const auto request = on.handle(FuseMessage{FUSE_SETATTR, id}.with(in));
    EXPECT_EQ(request->body<fuse_attr_out>().attr.size, 2U);
    EXPECT_EQ(request->body<fuse_attr_out>().attr.mode, S_IFREG | 0600U);
    in.valid = FATTR_ATIME;
    in.atimensec = 0x3fffffff;
    EXPECT_EQ(on.handle(FuseMessage{FUSE_SETATTR, id}.with(in))->error(), EINVAL);
}

TEST_F(Handlers, statx_carries_the_attributes_of_getattr) {
    const std::uint64_t id = fs.add_file("a", "12345");
    const auto request = on.handle(FuseMessage{FUSE_STATX, id}.with(fuse_statx_in{}));
    ASSERT_EQ(request->reply_bytes(), 304U);
    EXPECT_EQ(request->body<fuse_statx_out>().stat.size, 5U);
    EXPECT_EQ(request->body<fuse_statx_out>().stat.mask, STATX_BASIC_STATS);
}

TEST_F(Handlers, file_requests_that_only_say_yes) {
    const std::uint64_t id = fs.add_file("a", "12345");
    const std::uint64_t fh = open(id);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_FLUSH, id}.with(fuse_flush_in{.fh = fh}), 16)->error(), 0);
    EXPECT_EQ(
        on.handle(FuseMessage{FUSE_FSYNC, id}.with(fuse_fsync_in{.fh = fh, .fsync_flags = 1}), 16)->error(),
        0);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_SYNCFS}.with(fuse_syncfs_in{}), 16)->error(), 0);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_ACCESS, id}.with(fuse_access_in{.mask = 4}), 16)->error(), 0);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_FALLOCATE, id}.with(fuse_fallocate_in{.fh = fh, .length = 99}), 16)
                  ->error(),
              0);
    EXPECT_EQ(fs.node(id).data.size(), 99U);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_LSEEK, id}.with(fuse_lseek_in{.fh = fh, .offset = 7, .whence = 3}))
                  ->body<fuse_lseek_out>()
                  .offset,
              7U);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_STATFS})->body<fuse_statfs_out>().st.namelen, 255U);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_RELEASE, id}.with(fuse_release_in{.fh = fh}), 16)->error(), 0);
    EXPECT_EQ(fs.handles_open(), 0U);
}

TEST_F(Handlers, copy_file_range_has_a_short_and_a_long_count) {
    const std::uint64_t from = open(fs.add_file("a", "12345"));
    const std::uint64_t to = open(fs.add_file("b"));
    const fuse_copy_file_range_in in{.fh_in = from, .fh_out = to, .len = ~0ULL};
    EXPECT_EQ(on.handle(FuseMessage{FUSE_COPY_FILE_RANGE}.with(in))->body<fuse_write_out>().size, 5U);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_COPY_FILE_RANGE_64}.with(in))
                  ->body<fuse_copy_file_range_out>()
                  .bytes_copied,
              5U);
    EXPECT_EQ(
        on.handle(FuseMessage{FUSE_COPY_FILE_RANGE}.with(fuse_copy_file_range_in{.off_in = ~0ULL}))->error(),
        EINVAL);
}

TEST_F(Handlers, set_group_id_goes_with_an_acl_of_somebody_outside_the_group) {
    const std::uint64_t id = fs.add_file("a");
    const auto mode_after = [&](const char* name, std::uint32_t flags) {
        on.handle(FuseMessage{FUSE_SETATTR, id}.with(fuse_setattr_in{.valid = FATTR_MODE, .mode = 06755}));
        FuseMessage set{FUSE_SETXATTR, id};
        set.with(fuse_setxattr_in{.size = 1, .flags = 0, .setxattr_flags = flags, .padding = 0});
        EXPECT_EQ(on.handle(set.with_string(name).with_bytes("v", 1))->error(), 0);
        const auto status = on.handle(FuseMessage{FUSE_GETATTR, id}.with(fuse_getattr_in{}));
        return status->body<fuse_attr_out>().attr.mode & 07777U;
    };
    EXPECT_EQ(mode_after("system.posix_acl_access", FUSE_SETXATTR_ACL_KILL_SGID), 04755U);
    EXPECT_EQ(mode_after("system.posix_acl_access", 0), 06755U);
    EXPECT_EQ(mode_after("system.posix_acl_default", FUSE_SETXATTR_ACL_KILL_SGID), 06755U);
}

TEST_F(Handlers, extended_attributes_by_length_and_by_value) {
    const std::uint64_t id = fs.add_file("a");
    FuseMessage set{FUSE_SETXATTR, id};
    set.with(fuse_setxattr_in{.size = 5, .flags = 0, .setxattr_flags = 0, .padding = 0});
    set.with_string("user.a").with_bytes("value", 5);
    EXPECT_EQ(on.handle(set, 16)->error(), 0);

    const auto get = [&](std::uint32_t size, std::size_t room) {
        return on.handle(FuseMessage{FUSE_GETXATTR, id}
                             .with(fuse_getxattr_in{.size = size, .padding = 0})
                             .with_string("user.a"),
                         room, 0, 3);
    };
    EXPECT_EQ(get(0, 24)->body<fuse_getxattr_out>().size, 5U);
    EXPECT_EQ(get(100, 200)->text(), "value");
    EXPECT_EQ(get(5, 21)->text(), "value");
    EXPECT_EQ(get(4, 200)->error(), ERANGE);
    EXPECT_EQ(get(0xffffffff, 20)->error(), ERANGE);
    EXPECT_EQ(get(0xffffffff, 16)->error(), ERANGE);
    EXPECT_EQ(get(0xffffffff, 21)->text(), "value");
    EXPECT_EQ(
        on.handle(FuseMessage{FUSE_LISTXATTR, id}.with(fuse_getxattr_in{.size = 64, .padding = 0}))->text(),
        std::string_view("user.a\0", 7));
    EXPECT_EQ(
        on.handle(FuseMessage{FUSE_LISTXATTR, id}.with(fuse_getxattr_in{}))->body<fuse_getxattr_out>().size,
        7U);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_REMOVEXATTR, id}.with_string("user.a"))->error(), 0);
    EXPECT_EQ(get(0, 24)->error(), ENODATA);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_REMOVEXATTR, id}.with_string(""))->error(), ERANGE);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_REMOVEXATTR, id}.with_string(std::string(256, 'x')))->error(),
              ERANGE);
}

// What a READDIR(PLUS) reply holds: names, and node ids where it is plus.
struct Listed {
    std::vector<std::pair<std::string, std::uint64_t>> entries;
    std::uint64_t next_offset = 0;
};
Listed parse(const FakeRequest& request, bool plus) {
    Listed listed;
    const std::string_view all = request.text();
    std::size_t at = 0;
    while (at < all.size()) {
        fuse_entry_out entry{};
        fuse_dirent dirent{};
        const std::size_t begin = at;
        if (plus) {
            std::memcpy(&entry, all.data() + at, sizeof entry);
            at += sizeof entry;
        }
        std::memcpy(&dirent, all.data() + at, sizeof dirent);
        at += sizeof dirent;
        listed.entries.emplace_back(all.substr(at, dirent.namelen), entry.nodeid);
        listed.next_offset = dirent.off;
        at = begin + FUSE_REC_ALIGN(at - begin + dirent.namelen);
    }
    EXPECT_EQ(at, all.size());
    return listed;
}

TEST_F(Handlers, readdirplus_in_every_size_of_buffer_counts_exactly_what_it_returned) {
    for (int i = 0; i < 50; ++i)
        fs.add_file(std::to_string(i) + std::string(static_cast<std::size_t>(i % 40), 'x'));
    const std::uint64_t fh = opendir();
    for (std::uint32_t size = 200; size <= 400; ++size) {
        std::map<std::string, std::uint64_t> seen;
        std::uint64_t offset = 0;
        while (true) {
            const auto request = on.handle(
                FuseMessage{FUSE_READDIRPLUS}.with(fuse_read_in{.fh = fh, .offset = offset, .size = size}),
                4096, 0, 100);
            ASSERT_EQ(request->error(), 0);
            ASSERT_LE(request->reply_bytes(), 16 + size);
            const Listed listed = parse(*request, true);
            if (listed.entries.empty()) break;
            offset = listed.next_offset;
            for (const auto& [name, node] : listed.entries) {
                EXPECT_TRUE(seen.emplace(name, node).second) << name;
                EXPECT_EQ(node == 0, name == ".");
                if (node != 0) on.handle(FuseMessage{FUSE_FORGET, node}.with(fuse_forget_in{1}), 0);
            }
        }
        EXPECT_EQ(seen.size(), 51U);
        EXPECT_EQ(fs.lookups_held(), 0U);
    }
}

TEST_F(Handlers, room_for_not_even_one_entry_is_an_error_and_not_the_end) {
    fs.add_file(std::string(200, 'n'));
    const std::uint64_t fh = opendir();
    for (const std::uint32_t size : {0U, 31U}) {
        const auto request = on.handle(FuseMessage{FUSE_READDIR}.with(fuse_read_in{.fh = fh, .size = size}));
        EXPECT_EQ(request->error(), EINVAL);
    }
    const auto second =
        on.handle(FuseMessage{FUSE_READDIRPLUS}.with(fuse_read_in{.fh = fh, .offset = 1, .size = 200}));
    EXPECT_EQ(second->error(), EINVAL);
    const auto end =
        on.handle(FuseMessage{FUSE_READDIRPLUS}.with(fuse_read_in{.fh = fh, .offset = 2, .size = 200}));
    EXPECT_EQ(end->reply_bytes(), 16U);
    EXPECT_EQ(fs.lookups_held(), 0U);
}

TEST_F(Handlers, readdir_takes_no_lookup_counts) {
    for (int i = 0; i < 20; ++i) fs.add_file("file" + std::to_string(i));
    const auto request =
        on.handle(FuseMessage{FUSE_READDIR}.with(fuse_read_in{.fh = opendir(), .size = 0xffffffff}), 2000);
    EXPECT_EQ(parse(*request, false).entries.size(), 21U);
    EXPECT_EQ(fs.lookups_held(), 0U);
}

TEST_F(Handlers, entry_whose_lookup_failed_is_listed_with_node_zero) {
    fs.add_file("a");
    fs.add_file("b");
    fs.lookup_fails_for_ = "a";
    const auto request =
        on.handle(FuseMessage{FUSE_READDIRPLUS}.with(fuse_read_in{.fh = opendir(), .size = 4096}), 4096);
    const Listed listed = parse(*request, true);
    ASSERT_EQ(listed.entries.size(), 3U);
    EXPECT_EQ(listed.entries[1], (std::pair<std::string, std::uint64_t>{"a", 0}));
    EXPECT_EQ(fs.lookups_held(), 1U);
}

TEST_F(Handlers, entries_before_a_failure_reach_the_client) {
    fs.add_file("a");
    fs.add_file("b");
    fs.fails_after_ = "a";
    const std::uint64_t fh = opendir();
    const auto request =
        on.handle(FuseMessage{FUSE_READDIRPLUS}.with(fuse_read_in{.fh = fh, .size = 4096}), 4096);
    EXPECT_EQ(request->error(), 0);
    EXPECT_EQ(parse(*request, true).entries.size(), 2U);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_RELEASEDIR}.with(fuse_release_in{.fh = fh}), 16)->error(), 0);
}

} // namespace
} // namespace viaduct::session
