// SPDX-License-Identifier: Apache-2.0
#include "rt/close_fds.h"

#include "rt/epoch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <vector>

namespace viaduct::rt {
namespace {

bool is_open(int fd) {
    return ::fcntl(fd, F_GETFD) >= 0;
}

std::vector<int> some_fds(int count) {
    std::vector<int> fds;
    for (int made = 0; made < count; ++made) fds.push_back(::open("/", O_PATH | O_CLOEXEC));
    return fds;
}

TEST(CloseFds, closes_what_it_is_given_and_nothing_between) {
    const std::vector<int> all = some_fds(12);
    // In no order, with neighbours and with some alone.
    std::vector<int> given{all[7], all[1], all[8], all[3], all[6], all[11], all[2]};
    close_fds(given);
    for (const std::size_t index : {1U, 2U, 3U, 6U, 7U, 8U, 11U}) EXPECT_FALSE(is_open(all[index])) << index;
    for (const std::size_t index : {0U, 4U, 5U, 9U, 10U}) {
        EXPECT_TRUE(is_open(all[index])) << index;
        ::close(all[index]);
    }
    close_fds({});
}

TEST(CloseFds, what_a_collection_frees_is_closed_when_it_ends) {
    const auto member = EpochMember::join();
    const std::vector<int> fds = some_fds(200); // more than are closed together
    const auto free = [](void*, std::uint64_t fd) { EpochMember::close(static_cast<int>(fd)); };
    for (const int fd : fds) member->retire(free, nullptr, static_cast<std::uint64_t>(fd));
    member->quiescent();
    EXPECT_EQ(member->collect(), 0U);
    for (const int fd : fds) EXPECT_FALSE(is_open(fd));

    const int alone = some_fds(1).front();
    EpochMember::close(alone); // outside of a collection: at once
    EXPECT_FALSE(is_open(alone));
}

} // namespace
} // namespace viaduct::rt
