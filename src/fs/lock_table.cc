// SPDX-License-Identifier: Apache-2.0
#include "fs/lock_table.h"

#include "rt/worker.h"

#include <algorithm>
#include <atomic>

namespace viaduct::fs {
namespace {

// A program of the host that holds a lock tells nobody when it lets go of it.
constexpr std::uint64_t kRetryFirstNs = 10'000'000;
constexpr std::uint64_t kRetryMaxNs = 200'000'000;
// Who waits for another client is told.
constexpr std::uint64_t kUntilToldNs = 3'600'000'000'000;
// Looked at for one EDEADLK: owners (Linux looks at 10), and ranges.  What is longer is not found: a client
// must not hold the worker and the table with it.
constexpr std::size_t kDeadlockOwnersMax = 64;
constexpr std::size_t kDeadlockLooksMax = 65'536;

std::atomic<std::uint64_t> next_client_id{1};

} // namespace

struct LockTable::Asker {
    Client& client;
    HandleId handle;
    FileLock wanted;
    LockOwner owner() const noexcept { return {client.id_, wanted.owner}; }
};

// Who holds or waits for locks of one kind on one file.
struct LockTable::Owner {
    Client& client;
    LockOwner key;
    LockKind kind;
    HandleId handle{};     // of the latest lock
    std::uint32_t pid = 0; // counted in the client's holders_by_pid_ while it holds anything
    bool host_asked = false;
    std::unique_ptr<HostLocks> host;
};

struct LockTable::File {
    NodeIdentity identity;
    LockList posix;
    LockList flock;
    std::vector<std::unique_ptr<Owner>> owners;
    std::vector<Waiter*> waiters; // of both kinds, in the order in which they came

    LockList& list(LockKind kind) noexcept { return kind == LockKind::posix ? posix : flock; }
    const LockList& list(LockKind kind) const noexcept { return kind == LockKind::posix ? posix : flock; }
};

// Lives in the frame of wait().
class LockTable::Waiter final : public rt::Message {
public:
    Waiter(const Asker& a, rt::Worker& w) noexcept : asker(a), worker(w) {}

    // On its worker.
    void deliver() override {
        delivered = true;
        if (timer != nullptr) worker.ring().cancel(*timer);
    }

