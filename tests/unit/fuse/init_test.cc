// SPDX-License-Identifier: Apache-2.0
#include "fuse/init.h"

#include <gtest/gtest.h>

namespace viaduct::fuse {
namespace {

// What kernels offer over virtio-fs, to the bit: everything they know, but for what the transport rules out.
struct Kernel {
    const char* name;
    std::uint32_t minor;
    std::uint64_t flags;
};
constexpr std::uint64_t below(int bit) {
    return (1ULL << bit) - 1;
}
constexpr Kernel kKernels[] = {
    {"4.19", 27, below(22)},
    {"5.4", 31, below(26)},
    {"5.15", 34, below(30)},
    {"6.1", 37, (below(34) & ~(1ULL << 31))},
    {"6.12", 41, (below(41) & ~(1ULL << 31))},
    {"6.18", 45, (below(43) & ~(1ULL << 31))},
};

fuse_init_in offer_of(const Kernel& kernel) {
    fuse_init_in offer{};
    offer.major = 7;
    offer.minor = kernel.minor;
    offer.max_readahead = 131072;
    offer.flags = static_cast<std::uint32_t>(kernel.flags);
    offer.flags2 = static_cast<std::uint32_t>(kernel.flags >> 32U);
    return offer;
}

std::uint64_t flags_of(const fuse_init_out& out) {
    return out.flags | std::uint64_t{out.flags2} << 32U;
}

TEST(Init, reply_to_each_kernel_takes_only_what_it_offers) {
    InitWishes all;
    all.writeback = all.submounts = all.cache_symlinks = true;
    for (const Kernel& kernel : kKernels) {
        for (const InitWishes& wishes : {InitWishes{}, all}) {
            const auto reply = negotiate(offer_of(kernel), wishes);
            ASSERT_TRUE(reply) << kernel.name;
            EXPECT_TRUE(reply->accepted);
            EXPECT_EQ(reply->bytes, 64U);
            EXPECT_EQ(reply->minor, kernel.minor);
            EXPECT_EQ(flags_of(reply->out) & ~kernel.flags, 0U) << kernel.name;
            EXPECT_EQ(flags_of(reply->out), reply->flags);
            EXPECT_EQ(reply->out.max_readahead, 131072U);
            EXPECT_EQ(reply->out.time_gran, 1U);
            EXPECT_EQ(reply->out.map_alignment, 0U);
        }
    }
}

TEST(Init, max_pages_matches_max_write) {
    for (const std::uint32_t bytes : {4096U, 5000U, 131072U, 1U << 20, (1U << 20) + 1}) {
        const auto reply = negotiate(offer_of(kKernels[5]), {.max_write_bytes = bytes});
        EXPECT_EQ(reply->out.max_write, bytes);
        EXPECT_EQ(reply->out.max_pages, (bytes + 4095) / 4096);
    }
    const auto old = negotiate(offer_of(kKernels[0]), {});
    EXPECT_EQ(old->flags & FUSE_MAX_PAGES, 0U);
    EXPECT_EQ(old->out.max_pages, 0U);
    EXPECT_EQ(old->out.max_write, 131072U);
}

TEST(Init, flags2_counts_only_with_init_ext) {
    fuse_init_in offer = offer_of(kKernels[5]);
    offer.flags &= ~static_cast<std::uint32_t>(FUSE_INIT_EXT);
    offer.flags2 = 0xffffffff;
    const auto reply = negotiate(offer, {});
    EXPECT_EQ(reply->out.flags2, 0U);
    EXPECT_EQ(reply->out.flags & FUSE_INIT_EXT, 0U);
}

TEST(Init, what_is_not_built_is_not_announced) {
    const auto reply = negotiate(offer_of(kKernels[5]), {.writeback = true, .submounts = true});
    constexpr std::uint64_t kNotBuilt =
        FUSE_EXPORT_SUPPORT | FUSE_POSIX_ACL | FUSE_NO_OPEN_SUPPORT | FUSE_NO_OPENDIR_SUPPORT |
        FUSE_EXPLICIT_INVAL_DATA | FUSE_MAP_ALIGNMENT | FUSE_HANDLE_KILLPRIV | FUSE_HAS_IOCTL_DIR |
        FUSE_SECURITY_CTX | FUSE_HAS_INODE_DAX | FUSE_HAS_EXPIRE_ONLY | FUSE_PASSTHROUGH | FUSE_HAS_RESEND |
        FUSE_ALLOW_IDMAP | FUSE_OVER_IO_URING | FUSE_REQUEST_TIMEOUT | FUSE_DIRECT_IO_ALLOW_MMAP;
    EXPECT_EQ(reply->flags & kNotBuilt, 0U);
    EXPECT_NE(reply->flags & FUSE_SUBMOUNTS, 0U);
    EXPECT_NE(reply->flags & FUSE_WRITEBACK_CACHE, 0U);
}

TEST(Init, acls_need_the_umask_and_set_group_id_on_our_side) {
    fuse_init_in offer = offer_of(kKernels[5]);
    EXPECT_NE(negotiate(offer, {.posix_acl = true})->flags & FUSE_POSIX_ACL, 0U);
    EXPECT_EQ(negotiate(offer, {.dont_mask = false, .posix_acl = true})->flags & FUSE_POSIX_ACL, 0U);
    offer.flags &= ~static_cast<std::uint32_t>(FUSE_SETXATTR_EXT);
    EXPECT_EQ(negotiate(offer, {.posix_acl = true})->flags & FUSE_POSIX_ACL, 0U);
}

TEST(Init, locks_are_asked_for_by_kind_when_wished_and_offered) {
    constexpr std::uint64_t kBoth = FUSE_POSIX_LOCKS | FUSE_FLOCK_LOCKS;
    fuse_init_in offer = offer_of(kKernels[5]);
    offer.flags |= static_cast<std::uint32_t>(kBoth);
    EXPECT_EQ(negotiate(offer, {})->flags & kBoth, 0U);
    EXPECT_EQ(negotiate(offer, {.posix_locks = true})->flags & kBoth, std::uint64_t{FUSE_POSIX_LOCKS});
    EXPECT_EQ(negotiate(offer, {.flock_locks = true})->flags & kBoth, std::uint64_t{FUSE_FLOCK_LOCKS});
    offer.flags &= ~static_cast<std::uint32_t>(kBoth);
    EXPECT_EQ(negotiate(offer, {.posix_locks = true, .flock_locks = true})->flags & kBoth, 0U);
}

TEST(Init, adaptive_readdirplus_needs_readdirplus) {
    fuse_init_in offer = offer_of(kKernels[5]);
    EXPECT_NE(negotiate(offer, {})->flags & FUSE_READDIRPLUS_AUTO, 0U);
    EXPECT_EQ(negotiate(offer, {.readdirplus = false})->flags & FUSE_READDIRPLUS_AUTO, 0U);
    offer.flags &= ~static_cast<std::uint32_t>(FUSE_DO_READDIRPLUS);
    EXPECT_EQ(negotiate(offer, {})->flags & FUSE_READDIRPLUS_AUTO, 0U);
}

TEST(Init, old_minors_get_the_reply_they_can_take) {
    for (std::uint32_t minor = 0; minor <= 50; ++minor) {
        fuse_init_in offer{};
        offer.major = 7;
        offer.minor = minor;
        const auto reply = negotiate(offer, {});
        ASSERT_TRUE(reply);
        EXPECT_EQ(reply->bytes, minor < 5 ? 8U : minor < 23 ? 24U : 64U) << minor;
        EXPECT_EQ(reply->minor, std::min(minor, 45U));
        EXPECT_EQ(reply->out.major, 7U);
    }
}

TEST(Init, newer_major_gets_our_major_only) {
    fuse_init_in offer = offer_of(kKernels[5]);
    offer.major = 8;
    const auto reply = negotiate(offer, {});
    ASSERT_TRUE(reply);
    EXPECT_FALSE(reply->accepted);
    EXPECT_EQ(reply->out.major, 7U);
    EXPECT_EQ(flags_of(reply->out), 0U);
    EXPECT_EQ(reply->out.max_write, 0U);
}

TEST(Init, older_major_is_refused) {
    fuse_init_in offer = offer_of(kKernels[5]);
    offer.major = 6;
    const auto reply = negotiate(offer, {});
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error(), Errno{EPROTO});
}

} // namespace
} // namespace viaduct::fuse
