// SPDX-License-Identifier: Apache-2.0
//
// The driver end of a virtio-fs device: connect to a vhost-user-fs socket, put FUSE requests on its queues,
// and collect the replies.  viaductd, virtiofsd and any other device of that kind will do.
//
// Requests are dispatched directly: submit() puts one on the virtqueue in the caller's own thread.  One that
// finds the queue full is parked there, and goes out in order as soon as there is room.  Replies
// are collected by whoever calls poll(), wait() or drain(), or by threads of the library
// (DeviceOptions::completion_threads); each request's callback runs on the thread that found its reply.
//
// Threads: all calls of a Device may be made from any number of threads at once, but for connect(), moving
// and destruction, which want it for themselves.  From within a callback everything may be called but wait(),
// drain(), begin_session(), end_session(), remove(), disconnect() and the calls of a FileClient.
//
// Layouts of requests and replies are those of <linux/fuse.h>; virtio 1.2, 5.11.6 says how they are cut.
#pragma once

#include <viaduct/result.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace viaduct::client {

struct DeviceState;

// Lines of the library on stderr; `info` until this is called.  Of the whole process.
enum class LogLevel : std::uint8_t { debug, info, warn, error, off };
void set_log_level(LogLevel level) noexcept;

struct DeviceOptions {
    // Path of the socket on which the device listens; at most 107 bytes.
    std::string socket{};

    // Request queues, hiprio not counted: 1 to 1024.  0: one per CPU of this machine.  More than the device
    // has are cut down to those.
    std::uint32_t request_queues = 1;
    // Descriptors of each queue: a power of two, 4 to 32768.  With `indirect` a queue takes 8 KiB of memory
    // for each.
    std::uint32_t queue_size = 128;
    // What to ask for; a device that lacks it is taken without.  Device::ring() tells what came of it.
    bool packed = false;   // VIRTIO_F_RING_PACKED (virtio 1.2, 2.8), else split queues (2.7)
    bool event_idx = true; // VIRTIO_F_EVENT_IDX (2.7.10)
    bool indirect = true;  // VIRTIO_F_INDIRECT_DESC (2.7.5.3)

    // Which request queue, from 0, each CPU submits to.  At most one of the two may be given; with none the
    // CPUs of this machine are spread evenly, as Linux 6.10 and newer do it (docs/decisions/queue-map.md).
    // A CPU that is not named, and one whose queue the device lacks, use request queue 0.
    std::vector<std::uint32_t> queue_of_cpu{}; // by CPU id
    // One list of CPU ids (0 to 8191) per request queue; where they overlap the later queue has the CPU.
    std::vector<std::vector<std::uint32_t>> cpus_of_queue{};

    // Memory to take buffers from, shared with the device: what there is at first, and how far add_memory()
    // may bring it.  Rounded up to pages; rings come on top.
    std::uint64_t memory_bytes = 64ULL << 20;
    std::uint64_t memory_bytes_max = 4ULL << 30; // address space only

    // A thread of the library for each queue ends what comes back, and callbacks run there; otherwise whoever
    // polls or waits does it.  With `affinity` the thread of a request queue is bound to the CPUs that submit
    // to it; one queue alone and hiprio are not bound.
    bool completion_threads = false;
    bool affinity = true;