    const Asker asker;
    rt::Worker& worker;
    // The table's.
    File* file = nullptr; // while it stands in the file's queue
    std::optional<Status> outcome;
    bool by_host = false; // asks again by itself
    bool told = false;    // the message is under way, or has come and was not looked at yet
    // The worker's.
    rt::Operation* timer = nullptr;
    bool delivered = false;
};

LockTable::Client::Client(const Limits& limits)
    : limits_(limits), id_(next_client_id.fetch_add(1, std::memory_order_relaxed)) {}

LockTable::Client::~Client() {
    ASSERT(waiters_.empty());
    ASSERT(locks_ == 0);
}

LockTable::LockTable() = default;

LockTable::~LockTable() {
    ASSERT(files_.empty());
}

std::size_t LockTable::IdentityHash::operator()(const NodeIdentity& identity) const noexcept {
    std::uint64_t mixed = identity.inode * 0x9e3779b97f4a7c15U;
    mixed ^= identity.mount_id + (identity.born_ns << 1U) + (std::uint64_t{identity.device} << 32U);
    return mixed ^ mixed >> 29U;
}

LockTable::File& LockTable::file_for(const NodeIdentity& identity) {
    auto& file = files_[identity];
    if (!file) {
        file = std::make_unique<File>();
        file->identity = identity;
    }
    return *file;
}

void LockTable::tidy_file(File& file) {
    if (file.owners.empty()) files_.erase(NodeIdentity{file.identity});
}

LockTable::Owner* LockTable::find_owner(File& file, const LockOwner& owner, LockKind kind) noexcept {
    for (const auto& known : file.owners)
        if (known->key == owner && known->kind == kind) return known.get();
    return nullptr;
}

Status LockTable::owner_for(File& file, const Asker& asker, const Opener& open) {
    Owner* owner = find_owner(file, asker.owner(), asker.wanted.kind);
    if (owner == nullptr) {
        Client& client = asker.client;
        if (client.owners_.load(std::memory_order_relaxed) >= client.limits_.owners_max) return fail(ENOLCK);
        file.owners.push_back(std::make_unique<Owner>(
            Owner{.client = client, .key = asker.owner(), .kind = asker.wanted.kind, .host = nullptr}));
        // Release: with may_hold(), asked by a later request of the same client.
        client.owners_.fetch_add(1, std::memory_order_release);
        owner = file.owners.back().get();
    }
    if (const Status given = give_host(file, *owner, asker.wanted, open); !given) {
        tidy_owner(file, asker.owner(), asker.wanted.kind);
        return given;
    }
    return {};
}

// What an owner has open on the host has the mode of the handle through which it locked first.  When it comes
// with another handle for another type, the locks move over; they are all of the first type then, shared,
// since shared ones of two descriptors of ours do not exclude each other.
Status LockTable::give_host(File& file, Owner& owner, const FileLock& wanted, const Opener& open) {
    if (owner.host_asked && (!owner.host || owner.host->allows(wanted.type))) return {};
    TRY(auto host, open());
    if (host && !host->allows(wanted.type)) return fail(EBADF);
    if (host) {
        for (const auto& held : file.list(owner.kind).all())
            if (held.owner == owner.key && !host->set(held.type, held.range)) return fail(ENOLCK);
    }
    owner.host = std::move(host);
    owner.host_asked = true;
    return {};
}

void LockTable::change(File& file, Owner& owner, LockType type, const LockRange& range, std::uint32_t pid) {
    LockList& list = file.list(owner.kind);
    const std::size_t before = list.count_of(owner.key);
    list.set({.owner = owner.key, .type = type, .range = range, .pid = pid});
    const std::size_t after = list.count_of(owner.key);
    Client& client = owner.client;
    client.locks_ = client.locks_ - before + after;
    if (before == 0 && after > 0) {
        owner.pid = pid;
        ++client.holders_by_pid_[pid];
    } else if (before > 0 && after == 0) {
        const auto holders = client.holders_by_pid_.find(owner.pid);
        if (--holders->second == 0) client.holders_by_pid_.erase(holders);
    }
}

void LockTable::release(File& file, Owner& owner) {
    if (file.list(owner.kind).count_of(owner.key) == 0) return;
    change(file, owner, LockType::none, {}, 0);
    // Unlocking a whole file cannot fail.
    if (owner.host) (void)owner.host->set(LockType::none, {});
}

// Forgets an owner that neither holds nor waits.
void LockTable::tidy_owner(File& file, const LockOwner& owner, LockKind kind) {
    if (file.list(kind).count_of(owner) > 0) return;
    for (const Waiter* const waiter : file.waiters)
        if (waiter->asker.owner() == owner && waiter->asker.wanted.kind == kind) return;
    const auto gone = std::ranges::find_if(
        file.owners, [&](const auto& known) { return known->key == owner && known->kind == kind; });
    if (gone == file.owners.end()) return;
    (*gone)->client.owners_.fetch_sub(1, std::memory_order_release);
    file.owners.erase(gone);
}

// Gives the asker, whose owner is known, what it wants.
Status LockTable::take(File& file, const Asker& asker, Blocked& blocked) {
    const FileLock& wanted = asker.wanted;
    if (file.list(wanted.kind).conflict(asker.owner(), wanted.type, wanted.range) != nullptr) {
        blocked = Blocked::by_others;
        return fail(EAGAIN);
    }
    if (asker.client.locks_ + LockList::kGrowthMax > asker.client.limits_.locks_max) return fail(ENOLCK);
    Owner* const owner = find_owner(file, asker.owner(), wanted.kind);
    ASSERT(owner != nullptr);
    blocked = Blocked::by_host;
    if (owner->host) TRY_STATUS(owner->host->set(wanted.type, wanted.range));
    owner->handle = asker.handle;
    change(file, *owner, wanted.type, wanted.range, wanted.pid);
    return {};
}

// A lock that is not given out since an earlier waiter wants another is waited for by nobody else: whoever
// holds something already may be what that waiter waits for, by way of others, and goes first.
bool LockTable::waits_behind_others(const File& file, const Asker& asker, const Waiter* up_to) const {
    const FileLock& wanted = asker.wanted;
    if (asker.client.holders_by_pid_.contains(wanted.pid)) return false;
    if (file.list(wanted.kind).count_of(asker.owner()) > 0) return false;
    for (const Waiter* const earlier : file.waiters) {
        if (earlier == up_to) break;
        const FileLock& other = earlier->asker.wanted;
        if (other.kind == wanted.kind && earlier->asker.owner() != asker.owner() &&
            other.range.overlaps(wanted.range) && LockList::excludes(other.type, wanted.type))
            return true;
    }
    return false;
}

// Adds the owners that are in the asker's way, as far as there is room and `looks` lasts.
void LockTable::collect_blockers(const File& file, const Asker& asker, std::vector<const Owner*>& into,
                                 std::size_t& looks) const {
    const FileLock& wanted = asker.wanted;
    for (const auto& held : file.posix.all()) {
        if (into.size() == kDeadlockOwnersMax || looks == 0) return;
        --looks;
        if (held.owner == asker.owner() || !held.range.overlaps(wanted.range) ||
            !LockList::excludes(held.type, wanted.type))
            continue;
        if (std::ranges::find(into, held.owner, &Owner::key) != into.end()) continue;
        const auto owner = std::ranges::find_if(file.owners, [&](const auto& known) {
            return known->key == held.owner && known->kind == LockKind::posix;
        });
        ASSERT(owner != file.owners.end());
        into.push_back(owner->get());
    }
}

// Do those in the way wait for the asker, itself or by way of others?
bool LockTable::would_deadlock(const File& file, const Asker& asker) const {
    std::vector<const Owner*> found;
    std::size_t looks = kDeadlockLooksMax;
    collect_blockers(file, asker, found, looks);
    for (std::size_t index = 0; index < found.size(); ++index) {
        const Owner& owner = *found[index];
        if (owner.key == asker.owner()) return true;
        for (const Waiter* const waiter : owner.client.waiters_)
            if (waiter->asker.owner() == owner.key && waiter->asker.wanted.kind == LockKind::posix)
                collect_blockers(*waiter->file, waiter->asker, found, looks);
    }
    return false;
}

// Takes the waiter out of the file's queue; those behind it have their turn by serve_waiters().
void LockTable::unlink(Waiter& waiter) {
    std::erase(waiter.file->waiters, &waiter);
    std::erase(waiter.asker.client.waiters_, &waiter);
    tidy_owner(*waiter.file, waiter.asker.owner(), waiter.asker.wanted.kind);
    waiter.file = nullptr;
}

void LockTable::finish(Waiter& waiter, Status outcome) {
    unlink(waiter);
    waiter.outcome = outcome;
    if (std::exchange(waiter.told, true)) return;
    waiter.worker.post(waiter);
}

// Gives out what has become free, in order.
void LockTable::serve_waiters(File& file) {
    bool given = true;
    while (std::exchange(given, false)) {
        for (std::size_t index = 0; index < file.waiters.size();) {
            Waiter& waiter = *file.waiters[index];
            Blocked blocked = Blocked::by_others;
            Status taken = fail(EAGAIN);
            if (!waits_behind_others(file, waiter.asker, &waiter)) taken = take(file, waiter.asker, blocked);
            if (taken || taken.error() != Errno{EAGAIN}) {
                finish(waiter, taken);
                given = true;
                continue;
            }
            ++index;
            const bool by_host = blocked == Blocked::by_host;
            if (by_host && !waiter.by_host && !std::exchange(waiter.told, true)) waiter.worker.post(waiter);
            waiter.by_host = by_host;
        }
    }
}

Status LockTable::ask(File& file, const Asker& asker, const Opener& open, Blocked& blocked) {
    const FileLock& wanted = asker.wanted;
    if (wanted.kind == LockKind::flock) {
        // As Linux has it: what is to be converted is given up first, so that two can convert.
        const auto& all = file.flock.all();
        const auto held = std::ranges::find(all, asker.owner(), &LockList::Held::owner);
        if (held != all.end() && held->type != wanted.type) {
            release(file, *find_owner(file, asker.owner(), wanted.kind));
            serve_waiters(file);
        }
    }
    TRY_STATUS(owner_for(file, asker, open));
    return take(file, asker, blocked);
}

Result<std::optional<FileLock>> LockTable::query(Client& client, const NodeIdentity& identity,
                                                 const FileLock& wanted, const Opener& open) {
    const sync::Lock lock{mutex_};
    const LockOwner key{client.id_, wanted.owner};
    const auto found = files_.find(identity);
    if (found != files_.end()) {
        File& file = *found->second;
        if (const auto* const held = file.list(wanted.kind).conflict(key, wanted.type, wanted.range))
            return FileLock{.kind = wanted.kind,
                            .type = held->type,
                            .range = held->range,
                            .pid = held->owner.client == client.id_ ? held->pid : 0};
        const Owner* const owner = find_owner(file, key, wanted.kind);
        if (owner != nullptr && owner->host) return owner->host->query(wanted.type, wanted.range);
    }
    TRY(const auto host, open());
    if (!host) return std::nullopt;
    return host->query(wanted.type, wanted.range);
}

Status LockTable::set(Client& client, const NodeIdentity& identity, HandleId handle, const FileLock& wanted,
                      const Opener& open) {
    const sync::Lock lock{mutex_};
    const Asker asker{.client = client, .handle = handle, .wanted = wanted};
    if (wanted.type != LockType::none) {
        File& file = file_for(identity);
        Blocked blocked{};
        const Status taken = ask(file, asker, open, blocked);
        if (taken) serve_waiters(file);
        tidy_owner(file, asker.owner(), wanted.kind);
        tidy_file(file);
        return taken;
    }
    const auto found = files_.find(identity);
    if (found == files_.end()) return {};
    File& file = *found->second;
    Owner* const owner = find_owner(file, asker.owner(), wanted.kind);
    if (owner == nullptr) return {};
    // A hole makes two of one; the whole file leaves none.
    if (wanted.range != LockRange{} && client.locks_ >= 2 * client.limits_.locks_max) return fail(ENOLCK);
    if (owner->host) TRY_STATUS(owner->host->set(LockType::none, wanted.range));
    change(file, *owner, LockType::none, wanted.range, 0);
    tidy_owner(file, asker.owner(), wanted.kind);
    serve_waiters(file);
    tidy_file(file);
    return {};
}

LockTable::Step LockTable::begin_wait(const NodeIdentity& identity, Waiter& waiter, const Opener& open) {
    const sync::Lock lock{mutex_};
    const Asker& asker = waiter.asker;
    Client& client = asker.client;
    File& file = file_for(identity);
    Blocked blocked = Blocked::by_others;
    Status asked = fail(EAGAIN);
    if (waits_behind_others(file, asker, nullptr)) {
        if (const auto owner = owner_for(file, asker, open); !owner) asked = fail(owner.error());
    } else {
        asked = ask(file, asker, open, blocked);
    }
    if (!asked && asked.error() == Errno{EAGAIN}) {
        const bool by_posix = asker.wanted.kind == LockKind::posix && blocked == Blocked::by_others;
        if (client.waiters_.size() >= client.limits_.waiters_max) {
            asked = fail(ENOLCK);
        } else if (by_posix && would_deadlock(file, asker)) {
            asked = fail(EDEADLK);
        } else {
            waiter.file = &file;
            waiter.by_host = blocked == Blocked::by_host;
            file.waiters.push_back(&waiter);
            client.waiters_.push_back(&waiter);
            return waiter.by_host ? Step::host_first : Step::others;
        }
    }
    if (asked) serve_waiters(file);
    tidy_owner(file, asker.owner(), asker.wanted.kind);
    tidy_file(file);
    waiter.outcome = asked;
    return Step::done;
}

// After the waiter's timer has ended.
LockTable::Step LockTable::go_on(Waiter& waiter, int timer_ended) {
    const sync::Lock lock{mutex_};
    if (waiter.told && !waiter.delivered) return Step::message_to_come;
    const bool told = std::exchange(waiter.told, false);
    waiter.delivered = false;
    if (waiter.outcome) return Step::done;
    if (told) return waiter.by_host ? Step::host_first : Step::others;
    File& file = *waiter.file;
    Status taken = fail(EINTR);
    if (timer_ended == -ETIME) {
        Blocked blocked = Blocked::by_others;
        taken = fail(EAGAIN);
        if (!waits_behind_others(file, waiter.asker, &waiter)) taken = take(file, waiter.asker, blocked);
        if (!taken && taken.error() == Errno{EAGAIN}) {
            const bool before = std::exchange(waiter.by_host, blocked == Blocked::by_host);
            if (!waiter.by_host) return Step::others;
            return before ? Step::host_again : Step::host_first;
        }
    }
    unlink(waiter);
    waiter.outcome = taken;
    serve_waiters(file);
    tidy_file(file);
    return Step::done;
}

rt::Task<Status> LockTable::wait(Client& client, NodeIdentity identity, HandleId handle, FileLock wanted,
                                 Opener open) {
    rt::Worker& worker = *rt::Worker::current();
    Waiter waiter{Asker{.client = client, .handle = handle, .wanted = wanted}, worker};
    Step step = begin_wait(identity, waiter, open);
    std::uint64_t pause_ns = kRetryFirstNs;
    while (step != Step::done) {
        if (step == Step::host_first) pause_ns = kRetryFirstNs;
        if (step == Step::host_again) pause_ns = std::min(2 * pause_ns, kRetryMaxNs);
        rt::Operation timer = worker.ring().sleep(step == Step::others ? kUntilToldNs : pause_ns);
        waiter.timer = &timer;
        const int ended = co_await timer;
        waiter.timer = nullptr;
        step = go_on(waiter, ended);
        while (step == Step::message_to_come) {
            co_await worker.yield();
            step = go_on(waiter, ended);
        }
    }
    co_return *waiter.outcome;
}

template <class Drops> void LockTable::drop(Client& client, const NodeIdentity& identity, Drops drops) {
    const auto found = files_.find(identity);
    if (found == files_.end()) return;
    File& file = *found->second;
    std::vector<std::pair<LockOwner, LockKind>> dropped;
    for (const auto& owner : file.owners)
        if (owner->key.client == client.id_ && drops(*owner)) dropped.emplace_back(owner->key, owner->kind);
    for (const auto& [key, kind] : dropped) {
        release(file, *find_owner(file, key, kind));
        tidy_owner(file, key, kind);
    }
    serve_waiters(file);
    tidy_file(file);
}

void LockTable::drop_owner(Client& client, const NodeIdentity& identity, LockKind kind, std::uint64_t owner) {
    const sync::Lock lock{mutex_};
    drop(client, identity,
         [kind, owner](const Owner& known) { return known.kind == kind && known.key.id == owner; });
}

void LockTable::drop_handle(Client& client, const NodeIdentity& identity, HandleId handle) {
    const sync::Lock lock{mutex_};
    drop(client, identity, [handle](const Owner& known) { return known.handle == handle; });
}

void LockTable::drop_all(Client& client) {
    const sync::Lock lock{mutex_};
    std::vector<NodeIdentity> identities;
    identities.reserve(files_.size());
    for (const auto& [identity, file] : files_) identities.push_back(identity);
    for (const auto& identity : identities) drop(client, identity, [](const Owner&) { return true; });
}

void LockTable::end_waits(Client& client) {
    const sync::Lock lock{mutex_};
    // None of them is given what another leaves: all go.
    std::vector<NodeIdentity> files;
    while (!client.waiters_.empty()) {
        Waiter& waiter = *client.waiters_.back();
        files.push_back(waiter.file->identity);
        finish(waiter, fail(ENOLCK));
    }
    for (const auto& identity : files) drop(client, identity, [](const Owner&) { return false; });
}

std::size_t LockTable::waiting(const Client& client) const {
    const sync::Lock lock{mutex_};
    return client.waiters_.size();
}

std::size_t LockTable::files() const {
    const sync::Lock lock{mutex_};
    return files_.size();
}

} // namespace viaduct::fs
