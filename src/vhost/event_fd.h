// SPDX-License-Identifier: Apache-2.0
//
// Descriptors that a front end sends to be signalled through.
#pragma once

#include "base/fd.h"
#include "base/result.h"

namespace viaduct::vhost {

// Makes `fd` fit to be written to by a worker: it is an eventfd and does not block.
// EINVAL: it is something else; a write to it could block, or go into a file.
Status prepare_event_fd(FdRef fd);

// Opens what prepare_event_fd() looks into.  Called once before /proc is out of reach (sandbox); otherwise
// the first use does it.
void prepare_event_checks();

bool is_socket(FdRef fd);

// A second descriptor for the same thing; an invalid one stays invalid.
Result<Fd> duplicate(const Fd& fd);

} // namespace viaduct::vhost
