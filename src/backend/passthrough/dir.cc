// SPDX-License-Identifier: Apache-2.0
//
// Listing directories.
//
// One pass at a time uses a handle, as its position is moved and read from in two calls.  Mount points below
// the directory are listed without a lookup, so that a server that is away does not hold up the listing.
#include "backend/passthrough/dispatch.h"

#include <array>
#include <cstring>
#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace viaduct::passthrough {
namespace {

// Small, as what the sink does not take is read again: 4 KiB are some 100 names.
constexpr std::size_t kChunkBytes = 4096;
// With lookups made in advance, each of which may ask a server.
constexpr std::size_t kChunkBytesPlusAway = 1024;
constexpr std::uint32_t kEntriesPerTurn = 256;
constexpr std::uint64_t kBusyRetryNs = 1'000'000;

bool is_dots(std::string_view name) {
    return name == "." || name == "..";
}

} // namespace

// Entries as getdents64(2) gives them, and what they name where that was looked up in advance.
struct Passthrough::Chunk {
    alignas(dirent64) std::array<char, kChunkBytes> bytes;
    std::size_t count = 0; // bytes
    std::vector<std::optional<Found>> found;

    // `seek`: go there first.
    Status read(int fd, std::optional<std::uint64_t> seek, std::size_t bytes_max) {
        if (seek && ::lseek(fd, static_cast<off_t>(*seek), SEEK_SET) < 0) return fail(errno);
        const long got = ::syscall(SYS_getdents64, fd, bytes.data(), bytes_max);
        if (got < 0) return fail(errno);
        count = static_cast<std::size_t>(got);
        return {};
    }
    // Calls each(dirent, name) until it returns false.
    template <class Each> bool for_each(Each each) {
        for (std::size_t at = 0; at < count;) {
            const auto* const dirent = reinterpret_cast<const dirent64*>(bytes.data() + at);
            at += dirent->d_reclen;
            if (!each(*dirent, std::string_view{dirent->d_name})) return false;
        }
        return true;
    }
};

// A listing under way.
struct Passthrough::Listing {
    Dir dir;
    bool plus;
    DirentSink& sink;
    std::optional<std::uint64_t> seek; // where to begin; empty once the handle stands there
    std::uint32_t entries_this_turn = 0;
};

// What the sink does not take is undone.
Passthrough::Step Passthrough::emit(Listing& listing, Chunk& chunk) {
    std::size_t index = 0;
    const auto add = [&](const dirent64& dirent, std::string_view name) {
        const std::size_t at = index++;
        if (!listing.sink.has_room(name.size())) return false;
        std::optional<Entry> entry;
        if (listing.plus && !is_dots(name)) {
            if (chunk.found.empty()) {
                if (auto known = lookup_known(listing.dir, dirent.d_name)) {
                    if (*known) entry = **known;
                } else if (auto found = find_child(listing.dir, dirent.d_name, Crossing::refused)) {
                    if (auto entered = enter(listing.dir, std::move(*found))) entry = *entered;
                }
            } else if (chunk.found[at]) {
                if (auto entered = enter(listing.dir, std::move(*chunk.found[at]))) entry = *entered;
            }
        }
        const DirentSink::Dirent out{.name = name,
                                     .inode =
                                         entry ? entry->attr.inode : fold(dirent.d_ino, listing.dir.device),
                                     .next_offset = static_cast<std::uint64_t>(dirent.d_off),
                                     .type = dirent.d_type};
        if (listing.sink.add(out, entry ? &*entry : nullptr)) {
            ++listing.entries_this_turn;
            return true;
        }
        if (entry) nodes_->forget(entry->node, 1);
        return false;
    };
    return chunk.for_each(add) ? Step::go_on : Step::full;
}

Result<Passthrough::Step> Passthrough::list_some(Listing& listing) {
    Chunk chunk;
    TRY_STATUS(chunk.read(listing.dir.fd, std::exchange(listing.seek, std::nullopt), kChunkBytes));
    if (chunk.count == 0) return Step::end;
    return emit(listing, chunk);
}

rt::Task<Result<Passthrough::Step>> Passthrough::list_some_away(Listing& listing) {
    const auto chunk = std::make_unique<Chunk>();
    auto call = [this, &into = *chunk, dir = listing.dir, seek = std::exchange(listing.seek, std::nullopt),
                 plus = listing.plus]() -> Status {
        TRY_STATUS(into.read(dir.fd, seek, plus ? kChunkBytesPlusAway : kChunkBytes));
        const auto look_up = [&](const dirent64& dirent, std::string_view name) {
            auto& found = into.found.emplace_back();
            if (is_dots(name)) return true;
            if (auto child = find_child(dir, dirent.d_name, Crossing::refused)) found = std::move(*child);
            return true;
        };
        if (plus) into.for_each(look_up);
        return {};
    };
    auto task = away<void>(OpClass::list, listing.dir.mount, Pins{}, std::move(call));
    const Status read = co_await std::move(task);
    if (!read) co_return fail(read.error());
    if (chunk->count == 0) co_return Step::end;
    co_return emit(listing, *chunk);
}

FileSystem::Async<void> Passthrough::readdir(const Caller&, HandleId id, std::uint64_t offset, bool plus,
                                             DirentSink& sink) {
    TRY(Handle* const handle, handles_->find(id));
    if (!handle->has(Handle::directory)) return fail(ENOTDIR);
    Listing listing{.dir = Dir{*handle}, .plus = plus, .sink = sink, .seek = offset};
    const bool mine = handle->busy.exchange(1, std::memory_order_acquire) == 0;
    if (mine && inline_here(OpClass::list, handle->mount)) {
        while (listing.entries_this_turn < kEntriesPerTurn || rt::Worker::current() == nullptr) {
            const auto step = list_some(listing);
            if (step && *step == Step::go_on) continue;
            handle->busy.store(0, std::memory_order_release);
            ended_inline(OpClass::list, handle->mount);
            if (!step) return fail(step.error());
            return Status{};
        }
        ended_inline(OpClass::list, handle->mount);
    }
    return list_slowly(handles_->pin(*handle), listing, mine);
}

rt::Task<Status> Passthrough::list_slowly(HandlePin handle, Listing listing, bool mine) {
    rt::Worker& worker = *rt::Worker::current();
    // Two passes at once on one handle: a request that its client gave up on is still running.
    while (!mine) {
        const int slept = co_await worker.ring().sleep(kBusyRetryNs);
        if (slept == -ECANCELED) co_return fail(ECANCELED);
        mine = handle->busy.exchange(1, std::memory_order_acquire) == 0;
    }
    struct Done {
        Handle& handle;
        ~Done() { handle.busy.store(0, std::memory_order_release); }
    } const done{*handle};
    while (true) {
        Result<Step> step = Step::go_on;
        if (inline_here(OpClass::list, handle->mount)) {
            if (listing.entries_this_turn >= kEntriesPerTurn) {
                co_await worker.yield();
                listing.entries_this_turn = 0;
            }
            step = list_some(listing);
            ended_inline(OpClass::list, handle->mount);
        } else {
            auto some = list_some_away(listing);
            step = co_await std::move(some);
        }
        if (!step) co_return fail(step.error());
        if (*step != Step::go_on) co_return Status{};
    }
}

} // namespace viaduct::passthrough
