// SPDX-License-Identifier: Apache-2.0
//
// The shortest way through everything: a folder is served, a file in it is read over each queue.
#include "driver/fuse_client.h"
#include "support/daemon.h"
#include "support/temp_dir.h"

#include <gtest/gtest.h>

#include <fcntl.h>

namespace viaduct {
namespace {

struct Ring {
    bool packed = false;
    bool event_idx = true;
    bool indirect = true;
    const char* worker_ring = "auto";
};

class Smoke : public testing::TestWithParam<Ring> {};

std::string name_of(const testing::TestParamInfo<Ring>& info) {
    return std::string{info.param.packed ? "packed" : "split"} + (info.param.event_idx ? "_event_idx" : "") +
           (info.param.indirect ? "_indirect" : "") +
           (info.param.worker_ring == std::string_view{"auto"} ? "" : "_without_io_uring");
}

INSTANTIATE_TEST_SUITE_P(Rings, Smoke,
                         testing::Values(Ring{}, Ring{.event_idx = false, .indirect = false},
                                         Ring{.packed = true},
                                         Ring{.packed = true, .event_idx = false, .indirect = false},
                                         Ring{.worker_ring = "poll"}),
                         name_of);

TEST_P(Smoke, a_file_is_read_over_two_queues) {
    const test::TempDir folder;
    const std::string share = folder.make_folder("share");
    const std::string text = "over the viaduct\n";
    folder.write("share/file", text);
    const std::string socket = folder.file("socket");
    const auto daemon =
        test::Daemon::start({.argv = {test::program("viaduct"), "serve", "--share", share, "--socket", socket,
                                      "--queues", "2", "--ring", GetParam().worker_ring},
                             .socket = socket});
    ASSERT_TRUE(daemon) << daemon.error().message;
    const auto device = driver::Device::connect({.socket = socket,
                                                 .request_queues = 2,
                                                 .packed = GetParam().packed,
                                                 .event_idx = GetParam().event_idx,
                                                 .indirect = GetParam().indirect});
    ASSERT_TRUE(device) << device.error().message << "\n" << (*daemon)->log();
    ASSERT_EQ((*device)->request_queue_count(), 2U);
    EXPECT_EQ((*device)->ring_options().packed, GetParam().packed);

    driver::FuseClient client{**device};
    const auto init = client.on_queue(0).init();
    ASSERT_TRUE(init) << init.error().name() << "\n" << (*daemon)->log();
    for (const std::uint32_t queue : {0U, 1U}) {
        auto on_queue = client.on_queue(queue);
        const auto entry = on_queue.lookup(driver::FuseClient::kRoot, "file");
        ASSERT_TRUE(entry) << entry.error().name();
        EXPECT_EQ(entry->attr.size, text.size());
        const auto handle = on_queue.open(entry->nodeid, O_RDONLY);
        ASSERT_TRUE(handle) << handle.error().name();
        EXPECT_EQ(on_queue.read(entry->nodeid, *handle, 0, 4096), text);
        EXPECT_TRUE(on_queue.release(entry->nodeid, *handle));
        EXPECT_TRUE(on_queue.forget(entry->nodeid));
    }
    EXPECT_EQ(client.lookup(driver::FuseClient::kRoot, "nothing").error(), Errno{ENOENT});

    (*device)->disconnect();
    EXPECT_EQ((*daemon)->end(), 0) << (*daemon)->log();
}

} // namespace
} // namespace viaduct
