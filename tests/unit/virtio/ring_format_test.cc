// SPDX-License-Identifier: Apache-2.0
#include "virtio/ring_format.h"

#include <gtest/gtest.h>

namespace viaduct::virtio {
namespace {

TEST(RingFormat, an_event_is_passed_when_the_index_steps_over_it) {
    EXPECT_TRUE(event_passed(0, 1, 0));
    EXPECT_FALSE(event_passed(1, 1, 0));
    EXPECT_TRUE(event_passed(9, 10, 5));
    EXPECT_TRUE(event_passed(5, 10, 5));
    EXPECT_FALSE(event_passed(4, 10, 5));
    EXPECT_FALSE(event_passed(10, 10, 5));
    EXPECT_TRUE(event_passed(65535, 0, 65535));
    EXPECT_TRUE(event_passed(65534, 3, 65530));
    EXPECT_TRUE(event_passed(2, 3, 65530));
    EXPECT_FALSE(event_passed(3, 3, 65530));
    EXPECT_FALSE(event_passed(65529, 3, 65530));
}

// Against the definition: walk back over the entries of the batch and look for the event.
TEST(RingFormat, a_packed_event_is_wanted_exactly_when_it_lies_in_the_batch) {
    for (const std::uint32_t size : {1U, 2U, 3U, 7U}) {
        for (std::uint32_t now = 0; now < 2 * size; ++now) {
            const auto position_at = [&](std::uint32_t place) {
                place %= 2 * size;
                return PackedPosition{.offset = place % size, .wrap = place < size};
            };
            for (std::uint32_t event = 0; event < 2 * size; ++event) {
                const std::uint32_t word = packed_event_word(position_at(event).bits(), kEventDesc);
                for (std::uint32_t count = 1; count <= size; ++count) {
                    bool expected = false;
                    for (std::uint32_t back = 1; back <= count; ++back) {
                        expected |= position_at(now + 2 * size - back) == position_at(event);
                    }
                    EXPECT_EQ(packed_event_wanted(word, position_at(now), count, size, true), expected)
                        << "size " << size << " now " << now << " event " << event << " count " << count;
                }
            }
        }
    }
}

} // namespace
} // namespace viaduct::virtio