    // How long one vhost-user message may remain unanswered.
    std::chrono::milliseconds message_timeout{15'000};
    // How long begin_session(), end_session() and each call of a FileClient may take.
    std::chrono::milliseconds call_timeout{30'000};
    // How long remove() waits for requests.
    std::chrono::milliseconds drain_timeout{30'000};
};

// Memory that the device can read and write, given back when the object goes.  It may outlive the Device, but
// not a request that uses it and is in flight.
class Buffer {
public:
    Buffer() noexcept; // empty
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;
    ~Buffer();

    std::byte* data() const noexcept { return bytes_.data(); }
    std::size_t size() const noexcept { return bytes_.size(); }
    std::span<std::byte> bytes() const noexcept { return bytes_; }

private:
    friend class Device;
    struct Memory;

    std::unique_ptr<Memory> memory_;
    std::span<std::byte> bytes_;
};

// Called once for each submit() that succeeded, with no lock held, on the thread that found the reply.  The
// request may be submitted again, moved or destroyed in there.
struct Completion {
    // `reply_bytes`: length of the reply, fuse_out_header included; 0 for a request without one.  The
    // server's own error is not among these; Request::server_error() has it.
    //   io_error (EIO)                     the reply's length or unique is a lie, or the queue is broken
    //   connection_aborted (ECONNABORTED)  the device has left, or disconnect() was called
    //   not_connected (ENOTCONN)           remove() was called while it was parked
    //   interrupted (EINTR)                withdraw() took it back
    // Must not throw.
    void (*function)(void* context, Result<std::uint32_t> reply_bytes) = nullptr;
    void* context = nullptr;
};

// Memory of a request, in pieces of Buffers, each of which becomes one descriptor: `in` is what the device
// reads (from fuse_in_header on), `out` what it writes (from fuse_out_header on; nothing for FORGET).
struct RequestMemory {
    std::vector<std::span<std::byte>> in;
    std::vector<std::span<std::byte>> out;
};

// A raw FUSE request; made once, submitted any number of times, one flight at a time.  The caller fills `in`
// before each.  Destroying a request that is in flight is a mistake that ends the program, as its memory is
// still written to: disconnect() first, or wait.
class Request {
public:
    Request() noexcept; // none
    Request(Request&& other) noexcept;
    Request& operator=(Request&& other) noexcept;
    ~Request();

    // What the server answered: no error, or an errno.  Of the last reply; meaningless without one.
    std::error_code server_error() const noexcept;

private:
    friend class Device;
    struct Flight;

    std::unique_ptr<Flight> flight_;
};

// The virtqueues as they were negotiated.
struct Ring {
    bool packed = false;
    bool event_idx = false;
    bool indirect = false;
    std::uint32_t queue_size = 0; // descriptors
};

// The answer to INIT.
struct SessionInfo {
    std::uint32_t minor = 0;           // of FUSE 7
    std::uint64_t flags = 0;           // FUSE_INIT flags that the server took, flags2 in the upper half
    std::uint32_t write_bytes_max = 0; // of one WRITE
    std::uint32_t read_bytes_max = 0;  // of one READ, as the pages that a request may have allow it
};

// Numbers of one queue since connect(); they only grow, but for in_flight.
struct QueueCounters {
    std::uint64_t submitted = 0;
    std::uint64_t ended = 0;      // completions that have returned
    std::uint64_t parked = 0;     // had to wait for room
    std::uint64_t kicks = 0;      // signals to the device
    std::uint64_t interrupts = 0; // signals from the device that a waiting thread took
    std::uint64_t lies = 0;       // replies with a wrong length or unique
    std::uint64_t in_flight = 0;  // now, parked ones included
};

class Device {
public:
    // In place of the number of a request queue: the queue for FORGET, BATCH_FORGET and INTERRUPT
    // (virtio 1.2, 5.11.2).
    static constexpr std::uint32_t kHiprio = UINT32_MAX;

    // Connects, negotiates, shares memory and starts all queues.  No request is sent.
    static std::expected<Device, Failure> connect(const DeviceOptions& options);
    Device(Device&& other) noexcept;
    Device& operator=(Device&& other) noexcept;
    ~Device(); // disconnects

    // 1 to what was asked for.
    std::uint32_t request_queue_count() const noexcept;
    Ring ring() const noexcept;
    // Always below request_queue_count().
    std::uint32_t queue_of_cpu(std::uint32_t cpu) const noexcept;
    // The caller may be moved to another CPU before it makes use of the answer, which costs locality only.
    std::uint32_t queue_of_current_cpu() const noexcept;
    // false: the device has left, or disconnect() was called.
    bool alive() const noexcept;
    // The process that listens on the socket; 0 when it cannot be told.
    int server_pid() const noexcept;

    // `alignment`: a power of two, at most 4096.
    // not_enough_memory (ENOMEM): no free piece is large enough; invalid_argument: the alignment.
    Result<Buffer> allocate(std::size_t bytes, std::size_t alignment = 64);
    // Shares more memory; buffers may come from it when this returns.
    // no_space_on_device (ENOSPC): beyond memory_bytes_max; not_connected; timed_out and what else sockets
    // say.
    Status add_memory(std::uint64_t bytes);

    // bad_address (EFAULT): not memory of this device's Buffers.  invalid_argument: an empty piece, `in`
    // shorter than a fuse_in_header (40 bytes), `out` neither nothing nor at least a fuse_out_header (16
    // bytes), or no function.
    Result<Request> make_request(const RequestMemory& memory, Completion completion);
    // For fuse_in_header::unique: even, and never twice in this process.
    static std::uint64_t next_unique() noexcept;

    // On the queue of the CPU that the caller runs on; which one it was.
    // not_connected (ENOTCONN): the device has left; invalid_argument: no such queue, or more descriptors
    // than it can ever hold (queue_size, or 512 with indirect ones); io_error: the queue is broken.  After an
    // error the completion is not called.
    Result<std::uint32_t> submit(Request& request);
    Status submit(Request& request, std::uint32_t queue);
    // Several, with one kick at most.  What is wrong with one of them goes to its completion, as the replies
    // do.
    Status submit(std::span<Request* const> requests, std::uint32_t queue);
    // Takes back a request that is parked: it ends with EINTR, in here.  false: the device has it, or it has
    // ended.
    bool withdraw(Request& request);

    // Ends what the device has given back on the queue; how many requests that were.  0 as well when there is
    // no such queue.
    std::size_t poll(std::uint32_t queue);
    // The same, but sleeps until there is one, or nothing is in flight, or `timeout` has passed.
    std::size_t wait(std::uint32_t queue, std::chrono::milliseconds timeout);
    // Until nothing is in flight on any queue.  timed_out: something is.
    Status drain(std::chrono::milliseconds timeout);

    QueueCounters counters(std::uint32_t queue) const;

    // FUSE_INIT, as a kernel sends it; before any other request but raw ones.  It and end_session()
    // (FUSE_DESTROY) wait for the reply, at most call_timeout.  For other flags send INIT as a raw request.
    // protocol_error (EPROTO): the server does not speak FUSE 7; timed_out; the errors of submit() and
    // Completion, and the server's own.
    Result<SessionInfo> begin_session();
    Status end_session();

    // The orderly end: requests are refused, parked ones end with ENOTCONN, what the device has is waited
    // for, and the socket is closed.  timed_out: the device kept requests for drain_timeout; they end with
    // ECONNABORTED.
    Status remove();
    // Closes the socket; everything in flight ends with ECONNABORTED before this returns, but for what
    // another thread is about to end.  Twice is once.
    void disconnect();

private:
    friend class FileClient;
    explicit Device(std::shared_ptr<DeviceState> state) noexcept;

    // Shared with buffers and file clients, so that they may outlive the Device.
    std::shared_ptr<DeviceState> state_;
};

} // namespace viaduct::client
