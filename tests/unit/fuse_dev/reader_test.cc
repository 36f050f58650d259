// SPDX-License-Identifier: Apache-2.0
//
// A reader over a socket pair, whose messages are what read(2) and writev(2) of /dev/fuse carry.
#include "transport/fuse_dev/reader.h"

#include "support/fuse_message.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <sys/socket.h>
#include <utility>

namespace viaduct::transport {
namespace {

using test::FuseMessage;

constexpr std::size_t kPayloadMax = 128U << 10U;

class Keeper final : public fuse::RequestSink {
public:
    std::deque<fuse::RawRequest*> requests;
    void handle(fuse::RawRequest& request) override { requests.push_back(&request); }
    fuse::RawRequest& take() {
        fuse::RawRequest& request = *requests.front();
        requests.pop_front();
        return request;
    }
};

// What the next calls of readv and writev give instead of the socket's answer: errno, oldest first.
std::deque<int> read_errors;
std::deque<int> write_errors;

ssize_t failing_readv(int fd, const iovec* iov, int count) {
    if (read_errors.empty()) return ::readv(fd, iov, count);
    errno = read_errors.front();
    read_errors.pop_front();
    return -1;
}
ssize_t failing_writev(int fd, const iovec* iov, int count) {
    if (write_errors.empty()) return ::writev(fd, iov, count);
    errno = write_errors.front();
    write_errors.pop_front();
    return -1;
}

class ReaderTest : public testing::TestWithParam<rt::Ring::Kind> {
protected:
    void SetUp() override {
        std::signal(SIGPIPE, SIG_IGN);
        read_errors.clear();
        write_errors.clear();
        auto made = rt::Worker::make({.name = "test", .ring = GetParam()});
        if (!made) GTEST_SKIP() << made.error().message;
        worker = std::move(*made);
        int fds[2];
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
        kernel.reset(fds[0]);
        make_reader(Fd{fds[1]});
        ASSERT_TRUE(reader->start());
    }
    void make_reader(Fd device) {
        reader = std::make_unique<Reader>(std::move(device), *worker, sink,
                                          ReaderOptions{.payload_bytes_max = kPayloadMax,
                                                        .in_flight_max = 3,
                                                        .readv = failing_readv,
                                                        .writev = failing_writev});
    }
    void TearDown() override {
        if (!reader) return;
        while (!sink.requests.empty()) sink.take().complete(0);
        reader->stop();
        settle();
    }
    // One pass of the worker: what is ready is delivered, sources are swept.
    void settle() {
        worker->ring().wait(0);
        worker->stop();
        worker->run();
    }
    void send(const FuseMessage& message) {
        const auto bytes = message.bytes();
        ASSERT_EQ(::send(kernel.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    }
    // What the reader has written; empty: nothing.
    std::string received() {
        std::string text(kPayloadMax + 4096, '\0');
        const ssize_t got = ::recv(kernel.get(), text.data(), text.size(), MSG_DONTWAIT);
        text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
        return text;
    }

    Fd kernel;
    Keeper sink;
    std::unique_ptr<rt::Worker> worker;
    std::unique_ptr<Reader> reader;
};

TEST_P(ReaderTest, request_reaches_the_sink_and_its_reply_the_kernel) {
    send(FuseMessage{FUSE_GETATTR}.with_zeros(16));
    settle();
    ASSERT_EQ(sink.requests.size(), 1U);
    fuse::RawRequest& request = sink.take();
    EXPECT_EQ(segments_bytes(request.in()), sizeof(fuse_in_header) + 16);
    SegmentWriter writer{request.out()};
    const std::string reply = "sixteen byte headthe body";
    writer.write(reply.data(), reply.size());
    request.complete(reply.size());
    EXPECT_EQ(received(), reply);
    EXPECT_EQ(received(), "");
    EXPECT_EQ(reader->in_flight(), 0U);
}

TEST_P(ReaderTest, request_that_wants_no_reply_gets_none) {
    send(FuseMessage{FUSE_FORGET}.with_zeros(8));
    settle();
    ASSERT_EQ(sink.requests.size(), 1U);
    sink.take().complete(0);
    EXPECT_EQ(received(), "");
}

TEST_P(ReaderTest, data_of_reads_and_writes_lies_in_whole_pages) {
    send(FuseMessage{FUSE_READ}.with_zeros(sizeof(fuse_read_in)));
    send(FuseMessage{FUSE_WRITE}.with_zeros(sizeof(fuse_write_in) + 100'000));
    settle();
    ASSERT_EQ(sink.requests.size(), 2U);
    fuse::RawRequest& read = sink.take();
    ASSERT_EQ(read.out().size(), 2U);
    EXPECT_EQ(read.out()[0].iov_len, sizeof(fuse_out_header));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.out()[1].iov_base) % 4096, 0U);
    EXPECT_GE(read.out()[1].iov_len, kPayloadMax);
    read.complete(0);
    fuse::RawRequest& write = sink.take();
    const auto data = reinterpret_cast<std::uintptr_t>(write.in()[0].iov_base) + sizeof(fuse_in_header) +
                      sizeof(fuse_write_in);
    EXPECT_EQ(data % 4096, 0U);
    EXPECT_GE(segments_bytes(write.out()), 4096U);
    write.complete(0);
}

TEST_P(ReaderTest, whole_payload_comes_back_as_a_reply) {
    send(FuseMessage{FUSE_READ}.with_zeros(sizeof(fuse_read_in)));
    settle();
    fuse::RawRequest& request = sink.take();
    std::memset(request.out()[1].iov_base, 'x', kPayloadMax);
    request.complete(sizeof(fuse_out_header) + kPayloadMax);
    EXPECT_EQ(received().substr(sizeof(fuse_out_header)), std::string(kPayloadMax, 'x'));
}

TEST_P(ReaderTest, no_more_than_the_bound_is_under_way) {
    for (int count = 0; count < 5; ++count) send(FuseMessage{FUSE_STATFS});
    settle();
    EXPECT_EQ(sink.requests.size(), 3U);
    EXPECT_FALSE(reader->arm());
    sink.take().complete(0);
    EXPECT_TRUE(reader->arm()); // there may be more, and there is room
    settle();
    EXPECT_EQ(sink.requests.size(), 3U);
    EXPECT_EQ(reader->in_flight(), 3U);
}

TEST_P(ReaderTest, interruptions_of_a_read_are_survived) {
    read_errors = {EINTR, ENOENT, EINTR};
    send(FuseMessage{FUSE_STATFS});
    settle();
    EXPECT_EQ(sink.requests.size(), 1U);
    EXPECT_FALSE(reader->connection_over());
}

TEST_P(ReaderTest, read_that_finds_nothing_leaves_the_worker_to_wait) {
    settle();
    EXPECT_FALSE(reader->arm());
    send(FuseMessage{FUSE_STATFS});
    settle();
    EXPECT_EQ(sink.requests.size(), 1U);
}

TEST_P(ReaderTest, reply_to_an_interrupted_request_is_dropped) {
    write_errors = {ENOENT};
    send(FuseMessage{FUSE_STATFS});
    settle();
    sink.take().complete(sizeof(fuse_out_header));
    EXPECT_EQ(reader->stats().unanswered.get(), 1U);
    send(FuseMessage{FUSE_STATFS});
    settle();
    sink.take().complete(sizeof(fuse_out_header));
    EXPECT_EQ(received().size(), sizeof(fuse_out_header));
}

rt::Task<void> note_end(Reader& reader, bool& ended) {
    co_await reader.ended();
    ended = true;
}

TEST_P(ReaderTest, unmount_ends_the_connection_and_leaves_what_is_under_way) {
    bool ended = false;
    worker->gate().spawn(note_end(*reader, ended));
    send(FuseMessage{FUSE_STATFS});
    settle();
    EXPECT_FALSE(ended);
    read_errors = {ENODEV};
    send(FuseMessage{FUSE_STATFS});
    settle();
    EXPECT_TRUE(ended);
    EXPECT_TRUE(reader->connection_over());
    EXPECT_EQ(reader->in_flight(), 1U);
    EXPECT_FALSE(reader->arm());
}

TEST_P(ReaderTest, stop_ends_the_wait_for_the_end) {
    bool ended = false;
    worker->gate().spawn(note_end(*reader, ended));
    reader->stop();
    EXPECT_TRUE(ended);
    EXPECT_FALSE(reader->connection_over());
    send(FuseMessage{FUSE_STATFS});
    settle();
    EXPECT_TRUE(sink.requests.empty());
}

TEST_P(ReaderTest, reply_after_close_goes_nowhere) {
    send(FuseMessage{FUSE_STATFS});
    settle();
    reader->close();
    settle();
    sink.take().complete(sizeof(fuse_out_header));
    EXPECT_EQ(received(), "");
    EXPECT_EQ(reader->in_flight(), 0U);
}

rt::Task<void> note_drained(Reader& reader, std::chrono::nanoseconds limit, std::optional<bool>& drained) {
    drained = co_await reader.drain(limit);
}

TEST_P(ReaderTest, drain_ends_with_the_last_request) {
    send(FuseMessage{FUSE_STATFS});
    settle();
    std::optional<bool> drained;
    worker->gate().spawn(note_drained(*reader, std::chrono::hours{1}, drained));
    settle();
    EXPECT_FALSE(drained);
    sink.take().complete(0);
    settle();
    settle();
    EXPECT_EQ(drained, true);
}

TEST_P(ReaderTest, drain_ends_with_its_time) {
    send(FuseMessage{FUSE_STATFS});
    settle();
    std::optional<bool> drained;
    worker->gate().spawn(note_drained(*reader, std::chrono::nanoseconds{1}, drained));
    while (!drained) settle();
    EXPECT_EQ(drained, false);
}

FuseMessage write_message(std::uint32_t flags) {
    fuse_write_in in{};
    in.size = 1;
    in.write_flags = flags;
    return FuseMessage{FUSE_WRITE}.with(in).with_zeros(1);
}

TEST_P(ReaderTest, write_backs_are_waited_for_alone) {
    send(write_message(0));
    send(write_message(FUSE_WRITE_CACHE));
    settle();
    fuse::RawRequest& write = sink.take();
    fuse::RawRequest& write_back = sink.take();
    std::optional<bool> drained;
    worker->gate().spawn([](Reader& reader, std::optional<bool>& result) -> rt::Task<void> {
        result = co_await reader.drain_write_backs(std::chrono::hours{1});
    }(*reader, drained));
    settle();
    EXPECT_FALSE(drained);
    const fuse_out_header reply{.len = sizeof reply, .error = -EIO, .unique = 77};
    SegmentWriter{write_back.out()}.write(&reply, sizeof reply);
    write_back.complete(sizeof reply);
    settle();
    settle();
    EXPECT_EQ(drained, true);
    EXPECT_EQ(reader->in_flight(), 1U);
    EXPECT_EQ(reader->stats().write_backs.get(), 1U);
    EXPECT_EQ(reader->stats().write_backs_failed.get(), 1U);
    write.complete(0);
}

INSTANTIATE_TEST_SUITE_P(Rings, ReaderTest, testing::Values(rt::Ring::Kind::uring, rt::Ring::Kind::poll),
                         [](const auto& kind) {
                             return std::string{kind.param == rt::Ring::Kind::uring ? "io_uring" : "poll"};
                         });

// The second reader does not watch its descriptor.
TEST(ReaderPair, another_reader_helps_only_when_requests_queue_up) {
    auto worker = std::move(*rt::Worker::make({.name = "test"}));
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    const Fd kernel{fds[0]};
    Keeper first_sink;
    Keeper second_sink;
    Fd copy{::fcntl(fds[1], F_DUPFD_CLOEXEC, 0)};
    Reader first{Fd{fds[1]}, *worker, first_sink, {.payload_bytes_max = 4096, .in_flight_max = 4}};
    Reader second{std::move(copy), *worker, second_sink, {.payload_bytes_max = 4096, .watches = false}};
    first.set_next(second);
    ASSERT_TRUE(second.start());
    ASSERT_TRUE(first.start());
    const auto bytes = FuseMessage{FUSE_STATFS}.bytes();
    const auto send = [&](int count) {
        for (; count > 0; --count) ASSERT_GT(::send(kernel.get(), bytes.data(), bytes.size(), 0), 0);
    };
    const auto settle = [&] {
        worker->ring().wait(0);
        worker->stop();
        worker->run();
    };
    send(3);
    settle();
    EXPECT_EQ(first_sink.requests.size(), 3U);
    EXPECT_EQ(first.stats().invitations.get(), 0U);
    while (!first_sink.requests.empty()) first_sink.take().complete(0);
    send(6);
    settle(); // the first takes as many as it may
    EXPECT_EQ(first.stats().invitations.get(), 1U);
    EXPECT_EQ(first_sink.requests.size(), 4U);
    EXPECT_EQ(second_sink.requests.size(), 2U);
    first.stop();
    second.stop();
    for (Keeper* const sink : {&first_sink, &second_sink})
        while (!sink->requests.empty()) sink->take().complete(0);
}

} // namespace
} // namespace viaduct::transport
