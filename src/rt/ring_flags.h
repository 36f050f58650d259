// SPDX-License-Identifier: Apache-2.0
//
// What a READ or WRITE on the ring may be told besides the RWF_ flags of preadv2(2).
#pragma once

namespace viaduct::rt {

// The call may block in the kernel whatever it is told, so it does not begin on the thread that submits it.
// Linux before 6.7 takes the regular files of every file system without a block device (FUSE, networks) for
// ones that know IOCB_NOWAIT; FUSE does not, and io_uring_enter(2) would wait for its server.
// No RWF_ flag: those are counted from the other end.
inline constexpr int kMayBlock = 1 << 30;

} // namespace viaduct::rt
