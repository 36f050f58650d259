// SPDX-License-Identifier: Apache-2.0
//
// INIT, DESTROY, lies, and what a request costs.
#include "session/session.h"

#include "one_worker.h"

namespace viaduct::session {
namespace {

using test::FuseMessage;
using test::ToyFileSystem;

class SessionTest : public testing::Test {
protected:
    ToyFileSystem fs;
    OneWorker on{fs};
};

TEST_F(SessionTest, nothing_but_init_is_served_before_init) {
    EXPECT_EQ(on.handle(FuseMessage{FUSE_GETATTR}.with(fuse_getattr_in{}))->error(), EIO);
    EXPECT_EQ(on.handle(FuseMessage{9999})->error(), ENOSYS);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_FORGET}.with(fuse_forget_in{1}), 0)->reply_bytes(), 0U);
    EXPECT_FALSE(on.session().running());
    on.init();
    EXPECT_TRUE(on.session().running());
    EXPECT_EQ(on.handle(FuseMessage{FUSE_GETATTR}.with(fuse_getattr_in{}))->error(), 0);
}

TEST_F(SessionTest, init_answers_with_what_both_have) {
    const auto request = on.handle(init_message());
    ASSERT_EQ(request->reply_bytes(), 80U);
    const auto out = request->body<fuse_init_out>();
    EXPECT_EQ(out.major, 7U);
    EXPECT_EQ(out.max_write, 1U << 20);
    EXPECT_EQ(out.max_pages, 256U);
    EXPECT_EQ(on.session().generation(), 1U);
}

TEST_F(SessionTest, other_major_versions_do_not_start_a_session) {
    const auto newer = on.handle(init_message(0, 8));
    EXPECT_EQ(newer->error(), 0);
    EXPECT_EQ(newer->body<fuse_init_out>().major, 7U);
    EXPECT_FALSE(on.session().running());
    EXPECT_EQ(on.handle(init_message(0, 6))->error(), EPROTO);
    EXPECT_FALSE(on.session().running());
}

TEST_F(SessionTest, init_again_ends_the_old_session) {
    fs.add_file("a");
    on.init();
    on.handle(FuseMessage{FUSE_LOOKUP}.with_string("a"));
    EXPECT_EQ(fs.lookups_held(), 1U);
    on.init();
    EXPECT_EQ(fs.sessions_ended(), 1U);
    EXPECT_EQ(fs.lookups_held(), 0U);
    EXPECT_EQ(on.session().generation(), 2U);
    EXPECT_TRUE(on.session().running());
}

TEST_F(SessionTest, destroy_gives_everything_back_and_a_new_init_is_welcome) {
    fs.add_file("a");
    on.init();
    on.handle(FuseMessage{FUSE_LOOKUP}.with_string("a"));
    EXPECT_EQ(on.handle(FuseMessage{FUSE_DESTROY}, 16)->error(), 0);
    EXPECT_EQ(fs.lookups_held(), 0U);
    EXPECT_FALSE(on.session().running());
    EXPECT_EQ(on.handle(FuseMessage{FUSE_DESTROY}, 16)->error(), 0);
    EXPECT_EQ(fs.sessions_ended(), 1U);
    on.init();
    EXPECT_TRUE(on.session().running());
}

TEST_F(SessionTest, lies_are_answered_with_an_error_and_the_next_request_is_served) {
    on.init();
    EXPECT_EQ(on.handle(FuseMessage{FUSE_GETATTR}.with(fuse_getattr_in{}).claiming(4096))->error(), EINVAL);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_GETATTR}.with(fuse_getattr_in{}).claiming(41))->error(), EINVAL);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_WRITE}.with(fuse_write_in{.size = 20}).with_zeros(10))->error(),
              EINVAL);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_WRITE}.with(fuse_write_in{.size = 5}).with_zeros(10))->error(),
              EINVAL);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_LOOKUP}.with_bytes("abc", 3))->error(), EINVAL);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_LOOKUP}.with_string("a/b"))->error(), EINVAL);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_LOOKUP}.with_string(".."))->error(), EINVAL);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_LOOKUP}.with_string(std::string(300, 'n')))->error(), ENAMETOOLONG);
    FuseMessage setxattr{FUSE_SETXATTR};
    setxattr.with(fuse_setxattr_in{.size = 1U << 20, .flags = 0, .setxattr_flags = 0, .padding = 0});
    setxattr.with_string("user.a").with_zeros(10);
    EXPECT_EQ(on.handle(setxattr)->error(), EINVAL);
    EXPECT_EQ(on.counters().malformed.get(), 5U);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_GETATTR}.with(fuse_getattr_in{}))->error(), 0);
}

TEST_F(SessionTest, unknown_and_refused_opcodes_are_enosys) {
    on.init();
    for (const std::uint32_t number : {0U, 7U, 9999U, 4096U, 31U, 32U, 33U, 37U, 39U, 40U, 48U, 49U})
        EXPECT_EQ(on.handle(FuseMessage{number}.with_zeros(64))->error(), ENOSYS) << number;
}

