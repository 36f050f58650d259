// SPDX-License-Identifier: Apache-2.0
#include "fs/lock_table.h"

#include "rt/worker.h"

#include <gtest/gtest.h>
#include <optional>
#include <string>

namespace viaduct::fs {
namespace {

constexpr NodeIdentity kFile{.inode = 1};
constexpr NodeIdentity kOther{.inode = 2};
constexpr HandleId kHandle{5};

// A program of the host: what it holds is in everybody's way.
struct HostProgram {
    LockType holds = LockType::none;
    int asked = 0;
    int open = 0;
};

class ScriptedHost final : public HostLocks {
public:
    explicit ScriptedHost(HostProgram& program, bool may_write) : program_(program), may_write_(may_write) {
        ++program_.open;
    }
    ~ScriptedHost() override { --program_.open; }
    bool allows(LockType type) const noexcept override { return may_write_ || type != LockType::exclusive; }
    Status set(LockType type, const LockRange&) override {
        ++program_.asked;
        if (type != LockType::none && program_.holds != LockType::none &&
            LockList::excludes(type, program_.holds))
            return fail(EAGAIN);
        return {};
    }
    Result<std::optional<FileLock>> query(LockType type, const LockRange& range) override {
        if (program_.holds == LockType::none || !LockList::excludes(type, program_.holds))
            return std::nullopt;
        return FileLock{.type = program_.holds, .range = range};
    }

private:
    HostProgram& program_;
    const bool may_write_;
};

// The test's own thread is the only worker.
class LockTableTest : public testing::Test {
protected:
    // Its owners are the test and the waiting task, which may end in TearDown().
    using Outcome = std::shared_ptr<std::optional<Status>>;
    struct Wait {
        const Outcome kept = std::make_shared<std::optional<Status>>();
        const std::optional<Status>& outcome = *kept;
    };

    static FileLock lock(LockType type, std::uint64_t owner, LockRange range = {},
                         LockKind kind = LockKind::posix) {
        return {.kind = kind,
                .type = type,
                .range = range,
                .owner = owner,
                .pid = static_cast<std::uint32_t>(owner)};
    }
    static FileLock shared(std::uint64_t owner, LockRange range = {}) {
        return lock(LockType::shared, owner, range);
    }
    static FileLock exclusive(std::uint64_t owner, LockRange range = {}) {
        return lock(LockType::exclusive, owner, range);
    }
    static FileLock unlock(std::uint64_t owner, LockRange range = {}) {
        return lock(LockType::none, owner, range);
    }

    Status set(const FileLock& wanted, const NodeIdentity& file = kFile) {
        return table.set(client, file, kHandle, wanted, opener);
    }
    rt::Task<void> wait_for(LockTable::Client& who, NodeIdentity file, FileLock wanted, Outcome into) {
        *into = co_await table.wait(who, file, kHandle, wanted, opener);
    }
    void begin_wait(const Wait& into, const FileLock& wanted, const NodeIdentity& file = kFile,
                    rt::Cancellation* cancellation = nullptr) {
        auto task = wait_for(client, file, wanted, into.kept);
        if (cancellation != nullptr) task.cancelled_by(*cancellation);
        worker->gate().spawn(std::move(task));
    }
    // Delivers what was posted, and lets timers that were called off end.
    void settle() {
        for (int round = 0; round < 4; ++round) {
            worker->stop();
            worker->run();
        }
    }
    void settle_until(const Wait& wait) {
        while (!wait.outcome) {
            worker->ring().wait(1000);
            settle();
        }
    }
    void TearDown() override {
        table.end_waits(client);
        for (int round = 0; worker->gate().count() > 0 && round < 1000; ++round) settle();
        EXPECT_EQ(worker->gate().count(), 0U);
        table.drop_all(client);
        EXPECT_EQ(table.files(), 0U);
        EXPECT_EQ(host.open, 0);
    }

