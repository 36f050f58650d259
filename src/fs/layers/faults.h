// SPDX-License-Identifier: Apache-2.0
//
// Faults: makes chosen calls late, failing or short.  For tests.
//
// Rules are set from any thread, at any time, and hold for calls that begin later.  `mutex_` guards them.
#pragma once

#include "base/sync.h"
#include "fs/layers/forwarding.h"

#include <array>
#include <chrono>
#include <optional>

namespace viaduct::fs {

class Faults final : public Forwarding {
public:
    enum class Operation : std::uint8_t {
        lookup,
        getattr,
        setattr,
        readlink,
        symlink,
        mknod,
        mkdir,
        unlink,
        rmdir,
        rename,
        link,
        open,
        create,
        tmpfile,
        read,
        write,
        flush,
        fsync,
        release,
        fallocate,
        lseek,
        copy_file_range,
        opendir,
        readdir,
        fsyncdir,
        releasedir,
        statfs,
        syncfs,
        access,
        setxattr,
        getxattr,
        listxattr,
        removexattr,
    };
    static constexpr std::size_t kOperations = 33;

    // Applied in this order.
    struct Rule {
        std::chrono::nanoseconds delay{};     // before anything else, waiting on the worker's ring
        bool blocking = false;                // wait with the worker instead, as a slow disk would
        bool deaf = false;                    // the delay cannot be called off
        int error = 0;                        // answer with that errno and do nothing
        std::optional<std::size_t> bytes_max; // read, write: move no more than that
        std::uint32_t calls = UINT32_MAX;     // how many calls the rule is for
    };

    using Forwarding::Forwarding;

    void set(Operation operation, const Rule& rule);
    void clear();
    // Calls that a rule was applied to.
    std::uint64_t applied() const;

    Async<Entry> lookup(const Caller& caller, NodeId parent, const Name& name) override;
    Async<AttrReply> getattr(const Caller& caller, NodeId node, std::optional<HandleId> handle) override;
    Async<AttrReply> setattr(const Caller& caller, NodeId node, const SetAttr& change) override;
    Async<std::string> readlink(const Caller& caller, NodeId node) override;
    Async<Entry> symlink(const Caller& caller, NodeId parent, const Name& name, std::string target) override;
    Async<Entry> mknod(const Caller& caller, NodeId parent, const Name& name, std::uint32_t mode,
                       std::uint32_t device, std::uint32_t umask) override;
    Async<Entry> mkdir(const Caller& caller, NodeId parent, const Name& name, std::uint32_t mode,
                       std::uint32_t umask) override;
    Async<void> unlink(const Caller& caller, NodeId parent, const Name& name) override;
    Async<void> rmdir(const Caller& caller, NodeId parent, const Name& name) override;
    Async<void> rename(const Caller& caller, NodeId parent, const Name& name, NodeId new_parent,
                       const Name& new_name, std::uint32_t flags) override;
    Async<Entry> link(const Caller& caller, NodeId node, NodeId new_parent, const Name& new_name) override;
    Async<Opened> open(const Caller& caller, NodeId node, std::uint32_t flags, bool kill_suid_sgid) override;
    Async<Created> create(const Caller& caller, NodeId parent, const Name& name, std::uint32_t flags,
                          std::uint32_t mode, std::uint32_t umask, bool kill_suid_sgid) override;
    Async<Created> tmpfile(const Caller& caller, NodeId parent, std::uint32_t flags, std::uint32_t mode,
                           std::uint32_t umask) override;
    Async<std::size_t> read(const Caller& caller, HandleId handle, std::uint64_t offset,
                            Segments into) override;
    Async<std::size_t> write(const Caller& caller, HandleId handle, std::uint64_t offset, Segments from,
                             WriteOptions options) override;
    Async<void> flush(const Caller& caller, HandleId handle) override;
    Async<void> fsync(const Caller& caller, HandleId handle, bool data_only) override;
    Async<void> release(HandleId handle) override;
    Async<void> fallocate(const Caller& caller, HandleId handle, std::uint32_t mode, std::uint64_t offset,
                          std::uint64_t bytes) override;
    Async<std::uint64_t> lseek(const Caller& caller, HandleId handle, std::uint64_t offset,
                               std::uint32_t whence) override;
    Async<std::size_t> copy_file_range(const Caller& caller, HandleId from, std::uint64_t from_offset,
                                       HandleId to, std::uint64_t to_offset, std::uint64_t bytes,
                                       std::uint64_t flags) override;
    Async<Opened> opendir(const Caller& caller, NodeId node) override;
    Async<void> readdir(const Caller& caller, HandleId handle, std::uint64_t offset, bool plus,
                        DirentSink& sink) override;
    Async<void> fsyncdir(const Caller& caller, HandleId handle, bool data_only) override;
    Async<void> releasedir(HandleId handle) override;
    Async<FsStat> statfs(const Caller& caller, NodeId node) override;
    Async<void> syncfs(const Caller& caller, NodeId node) override;
    Async<void> access(const Caller& caller, NodeId node, std::uint32_t mask) override;
    Async<void> setxattr(const Caller& caller, NodeId node, std::string name,
                         std::span<const std::byte> value, std::uint32_t flags) override;
    Async<std::size_t> getxattr(const Caller& caller, NodeId node, std::string name,
                                std::span<std::byte> into) override;
    Async<std::size_t> listxattr(const Caller& caller, NodeId node, std::span<std::byte> into) override;
    Async<void> removexattr(const Caller& caller, NodeId node, std::string name) override;

private:
    std::optional<Rule> take(Operation operation);
    // `call` returns the inner file system's Async.
    template <class Call> auto with(Operation operation, Call call) -> std::invoke_result_t<Call&>;
    template <class T, class Call> static rt::Task<Result<T>> late(Rule rule, Call call);
    // `call` takes the segments it may use.
    template <class Call> Async<std::size_t> with_segments(Operation operation, Segments segments, Call call);
    template <class Call> static rt::Task<Result<std::size_t>> cut(Rule rule, Segments segments, Call call);

    mutable sync::Mutex mutex_;
    std::array<std::optional<Rule>, kOperations> rules_;
    std::uint64_t applied_ = 0;
};

} // namespace viaduct::fs
