// SPDX-License-Identifier: Apache-2.0
#include "bench/bare_call.h"

#include "support/temp_dir.h"

#include <filesystem>
#include <gtest/gtest.h>

namespace viaduct::bench {
namespace {

TEST(BareCall, as_many_operations_as_asked_for_succeed_and_nothing_is_left_behind) {
    using driver::LoadKind;
    const test::TempDir folder;
    for (const LoadKind kind :
         {LoadKind::getattr, LoadKind::lookup, LoadKind::open_release, LoadKind::read, LoadKind::write,
          LoadKind::create_unlink, LoadKind::readdir, LoadKind::readdirplus}) {
        auto call = BareCall::make(folder.path(), {.kind = kind, .file_bytes = 1 << 20});
        ASSERT_TRUE(call) << call.error().message;
        EXPECT_EQ(call->repeat(10), 10U) << name_of(kind);
        EXPECT_FALSE(std::filesystem::is_empty(folder.path()));
    }
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(BareCall, there_is_none_for_null) {
    EXPECT_FALSE(BareCall::possible({.kind = driver::LoadKind::null}));
}

} // namespace
} // namespace viaduct::bench
