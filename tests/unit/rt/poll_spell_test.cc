// SPDX-License-Identifier: Apache-2.0
#include "rt/poll_spell.h"

#include <gtest/gtest.h>

namespace viaduct::rt {
namespace {

// Passes that the spell does not end in; the clock moves on by a nanosecond between two looks at it.
void expect_passes_before_the_second_look(PollSpell& spell) {
    for (std::uint32_t pass = 0; pass < PollSpell::kPassesPerLook; ++pass) EXPECT_FALSE(spell.over(1));
}

TEST(PollSpell, is_over_at_the_first_look_at_the_clock_past_the_limit) {
    PollSpell spell;
    expect_passes_before_the_second_look(spell);
    EXPECT_TRUE(spell.over(1));
}

TEST(PollSpell, begins_anew_when_something_was_found) {
    PollSpell spell;
    EXPECT_FALSE(spell.over(1));
    spell.end();
    expect_passes_before_the_second_look(spell);
    EXPECT_TRUE(spell.over(1));
}

TEST(PollSpell, goes_on_while_its_limit_is_not_reached) {
    PollSpell spell;
    for (int pass = 0; pass < 1000; ++pass) EXPECT_FALSE(spell.over(UINT64_MAX));
}

TEST(PollSpell, without_any_time_is_over_at_once) {
    PollSpell spell;
    EXPECT_TRUE(spell.over(0));
}

} // namespace
} // namespace viaduct::rt
