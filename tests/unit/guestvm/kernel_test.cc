// SPDX-License-Identifier: Apache-2.0
#include "guestvm/kernel.h"

#include "guestvm/files.h"
#include "guestvm/temp_dir.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>

namespace viaduct::guestvm {
namespace {

// A bzImage with two set-up sectors, the release at 0x300, and `payload` 16 bytes into the kernel proper.
std::string bzimage(std::string_view payload, std::uint16_t protocol = 0x20f) {
    std::string image(3 * 512 + 16, '\0');
    const auto put = [&image](std::size_t at, auto value) {
        std::memcpy(image.data() + at, &value, sizeof value);
    };
    put(0x1f1, std::uint8_t{2});
    std::memcpy(image.data() + 0x202, "HdrS", 4);
    put(0x206, protocol);
    put(0x20e, std::uint16_t{0x100});
    put(0x248, std::uint32_t{16});
    put(0x24c, static_cast<std::uint32_t>(payload.size()));
    const std::string_view release = "6.12.95-cloud (builder) #1";
    std::memcpy(image.data() + 0x300, release.data(), release.size());
    return image.append(payload);
}

constexpr std::string_view kZstd{"\x28\xb5\x2f\xfd"
                                 "data"
                                 "size",
                                 12};
constexpr std::string_view kElf = "\177ELF....Linux version %s....Linux version 6.1.0-50-amd64 (builder)";

TEST(Kernel, payload_is_found_without_the_size_behind_it) {
    const auto payload = find_payload(bzimage(kZstd));
    ASSERT_TRUE(payload);
    EXPECT_EQ(payload->offset, 3U * 512 + 16);
    EXPECT_EQ(payload->bytes, kZstd.size() - 4);
    EXPECT_EQ(payload->decompress.front(), "zstd");
}

TEST(Kernel, gzip_keeps_its_last_bytes) {
    const auto payload = find_payload(bzimage("\x1f\x8b"
                                              "data"
                                              "size"));
    ASSERT_TRUE(payload);
    EXPECT_EQ(payload->bytes, 10U);
}

TEST(Kernel, images_that_cannot_be_unpacked_are_refused_with_the_reason) {
    EXPECT_EQ(find_payload("short").error().message, "not a bzImage");
    EXPECT_EQ(find_payload(bzimage(kZstd, 0x207)).error().message, "a bzImage older than boot protocol 2.08");
    std::string cut = bzimage(kZstd);
    cut.resize(cut.size() - 1);
    EXPECT_EQ(find_payload(cut).error().message, "a bzImage whose payload is cut off");
    EXPECT_FALSE(find_payload(bzimage("unknown form")));
}

TEST(Kernel, release_is_read_from_both_forms) {
    EXPECT_EQ(kernel_release(bzimage(kZstd)), "6.12.95-cloud");
    EXPECT_EQ(kernel_release(kElf), "6.1.0-50-amd64");
    EXPECT_EQ(kernel_release("something else"), "");
    EXPECT_EQ(kernel_release("\177ELF without a banner"), "");
}

class KernelSearchTest : public testing::Test {
protected:
    void SetUp() override {
        search_.folders = {scratch_.file("empty"), scratch_.file("guest")};
        search_.boot = scratch_.file("boot");
        search_.scratch = scratch_.path();
    }
    void put(const std::string& path, std::string_view contents) {
        std::filesystem::create_directories(std::filesystem::path{scratch_.file(path)}.parent_path());
        ASSERT_TRUE(write_file(scratch_.file(path), contents));
    }
    TempDir scratch_ = *TempDir::create();
    KernelSearch search_;
};

TEST_F(KernelSearchTest, newest_release_of_the_first_folder_that_has_one) {
    put("guest/6.1.0-50/vmlinux", kElf);
    put("guest/6.12.95/vmlinux", kElf);
    put("guest/6.9.1/vmlinux", kElf);
    put("boot/vmlinuz-7.0", kElf);
    const auto kernel = find_kernel(search_);
    ASSERT_TRUE(kernel);
    EXPECT_EQ(kernel->vmlinux, scratch_.file("guest/6.12.95/vmlinux"));
}

TEST_F(KernelSearchTest, boot_folder_is_the_last_resort) {
    put("boot/vmlinuz-6.1.0-9", kElf);
    put("boot/vmlinuz-6.1.0-10", kElf);
    const auto kernel = find_kernel(search_);
    ASSERT_TRUE(kernel);
    EXPECT_EQ(kernel->vmlinux, scratch_.file("boot/vmlinuz-6.1.0-10"));
}

TEST_F(KernelSearchTest, named_kernel_may_be_a_folder_and_modules_are_found_beside_it) {
    put("mine/vmlinux", kElf);
    put("mine/lib/modules/6.1.0-50-amd64/modules.dep", "");
    search_.named = scratch_.file("mine");
    const auto kernel = find_kernel(search_);
    ASSERT_TRUE(kernel);
    EXPECT_EQ(kernel->release, "6.1.0-50-amd64");
    EXPECT_EQ(kernel->modules, scratch_.file("mine/lib/modules/6.1.0-50-amd64"));
}

TEST_F(KernelSearchTest, no_kernel_names_the_way_out) {
    const auto kernel = find_kernel(search_);
    ASSERT_FALSE(kernel);
    EXPECT_NE(kernel.error().message.find("linux-image-cloud-amd64"), std::string::npos);
}

TEST_F(KernelSearchTest, file_that_is_no_kernel_is_refused) {
    put("mine", "#!/bin/sh\n");
    search_.named = scratch_.file("mine");
    const auto kernel = find_kernel(search_);
    ASSERT_FALSE(kernel);
    EXPECT_NE(kernel.error().message.find("neither a vmlinux nor a bzImage"), std::string::npos);
}

} // namespace
} // namespace viaduct::guestvm
