// SPDX-License-Identifier: Apache-2.0
#include "backend/passthrough/passthrough.h"

#include "backend/passthrough/dispatch.h"
#include "base/log.h"

#include <algorithm>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/resource.h>
#include <sys/syscall.h>

namespace viaduct::passthrough {
namespace {

// Descriptors that are no nodes and no handles: those of the queues (390 for 64 of them), of guest memory (up
// to 509 slots), rings, sockets, logs, and those open for the length of a call.  Of a small limit they get
// half.
constexpr std::uint64_t kOtherDescriptors = 2048;
constexpr std::uint64_t kDescriptorsMin = 320;
constexpr std::uint64_t kNodesDefaultMax = 1U << 20;
constexpr std::uint64_t kHandlesDefaultMax = 1U << 18;

struct Budget {
    std::uint32_t nodes;
    std::uint32_t handles;
};

Outcome<Budget> descriptors(const Options& options) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const std::uint64_t all = std::min<std::uint64_t>(limit.rlim_cur, 1U << 30);
    if (all < kDescriptorsMin)
        return failure("RLIMIT_NOFILE is " + std::to_string(all) +
                       ", which leaves no room for files; raise it to "
                       "some thousands (ulimit -n, LimitNOFILE=)");
    const std::uint64_t room = all - std::min(kOtherDescriptors, all / 2);
    const std::uint64_t handles =
        options.handles_max != 0 ? options.handles_max : std::min(room / 4, kHandlesDefaultMax);
    const std::uint64_t left = room > handles + 16 ? room - handles : 16;
    const std::uint64_t nodes = options.nodes_max != 0 ? options.nodes_max : std::min(left, kNodesDefaultMax);
    if (nodes + handles > room)
        log::warn("{}: room for {} nodes and {} open files was asked for, but RLIMIT_NOFILE is {}",
                  options.share_option, nodes, handles, all);
    return Budget{static_cast<std::uint32_t>(nodes), static_cast<std::uint32_t>(handles)};
}

Outcome<Fd> open_share(const Options& options) {
    const std::string what = "cannot share \"" + options.share + "\"";
    Fd fd{::open(options.share.c_str(), O_PATH | O_CLOEXEC)};
    if (!fd)
        return failure(what, Errno{errno},
                       errno == ENOENT ? "create it, or name a directory that exists" : "");
    struct statx st{};
    if (::statx(fd.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) != 0)
        return failure(what, Errno{errno});
    if (!S_ISDIR(st.stx_mode)) return failure(what + ": it is not a directory");
    if (::faccessat(fd.get(), ".", R_OK | X_OK, AT_EACCESS) != 0)
        return failure(what, Errno{errno}, "this user may not read it");
    // Asked here, so that a kernel or a seccomp profile without it is an error with a reason.
    open_how how{.flags = O_PATH | O_CLOEXEC, .mode = 0, .resolve = RESOLVE_NO_XDEV};
    const long probe = ::syscall(SYS_openat2, fd.get(), ".", &how, sizeof how);
    if (probe < 0)
        return failure("openat2", Errno{errno}, "is a seccomp profile active, or Linux before 5.6?");
    ::close(static_cast<int>(probe));
    return fd;
}

Validity validity_of(CachePolicy policy) {
    using namespace std::chrono_literals;
    switch (policy) {
    case CachePolicy::never:
        return 0s;
    case CachePolicy::automatic:
        return 1s;
    case CachePolicy::metadata:
    case CachePolicy::always:
        return 24h;
    }
    return 0s;
}

} // namespace

