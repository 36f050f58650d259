// SPDX-License-Identifier: Apache-2.0
//
// Command lines that are wrong, and what the sentence about each must name.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace viaduct::test {

struct Mistake {
    std::vector<const char*> words;
    std::vector<const char*> named;
};

// `parsed(words)` gives an Outcome: each is refused with status 2.
template <class Parse> void expect_refused(const Parse& parsed, const std::vector<Mistake>& mistakes) {
    for (const Mistake& mistake : mistakes) {
        const auto command = parsed(mistake.words);
        ASSERT_FALSE(command) << mistake.named.front();
        EXPECT_EQ(command.error().exit_status, 2);
        for (const char* const part : mistake.named)
            EXPECT_THAT(command.error().message, testing::HasSubstr(part));
    }
}

} // namespace viaduct::test
