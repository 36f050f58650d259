// SPDX-License-Identifier: Apache-2.0
//
// What answers a share's requests: the back end and the layers that its options ask for.
#pragma once

#include "config/serve_options.h"
#include "fs/file_system.h"
#include "fs/lock_table.h"
#include "session/session.h"

#include <memory>
#include <string>

namespace viaduct::engine {

bool serves_xattrs(const config::ServeOptions& options) noexcept;
// Can the host drop set-id bits and capabilities with the change that calls for it (HANDLE_KILLPRIV_V2)?  Not
// the capabilities that are kept under another name: the client's kernel then drops them itself, with one
// more request before each write.
bool drops_privileges(const config::ServeOptions& options);

// What a client of the share is told and asked for when its session begins; submounts and background limits
// are the transport's.
session::SessionOptions session_options(const config::ServeOptions& options);

// The locks of a share: the table of all its clients, and what each may have.
struct Locking {
    std::shared_ptr<fs::LockTable> table = std::make_shared<fs::LockTable>(); // also each client's layer's
    fs::LockTable::Limits limits;
};

// For one client.  The outermost layer; each owns the one behind it.  A failure says why the directory cannot
// be shared, and what to do.
Outcome<std::unique_ptr<fs::FileSystem>> open_share(const config::ServeOptions& options,
                                                    const Locking& locking);

} // namespace viaduct::engine
