// SPDX-License-Identifier: Apache-2.0
#include "rt/thread.h"

#include <atomic>
#include <linux/securebits.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace viaduct::rt {
namespace {

std::atomic<bool> own_umask{true};

} // namespace

bool threads_have_own_umask() noexcept {
    return own_umask.load(std::memory_order_relaxed);
}

void set_up_thread(const std::string& name) noexcept {
    ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
    // Without its own fs_struct the umask is the process's, which is 0 while a share is served.
    if (::unshare(CLONE_FS) == 0)
        ::umask(0);
    else
        own_umask.store(false, std::memory_order_relaxed);
    const int bits = ::prctl(PR_GET_SECUREBITS);
    if (bits >= 0) ::prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP);
    ::syscall(SYS_setgroups, 0, nullptr); // this thread's alone; EPERM: we take on nobody's ids
}

} // namespace viaduct::rt
