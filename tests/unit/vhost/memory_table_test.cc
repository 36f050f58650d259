// SPDX-License-Identifier: Apache-2.0
#include "vhost/memory_table.h"

#include <gtest/gtest.h>

#include "unit/vhost/recording_device.h"
#include "vhost/bus_guard.h"
#include "vhost/memory_change.h"

#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/wait.h>

namespace viaduct::vhost {
namespace {

using test::memory_file;

WireRegion wire(std::uint64_t number, std::uint64_t offset = 0) {
    const auto region = test::region(number);
    return {.guest_address = region.guest_address,
            .bytes = region.bytes,
            .user_address = region.user_address,
            .mmap_offset = offset};
}

std::vector<Fd> files_of(std::initializer_list<const Fd*> files) {
    std::vector<Fd> copies;
    for (const Fd* file : files) copies.emplace_back(::fcntl(file->get(), F_DUPFD_CLOEXEC, 0));
    return copies;
}

Fd copy_of(const Fd& file) {
    return std::move(files_of({&file})[0]);
}

TEST(Mapping, region_begins_at_its_offset_in_the_file) {
    const Fd file = memory_file(0x4000);
    ASSERT_EQ(::pwrite(file.get(), "x", 1, 0x2010), 1);
    // The offset is no multiple of a page, and the addresses agree with it within the page.
    const auto mapped =
        Mapping::map({.guest_address = 0x10, .bytes = 0x1000, .user_address = 0x5010, .mmap_offset = 0x2010},
                     copy_of(file));
    ASSERT_TRUE(mapped);
    EXPECT_EQ(static_cast<char>((*mapped)->host()[0]), 'x');
    (*mapped)->host()[1] = std::byte{'y'};
    char seen = 0;
    ASSERT_EQ(::pread(file.get(), &seen, 1, 0x2011), 1);
    EXPECT_EQ(seen, 'y');
}

TEST(Mapping, sizes_and_offsets_that_cannot_be_are_refused) {
    const Fd file = memory_file(0x2000);
    const RegionDescription good{
        .guest_address = 0, .bytes = 0x2000, .user_address = 0x1000, .mmap_offset = 0};
    const auto refused = [&](auto change) {
        RegionDescription region = good;
        change(region);
        const auto mapped = Mapping::map(region, copy_of(file));
        return !mapped && mapped.error() == Errno{EINVAL};
    };
    EXPECT_TRUE(Mapping::map(good, copy_of(file)));
    EXPECT_TRUE(refused([](auto& region) { region.bytes = 0; }));
    EXPECT_TRUE(refused([](auto& region) { region.bytes = 1ULL << 60; }));
    EXPECT_TRUE(refused([](auto& region) { region.bytes = 0x2001; }));
    EXPECT_TRUE(refused([](auto& region) { region.bytes = ~0ULL; }));
    EXPECT_TRUE(refused([](auto& region) { region.mmap_offset = 0x1000; }));
    EXPECT_TRUE(refused([](auto& region) { region.mmap_offset = ~0xfffULL; }));
    EXPECT_TRUE(refused([](auto& region) { region.guest_address = ~0xfffULL; }));
    EXPECT_TRUE(refused([](auto& region) { region.user_address = ~0xfffULL; }));
    EXPECT_TRUE(refused([](auto& region) { region.user_address = 0x1008; }));
    EXPECT_TRUE(refused([](auto& region) { region.guest_address = 0x1; }));
}

TEST(Mapping, descriptor_that_cannot_be_mapped_gives_the_error_of_the_system) {
    EXPECT_FALSE(Mapping::map(test::region(0), test::event_fd()));
    Fd read_only{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
    const auto mapped = Mapping::map({.guest_address = 0, .bytes = 4096, .user_address = 0, .mmap_offset = 0},
                                     std::move(read_only));
    ASSERT_FALSE(mapped);
    EXPECT_EQ(mapped.error(), Errno{EACCES});
}

TEST(Mapping, knows_its_file_by_identity_and_not_by_number) {
    const Fd file = memory_file(test::kRegionBytes);
    const Fd other = memory_file(test::kRegionBytes);
    const auto mapped = Mapping::map(test::region(0), copy_of(file));
    ASSERT_TRUE(mapped);
    EXPECT_TRUE((*mapped)->same_file(copy_of(file)));
    EXPECT_FALSE((*mapped)->same_file(other));
}

TEST(Mapping, detached_memory_misses_the_file) {
    const Fd file = memory_file(test::kRegionBytes, 'a');
    const auto mapped = Mapping::map(test::region(0), copy_of(file));
    ASSERT_TRUE(mapped);
    ASSERT_TRUE((*mapped)->detach());
    EXPECT_EQ((*mapped)->host()[0], std::byte{0});
    (*mapped)->host()[0] = std::byte{'z'};
    char seen = 0;
    ASSERT_EQ(::pread(file.get(), &seen, 1, 0), 1);
    EXPECT_EQ(seen, 'a');
}

TEST(BusGuard, file_that_shrinks_gives_zeroes_and_is_marked_as_lost) {
    const Fd event{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    install_bus_guard(event.get());
    const Fd file = memory_file(test::kRegionBytes, 'a');
    const Fd other = memory_file(test::kRegionBytes, 'b');
    const auto mapped = Mapping::map(test::region(0), copy_of(file));
    const auto untouched = Mapping::map(test::region(1), copy_of(other));
    ASSERT_TRUE(mapped);
    ASSERT_TRUE(untouched);
    EXPECT_FALSE((*mapped)->lost());

    ASSERT_EQ(::ftruncate(file.get(), 4096), 0);
    volatile std::byte* const bytes = (*mapped)->host();
    const auto at = [bytes](std::size_t offset) -> std::byte { return bytes[offset]; };
    EXPECT_EQ(at(0), std::byte{'a'});
    EXPECT_EQ(at(4096), std::byte{0});
    bytes[0x8000] = std::byte{'c'};
    EXPECT_EQ(at(0x8000), std::byte{'c'});

    EXPECT_TRUE((*mapped)->lost());
    EXPECT_FALSE((*untouched)->lost());
    std::uint64_t count = 0;
    ASSERT_EQ(::read(event.get(), &count, sizeof count), static_cast<ssize_t>(sizeof count));
    EXPECT_EQ(count, 1U);
    install_bus_guard(-1);
}

TEST(BusGuard, ranges_are_given_back) {
    std::vector<std::byte> bytes(4096);
    for (std::size_t round = 0; round < BusGuard::kRangesMax + 10; ++round) {
        const auto lost = BusGuard::guard(bytes.data(), bytes.size(), 4096);
        ASSERT_TRUE(lost);
        BusGuard::release(*lost);
    }
}

#ifndef VIADUCT_SANITIZED // a sanitizer's own handler ends the process another way
TEST(BusGuard, fault_elsewhere_still_kills) {
    install_bus_guard(-1);
    const pid_t child = ::fork();
    if (child == 0) {
        const Fd file = memory_file(4096);
        void* const page = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file.get(), 0);
        if (::ftruncate(file.get(), 0) != 0) ::_exit(1);
        ::_exit(*static_cast<volatile char*>(page));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGBUS);
}

TEST(BusGuard, signal_that_was_sent_still_kills) {
    install_bus_guard(-1);
    const pid_t child = ::fork();
    if (child == 0) {
        ::raise(SIGBUS);
        ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGBUS);
}
#endif

TEST(MemoryChange, same_region_of_the_same_file_keeps_its_mapping) {
    const Fd first = memory_file(test::kRegionBytes);
    const Fd second = memory_file(test::kRegionBytes);
    const std::vector before{wire(0)};
    const auto present = replace_regions(MemoryTable{}, before, files_of({&first}));
    ASSERT_TRUE(present);
    EXPECT_FALSE(present->drain);

    const std::vector after{wire(1), wire(0)};
    const auto grown = replace_regions(*present->table, after, files_of({&second, &first}));
    ASSERT_TRUE(grown);
    EXPECT_FALSE(grown->drain);
    EXPECT_EQ(grown->table->mappings()[1], present->table->mappings()[0]);
}

TEST(MemoryChange, same_region_of_another_file_is_mapped_anew) {
    const Fd first = memory_file(test::kRegionBytes, 'a');
    const Fd second = memory_file(test::kRegionBytes, 'b');
    const std::vector regions{wire(0)};
    const auto present = replace_regions(MemoryTable{}, regions, files_of({&first}));
    ASSERT_TRUE(present);
    const auto changed = replace_regions(*present->table, regions, files_of({&second}));
    ASSERT_TRUE(changed);
    EXPECT_TRUE(changed->drain);
    EXPECT_EQ(changed->table->view().at(virtio::GuestAddress{0}, 1)[0], std::byte{'b'});
    EXPECT_EQ(present->table->view().at(virtio::GuestAddress{0}, 1)[0], std::byte{'a'});
}

TEST(MemoryChange, region_that_vanishes_is_drained) {
    const Fd file = memory_file(test::kRegionBytes);
    const std::vector two{wire(0), wire(1)};
    const auto present = replace_regions(MemoryTable{}, two, files_of({&file, &file}));
    ASSERT_TRUE(present);
    const std::vector one{wire(1)};
    EXPECT_TRUE(replace_regions(*present->table, one, files_of({&file}))->drain);
    EXPECT_TRUE(remove_region(*present->table, wire(0))->drain);
    EXPECT_EQ(remove_region(*present->table, wire(0))->table->mappings().size(), 1U);
}

TEST(MemoryChange, overlapping_unknown_and_miscounted_regions_are_refused) {
    const Fd file = memory_file(test::kRegionBytes);
    const auto present = add_region(MemoryTable{}, wire(0), copy_of(file));
    ASSERT_TRUE(present);
    EXPECT_FALSE(add_region(*present->table, wire(0), copy_of(file)));
    WireRegion half = wire(0);
    half.guest_address += 0x8000;
    EXPECT_FALSE(add_region(*present->table, half, copy_of(file)));
    EXPECT_FALSE(remove_region(*present->table, wire(1)));
    const std::vector one{wire(0)};
    EXPECT_FALSE(replace_regions(MemoryTable{}, one, {}));
    EXPECT_FALSE(replace_regions(MemoryTable{}, one, files_of({&file, &file})));
    const std::vector twice{wire(0), wire(0)};
    EXPECT_FALSE(replace_regions(*present->table, twice, files_of({&file, &file})));
}

TEST(MemoryChange, slots_run_out_at_their_number) {
    const Fd file = memory_file(4096);
    std::shared_ptr<const MemoryTable> table = std::make_shared<MemoryTable>();
    for (std::uint64_t slot = 0; slot <= kMemorySlotsMax; ++slot) {
        const WireRegion region{
            .guest_address = slot * 4096, .bytes = 4096, .user_address = slot * 4096, .mmap_offset = 0};
        auto change = add_region(*table, region, copy_of(file));
        ASSERT_EQ(change.has_value(), slot < kMemorySlotsMax);
        if (change) table = change->table;
    }
    EXPECT_EQ(table->mappings().size(), 509U);
}

} // namespace
} // namespace viaduct::vhost
