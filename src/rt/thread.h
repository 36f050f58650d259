// SPDX-License-Identifier: Apache-2.0
//
// The one way in which threads are made.
//
// A thread of ours has its own umask (0: modes are masked by whoever knows the caller's umask) and keeps its
// capabilities when its file-system ids change (SECBIT_NO_SETUID_FIXUP), so that a call made with a client's
// ids owns what it creates without losing the access that the client's kernel has already granted.  Where it
// may take on other ids it has no supplementary groups, which would count as the client's then.
#pragma once

#include <string>
#include <thread>

namespace viaduct::rt {

// Per-thread set-up of the calling thread: name (cut at 15 bytes), unshare(CLONE_FS) and umask 0, securebits,
// groups. What is not permitted is left out; calls as other users then fail by themselves.
void set_up_thread(const std::string& name) noexcept;
// False once a thread could not be given a umask of its own (a container whose seccomp profile has no
// unshare): no umask may be set then for a single call.
bool threads_have_own_umask() noexcept;

template <class Function> std::thread start_thread(const std::string& name, Function function) {
    return std::thread{[name, function = std::move(function)]() mutable {
        set_up_thread(name);
        function();
    }};
}

} // namespace viaduct::rt