TEST_F(SessionTest, unknown_nodes_and_handles_are_stale_and_bad) {
    on.init();
    EXPECT_EQ(on.handle(FuseMessage{FUSE_GETATTR, 4711}.with(fuse_getattr_in{}))->error(), ESTALE);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_READ}.with(fuse_read_in{.fh = 99, .size = 10}))->error(), EBADF);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_RELEASE}.with(fuse_release_in{.fh = 99}))->error(), EBADF);
}

TEST_F(SessionTest, every_served_opcode_survives_every_room_and_every_cut) {
    on.init();
    for (const fuse::Opcode& entry : fuse::opcodes()) {
        if (entry.group == fuse::OpcodeClass::session) continue;
        FuseMessage message{entry.number};
        message.with_zeros(entry.in_bytes_max).with_string("name").with_string("other");
        if (entry.number == FUSE_WRITE) message = FuseMessage{FUSE_WRITE}.with(fuse_write_in{});
        for (std::size_t room = 0; room < 330; room += room < 20 ? 1 : 13) {
            for (const std::size_t piece : {0U, 1U, 7U}) {
                const auto request = on.handle(message, room, piece, piece);
                EXPECT_LE(request->reply_bytes(), room) << entry.name;
                if (room < 16) EXPECT_EQ(request->reply_bytes(), 0U) << entry.name;
                EXPECT_EQ(request->reply_bytes() > 0, entry.has_reply && room >= 16) << entry.name;
            }
        }
    }
}

TEST_F(SessionTest, an_answer_without_room_takes_no_lookup_count_and_opens_nothing) {
    fs.add_file("a");
    on.init();
    for (std::size_t room = 0; room < 144; ++room) {
        on.handle(FuseMessage{FUSE_LOOKUP}.with_string("a"), room);
        on.handle(FuseMessage{FUSE_CREATE}.with(fuse_create_in{}).with_string("new"), room);
        if (room < 32) on.handle(FuseMessage{FUSE_OPEN, 2}.with(fuse_open_in{}), room);
    }
    EXPECT_EQ(fs.lookups_held(), 0U);
    EXPECT_EQ(fs.handles_open(), 0U);
    on.handle(FuseMessage{FUSE_LOOKUP}.with_string("a"), 144);
    EXPECT_EQ(fs.lookups_held(), 1U);
}

TEST_F(SessionTest, forgets_have_no_reply_and_counts_are_clamped) {
    const std::uint64_t a = fs.add_file("a");
    const std::uint64_t b = fs.add_file("b");
    on.init();
    on.handle(FuseMessage{FUSE_LOOKUP}.with_string("a"));
    on.handle(FuseMessage{FUSE_LOOKUP}.with_string("a"));
    on.handle(FuseMessage{FUSE_LOOKUP}.with_string("b"));
    const auto with_room = on.handle(FuseMessage{FUSE_FORGET, a}.with(fuse_forget_in{1}), 16);
    EXPECT_EQ(with_room->reply_bytes(), 0U);
    EXPECT_TRUE(with_room->untouched_behind());
    EXPECT_EQ(fs.lookups_held(), 2U);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_FORGET, a}.with(fuse_forget_in{~0ULL}), 0)->reply_bytes(), 0U);
    EXPECT_EQ(fs.lookups_held(), 1U);

    FuseMessage lie{FUSE_BATCH_FORGET};
    lie.with(fuse_batch_forget_in{.count = 0xffffffff, .dummy = 0}).with(fuse_forget_one{b, 1});
    EXPECT_EQ(on.handle(lie, 0)->reply_bytes(), 0U);
    EXPECT_EQ(fs.lookups_held(), 1U);
    FuseMessage batch{FUSE_BATCH_FORGET};
    batch.with(fuse_batch_forget_in{.count = 2, .dummy = 0})
        .with(fuse_forget_one{a, 7})
        .with(fuse_forget_one{b, 7});
    EXPECT_EQ(on.handle(batch, 0)->reply_bytes(), 0U);
    EXPECT_EQ(fs.lookups_held(), 0U);
}

TEST_F(SessionTest, one_request_forgets_no_more_than_65536_times) {
    const std::uint64_t a = fs.add_file("a");
    const std::uint64_t b = fs.add_file("b");
    on.init();
    on.handle(FuseMessage{FUSE_LOOKUP}.with_string("a"));
    on.handle(FuseMessage{FUSE_LOOKUP}.with_string("b"));
    std::vector<fuse_forget_one> ones(65537, fuse_forget_one{a, 1});
    ones.back() = {b, 1};
    FuseMessage batch{FUSE_BATCH_FORGET};
    batch.with(fuse_batch_forget_in{.count = 65537, .dummy = 0})
        .with_bytes(ones.data(), ones.size() * sizeof(fuse_forget_one));
    EXPECT_EQ(on.handle(batch, 0)->reply_bytes(), 0U);
    EXPECT_EQ(fs.lookups_held(), 1U);
    EXPECT_EQ(on.counters().malformed.get(), 1U);
}

