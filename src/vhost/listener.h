// SPDX-License-Identifier: Apache-2.0
//
// The socket that front ends connect to.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "rt/operation.h"
#include "rt/task.h"

#include <string>
#include <sys/types.h>

namespace viaduct::vhost {

class Listener {
public:
    // Makes the socket file; a stale one, on which nobody listens, is replaced.  The sentence says what is
    // wrong with the path and the way out.
    static Outcome<Listener> bind(const std::string& path);
    // Takes over a descriptor that listens already.
    static Outcome<Listener> adopt(Fd socket);
    // Removes the socket file that bind() made, if it is still that one.
    ~Listener();
    Listener(Listener&& other) noexcept;
    Listener& operator=(Listener&&) = delete;

    // On the control worker; one at a time.  The next front end; one that is gone already is passed over.
    // ECANCELED: stop() was called.
    rt::Task<Result<Fd>> accept();
    // On the control worker.
    void stop();

    int fd() const noexcept { return socket_.get(); }

private:
    explicit Listener(Fd socket) : socket_(std::move(socket)) {}

    Fd socket_;
    std::string path_; // empty: not ours to remove
    dev_t device_ = 0;
    ino_t inode_ = 0;
    bool stopped_ = false;
    rt::Operation* waiting_ = nullptr; // in accept()'s frame
};

} // namespace viaduct::vhost
