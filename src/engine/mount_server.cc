// SPDX-License-Identifier: Apache-2.0
#include "engine/mount_server.h"

#include "base/clock.h"
#include "base/log.h"
#include "engine/share.h"

#include <climits>
#include <cstdlib>
#include <sys/stat.h>
#include <utility>
#include <vector>

namespace viaduct::engine {
namespace {

using namespace std::chrono_literals;

// What requests that still wait get when the mount is gone.
constexpr auto kLastRequests = 1s;
// Requests that the kernel has under way by itself (read-ahead, write-back, asynchronous I/O); three quarters
// of it count as congestion.
constexpr std::uint16_t kBackgroundMax = 128;
// A reader has places for 256 requests; who waits for a lock must not take them all.
constexpr std::size_t kLockWaitersMax = 192;

session::SessionOptions mount_options(const config::ServeOptions& options) {
    session::SessionOptions made = session_options(options);
    made.wishes.max_background = kBackgroundMax;
    made.wishes.congestion_threshold = kBackgroundMax * 3 / 4;
    return made;
}

transport::MountPointOptions point_options(const config::MountCommand& command) {
    char resolved[PATH_MAX];
    const char* const source = ::realpath(command.share.share.c_str(), resolved);
    return {.source = source == nullptr ? command.share.share : source,
            .path = command.mountpoint,
            .read_only = command.share.readonly,
            .allow_other = command.allow_other,
            .suid = command.suid,
            .dev = command.dev,
            .exec = command.exec,
            .noatime = command.noatime,
            .max_read_bytes = command.max_read_bytes};
}

// A helper that has ended, or the time that it had: the other one is called off.
struct Race {
    std::optional<Status> status;
    rt::Operation* timer = nullptr;
};

rt::Task<void> run_and_tell(rt::Worker& control, rt::Helpers& helpers, std::function<Status()> work,
                            std::shared_ptr<Race> race) { // owners: this task and the one who waits
    const Status status = co_await helpers.run(std::move(work));
    race->status = status;
    if (race->timer != nullptr) control.ring().cancel(*race->timer);
}

} // namespace

Outcome<std::unique_ptr<MountServer>> MountServer::make(const config::MountCommand& command,
                                                        Workers& workers) {
    TRY(auto file_system, open_share(command.share, {.limits = {.waiters_max = kLockWaitersMax}}));
    if (transport::lies_within(command.mountpoint, command.share.share))
        return failure(
            "cannot mount \"" + command.share.share + "\" at \"" + command.mountpoint +
            "\": the mount point lies in the share, which would contain itself; give a mount point "
            "outside");
    TRY(auto point, transport::MountPoint::mount(point_options(command)));
    Fd device = point.take_device();
    std::unique_ptr<MountServer> made{
        new MountServer{std::move(point), std::chrono::milliseconds{command.stop_timeout_ms}}};
    made->file_system_ = std::move(file_system);
    made->session_ = std::make_unique<session::Session>(*made->file_system_, mount_options(command.share));
    std::vector<rt::Worker*> serving;
    for (const auto& worker : workers.all()) {
        made->session_->attach_worker(*worker);
        serving.push_back(worker.get());
    }
    made->connection_ =
        std::make_unique<transport::FuseConnection>(std::move(device), serving, *made->session_);
    made->mounted_ = "mounted " + command.share.share + " at " + made->point_.path() + ", " +
                     std::to_string(serving.size()) + " workers";
    // From here on it logs to syslog: what called it is told now.
    if (command.background) log::info("{}", std::exchange(made->mounted_, {}));
    return made;
}

MountServer::~MountServer() = default;

rt::Task<void> MountServer::serve(std::function<void()> ready) {
    const Status started = co_await connection_->start();
    if (started) {
        tasks_.spawn(announce(std::move(ready)));
        co_await connection_->ended();
        log::info("{} is unmounted", point_.path());
    } else {
        log::error("cannot serve the mount: {}", started.error());
    }
    co_await finish();
}

// The first answer shows that INIT is over.
rt::Task<void> MountServer::announce(std::function<void()> ready) {
    auto look = [this]() -> Status {
        struct stat status{};
        if (::stat(point_.path().c_str(), &status) != 0) return fail(errno);
        return {};
    };
    const Status looked = co_await helpers_.run(look);
    if (looked) {
        if (!mounted_.empty()) log::info("{}", mounted_);
        ready();
    } else if (!stopping_) {
        log::error("the mount does not answer: {}", looked.error());
    }
}

rt::Task<void> MountServer::finish() {
    finishing_ = true;
    co_await connection_->stop();
    session_->end_lock_waits();
    bool drained = co_await connection_->drain(kLastRequests);
    co_await connection_->close();
    if (!drained) {
        // Who waited has been told by the kernel; what carries the requests out is called off after them.
        co_await connection_->cancel();
        drained = co_await connection_->drain(kLastRequests);
    }
    // A connection that was aborted is still in the tree.
    auto detach = [this] { return point_.detach(true); };
    if (const Status detached = co_await helpers_.run(detach); !detached)
        log::warn("cannot unmount {}: {}", point_.path(), detached.error());
    co_await tasks_.empty(); // nothing that they wait for is left
    if (!drained) log::warn("requests did not end in time; they are left behind");
    hangs_ = hangs_ || !drained;
    if (!hangs_) co_await session_->end();
}

rt::Task<std::optional<Status>> MountServer::within(rt::Worker& control, std::chrono::nanoseconds limit,
                                                    Work work) {
    const auto race = std::make_shared<Race>();
    control.gate().spawn(run_and_tell(control, helpers_, std::move(work), race));
    if (!race->status) {
        rt::Operation timer = control.ring().sleep(static_cast<std::uint64_t>(limit.count()));
        race->timer = &timer;
        co_await timer;
        race->timer = nullptr;
    }
    if (!race->status) hangs_ = true;
    co_return race->status;
}

// syncfs(2) makes requests of what is dirty and does not wait for them.  The kernel holds back those beyond
// its bound on requests of its own, so it is asked again until a round finds nothing new.
rt::Task<Status> MountServer::write_back(rt::Worker& control) {
    const std::uint64_t deadline_ns =
        monotonic_ns() + static_cast<std::uint64_t>(std::chrono::nanoseconds{stop_timeout_}.count());
    const auto left = [deadline_ns] {
        const std::uint64_t now_ns = monotonic_ns();
        return std::chrono::nanoseconds{now_ns < deadline_ns ? deadline_ns - now_ns : 1};
    };
    auto before = co_await connection_->drain_write_backs(1ns);
    for (;;) {
        const auto synced = co_await within(control, left(), [this] { return point_.sync(); });
        if (!synced) co_return fail(ETIMEDOUT);
        if (!*synced) co_return *synced;
        const auto after = co_await connection_->drain_write_backs(left());
        if (!after.drained) co_return fail(ETIMEDOUT);
        if (after.failed > before.failed) co_return fail(EIO);
        if (after.count == before.count && before.drained) co_return Status{};
        before = after;
    }
}

rt::Task<void> MountServer::shut_down(rt::Worker& control) {
    if (const Status written = co_await write_back(control); !written) {
        data_lost_ = true;
        log::error("written data may not have reached the share: {}", written.error());
    }
    // Who still uses the mount keeps it, until the connection is closed.
    const auto detached = co_await within(control, kLastRequests, [this] { return point_.detach(false); });
    if (detached && !*detached) log::warn("cannot unmount {}: {}", point_.path(), detached->error());
    co_await connection_->stop();
}

void MountServer::stop(rt::Worker& control) {
    if (finishing_ || std::exchange(stopping_, true)) return;
    tasks_.spawn(shut_down(control));
}

void MountServer::abort() const {
    // What fails is over all the same when the process ends.
    [[maybe_unused]] const Status detached = point_.detach(true);
}

void MountServer::log_stats() const {
    for (std::size_t index = 0; index < connection_->readers().size(); ++index) {
        const auto& stats = connection_->readers()[index]->stats();
        log::info("reader {}: {} requests, {} wake-ups, {} invitations, {} unanswered", index,
                  stats.requests.get(), stats.wakeups.get(), stats.invitations.get(), stats.unanswered.get());
    }
}

} // namespace viaduct::engine
