// SPDX-License-Identifier: Apache-2.0
//
// MountServer: a share, a session and /dev/fuse, from mount(2) to the end.
#pragma once

#include "config/mount_options.h"
#include "engine/workers.h"
#include "fs/file_system.h"
#include "rt/helpers.h"
#include "session/session.h"
#include "transport/fuse_dev/connection.h"
#include "transport/fuse_dev/mount_point.h"

#include <chrono>
#include <functional>
#include <memory>

namespace viaduct::engine {

// Control thread.
class MountServer {
public:
    // Checks what is asked for, and mounts.
    static Outcome<std::unique_ptr<MountServer>> make(const config::MountCommand& command, Workers& workers);
    ~MountServer();

    // Until it is unmounted or stop() has done its work.  `ready` is called when the mount can be used.
    rt::Task<void> serve(std::function<void()> ready);
    // Ends serve() in an orderly way; does not wait for it.
    void stop(rt::Worker& control);
    // Takes the mount out of the tree and ends every request.
    void abort() const;

    void log_stats() const;
    // Written data may not have reached the share.
    bool data_lost() const noexcept { return data_lost_; }
    // Calls that did not end in time hold threads and objects: only the end of the process frees them.
    bool hangs() const noexcept { return hangs_; }

private:
    explicit MountServer(transport::MountPoint point, std::chrono::milliseconds stop_timeout)
        : point_(std::move(point)), stop_timeout_(stop_timeout) {}

    rt::Task<void> announce(std::function<void()> ready);
    rt::Task<void> shut_down(rt::Worker& control);
    // Waits until what is dirty has been answered by the share, at most for the stop time-out.
    rt::Task<Status> write_back(rt::Worker& control);
    rt::Task<void> finish();
    // Runs `work` on a helper.  nullopt: it has not ended within `limit`, and goes on by itself.
    using Work = std::function<Status()>;
    rt::Task<std::optional<Status>> within(rt::Worker& control, std::chrono::nanoseconds limit, Work work);

    const transport::MountPoint point_;
    std::string mounted_; // what is logged when it can be used
    const std::chrono::milliseconds stop_timeout_;
    std::unique_ptr<fs::FileSystem> file_system_;
    std::unique_ptr<session::Session> session_;
    std::unique_ptr<transport::FuseConnection> connection_;
    rt::Helpers helpers_{4};
    rt::Gate tasks_; // announce() and shut_down()
    bool stopping_ = false;
    bool finishing_ = false;
    bool data_lost_ = false;
    bool hangs_ = false;
};

} // namespace viaduct::engine
