// SPDX-License-Identifier: Apache-2.0
//
// QueuePort: one virtqueue of a virtio-fs device on the worker that owns it.
//
// Pops chains, hands them to the sink as RawRequests, gives them back, signals the guest at most once a pass.
// Everything but the counters belongs to the worker.
#pragma once

#include "base/fd.h"
#include "base/sync.h"
#include "fuse/raw_request.h"
#include "rt/worker.h"
#include "vhost/device_operations.h"
#include "virtio/device_queue.h"

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace viaduct::transport {

// Counters of one queue; one writer, readable from anywhere.
struct QueueStats {
    sync::Counter requests;
    sync::Counter kicks;   // times the kick descriptor woke the worker
    sync::Counter signals; // writes to the call descriptor
    sync::Counter visits_with_work;
};

class QueuePort final : public rt::Source, private rt::Watcher {
public:
    // Segments for which the requests of a queue have memory: 16 MiB of it, twice what 1024 requests of 1 MiB
    // need.  A chain may name 32768, so from here on no chain is taken until requests have ended.
    static constexpr std::size_t kSegmentsMax = std::size_t{1} << 20U;

    QueuePort(std::uint16_t index, rt::Worker& worker, fuse::RequestSink& sink,
              std::size_t segments_max = kSegmentsMax) noexcept;
    QueuePort(const QueuePort&) = delete;
    QueuePort& operator=(const QueuePort&) = delete;
    ~QueuePort();

    rt::Worker& worker() const noexcept { return worker_; }
    std::uint16_t index() const noexcept { return index_; }
    const QueueStats& stats() const noexcept { return stats_; }

    // All below on the worker.

    // EINVAL: the ring cannot be, or does not lie in `table`.
    Status start(vhost::QueueSetup setup, std::shared_ptr<const vhost::MemoryTable> table);
    bool started() const noexcept { return started_; }
    void set_enabled(bool enabled) noexcept { enabled_ = enabled; }
    void set_call(Fd call) noexcept { call_ = std::move(call); }
    void set_error(Fd error) noexcept { error_ = std::move(error); }
    std::uint32_t base() const noexcept { return queue_ ? queue_->base() : 0; }

    // From here on no chain is taken; what is in flight goes on.
    void refuse_new() noexcept { accepting_ = false; }
    // Waits until nothing is in flight.  false: the time is over and something still is.  Requests that wait
    // are called off when the last part of it begins: half of it, at most kGrace.
    static constexpr std::chrono::milliseconds kGrace{1000};
    rt::Task<bool> drain(std::chrono::nanoseconds timeout);
    // Lets go of the ring.  Requests that are still in flight end without touching guest memory.
    void finish();

    // Goes over to another table: new requests use it, those in flight keep the old one.
    // EINVAL: the ring is not in it; the queue is then broken.
    Status set_memory(std::shared_ptr<const vhost::MemoryTable> table);
    // Requests in flight that use an older table than the present one.
    std::uint64_t in_flight_on_old_memory() const noexcept;
    std::uint64_t in_flight() const noexcept { return in_flight_; }
    // As drain(), for requests on older tables.
    rt::Task<bool> drain_old_memory(std::chrono::nanoseconds timeout);

    Visit sweep(const rt::VisitBudget& budget) override;
    bool arm() override;
    void approach() noexcept override {
        // While nothing comes its lines are left to the driver, which polls one and writes the other.
        if (busy_ && queue_) queue_->approach();
    }

private:
    // A memory table and how many requests in flight use it.  Counted by the worker alone: a request writes
    // no line that another thread reads.
    struct MemoryUse {
        std::shared_ptr<const vhost::MemoryTable> table;
        std::uint64_t in_flight = 0;
    };
    class Request final : public fuse::RawRequest {
    public:
        explicit Request(QueuePort& port) noexcept : port_(port) {}
        void present() noexcept {
            in_ = chain.readable;
            out_ = chain.writable;
        }
        void complete(std::size_t reply_bytes) override { port_.give_back(*this, reply_bytes); }

        std::size_t capacity() const noexcept {
            return chain.readable.capacity() + chain.writable.capacity();
        }

        virtio::Chain chain;
        std::size_t segments = 0; // what segments_ counts for it
        MemoryUse* use = nullptr;
        std::uint64_t run = 0; // of the port, when the chain was taken
        const QueuePort& port() const noexcept { return port_; }

    private:
        QueuePort& port_;
    };

    void on_ready() override { stats_.kicks.add(); }
    Request& take_request();
    void give_back(Request& request, std::size_t reply_bytes);
    void recycle(Request& request);
    void count_segments(Request& request) noexcept;
    bool serves() const noexcept { return enabled_ && accepting_ && !broken_; }
    bool has_room() const noexcept { return segments_ < segments_max_; }
    bool serve_one();
    void expect() const noexcept;
    void publish();
    void flush(); // publishes, and signals at most once
    void break_queue();
    rt::Task<bool> wait_for_requests(std::chrono::nanoseconds timeout, bool old_only);
    rt::Task<bool> wait_without_asking(std::chrono::nanoseconds timeout, bool old_only);
    void call_off(bool old_only);
    std::uint64_t waited_for(bool old_only) const noexcept;

    const std::uint16_t index_;
    rt::Worker& worker_;
    fuse::RequestSink& sink_;
    const std::size_t segments_max_;
    QueueStats stats_;

    std::optional<virtio::DeviceQueue> queue_;
    Fd kick_;
    Fd call_;
    Fd error_;
    bool started_ = false;
    bool enabled_ = false;
    bool accepting_ = false;
    bool broken_ = false;
    std::uint32_t complaints_ = 0;
    bool armed_ = false;      // kicks are on
    bool staged_ = false;     // used elements wait for publish()
    bool signal_due_ = false; // what was published is to be signalled
    std::uint64_t run_ = 0;   // counts start(); replies to chains of an earlier run are dropped
    std::uint64_t in_flight_ = 0;
    std::uint64_t visit_bytes_ = 0;
    bool busy_ = false; // the visit before found something
    // Where the last request began and its reply, for prefetches and nothing else: the memory may be gone. At
    // first some place of our own.
    const void* last_request_ = this;
    const void* last_reply_ = this;
    std::size_t segments_ = 0;                     // sum of the capacities of all requests
    std::vector<std::unique_ptr<MemoryUse>> uses_; // newest last
    std::vector<std::unique_ptr<Request>> requests_;
    std::vector<Request*> free_; // last in, first out: the warm ones are used again
    rt::Operation* drain_timer_ = nullptr;
    bool drain_old_only_ = false;
};

} // namespace viaduct::transport
