// SPDX-License-Identifier: Apache-2.0
//
// FUSE definitions that <linux/fuse.h> of Debian 12 (7.38) lacks.  Each is left out where the header has it,
// so that the project builds with newer ones too.  Include fuse/protocol.h, not this.
#pragma once

#include <cstdint>
#include <linux/fuse.h>

// INIT flags; bits 32 to 63 travel in flags2.
#ifndef FUSE_CREATE_SUPP_GROUP // 7.38
#define FUSE_CREATE_SUPP_GROUP (1ULL << 34)
#endif
#ifndef FUSE_HAS_EXPIRE_ONLY // 7.38
#define FUSE_HAS_EXPIRE_ONLY (1ULL << 35)
#endif
#ifndef FUSE_DIRECT_IO_ALLOW_MMAP // 7.39
#define FUSE_DIRECT_IO_ALLOW_MMAP (1ULL << 36)
#endif
#ifndef FUSE_PASSTHROUGH // 7.40
#define FUSE_PASSTHROUGH (1ULL << 37)
#endif
#ifndef FUSE_NO_EXPORT_SUPPORT // 7.40
#define FUSE_NO_EXPORT_SUPPORT (1ULL << 38)
#endif
#ifndef FUSE_HAS_RESEND // 7.40
#define FUSE_HAS_RESEND (1ULL << 39)
#endif
#ifndef FUSE_ALLOW_IDMAP // 7.41
#define FUSE_ALLOW_IDMAP (1ULL << 40)
#endif
#ifndef FUSE_OVER_IO_URING // 7.42
#define FUSE_OVER_IO_URING (1ULL << 41)
#endif
#ifndef FUSE_REQUEST_TIMEOUT // 7.43
#define FUSE_REQUEST_TIMEOUT (1ULL << 42)
#endif

#if FUSE_KERNEL_MINOR_VERSION < 39
enum { FUSE_STATX = 52 };

struct fuse_sx_time {
    std::int64_t tv_sec;
    std::uint32_t tv_nsec;
    std::int32_t reserved;
};

struct fuse_statx {
    std::uint32_t mask;
    std::uint32_t blksize;
    std::uint64_t attributes;
    std::uint32_t nlink;
    std::uint32_t uid;
    std::uint32_t gid;
    std::uint16_t mode;
    std::uint16_t spare0[1];
    std::uint64_t ino;
    std::uint64_t size;
    std::uint64_t blocks;
    std::uint64_t attributes_mask;
    fuse_sx_time atime;
    fuse_sx_time btime;
    fuse_sx_time ctime;
    fuse_sx_time mtime;
    std::uint32_t rdev_major;
    std::uint32_t rdev_minor;
    std::uint32_t dev_major;
    std::uint32_t dev_minor;
    std::uint64_t spare2[14];
};

struct fuse_statx_in {
    std::uint32_t getattr_flags;
    std::uint32_t reserved;
    std::uint64_t fh;
    std::uint32_t sx_flags;
    std::uint32_t sx_mask;
};

struct fuse_statx_out {
    std::uint64_t attr_valid;
    std::uint32_t attr_valid_nsec;
    std::uint32_t flags;
    std::uint64_t spare[2];
    fuse_statx stat;
};
#endif

#if FUSE_KERNEL_MINOR_VERSION < 45
enum { FUSE_COPY_FILE_RANGE_64 = 53 };

struct fuse_copy_file_range_out {
    std::uint64_t bytes_copied;
};
#endif

static_assert(sizeof(fuse_statx) == 256);
static_assert(sizeof(fuse_statx_out) == 288);
static_assert(sizeof(fuse_statx_in) == 24);
