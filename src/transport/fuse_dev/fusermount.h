// SPDX-License-Identifier: Apache-2.0
//
// Mounts without root, through fusermount3 of the package fuse3.
#pragma once

#include "transport/fuse_dev/mount_point.h"

namespace viaduct::transport {

// /dev/fuse of the new mount, as fusermount3 passes it over a socket.
Outcome<Fd> fusermount(const MountPointOptions& options);
// As umount -l.  EIO: fusermount3 refused, and has said why on standard error.
Status fusermount_detach(const std::string& path);

} // namespace viaduct::transport