Outcome<std::unique_ptr<Passthrough>> Passthrough::make(Options options) {
    TRY(const Budget budget, descriptors(options));
    TRY(Fd share, open_share(options));
    auto proc = ProcFd::make();
    if (!proc)
        return failure("/proc/self/fd", proc.error(), "is /proc mounted?  Files are opened through it");

    auto core = std::make_shared<Core>(options.helpers_max);
    auto nodes = NodeTable::make({.nodes_max = budget.nodes}, core);
    if (!nodes) return failure("no memory for the node table", nodes.error());
    auto handles = HandleTable::make(budget.handles, core);
    if (!handles) return failure("no memory for the handle table", handles.error());

    Found root{.fd = std::move(share), .attr = {}};
    if (const auto status = stat_found(root); !status)
        return failure(options.share_option + " " + options.share, status.error());
    root.mount = core->mounts.resolve(root.fd.get(), root.mount_id, device_of(root.attr));

    std::unique_ptr<Passthrough> made{new Passthrough{std::move(options), std::move(*proc), std::move(core),
                                                      std::move(*nodes), std::move(*handles)}};
    const auto facts = facts_of(root);
    made->root_device_ = facts.identity.device;
    made->core_->mount_watch = std::make_unique<MountWatch>(root.fd.get());
    made->nodes_->set_root(std::move(root.fd), facts);
    return made;
}

Passthrough::Passthrough(Options options, ProcFd proc, std::shared_ptr<Core> core,
                         std::unique_ptr<NodeTable> nodes, std::unique_ptr<HandleTable> handles)
    : options_(std::move(options)), proc_(std::move(proc)), core_(std::move(core)), nodes_(std::move(nodes)),
      handles_(std::move(handles)), entry_valid_(options_.entry_valid.value_or(validity_of(options_.cache))),
      attr_valid_(options_.attr_valid.value_or(validity_of(options_.cache))),
      states_(options_.ring_operations_max) {
    fold_inodes_.store(options_.fold_inodes, std::memory_order_relaxed);
}

Passthrough::~Passthrough() = default;

void Passthrough::forget(NodeId node, std::uint64_t count) {
    nodes_->forget(node, count);
}

void Passthrough::begin_session(bool client_sees_submounts) {
    fold_inodes_.store(!client_sees_submounts, std::memory_order_relaxed);
}

void Passthrough::end_session() {
    handles_->clear();
    nodes_->clear();
}

// The last close of a file may wait for the server it lies on.
void Passthrough::Core::close(int fd, std::uint16_t mount) {
    rt::Worker* const worker = rt::Worker::current();
    if (worker == nullptr || mounts.may_run_inline(mount, OpClass::close)) {
        rt::EpochMember::close(fd);
        return;
    }
    struct Close final : rt::Helpers::Job {
        std::shared_ptr<Core> core; // one of its owners until the close is done
        int fd;
        Close(std::shared_ptr<Core> c, int f) : core(std::move(c)), fd(f) {}
        void execute() override {
            ::close(fd);
            core->closing_now.fetch_sub(1, std::memory_order_relaxed);
        }
        void deliver() override { delete this; }
    };
    closing_now.fetch_add(1, std::memory_order_relaxed);
    // Nobody waits for it, and the worker may be gone before it ends.
    helpers(mount).start(*new Close{shared_from_this(), fd});
}

// On a helper: the table of a host with many mounts is long.
void Passthrough::look_at_mounts() {
    struct Look final : rt::Helpers::Job {
        std::shared_ptr<Core> core; // one of its owners until the look is done
        explicit Look(std::shared_ptr<Core> c) : core(std::move(c)) {}
        void execute() override { core->mount_watch->look(); }
        void deliver() override { delete this; }
    };
    core_->local_helpers.start(*new Look{core_});
}

void Passthrough::look_for_sleep(OpClass op, std::uint16_t mount, std::uint64_t took_ticks) noexcept {
    rt::Worker* const worker = rt::Worker::current();
    if (worker == nullptr || worker->take_switches() == 0) return;
    const auto ns = static_cast<double>(monotonic_ns() - began_ns_);
    const auto all_ticks = static_cast<double>(ticks() - began_ticks_);
    if (static_cast<double>(took_ticks) * ns / all_ticks > static_cast<double>(kSlowNs))
        core_->mounts.was_slow(mount, op);
}

} // namespace viaduct::passthrough
