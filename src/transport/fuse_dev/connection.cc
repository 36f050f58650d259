// SPDX-License-Identifier: Apache-2.0
#include "transport/fuse_dev/connection.h"

#include "base/log.h"
#include "fuse/protocol.h"

#include <fcntl.h>
#include <sys/ioctl.h>

namespace viaduct::transport {
namespace {

// Another descriptor of the same connection.
Result<Fd> clone(FdRef device) {
    Fd made{::open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK)};
    if (!made) return fail(errno);
    auto number = static_cast<std::uint32_t>(device.get());
    if (::ioctl(made.get(), FUSE_DEV_IOC_CLONE, &number) != 0) return fail(errno);
    return made;
}

} // namespace

FuseConnection::FuseConnection(Fd device, std::span<rt::Worker* const> workers, fuse::RequestSink& sink,
                               const ReaderOptions& options) {
    ASSERT(!workers.empty());
    const FdRef first = device;
    readers_.push_back(std::make_unique<Reader>(std::move(device), *workers.front(), sink, options));
    ReaderOptions others = options;
    others.watches = false;
    for (rt::Worker* const worker : workers.subspan(1)) {
        auto another = clone(first);
        if (!another) {
            log::info("one worker serves the mount: FUSE_DEV_IOC_CLONE: {}", another.error());
            break;
        }
        readers_.push_back(std::make_unique<Reader>(std::move(*another), *worker, sink, others));
        readers_[readers_.size() - 2]->set_next(*readers_.back());
    }
}

rt::Task<Status> FuseConnection::start() {
    // The last first: nobody is invited before it reads.
    for (std::size_t index = readers_.size(); index > 0; --index) {
        Reader& reader = *readers_[index - 1];
        auto start = [&reader] { return reader.start(); };
        const Status started = co_await reader.worker().call(start);
        if (!started) co_return started;
    }
    co_return Status{};
}

rt::Task<void> FuseConnection::wait_for_end(Reader& reader) {
    co_await reader.ended();
}

rt::Task<void> FuseConnection::ended() {
    Reader& first = *readers_.front();
    co_await first.worker().call(wait_for_end(first));
}

rt::Task<void> FuseConnection::stop() {
    // In order: an invitation that is under way arrives before the one who is invited stops.
    for (const auto& reader : readers_) {
        auto stop = [&reader] { reader->stop(); };
        co_await reader->worker().call(stop);
    }
}

rt::Task<bool> FuseConnection::drain(std::chrono::nanoseconds timeout) {
    bool drained = true;
    for (const auto& reader : readers_) {
        const bool empty = co_await reader->worker().call(reader->drain(timeout));
        drained = drained && empty;
    }
    co_return drained;
}

rt::Task<FuseConnection::WriteBacks> FuseConnection::drain_write_backs(std::chrono::nanoseconds timeout) {
    WriteBacks sum;
    for (const auto& reader : readers_) {
        const bool empty = co_await reader->worker().call(reader->drain_write_backs(timeout));
        sum.drained = sum.drained && empty;
        sum.count += reader->stats().write_backs.get();
        sum.failed += reader->stats().write_backs_failed.get();
    }
    co_return sum;
}

rt::Task<void> FuseConnection::cancel() {
    for (const auto& reader : readers_) {
        auto cancel = [&reader] { reader->cancel(); };
        co_await reader->worker().call(cancel);
    }
}

rt::Task<void> FuseConnection::close() {
    for (const auto& reader : readers_) {
        auto close = [&reader] { reader->close(); };
        co_await reader->worker().call(close);
    }
}

} // namespace viaduct::transport
