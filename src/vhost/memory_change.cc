// SPDX-License-Identifier: Apache-2.0
#include "vhost/memory_change.h"

#include "vhost/text.h"

#include <algorithm>

namespace viaduct::vhost {
namespace {

RegionDescription description_of(const WireRegion& region) {
    return {.guest_address = region.guest_address,
            .bytes = region.bytes,
            .user_address = region.user_address,
            .mmap_offset = region.mmap_offset};
}

std::string text_of(const WireRegion& region) {
    return sentence("region of {} bytes at guest address {} (file offset {})", hex(region.bytes),
                    hex(region.guest_address), hex(region.mmap_offset));
}

Outcome<std::shared_ptr<Mapping>> map(const WireRegion& region, Fd file) {
    auto mapped = Mapping::map(description_of(region), std::move(file));
    if (!mapped) return failure(text_of(region) + " cannot be mapped", mapped.error());
    return *std::move(mapped);
}

Outcome<std::shared_ptr<const MemoryTable>> table_of(std::vector<std::shared_ptr<Mapping>> mappings) {
    auto table = MemoryTable::make(std::move(mappings));
    if (!table) return failure("regions overlap");
    return *std::move(table);
}

} // namespace

Outcome<MemoryChange> replace_regions(const MemoryTable& present, std::span<const WireRegion> regions,
                                      std::vector<Fd> files) {
    if (files.size() != regions.size())
        return failure(sentence("{} regions came with {} descriptors", regions.size(), files.size()));

    std::vector<std::shared_ptr<Mapping>> mappings;
    std::size_t kept = 0;
    for (std::size_t index = 0; index < regions.size(); ++index) {
        const auto same = std::ranges::find_if(present.mappings(), [&](const auto& mapping) {
            return mapping->region() == description_of(regions[index]) && !mapping->lost() &&
                   mapping->same_file(files[index]);
        });
        if (same != present.mappings().end()) {
            mappings.push_back(*same);
            ++kept;
            continue;
        }
        TRY(auto mapping, map(regions[index], std::move(files[index])));
        mappings.push_back(std::move(mapping));
    }
    // A region that is named twice keeps one mapping twice; it overlaps itself, so such a table is refused.
    TRY(auto table, table_of(std::move(mappings)));
    return MemoryChange{.table = std::move(table), .drain = kept < present.mappings().size()};
}

Outcome<MemoryChange> add_region(const MemoryTable& present, const WireRegion& region, Fd file) {
    if (present.mappings().size() >= kMemorySlotsMax)
        return failure(sentence("all {} memory slots are in use", kMemorySlotsMax));
    auto mappings = present.mappings();
    TRY(auto mapping, map(region, std::move(file)));
    mappings.push_back(std::move(mapping));
    TRY(auto table, table_of(std::move(mappings)));
    return MemoryChange{.table = std::move(table), .drain = false};
}

Outcome<MemoryChange> remove_region(const MemoryTable& present, const WireRegion& region) {
    auto mappings = present.mappings();
    const auto found = std::ranges::find_if(mappings, [&](const auto& mapping) {
        const RegionDescription& other = mapping->region();
        return other.guest_address == region.guest_address && other.user_address == region.user_address &&
               other.bytes == region.bytes;
    });
    if (found == mappings.end()) return failure("no " + text_of(region) + " was ever added");
    mappings.erase(found);
    TRY(auto table, table_of(std::move(mappings)));
    return MemoryChange{.table = std::move(table), .drain = true};
}

} // namespace viaduct::vhost
