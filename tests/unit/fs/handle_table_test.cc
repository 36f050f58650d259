// SPDX-License-Identifier: Apache-2.0
#include "fs/handle_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <latch>
#include <thread>

namespace viaduct::fs {
namespace {

struct CountingCloser final : FdCloser {
    int closed = 0;
    std::uint32_t queued = 0;
    std::uint32_t closing() const noexcept override { return queued; }
    void close(int fd, std::uint16_t) override {
        ::close(fd);
        ++closed;
    }
};

struct HandleTableTest : testing::Test {
    std::shared_ptr<CountingCloser> closer = std::make_shared<CountingCloser>();
    std::unique_ptr<HandleTable> table = *HandleTable::make(4, closer);
    static Fd some_fd() { return Fd{::open("/dev/null", O_RDONLY | O_CLOEXEC)}; }
};

TEST_F(HandleTableTest, descriptors_that_wait_to_be_closed_take_up_room) {
    closer->queued = 3;
    EXPECT_TRUE(table->insert(some_fd(), {}));
    EXPECT_EQ(table->insert(some_fd(), {}).error(), Errno{ENFILE});
    closer->queued = 0;
    EXPECT_TRUE(table->insert(some_fd(), {}));
}

TEST_F(HandleTableTest, handle_is_found_until_it_is_removed) {
    const HandleId id = *table->insert(some_fd(), {.node = 3, .mount = 2, .flags = Handle::append});
    const Handle& handle = **table->find(id);
    EXPECT_EQ(handle.node, 3U);
    EXPECT_EQ(handle.mount, 2U);
    EXPECT_TRUE(handle.has(Handle::append));
    EXPECT_TRUE(table->remove(id));
    EXPECT_EQ(table->find(id).error(), Errno{EBADF});
    EXPECT_EQ(table->remove(id).error(), Errno{EBADF});
    EXPECT_EQ(closer->closed, 1);
}

TEST_F(HandleTableTest, old_id_does_not_reach_the_next_handle_in_its_place) {
    const HandleId first = *table->insert(some_fd(), {});
    ASSERT_TRUE(table->remove(first));
    const HandleId second = *table->insert(some_fd(), {});
    EXPECT_NE(first, second);
    EXPECT_FALSE(table->find(first));
    EXPECT_TRUE(table->find(second));
}

TEST_F(HandleTableTest, cap_gives_enfile) {
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(table->insert(some_fd(), {}));
    EXPECT_EQ(table->insert(some_fd(), {}).error(), Errno{ENFILE});
    table->clear();
    EXPECT_EQ(table->count(), 0U);
    EXPECT_TRUE(table->insert(some_fd(), {}));
}

// A full table whose handles are all in use has no room to come; one whose handles wait for a thread to rest
// has.
TEST_F(HandleTableTest, room_is_to_come_while_closed_handles_wait_for_their_epoch) {
    const auto own = rt::EpochMember::join();
    std::latch joined{1};
    std::latch rest{1};
    std::thread busy{[&] {
        const auto member = rt::EpochMember::join();
        joined.count_down();
        rest.wait();
    }};
    joined.wait();
    std::vector<HandleId> handles;
    for (int i = 0; i < 4; ++i) handles.push_back(*table->insert(some_fd(), {}));
    EXPECT_FALSE(table->room_to_come());
    ASSERT_TRUE(table->remove(handles[0]));
    EXPECT_EQ(table->insert(some_fd(), {}).error(), Errno{ENFILE});
    EXPECT_TRUE(table->room_to_come());

    rest.count_down();
    busy.join();
    own->quiescent();
    own->collect();
    EXPECT_FALSE(table->room_to_come());
    EXPECT_TRUE(table->insert(some_fd(), {}));
}

TEST_F(HandleTableTest, room_is_not_to_come_from_what_is_pinned) {
    std::vector<HandleId> handles;
    for (int i = 0; i < 4; ++i) handles.push_back(*table->insert(some_fd(), {}));
    const HandlePin pin = table->pin(**table->find(handles[0]));
    ASSERT_TRUE(table->remove(handles[0]));
    EXPECT_FALSE(table->room_to_come());
}

TEST_F(HandleTableTest, release_waits_for_pins_before_it_closes) {
    const HandleId id = *table->insert(some_fd(), {});
    {
        const HandlePin pin = table->pin(**table->find(id));
        ASSERT_TRUE(table->remove(id));
        EXPECT_GE(::fcntl(pin->fd, F_GETFD), 0);
        EXPECT_EQ(closer->closed, 0);
    }
    EXPECT_EQ(closer->closed, 1);
}

} // namespace
} // namespace viaduct::fs
