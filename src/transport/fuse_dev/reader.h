// SPDX-License-Identifier: Apache-2.0
//
// Reader: one descriptor of /dev/fuse on the worker that owns it.
//
// Takes requests while there are any, hands them to the sink, writes the replies to the descriptor that the
// request came from.  The descriptor does not block.  While the worker is awake the request is taken by
// read(2) itself; when none is left, the ring tells when there is one again.  Reading through the ring would
// not save a call: a descriptor that several readers share must not block, so that each such read would be a
// poll and a read.
//
// Everything but the counters and invite() belongs to the worker.
#pragma once

#include "base/fd.h"
#include "base/sync.h"
#include "fuse/raw_request.h"
#include "rt/gate.h"
#include "rt/worker.h"
#include "transport/fuse_dev/request_buffer.h"

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace viaduct::transport {

// One writer, readable from anywhere.
struct ReaderStats {
    sync::Counter requests;
    sync::Counter wakeups;            // times the descriptor woke the worker
    sync::Counter invitations;        // times another reader was asked to help
    sync::Counter unanswered;         // replies that the kernel did not want any more
    sync::Counter write_backs;        // WRITEs of what the kernel had cached
    sync::Counter write_backs_failed; // ... that were answered with an error: that data is lost
};

struct ReaderOptions {
    // Bytes that a request, and a reply, may carry behind its structs: at least what INIT settles as
    // max_write.
    std::size_t payload_bytes_max = 1U << 20U;
    // Requests that this reader has under way at most; from here on it reads no more until one has ended.
    std::size_t in_flight_max = 256;
    // Always woken by new requests; otherwise only when it is invited.
    bool watches = true;
    // For tests: the system calls.
    ssize_t (*readv)(int, const iovec*, int) = nullptr;
    ssize_t (*writev)(int, const iovec*, int) = nullptr;
};

class Reader final : public rt::Source, private rt::Watcher {
public:
    // `device` does not block.  `sink` and `worker` outlive the reader.
    Reader(Fd device, rt::Worker& worker, fuse::RequestSink& sink, const ReaderOptions& options);
    // Stopped, and nothing is in flight.
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    rt::Worker& worker() const noexcept { return worker_; }
    const ReaderStats& stats() const noexcept { return stats_; }

    // Control thread, before start(): the next one to ask for help when requests queue up here.
    void set_next(Reader& next) noexcept { next_ = &next; }
    // Any thread: take requests until there are none.
    void invite();

    // All below on the worker.

    Status start();
    // Reads no more.  Requests under way go on.
    void stop();
    // Closes the descriptor as well: replies go nowhere.  When every descriptor of the connection is closed
    // the kernel aborts it.
    void close();
    // Waits until the connection has ended (it was unmounted or aborted), or stop().
    auto ended() noexcept { return reading_.empty(); }
    // true: the kernel has ended the connection.
    bool connection_over() const noexcept { return connection_over_; }
    std::uint64_t in_flight() const noexcept { return in_flight_; }
    // Calls off the requests that wait.
    void cancel() {
        sink_.cancel([](const fuse::RawRequest&) { return true; });
    }
    // Waits until nothing is in flight, or no write-back.  false: the time is over and something still is.
    rt::Task<bool> drain(std::chrono::nanoseconds timeout) { return wait_for(timeout, false); }
    rt::Task<bool> drain_write_backs(std::chrono::nanoseconds timeout) { return wait_for(timeout, true); }

    Visit sweep(const rt::VisitBudget& budget) override;
    bool arm() override { return started_ && ready_ && in_flight_ < options_.in_flight_max; }

private:
    class Request final : public fuse::RawRequest {
    public:
        Request(Reader& reader, std::unique_ptr<RequestBuffer> memory) noexcept
            : buffer(std::move(memory)), reader_(reader) {}
        void present(std::size_t request_bytes) noexcept;
        void complete(std::size_t reply_bytes) override { reader_.answer(*this, reply_bytes); }
        // The parts of out() that a reply of that length fills.
        Segments reply(std::size_t reply_bytes) noexcept;
        // Is the reply an error?
        bool failed(std::size_t reply_bytes) const noexcept;

        std::unique_ptr<RequestBuffer> buffer;
        bool large = false; // took more memory than is kept for it
        bool write_back = false;

    private:
        Reader& reader_;
        iovec in_segment_{};
        iovec out_segments_[2]{};
        alignas(8) std::byte out_header_[16]{};
    };
    struct Invitation final : rt::Message {
        Reader& reader;
        explicit Invitation(Reader& r) noexcept : reader(r) {}
        void deliver() override { reader.accept_invitation(); }
    };

    void on_ready() override;
    void accept_invitation();
    Request* take_request();
    void recycle(Request& request);
    void answer(Request& request, std::size_t reply_bytes);
    // What became of one attempt to read.
    enum class Took { request, nothing, over };
    Took take_one(std::uint64_t& bytes);
    void end_connection() noexcept;
    rt::Task<bool> wait_for(std::chrono::nanoseconds timeout, bool write_backs_only);
    std::uint64_t waited_for(bool write_backs_only) const noexcept {
        return write_backs_only ? write_backs_in_flight_ : in_flight_;
    }

    Fd device_;
    rt::Worker& worker_;
    fuse::RequestSink& sink_;
    ReaderOptions options_;
    Reader* next_ = nullptr;
    ReaderStats stats_;
    Invitation invitation_{*this};
    sync::Shared<bool> invited_{false};
    bool started_ = false;
    bool ready_ = false; // there may be a request
    bool connection_over_ = false;
    std::uint32_t idle_sweeps_ = 0;
    bool complained_ = false;
    rt::Gate reading_; // one inside, between start() and the end
    std::uint64_t in_flight_ = 0;
    std::uint64_t write_backs_in_flight_ = 0;
    std::vector<std::unique_ptr<Request>> requests_;
    std::vector<Request*> free_; // last in, first out: the warm ones are used again
    std::size_t large_kept_ = 0;
    rt::Operation* drain_timer_ = nullptr;
    bool drain_write_backs_only_ = false;
};

} // namespace viaduct::transport