    std::unique_ptr<rt::Worker> worker = std::move(*rt::Worker::make({.name = "test"}));
    LockTable table;
    HostProgram host;
    bool tells_host = false;
    bool handle_writes = true;
    LockTable::Opener opener = [this]() -> Result<std::unique_ptr<HostLocks>> {
        if (!tells_host) return nullptr;
        return std::make_unique<ScriptedHost>(host, handle_writes);
    };
    LockTable::Client client{{.locks_max = 20, .owners_max = 10, .waiters_max = 4}};
};

TEST_F(LockTableTest, what_one_owner_holds_another_does_not_get) {
    EXPECT_TRUE(set(exclusive(1, {.first = 0, .last = 9})));
    EXPECT_EQ(set(shared(2, {.first = 9, .last = 20})).error(), Errno{EAGAIN});
    EXPECT_TRUE(set(shared(2, {.first = 10, .last = 20})));
    EXPECT_TRUE(set(exclusive(2), kOther));
    EXPECT_TRUE(set(unlock(1)));
    EXPECT_TRUE(set(shared(2, {.first = 9, .last = 20})));
}

TEST_F(LockTableTest, the_two_kinds_do_not_see_each_other) {
    EXPECT_TRUE(set(exclusive(1)));
    EXPECT_TRUE(set(lock(LockType::exclusive, 2, {}, LockKind::flock)));
    EXPECT_EQ(set(lock(LockType::shared, 1, {}, LockKind::flock)).error(), Errno{EAGAIN});
}

TEST_F(LockTableTest, a_client_is_told_the_pid_of_its_own_only) {
    EXPECT_TRUE(set(exclusive(1, {.first = 5, .last = 6})));
    const auto found = table.query(client, kFile, shared(2), opener);
    ASSERT_TRUE(found && *found);
    EXPECT_EQ((*found)->pid, 1U);
    EXPECT_EQ((*found)->type, LockType::exclusive);
    EXPECT_EQ((*found)->range, (LockRange{.first = 5, .last = 6}));
    LockTable::Client stranger{{}};
    const auto seen = table.query(stranger, kFile, shared(1), opener);
    ASSERT_TRUE(seen && *seen);
    EXPECT_EQ((*seen)->pid, 0U);
    EXPECT_FALSE(*table.query(client, kFile, shared(1), opener));
}

TEST_F(LockTableTest, the_same_owner_of_two_clients_is_two) {
    LockTable::Client stranger{{}};
    EXPECT_TRUE(set(exclusive(1)));
    EXPECT_EQ(table.set(stranger, kFile, kHandle, exclusive(1), opener).error(), Errno{EAGAIN});
    table.drop_all(client);
    EXPECT_TRUE(table.set(stranger, kFile, kHandle, exclusive(1), opener));
    table.drop_all(stranger);
}

TEST_F(LockTableTest, waiters_are_served_in_their_order) {
    EXPECT_TRUE(set(exclusive(1)));
    std::array<Wait, 3> waits;
    begin_wait(waits[0], exclusive(2));
    begin_wait(waits[1], exclusive(3));
    begin_wait(waits[2], exclusive(4));
    settle();
    EXPECT_EQ(table.waiting(client), 3U);
    for (std::uint64_t owner = 1; owner <= 3; ++owner) {
        EXPECT_FALSE(waits[owner - 1].outcome);
        EXPECT_TRUE(set(unlock(owner)));
        settle();
        ASSERT_TRUE(waits[owner - 1].outcome);
        EXPECT_TRUE(*waits[owner - 1].outcome);
        // Given with the unlocking, not when the waiter has woken up.
        EXPECT_EQ(set(shared(9)).error(), Errno{EAGAIN});
    }
}

TEST_F(LockTableTest, readers_that_keep_coming_do_not_starve_a_writer) {
    EXPECT_TRUE(set(shared(1)));
    Wait writer;
    begin_wait(writer, exclusive(2));
    Wait reader;
    begin_wait(reader, shared(3));
    settle();
    EXPECT_FALSE(reader.outcome);
    EXPECT_TRUE(set(unlock(1)));
    settle();
    ASSERT_TRUE(writer.outcome);
    EXPECT_FALSE(reader.outcome);
    EXPECT_TRUE(set(unlock(2)));
    settle();
    ASSERT_TRUE(reader.outcome);
    EXPECT_TRUE(*reader.outcome);
}

TEST_F(LockTableTest, who_holds_a_lock_already_does_not_wait_behind_waiters) {
    EXPECT_TRUE(set(shared(1)));
    EXPECT_TRUE(set(shared(3), kOther));
    Wait writer;
    begin_wait(writer, exclusive(2));
    Wait reader;
    begin_wait(reader, shared(3));
    settle();
    ASSERT_TRUE(reader.outcome);
    EXPECT_TRUE(*reader.outcome);
    EXPECT_FALSE(writer.outcome);
}

TEST_F(LockTableTest, a_lock_made_shared_lets_readers_in) {
    EXPECT_TRUE(set(exclusive(1)));
    Wait reader;
    begin_wait(reader, shared(2));
    settle();
    EXPECT_FALSE(reader.outcome);
    EXPECT_TRUE(set(shared(1)));
    settle();
    EXPECT_TRUE(reader.outcome);
}

TEST_F(LockTableTest, an_owner_that_is_gone_and_a_handle_that_is_closed_let_go) {
    EXPECT_TRUE(set(exclusive(1)));
    std::array<Wait, 2> waits;
    begin_wait(waits[0], exclusive(2));
    begin_wait(waits[1], exclusive(3));
    table.drop_owner(client, kFile, LockKind::flock, 1);
    settle();
    EXPECT_FALSE(waits[0].outcome);
    table.drop_owner(client, kFile, LockKind::posix, 1);
    settle();
    ASSERT_TRUE(waits[0].outcome);
    EXPECT_FALSE(waits[1].outcome);
    table.drop_handle(client, kFile, HandleId{6});
    settle();
    EXPECT_FALSE(waits[1].outcome);
    table.drop_handle(client, kFile, kHandle);
    settle();
    EXPECT_TRUE(waits[1].outcome);
}

TEST_F(LockTableTest, waiting_in_a_circle_is_refused) {
    EXPECT_TRUE(set(exclusive(1)));
    EXPECT_TRUE(set(exclusive(2), kOther));
    Wait first;
    begin_wait(first, exclusive(1), kOther);
    Wait second;
    begin_wait(second, exclusive(2));
    settle();
    ASSERT_TRUE(second.outcome);
    EXPECT_EQ(second.outcome->error(), Errno{EDEADLK});
    EXPECT_FALSE(first.outcome);
    table.drop_owner(client, kOther, LockKind::posix, 2);
    settle();
    EXPECT_TRUE(first.outcome);
}

TEST_F(LockTableTest, a_circle_behind_more_than_is_looked_at_ends_in_a_wait) {
    LockTable::Client crowd{{}};
    EXPECT_TRUE(set(exclusive(1), kOther));
    // Each owner of the crowd is in the way, and the last of them waits for owner 1.
    for (std::uint64_t owner = 0; owner < 200; ++owner)
        EXPECT_TRUE(table.set(crowd, kFile, kHandle, shared(owner, {.first = owner, .last = owner}), opener));
    Wait last;
    worker->gate().spawn(wait_for(crowd, kOther, exclusive(199), last.kept));
    Wait first;
    begin_wait(first, exclusive(1));
    settle();
    EXPECT_FALSE(first.outcome);
    table.end_waits(crowd);
    table.drop_all(crowd);
    settle();
    ASSERT_TRUE(first.outcome);
    EXPECT_TRUE(*first.outcome);
}

TEST_F(LockTableTest, a_client_at_its_bound_can_let_go) {
    for (std::uint64_t at = 0; at < 17; ++at)
        EXPECT_TRUE(set(exclusive(1, {.first = 100 * at, .last = 100 * at + 50})));
    std::uint64_t holes = 0;
    while (set(unlock(1, {.first = 100 * (holes % 17) + 2 + 2 * (holes / 17),
                          .last = 100 * (holes % 17) + 2 + 2 * (holes / 17)})))
        ASSERT_LT(++holes, 100U);
    EXPECT_GT(holes, 0U);
    EXPECT_TRUE(set(unlock(1)));
    EXPECT_TRUE(set(exclusive(2)));
}

TEST_F(LockTableTest, two_readers_that_both_want_to_write_do_not_wait_for_ever) {
    EXPECT_TRUE(set(shared(1)));
    EXPECT_TRUE(set(shared(2)));
    Wait first;
    begin_wait(first, exclusive(1));
    Wait second;
    begin_wait(second, exclusive(2));
    settle();
    ASSERT_TRUE(second.outcome);
    EXPECT_EQ(second.outcome->error(), Errno{EDEADLK});
    EXPECT_TRUE(set(unlock(2)));
    settle();
    ASSERT_TRUE(first.outcome);
    EXPECT_TRUE(*first.outcome);
}

TEST_F(LockTableTest, flock_gives_up_what_it_converts) {
    const auto flock = [](LockType type, std::uint64_t owner) {
        return lock(type, owner, {}, LockKind::flock);
    };
    EXPECT_TRUE(set(flock(LockType::shared, 1)));
    EXPECT_TRUE(set(flock(LockType::shared, 2)));
    Wait first;
    begin_wait(first, flock(LockType::exclusive, 1));
    Wait second;
    begin_wait(second, flock(LockType::exclusive, 2));
    settle();
    ASSERT_TRUE(first.outcome);
    EXPECT_TRUE(*first.outcome);
    EXPECT_FALSE(second.outcome);
}

TEST_F(LockTableTest, a_wait_is_cancelled_alone_and_ended_with_all_others) {
    EXPECT_TRUE(set(exclusive(1)));
    std::array<Wait, 3> waits;
    rt::Cancellation cancellation;
    begin_wait(waits[0], exclusive(2));
    begin_wait(waits[1], exclusive(3), kFile, &cancellation);
    begin_wait(waits[2], shared(4));
    cancellation.request();
    cancellation.request();
    settle();
    EXPECT_FALSE(waits[0].outcome);
    ASSERT_TRUE(waits[1].outcome);
    EXPECT_EQ(waits[1].outcome->error(), Errno{EINTR});
    table.end_waits(client);
    settle();
    for (const std::size_t index : {0U, 2U}) {
        ASSERT_TRUE(waits[index].outcome);
        EXPECT_EQ(waits[index].outcome->error(), Errno{ENOLCK});
    }
}

TEST_F(LockTableTest, a_reader_behind_an_interrupted_writer_goes_on) {
    EXPECT_TRUE(set(shared(1)));
    Wait writer;
    rt::Cancellation cancellation;
    begin_wait(writer, exclusive(2), kFile, &cancellation);
    Wait reader;
    begin_wait(reader, shared(3));
    cancellation.request();
    settle();
    EXPECT_TRUE(writer.outcome);
    ASSERT_TRUE(reader.outcome);
    EXPECT_TRUE(*reader.outcome);
}

TEST_F(LockTableTest, what_a_client_may_have_is_bounded) {
    for (std::uint64_t at = 0; at < 18; ++at)
        EXPECT_TRUE(set(exclusive(1, {.first = 10 * at, .last = 10 * at}))) << at;
    EXPECT_TRUE(set(exclusive(1, {.first = 1000, .last = 1000})));
    EXPECT_EQ(set(exclusive(1, {.first = 2000, .last = 2000})).error(), Errno{ENOLCK});
    EXPECT_TRUE(set(unlock(1)));

    EXPECT_TRUE(set(exclusive(1)));
    std::array<Wait, 5> waits;
    for (std::uint64_t index = 0; index < waits.size(); ++index)
        begin_wait(waits[index], exclusive(2 + index));
    settle();
    ASSERT_TRUE(waits[4].outcome);
    EXPECT_EQ(waits[4].outcome->error(), Errno{ENOLCK});
    EXPECT_FALSE(waits[3].outcome);
    table.end_waits(client);
    settle();
    EXPECT_TRUE(set(unlock(1)));

    for (std::uint64_t owner = 0; owner < 10; ++owner) EXPECT_TRUE(set(shared(owner))) << owner;
    EXPECT_EQ(set(shared(10)).error(), Errno{ENOLCK});
    // Another client has its own.
    LockTable::Client stranger{{}};
    EXPECT_TRUE(table.set(stranger, kFile, kHandle, shared(10), opener));
    table.drop_all(stranger);
}

TEST_F(LockTableTest, a_lock_of_the_hosts_is_in_the_way_until_it_is_asked_for_again) {
    tells_host = true;
    host.holds = LockType::exclusive;
    EXPECT_EQ(set(exclusive(1)).error(), Errno{EAGAIN});
    EXPECT_EQ(host.open, 0);
    const auto found = table.query(client, kFile, shared(1), opener);
    ASSERT_TRUE(found && *found);
    EXPECT_EQ((*found)->pid, 0U);
    Wait wait;
    begin_wait(wait, exclusive(1));
    settle();
    EXPECT_FALSE(wait.outcome);
    const int asked = host.asked;
    while (host.asked < asked + 3) {
        worker->ring().wait(1000);
        settle();
    }
    EXPECT_FALSE(wait.outcome);
    host.holds = LockType::none;
    settle_until(wait);
    EXPECT_TRUE(*wait.outcome);
}

TEST_F(LockTableTest, who_gets_its_turn_while_the_host_is_in_the_way_asks_again_by_itself) {
    tells_host = true;
    EXPECT_TRUE(set(shared(1)));
    Wait wait;
    begin_wait(wait, exclusive(2));
    settle();
    host.holds = LockType::shared;
    EXPECT_TRUE(set(unlock(1)));
    settle();
    EXPECT_FALSE(wait.outcome);
    host.holds = LockType::none;
    settle_until(wait);
    EXPECT_TRUE(*wait.outcome);
}

TEST_F(LockTableTest, a_wait_for_the_host_is_ended_as_any_other) {
    tells_host = true;
    host.holds = LockType::exclusive;
    Wait wait;
    rt::Cancellation cancellation;
    begin_wait(wait, exclusive(1), kFile, &cancellation);
    cancellation.request();
    settle();
    ASSERT_TRUE(wait.outcome);
    EXPECT_EQ(wait.outcome->error(), Errno{EINTR});
    EXPECT_EQ(host.open, 0);
}

TEST_F(LockTableTest, an_owner_that_comes_with_a_handle_for_writing_moves_over) {
    tells_host = true;
    handle_writes = false;
    EXPECT_TRUE(set(shared(1)));
    EXPECT_EQ(set(exclusive(1)).error(), Errno{EBADF});
    handle_writes = true;
    EXPECT_TRUE(set(exclusive(1)));
    EXPECT_EQ(host.open, 1);
}

} // namespace
} // namespace viaduct::fs
