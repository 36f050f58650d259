// SPDX-License-Identifier: Apache-2.0
#include "fs/layers/faults.h"

#include "rt/worker.h"

#include <thread>

namespace viaduct::fs {

void Faults::set(Operation operation, const Rule& rule) {
    const sync::Lock lock{mutex_};
    rules_[static_cast<std::size_t>(operation)] = rule;
}

void Faults::clear() {
    const sync::Lock lock{mutex_};
    rules_ = {};
}

std::uint64_t Faults::applied() const {
    const sync::Lock lock{mutex_};
    return applied_;
}

std::optional<Faults::Rule> Faults::take(Operation operation) {
    const sync::Lock lock{mutex_};
    auto& rule = rules_[static_cast<std::size_t>(operation)];
    if (!rule || rule->calls == 0) return std::nullopt;
    if (rule->calls != UINT32_MAX) --rule->calls;
    ++applied_;
    return rule;
}

template <class Call> auto Faults::with(Operation operation, Call call) -> std::invoke_result_t<Call&> {
    using T = typename std::invoke_result_t<Call&>::Value::value_type;
    const auto rule = take(operation);
    if (!rule) return call();
    return late<T>(*rule, std::move(call));
}

namespace {

// ECANCELED: it was called off.
rt::Task<Status> wait(Faults::Rule rule) {
    if (rule.delay.count() == 0) co_return Status{};
    if (rule.blocking) {
        std::this_thread::sleep_for(rule.delay);
        co_return Status{};
    }
    const int slept =
        co_await rt::Worker::current()->ring().sleep(static_cast<std::uint64_t>(rule.delay.count()));
    if (slept == -ECANCELED) co_return fail(ECANCELED);
    co_return Status{};
}

} // namespace

template <class T, class Call> rt::Task<Result<T>> Faults::late(Rule rule, Call call) {
    auto waiting = wait(rule);
    if (rule.deaf) waiting.never_cancelled();
    const Status waited = co_await std::move(waiting);
    if (!waited) co_return fail(waited.error());
    if (rule.error != 0) co_return fail(rule.error);
    auto async = call();
    co_return co_await std::move(async);
}

template <class Call>
FileSystem::Async<std::size_t> Faults::with_segments(Operation operation, Segments segments, Call call) {
    const auto rule = take(operation);
    if (!rule) return call(segments);
    return cut(*rule, segments, std::move(call));
}

template <class Call> rt::Task<Result<std::size_t>> Faults::cut(Rule rule, Segments segments, Call call) {
    auto waiting = wait(rule);
    if (rule.deaf) waiting.never_cancelled();
    const Status waited = co_await std::move(waiting);
    if (!waited) co_return fail(waited.error());
    if (rule.error != 0) co_return fail(rule.error);
    std::vector<iovec> kept;
    SegmentReader{segments}.remaining_segments(rule.bytes_max.value_or(SIZE_MAX), kept);
    auto async = call(Segments{kept});
    co_return co_await std::move(async);
}

// References in arguments outlive the returned Async, so they may be captured as such.

FileSystem::Async<Entry> Faults::lookup(const Caller& caller, NodeId parent, const Name& name) {
    return with(Operation::lookup,
                [&caller, &name, this, parent] { return inner().lookup(caller, parent, name); });
}
FileSystem::Async<AttrReply> Faults::getattr(const Caller& caller, NodeId node,
                                             std::optional<HandleId> handle) {
    return with(Operation::getattr,
                [&caller, this, node, handle] { return inner().getattr(caller, node, handle); });
}
FileSystem::Async<AttrReply> Faults::setattr(const Caller& caller, NodeId node, const SetAttr& change) {
    return with(Operation::setattr,
                [&caller, &change, this, node] { return inner().setattr(caller, node, change); });
}
FileSystem::Async<std::string> Faults::readlink(const Caller& caller, NodeId node) {
    return with(Operation::readlink, [&caller, this, node] { return inner().readlink(caller, node); });
}
FileSystem::Async<Entry> Faults::symlink(const Caller& caller, NodeId parent, const Name& name,
                                         std::string target) {
    return with(Operation::symlink, [&caller, &name, this, parent, target = std::move(target)] {
        return inner().symlink(caller, parent, name, target);
    });
}
FileSystem::Async<Entry> Faults::mknod(const Caller& caller, NodeId parent, const Name& name,
                                       std::uint32_t mode, std::uint32_t device, std::uint32_t umask) {
    return with(Operation::mknod, [&caller, &name, this, parent, mode, device, umask] {
        return inner().mknod(caller, parent, name, mode, device, umask);
    });
}
FileSystem::Async<Entry> Faults::mkdir(const Caller& caller, NodeId parent, const Name& name,
                                       std::uint32_t mode, std::uint32_t umask) {
    return with(Operation::mkdir, [&caller, &name, this, parent, mode, umask] {
        return inner().mkdir(caller, parent, name, mode, umask);
    });
}
FileSystem::Async<void> Faults::unlink(const Caller& caller, NodeId parent, const Name& name) {
    return with(Operation::unlink,
                [&caller, &name, this, parent] { return inner().unlink(caller, parent, name); });
}
FileSystem::Async<void> Faults::rmdir(const Caller& caller, NodeId parent, const Name& name) {
    return with(Operation::rmdir,
                [&caller, &name, this, parent] { return inner().rmdir(caller, parent, name); });
}
FileSystem::Async<void> Faults::rename(const Caller& caller, NodeId parent, const Name& name,
                                       NodeId new_parent, const Name& new_name, std::uint32_t flags) {
    return with(Operation::rename, [&caller, &name, &new_name, this, parent, new_parent, flags] {
        return inner().rename(caller, parent, name, new_parent, new_name, flags);
    });
}
FileSystem::Async<Entry> Faults::link(const Caller& caller, NodeId node, NodeId new_parent,
                                      const Name& new_name) {
    return with(Operation::link, [&caller, &new_name, this, node, new_parent] {
        return inner().link(caller, node, new_parent, new_name);
    });
}
FileSystem::Async<Opened> Faults::open(const Caller& caller, NodeId node, std::uint32_t flags,
                                       bool kill_suid_sgid) {
    return with(Operation::open, [&caller, this, node, flags, kill_suid_sgid] {
        return inner().open(caller, node, flags, kill_suid_sgid);
    });
}
FileSystem::Async<Created> Faults::create(const Caller& caller, NodeId parent, const Name& name,
                                          std::uint32_t flags, std::uint32_t mode, std::uint32_t umask,
                                          bool kill_suid_sgid) {
    return with(Operation::create, [&caller, &name, this, parent, flags, mode, umask, kill_suid_sgid] {
        return inner().create(caller, parent, name, flags, mode, umask, kill_suid_sgid);
    });
}
FileSystem::Async<Created> Faults::tmpfile(const Caller& caller, NodeId parent, std::uint32_t flags,
                                           std::uint32_t mode, std::uint32_t umask) {
    return with(Operation::tmpfile, [&caller, this, parent, flags, mode, umask] {
        return inner().tmpfile(caller, parent, flags, mode, umask);
    });
}
FileSystem::Async<std::size_t> Faults::read(const Caller& caller, HandleId handle, std::uint64_t offset,
                                            Segments into) {
    return with_segments(Operation::read, into, [&caller, this, handle, offset](Segments segments) {
        return inner().read(caller, handle, offset, segments);
    });
}
FileSystem::Async<std::size_t> Faults::write(const Caller& caller, HandleId handle, std::uint64_t offset,
                                             Segments from, WriteOptions options) {
    return with_segments(Operation::write, from, [&caller, this, handle, offset, options](Segments segments) {
        return inner().write(caller, handle, offset, segments, options);
    });
}
FileSystem::Async<void> Faults::flush(const Caller& caller, HandleId handle) {
    return with(Operation::flush, [&caller, this, handle] { return inner().flush(caller, handle); });
}
FileSystem::Async<void> Faults::fsync(const Caller& caller, HandleId handle, bool data_only) {
    return with(Operation::fsync,
                [&caller, this, handle, data_only] { return inner().fsync(caller, handle, data_only); });
}
FileSystem::Async<void> Faults::release(HandleId handle) {
    return with(Operation::release, [this, handle] { return inner().release(handle); });
}
FileSystem::Async<void> Faults::fallocate(const Caller& caller, HandleId handle, std::uint32_t mode,
                                          std::uint64_t offset, std::uint64_t bytes) {
    return with(Operation::fallocate, [&caller, this, handle, mode, offset, bytes] {
        return inner().fallocate(caller, handle, mode, offset, bytes);
    });
}
FileSystem::Async<std::uint64_t> Faults::lseek(const Caller& caller, HandleId handle, std::uint64_t offset,
                                               std::uint32_t whence) {
    return with(Operation::lseek, [&caller, this, handle, offset, whence] {
        return inner().lseek(caller, handle, offset, whence);
    });
}
FileSystem::Async<std::size_t> Faults::copy_file_range(const Caller& caller, HandleId from,
                                                       std::uint64_t from_offset, HandleId to,
                                                       std::uint64_t to_offset, std::uint64_t bytes,
                                                       std::uint64_t flags) {
    return with(Operation::copy_file_range, [&caller, this, from, from_offset, to, to_offset, bytes, flags] {
        return inner().copy_file_range(caller, from, from_offset, to, to_offset, bytes, flags);
    });
}
FileSystem::Async<Opened> Faults::opendir(const Caller& caller, NodeId node) {
    return with(Operation::opendir, [&caller, this, node] { return inner().opendir(caller, node); });
}
FileSystem::Async<void> Faults::readdir(const Caller& caller, HandleId handle, std::uint64_t offset,
                                        bool plus, DirentSink& sink) {
    return with(Operation::readdir, [&caller, &sink, this, handle, offset, plus] {
        return inner().readdir(caller, handle, offset, plus, sink);
    });
}
FileSystem::Async<void> Faults::fsyncdir(const Caller& caller, HandleId handle, bool data_only) {
    return with(Operation::fsyncdir,
                [&caller, this, handle, data_only] { return inner().fsyncdir(caller, handle, data_only); });
}
FileSystem::Async<void> Faults::releasedir(HandleId handle) {
    return with(Operation::releasedir, [this, handle] { return inner().releasedir(handle); });
}
FileSystem::Async<FsStat> Faults::statfs(const Caller& caller, NodeId node) {
    return with(Operation::statfs, [&caller, this, node] { return inner().statfs(caller, node); });
}
FileSystem::Async<void> Faults::syncfs(const Caller& caller, NodeId node) {
    return with(Operation::syncfs, [&caller, this, node] { return inner().syncfs(caller, node); });
}
FileSystem::Async<void> Faults::access(const Caller& caller, NodeId node, std::uint32_t mask) {
    return with(Operation::access,
                [&caller, this, node, mask] { return inner().access(caller, node, mask); });
}
FileSystem::Async<void> Faults::setxattr(const Caller& caller, NodeId node, std::string name,
                                         std::span<const std::byte> value, std::uint32_t flags) {
    return with(Operation::setxattr, [&caller, this, node, name = std::move(name), value, flags] {
        return inner().setxattr(caller, node, name, value, flags);
    });
}
FileSystem::Async<std::size_t> Faults::getxattr(const Caller& caller, NodeId node, std::string name,
                                                std::span<std::byte> into) {
    return with(Operation::getxattr, [&caller, this, node, name = std::move(name), into] {
        return inner().getxattr(caller, node, name, into);
    });
}
FileSystem::Async<std::size_t> Faults::listxattr(const Caller& caller, NodeId node,
                                                 std::span<std::byte> into) {
    return with(Operation::listxattr,
                [&caller, this, node, into] { return inner().listxattr(caller, node, into); });
}
FileSystem::Async<void> Faults::removexattr(const Caller& caller, NodeId node, std::string name) {
    return with(Operation::removexattr, [&caller, this, node, name = std::move(name)] {
        return inner().removexattr(caller, node, name);
    });
}

} // namespace viaduct::fs
