// SPDX-License-Identifier: Apache-2.0
//
// Where a call runs: the templates of Passthrough, for its own .cc files.
#pragma once

#include "backend/passthrough/passthrough.h"
#include "rt/ring_flags.h"

namespace viaduct::passthrough {

// May an object of that mode be opened by us?  EISDIR, ELOOP, ENXIO: no.  (open.cc)
Status openable(std::uint32_t mode) noexcept;

// May the client use an attribute of that name?  (xattr.cc)
Status xattr_usable(const Options& options, const std::string& name, bool changes);

inline NodeTable::Facts facts_of(const Found& found) noexcept {
    const Attr& attr = found.attr;
    const std::uint64_t born_ns = static_cast<std::uint64_t>(attr.born.tv_sec) * 1'000'000'000U +
                                  static_cast<std::uint64_t>(attr.born.tv_nsec);
    return {.identity = {.mount_id = found.mount_id,
                         .inode = attr.inode,
                         .born_ns = attr.has_born ? born_ns : 0,
                         .device = device_of(attr)},
            .mount = found.mount,
            .type = static_cast<std::uint16_t>(attr.mode & S_IFMT)};
}

inline int Passthrough::ring_flags(const Handle& handle) const noexcept {
    const Mount& mount = core_->mounts.at(handle.mount);
    return mount.remote || mount.nowait_refused.load(std::memory_order_relaxed) ? rt::kMayBlock : 0;
}

inline bool Passthrough::inline_here(OpClass op, std::uint16_t mount) noexcept {
    if (options_.inline_mode == InlineMode::automatic) [[likely]]
        return core_->mounts.may_run_inline(mount, op);
    return options_.inline_mode == InlineMode::always;
}

// One look at the clock per call: a call began no earlier than the one before it ended.  What else lay
// between is told apart by the thread's voluntary switches since it last woke up.
inline void Passthrough::ended_inline(OpClass op, std::uint16_t mount) noexcept {
    WorkerState& state = states_.here();
    state.count(op, Place::worker);
    const std::uint64_t now = ticks();
    const std::uint64_t took = now - std::exchange(state.call_ended_ticks, now);
    if (took > kSurelyQuickTicks) [[unlikely]]
        look_for_sleep(op, mount, took);
}

template <class T, class Call>
rt::Task<Result<T>> Passthrough::away(OpClass op, std::uint16_t mount, [[maybe_unused]] Pins pins,
                                      Call call) {
    states_.here().count(op, Place::helper);
    const auto timed = [&call] {
        const std::uint64_t switches = voluntary_switches();
        const std::uint64_t began = monotonic_ns();
        Result<T> value = call();
        const std::uint64_t ns = monotonic_ns() - began;
        return Timed<T>{.value = std::move(value),
                        .took = {.ns = ns, .slept = voluntary_switches() != switches}};
    };
    auto result = co_await core_->helpers(mount).run_cancellable(timed);
    if (!result) co_return fail(result.error());
    core_->mounts.ran_away(mount, op, result->took);
    // EINTR comes from a call that was interrupted, and no call is interrupted but to cancel it.
    if (!result->value && result->value.error() == Errno{EINTR}) co_return fail(ECANCELED);
    co_return std::move(result->value);
}

template <class Call> auto Passthrough::run_now(OpClass op, std::uint16_t mount, Call& call) {
    std::invoke_result_t<Call&> result = call();
    ended_inline(op, mount);
    return result;
}

template <class Call> auto Passthrough::run(OpClass op, Node& node, Call call) {
    using T = typename std::invoke_result_t<Call&>::value_type;
    if (inline_here(op, node.mount)) return Async<T>{run_now(op, node.mount, call)};
    return Async<T>{away<T>(op, node.mount, Pins{.node = nodes_->pin(node)}, std::move(call))};
}

template <class Call> auto Passthrough::run(OpClass op, Node& node, Node& other, Call call) {
    using T = typename std::invoke_result_t<Call&>::value_type;
    if (inline_here(op, node.mount) && inline_here(op, other.mount))
        return Async<T>{run_now(op, node.mount, call)};
    Pins pins{.node = nodes_->pin(node), .other_node = nodes_->pin(other)};
    return Async<T>{away<T>(op, node.mount, std::move(pins), std::move(call))};
}

template <class Call> auto Passthrough::run(OpClass op, Handle& handle, Call call) {
    using T = typename std::invoke_result_t<Call&>::value_type;
    if (inline_here(op, handle.mount)) return Async<T>{run_now(op, handle.mount, call)};
    return Async<T>{away<T>(op, handle.mount, Pins{.handle = handles_->pin(handle)}, std::move(call))};
}

// For calls that find an object: the index is looked at on the worker, wherever the call ran.
// `other`: a second node that the call uses, or nullptr.
template <class Call>
FileSystem::Async<Entry> Passthrough::run_entry(OpClass op, Node& dir, Node* other, Call call) {
    if (inline_here(op, dir.mount) && (other == nullptr || inline_here(op, other->mount))) {
        Result<Found> found = run_now(op, dir.mount, call);
        if (!found) return fail(found.error());
        return enter(Dir{dir}, std::move(*found));
    }
    Pins pins{.node = nodes_->pin(dir), .other_node = other != nullptr ? nodes_->pin(*other) : NodePin{}};
    return entry_away(op, dir.mount, std::move(pins), Dir{dir}, std::move(call));
}

template <class Call>
rt::Task<Result<Entry>> Passthrough::entry_away(OpClass op, std::uint16_t mount, Pins pins, Dir dir,
                                                Call call) {
    auto task = away<Found>(op, mount, std::move(pins), std::move(call));
    Result<Found> found = co_await std::move(task);
    if (!found) co_return fail(found.error());
    co_return enter(dir, std::move(*found));
}

// Makes a name in `parent`: `make(dir, name)` is one system call, made as the caller.
template <class Make>
FileSystem::Async<Entry> Passthrough::make_entry(const Caller& caller, NodeId parent, const Name& name,
                                                 Credentials::Making making, Make make) {
    if (options_.read_only) return fail(EROFS);
    TRY(Node* const node, nodes_->find(parent));
    const Dir dir{*node};
    auto call = [this, caller, making, dir, name, make = std::move(make)]() -> Result<Found> {
        const auto step = [&] { return make(dir.fd, name.c_str()); };
        TRY(const auto labelled, labelling(caller));
        if (const int made = credentials_.as(caller, making, step); made < 0)
            return fail(blame(dir.fd, -made));
        auto found = find_child(dir, name.c_str(), Crossing::refused);
        // Something was mounted on it, or it was removed, in that very moment.
        if (!found && found.error() == Errno{EXDEV}) return fail(ESTALE);
        if (found) TRY_STATUS(label(labelled, dir, name.c_str(), *found));
        return found;
    };
    return run_entry(OpClass::change, *node, nullptr, std::move(call));
}

// `call(may_wait)`: with false, EAGAIN where somebody's lease on the file has to be broken first.
template <class Call>
FileSystem::Async<Created> Passthrough::run_made(Node& dir, std::uint32_t flags, Call call) {
    if (inline_here(OpClass::change, dir.mount)) {
        Result<Made> made = call(false);
        ended_inline(OpClass::change, dir.mount);
        if (made) return created(Dir{dir}, std::move(*made), flags);
        if (made.error() != Errno{EAGAIN}) return fail(made.error());
    }
    auto waiting = [call = std::move(call)] { return call(true); };
    return made_away(Pins{.node = nodes_->pin(dir)}, Dir{dir}, flags, std::move(waiting));
}

template <class Call>
rt::Task<Result<Created>> Passthrough::made_away(Pins pins, Dir dir, std::uint32_t flags, Call call) {
    auto task = away<Made>(OpClass::change, dir.mount, std::move(pins), std::move(call));
    Result<Made> made = co_await std::move(task);
    if (!made) co_return fail(made.error());
    co_return created(dir, std::move(*made), flags);
}

} // namespace viaduct::passthrough
