// SPDX-License-Identifier: Apache-2.0
//
// Kick, call and error descriptors: missing, replaced, empty, of the wrong kind, for a queue that is not
// there.
#include "support/raw_guest.h"
#include "support/served_share.h"
#include "support/waiting.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

namespace viaduct::test {
namespace {

using namespace std::chrono_literals;

class EventFds : public testing::TestWithParam<bool> {
protected:
    std::unique_ptr<RawGuest> connect() {
        return RawGuest::connect({.socket = share.socket(), .queues = 5, .packed = GetParam()});
    }
    // No more descriptors of the daemon than there were; those on their way through a socket or a ring are
    // given time to go.
    bool open_fds_come_back_to(std::size_t count) {
        return wait_until([&] { return share.daemon().open_fds() <= count; }, kPatience);
    }
    ServedShare share;
};

INSTANTIATE_TEST_SUITE_P(Formats, EventFds, testing::Bool(),
                         [](const auto& info) { return info.param ? "packed" : "split"; });

TEST_P(EventFds, without_a_call_descriptor_completions_are_in_the_ring) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    auto& front_end = guest->front_end();
    ASSERT_TRUE(front_end.set_vring_call(1, -1));
    ASSERT_TRUE(guest->describe(1, guest->first_base()));
    ASSERT_TRUE(front_end.set_vring_kick(1, guest->kick_fd(1)));
    ASSERT_TRUE(front_end.set_vring_enable(1, true));
    ASSERT_TRUE(guest->add(1, init_request()));
    for (int round = 0; round < 20; ++round) {
        guest->kick(1);
        EXPECT_TRUE(wait_until([&] { return guest->came_back(1) == guest->added(1); }, kPatience)) << round;
        ASSERT_TRUE(guest->add(1, getattr_request()));
    }
    // Taken away and given again while the ring runs.
    ASSERT_TRUE(front_end.set_vring_call(1, guest->call_fd(1)));
    guest->kick(1);
    EXPECT_TRUE(guest->wait_for_all(1));
    ASSERT_TRUE(front_end.set_vring_call(1, -1));
    ASSERT_TRUE(guest->add(1, getattr_request()));
    read_event(guest->call_fd(1));
    guest->kick(1);
    EXPECT_TRUE(wait_until([&] { return guest->came_back(1) == guest->added(1); }, kPatience));
    EXPECT_EQ(read_event(guest->call_fd(1)), 0U);
}

TEST_P(EventFds, replacing_them_a_thousand_times_while_the_ring_runs_leaks_none) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    auto& front_end = guest->front_end();
    ASSERT_TRUE(guest->start_session(1));
    const std::size_t before = share.daemon().open_fds();
    for (int round = 0; round < 1000; ++round) {
        const Fd kick{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
        const Fd call{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
        const Fd error{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
        if (round % 50 == 0) {
            ASSERT_TRUE(guest->add(1, getattr_request()));
            guest->kick(1); // in flight while the descriptors go
        }
        ASSERT_TRUE(front_end.set_vring_call(1, call.get()));
        ASSERT_TRUE(front_end.set_vring_kick(1, kick.get()));
        ASSERT_TRUE(front_end.set_vring_error(1, error.get()));
        if (round % 50 != 0) continue;
        // The new ones are those in use.
        ASSERT_TRUE(wait_until([&] { return guest->came_back(1) == guest->added(1); }, kPatience));
        read_event(call.get());
        ASSERT_TRUE(guest->add(1, getattr_request()));
        write_event(kick.get());
        ASSERT_TRUE(readable_within(call.get(), kPatience)) << round;
        ASSERT_TRUE(guest->front_end().set_vring_call(1, guest->call_fd(1)));
        ASSERT_TRUE(guest->front_end().set_vring_kick(1, guest->kick_fd(1)));
    }
    ASSERT_TRUE(front_end.set_vring_call(1, guest->call_fd(1)));
    ASSERT_TRUE(front_end.set_vring_kick(1, guest->kick_fd(1)));
    ASSERT_TRUE(front_end.set_vring_error(1, guest->error_fd(1)));
    EXPECT_TRUE(guest->serves(1));
    EXPECT_TRUE(open_fds_come_back_to(before)) << before << " became " << share.daemon().open_fds();
}

TEST_P(EventFds, restarting_a_ring_many_times_leaks_none) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    const std::size_t before = share.daemon().open_fds();
    for (int round = 0; round < 300; ++round) {
        const auto base = guest->front_end().get_vring_base(1);
        ASSERT_TRUE(base);
        ASSERT_TRUE(guest->start(1, *base));
    }
    EXPECT_TRUE(guest->serves(1));
    EXPECT_TRUE(open_fds_come_back_to(before)) << before << " became " << share.daemon().open_fds();
}

TEST_P(EventFds, connections_that_come_and_go_leak_none) {
    std::size_t before = 0;
    for (int round = 0; round < 20; ++round) {
        {
            const auto guest = connect();
            ASSERT_TRUE(guest);
            for (const std::uint32_t queue : {0U, 1U, 2U}) ASSERT_TRUE(guest->start_session(queue));
        }
        if (round != 0) continue;
        ASSERT_TRUE(share.daemon().wait_for_log("front end left", kPatience));
        {
            const auto waits_for_the_first_to_be_gone = connect();
        }
        before = share.daemon().open_fds();
    }
    EXPECT_TRUE(wait_until([&] { return share.daemon().open_fds() <= before; }, kPatience))
        << before << " became " << share.daemon().open_fds();
}

TEST_P(EventFds, a_wake_with_nothing_offered_is_harmless) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    for (int round = 0; round < 2000; ++round) {
        guest->kick(1);
        read_event(guest->kick_fd(1)); // taken from under the device, mostly
    }
    EXPECT_EQ(guest->came_back(1), 1U);
    EXPECT_TRUE(guest->serves(1));
    // A counter as full as it can be.
    write_event(guest->kick_fd(1), UINT64_MAX - 1 - read_event(guest->kick_fd(1)));
    EXPECT_TRUE(guest->wait_for_all(1));
    read_event(guest->kick_fd(1));
    EXPECT_TRUE(guest->serves(1));
    // A call descriptor that nobody reads and that is full: nothing waits for it.
    read_event(guest->call_fd(1));
    write_event(guest->call_fd(1), UINT64_MAX - 2); // and one more may still be on its way
    for (int round = 0; round < 20; ++round) {
        ASSERT_TRUE(guest->add(1, getattr_request()));
        guest->kick(1);
        EXPECT_TRUE(wait_until([&] { return guest->came_back(1) == guest->added(1); }, kPatience));
    }
}

TEST_P(EventFds, descriptors_that_block_or_count_as_semaphores_serve_as_well) {
    for (const int flags : {0, int{EFD_SEMAPHORE}, EFD_SEMAPHORE | EFD_NONBLOCK}) {
        const auto guest = connect();
        ASSERT_TRUE(guest);
        ASSERT_TRUE(guest->start_session(1));
        const Fd kick{::eventfd(0, flags | EFD_CLOEXEC)};
        const Fd call{::eventfd(0, flags | EFD_CLOEXEC)};
        ASSERT_TRUE(guest->front_end().set_vring_call(1, call.get()));
        ASSERT_TRUE(guest->front_end().set_vring_kick(1, kick.get()));
        write_event(kick.get(), 1000);
        for (int round = 0; round < 5; ++round) {
            ASSERT_TRUE(guest->add(1, getattr_request()));
            write_event(kick.get());
            ASSERT_TRUE(readable_within(call.get(), kPatience));
            while (read_event(call.get()) != 0 && readable_within(call.get(), 0ms)) {
            }
            ASSERT_TRUE(wait_until([&] { return guest->came_back(1) == guest->added(1); }, kPatience));
        }
    }
}

TEST_P(EventFds, what_is_no_eventfd_is_refused_and_the_ring_goes_on) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    auto& front_end = guest->front_end();
    ASSERT_TRUE(guest->start_session(1));
    const std::size_t before = share.daemon().open_fds();
    int pipe_fds[2];
    ASSERT_EQ(::pipe2(pipe_fds, O_CLOEXEC), 0);
    std::vector<Fd> wrong;
    wrong.emplace_back(pipe_fds[0]);
    wrong.emplace_back(pipe_fds[1]);
    wrong.emplace_back(::open("/dev/null", O_RDWR | O_CLOEXEC));
    wrong.emplace_back(::open("/dev/zero", O_RDWR | O_CLOEXEC));
    wrong.emplace_back(::memfd_create("wrong", MFD_CLOEXEC));
    wrong.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    wrong.emplace_back(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
    wrong.emplace_back(::epoll_create1(EPOLL_CLOEXEC));
    wrong.emplace_back(::open("/", O_PATH | O_CLOEXEC));
    for (const Fd& fd : wrong) {
        EXPECT_EQ(front_end.set_vring_kick(1, fd.get()).error(), Errno{EREMOTEIO});
        EXPECT_EQ(front_end.set_vring_call(1, fd.get()).error(), Errno{EREMOTEIO});
        EXPECT_EQ(front_end.set_vring_error(1, fd.get()).error(), Errno{EREMOTEIO});
        EXPECT_TRUE(guest->serves(1));
    }
    EXPECT_TRUE(open_fds_come_back_to(before)) << before << " became " << share.daemon().open_fds();
}

TEST_P(EventFds, a_queue_that_is_not_there_is_refused_and_the_others_go_on) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    auto& front_end = guest->front_end();
    ASSERT_TRUE(guest->start_session(1));
    const std::size_t before = share.daemon().open_fds();
    ASSERT_EQ(front_end.get_queue_num(), 5U);
    for (const std::uint32_t index : {5U, 6U, 64U, 128U, 255U}) {
        for (const int fd : {guest->kick_fd(1), -1}) {
            EXPECT_EQ(front_end.set_vring_kick(index, fd).error(), Errno{EREMOTEIO}) << index;
            EXPECT_EQ(front_end.set_vring_call(index, fd).error(), Errno{EREMOTEIO}) << index;
            EXPECT_EQ(front_end.set_vring_error(index, fd).error(), Errno{EREMOTEIO}) << index;
        }
    }
    for (const std::uint32_t index : {5U, 255U, 256U, 257U, 65536U, 0x80000000U, UINT32_MAX}) {
        EXPECT_EQ(front_end.set_vring_num(index, 64).error(), Errno{EREMOTEIO}) << index;
        EXPECT_EQ(front_end.set_vring_base(index, 0).error(), Errno{EREMOTEIO}) << index;
        EXPECT_EQ(front_end.set_vring_address(index, guest->ring_addresses(1)).error(), Errno{EREMOTEIO});
        EXPECT_EQ(front_end.set_vring_enable(index, true).error(), Errno{EREMOTEIO}) << index;
    }
    EXPECT_TRUE(guest->serves(1));
    EXPECT_TRUE(open_fds_come_back_to(before)) << before << " became " << share.daemon().open_fds();

    // The one question that can have no answer ends the connection, and that alone.
    EXPECT_EQ(front_end.get_vring_base(255).error(), Errno{EPIPE});
    const auto next = connect();
    ASSERT_TRUE(next);
    EXPECT_TRUE(next->start_session(1));
}

} // namespace
} // namespace viaduct::test