TEST_F(SessionTest, interrupt_of_an_unknown_request_is_harmless) {
    on.init();
    const auto interrupt = on.start(FuseMessage{FUSE_INTERRUPT}.with(fuse_interrupt_in{1234}), 16);
    on.settle(); // it is looked for twice
    ASSERT_TRUE(interrupt->completed());
    EXPECT_EQ(interrupt->reply_bytes(), 0U);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_GETATTR}.with(fuse_getattr_in{}))->error(), 0);
}

TEST_F(SessionTest, requests_are_counted_by_opcode) {
    on.init();
    on.handle(FuseMessage{FUSE_GETATTR}.with(fuse_getattr_in{}));
    on.handle(FuseMessage{FUSE_GETATTR}.with(fuse_getattr_in{}));
    on.handle(FuseMessage{9999});
    EXPECT_EQ(on.session().requests_of(FUSE_GETATTR), 2U);
    EXPECT_EQ(on.session().requests_of(fuse::kOpcodeCount), 1U);
    EXPECT_EQ(on.session().requests(), 4U);
}

TEST_F(SessionTest, getattr_read_and_write_take_no_lock_and_write_no_shared_line) {
    if (!sync::kCounting) GTEST_SKIP() << "built without VIADUCT_COUNT_SYNC";
    const std::uint64_t file = fs.add_file("a", "0123456789");
    on.init();
    const auto opened = on.handle(FuseMessage{FUSE_OPEN, file}.with(fuse_open_in{}));
    const std::uint64_t fh = opened->body<fuse_open_out>().fh;
    const auto before = sync::counted();
    for (int round = 0; round < 10'000; ++round) {
        on.handle(FuseMessage{FUSE_GETATTR, file}.with(fuse_getattr_in{}));
        on.handle(FuseMessage{FUSE_READ, file}.with(fuse_read_in{.fh = fh, .size = 4096}));
        on.handle(FuseMessage{FUSE_WRITE, file}.with(fuse_write_in{.fh = fh, .size = 2}).with_bytes("xy", 2));
    }
    const auto after = sync::counted();
    EXPECT_EQ(after.locks, before.locks);
    EXPECT_EQ(after.shared_writes, before.shared_writes);
}

class NotedBegins final : public ToyFileSystem {
public:
    std::vector<bool> begins;
    void begin_session(bool client_sees_submounts) override { begins.push_back(client_sees_submounts); }
};

TEST(SessionBegin, file_system_learns_whether_the_client_sees_submounts) {
    NotedBegins fs;
    {
        OneWorker on{fs};
        EXPECT_EQ(on.handle(init_message(0, 6))->error(), EPROTO);
        EXPECT_TRUE(fs.begins.empty());
        on.init();
        on.init();
    }
    SessionOptions options;
    options.wishes.submounts = true;
    OneWorker on{fs, options};
    on.init();
    EXPECT_EQ(fs.begins, (std::vector<bool>{false, false, true}));
}

TEST(SessionAcl, client_that_does_not_enforce_acls_is_refused) {
    ToyFileSystem fs;
    SessionOptions options;
    options.wishes.posix_acl = true;
    OneWorker on{fs, options};
    const auto begin = [&](std::uint32_t flags) {
        const fuse_init_in offer{.major = fuse::kMajor, .minor = fuse::kMinor, .flags = flags};
        return on.handle(FuseMessage{FUSE_INIT}.with(offer));
    };
    EXPECT_EQ(begin(FUSE_DONT_MASK | FUSE_SETXATTR_EXT)->error(), EPROTO);
    EXPECT_FALSE(on.session().running());
    const auto begun = begin(FUSE_POSIX_ACL | FUSE_DONT_MASK | FUSE_SETXATTR_EXT);
    EXPECT_EQ(begun->error(), 0);
    EXPECT_NE(begun->body<fuse_init_out>().flags & FUSE_POSIX_ACL, 0U);
    EXPECT_TRUE(on.session().running());
}

TEST(SessionLabels, client_that_sends_no_labels_is_refused) {
    ToyFileSystem fs;
    SessionOptions options;
    options.wishes.security_context = true;
    OneWorker on{fs, options};
    fuse_init_in offer{.major = fuse::kMajor, .minor = fuse::kMinor, .flags = FUSE_INIT_EXT};
    EXPECT_EQ(on.handle(FuseMessage{FUSE_INIT}.with(offer))->error(), EPROTO);
    offer.flags2 = static_cast<std::uint32_t>(FUSE_SECURITY_CTX >> 32U);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_INIT}.with(offer))->error(), 0);
}

TEST(SessionXattr, attributes_that_are_off_are_enosys) {
    ToyFileSystem fs;
    OneWorker on{fs, {.xattr = false}};
    on.init();
    EXPECT_EQ(on.handle(FuseMessage{FUSE_GETXATTR}.with(fuse_getxattr_in{}).with_string("user.a"))->error(),
              ENOSYS);
    EXPECT_EQ(on.handle(FuseMessage{FUSE_LISTXATTR}.with(fuse_getxattr_in{}))->error(), ENOSYS);
}

} // namespace
} // namespace viaduct::session
