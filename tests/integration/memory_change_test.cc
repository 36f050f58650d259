// SPDX-License-Identifier: Apache-2.0
//
// Memory that comes, goes and is mapped anew while queues are under load.
#include "support/raw_guest.h"
#include "support/served_share.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fcntl.h>
#include <fstream>
#include <random>
#include <thread>

namespace viaduct::test {
namespace {

using namespace std::chrono_literals;

// A memfd beside the guest's own, at guest and user addresses of its own.
class ExtraMemory {
public:
    explicit ExtraMemory(std::uint64_t bytes, std::uint64_t guest_address = 1ULL << 40)
        : guest_address_(guest_address), bytes_(bytes) {
        EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(bytes)), 0);
        memory_ = static_cast<std::byte*>(
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0));
    }
    ~ExtraMemory() { ::munmap(memory_, bytes_); }
    ExtraMemory(const ExtraMemory&) = delete;
    ExtraMemory& operator=(const ExtraMemory&) = delete;

    std::byte* at(std::uint64_t offset) const { return memory_ + offset; }
    virtio::GuestRange range(std::uint64_t offset, std::size_t bytes) const {
        return {.address = virtio::GuestAddress{guest_address_ + offset},
                .bytes = static_cast<std::uint32_t>(bytes)};
    }
    vhost::SharedRegion region(std::uint64_t offset, std::uint64_t bytes) const {
        return {.description = {.guest_address = guest_address_ + offset,
                                .bytes = bytes,
                                .user_address = reinterpret_cast<std::uintptr_t>(memory_) + offset,
                                .mmap_offset = offset},
                .fd = file_.get()};
    }
    vhost::SharedRegion whole() const { return region(0, bytes_); }
    void shrink(std::uint64_t bytes) const {
        EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(bytes)), 0);
    }

private:
    const std::uint64_t guest_address_;
    const std::uint64_t bytes_;
    const Fd file_{::memfd_create("extra", MFD_CLOEXEC)};
    std::byte* memory_ = nullptr;
};

// A GETATTR that lies in `extra`, on a queue that has nothing else to do.
testing::AssertionResult serves_from(RawGuest& guest, std::uint32_t queue, const ExtraMemory& extra,
                                     std::uint64_t offset, std::uint64_t unique) {
    const auto request = getattr_request(unique);
    std::memcpy(extra.at(offset), request.data(), request.size());
    std::memset(extra.at(offset + 512), 0xee, 512);
    const std::array readable{extra.range(offset, request.size())};
    const std::array writable{extra.range(offset + 512, 512)};
    if (!guest.ring(queue).add(readable, writable, &guest)) return testing::AssertionFailure() << "ring full";
    guest.kick(queue);
    const auto used = guest.next_used(queue);
    if (!used) return testing::AssertionFailure() << "no answer: " << used.error().name();
    fuse_out_header header;
    std::memcpy(&header, extra.at(offset + 512), sizeof header);
    if (used->written_bytes == kGetattrReplyBytes && header.error == 0 && header.unique == unique)
        return testing::AssertionSuccess();
    return testing::AssertionFailure() << used->written_bytes << " bytes, error " << header.error;
}

// WRITEs and READs of one queue, whose data is compared.
class Load {
public:
    Load(RawGuest& guest, std::uint32_t queue, unsigned seed) : guest_(guest), queue_(queue), random_(seed) {}

    void run(const std::atomic<bool>& stop, const std::string& name) {
        open(name);
        std::string shadow(kFileBytes, '\0');
        while ((!stop || rounds == 0) && !testing::Test::HasFailure()) {
            const std::uint64_t offset = random_() % (kFileBytes / kBytes) * kBytes;
            std::string data(kBytes, '\0');
            for (char& byte : data) byte = static_cast<char>(random_());
            const auto write = FuseMessage{FUSE_WRITE, node_}
                                   .with(fuse_write_in{.fh = handle_,
                                                       .offset = offset,
                                                       .size = kBytes,
                                                       .write_flags = 0,
                                                       .lock_owner = 0,
                                                       .flags = 0,
                                                       .padding = 0})
                                   .with_bytes(data.data(), data.size())
                                   .bytes();
            ASSERT_EQ(call(write).size(), sizeof(fuse_out_header) + sizeof(fuse_write_out));
            shadow.replace(offset, kBytes, data);
            const auto read = FuseMessage{FUSE_READ, node_}
                                  .with(fuse_read_in{.fh = handle_,
                                                     .offset = offset,
                                                     .size = kBytes,
                                                     .read_flags = 0,
                                                     .lock_owner = 0,
                                                     .flags = 0,
                                                     .padding = 0})
                                  .bytes();
            const auto reply = call(read);
            ASSERT_EQ(reply.size(), sizeof(fuse_out_header) + kBytes);
            ASSERT_EQ(std::memcmp(reply.data() + sizeof(fuse_out_header), shadow.data() + offset, kBytes), 0)
                << "queue " << queue_ << ", offset " << offset;
            ++rounds;
        }
    }
    std::atomic<std::uint64_t> rounds = 0;

private:
    static constexpr std::uint32_t kBytes = 1024;
    static constexpr std::uint64_t kFileBytes = 64 * kBytes;

    std::vector<std::byte> call(const std::vector<std::byte>& request) {
        const auto piece = guest_.add(queue_, request);
        if (!piece) return {};
        guest_.kick(queue_);
        if (!guest_.wait_for_all(queue_)) return {};
        return guest_.take(queue_, *piece);
    }
    void open(const std::string& name) {
        auto reply = call(FuseMessage{FUSE_LOOKUP, 1}.with_string(name).bytes());
        ASSERT_GT(reply.size(), 24U);
        std::memcpy(&node_, reply.data() + sizeof(fuse_out_header), 8);
        reply =
            call(FuseMessage{FUSE_OPEN, node_}.with(fuse_open_in{.flags = O_RDWR, .open_flags = 0}).bytes());
        ASSERT_GE(reply.size(), 24U);
        std::memcpy(&handle_, reply.data() + sizeof(fuse_out_header), 8);
    }

    RawGuest& guest_;
    const std::uint32_t queue_;
    std::mt19937 random_;
    std::uint64_t node_ = 0;
    std::uint64_t handle_ = 0;
};

class MemoryChange : public testing::TestWithParam<bool> {
protected:
    // Queue 0 is the test's, 1 to 4 carry the load.
    std::unique_ptr<RawGuest> connect() {
        auto guest = RawGuest::connect(
            {.socket = share.socket(), .queues = 5, .packed = GetParam(), .event_idx = true});
        if (!guest || !guest->start_session(0)) return nullptr;
        for (const std::uint32_t queue : {1U, 2U, 3U, 4U})
            if (!guest->start(queue)) return nullptr;
        return guest;
    }
    // Runs `change` every 5 ms, for a second and at least 20 times, while four queues are under load.
    template <class Change> void under_load(RawGuest& guest, Change change) {
        const unsigned seed = std::random_device{}();
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::atomic<bool> stop = false;
        std::vector<std::unique_ptr<Load>> loads;
        std::vector<std::thread> threads;
        for (const std::uint32_t queue : {1U, 2U, 3U, 4U}) {
            const std::string name = "file" + std::to_string(queue);
            std::ofstream{share.share() + "/" + name} << "";
            loads.push_back(std::make_unique<Load>(guest, queue, seed + queue));
            threads.emplace_back([&stop, &load = *loads.back(), name] { load.run(stop, name); });
        }
        std::uint32_t changes = 0;
        const auto end = std::chrono::steady_clock::now() + 1000ms;
        for (auto next = std::chrono::steady_clock::now(); (next < end || changes < 20) && !HasFailure();
             next += 5ms) {
            std::this_thread::sleep_until(next);
            change(changes++);
        }
        stop = true;
        for (std::thread& thread : threads) thread.join();
        for (const auto& load : loads) EXPECT_GT(load->rounds, 0U);
        EXPECT_TRUE(share.runs());
    }
    ServedShare share;
};

INSTANTIATE_TEST_SUITE_P(Formats, MemoryChange, testing::Bool(),
                         [](const auto& info) { return info.param ? "packed" : "split"; });

TEST_P(MemoryChange, tables_may_be_replaced_every_few_milliseconds_under_load) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    const ExtraMemory extra{1 << 20};
    const std::uint64_t bytes = guest->bytes();
    const std::uint64_t middle = bytes / 2 / 4096 * 4096;
    const Fd again{::open(("/proc/self/fd/" + std::to_string(guest->file())).c_str(), O_RDWR | O_CLOEXEC)};
    ASSERT_TRUE(again);
    under_load(*guest, [&](std::uint32_t count) {
        std::vector<vhost::SharedRegion> table;
        // Rings and buffers are mapped anew: in two regions, in one, and through another descriptor.
        if (count % 3 == 0) {
            table = {guest->region(0, middle), guest->region(middle, bytes - middle)};
        } else {
            table = {guest->region(0, bytes)};
        }
        if (count % 3 == 2) table.front().fd = again.get();
        const bool more = count % 2 == 0;
        if (more) table.push_back(extra.whole());
        ASSERT_TRUE(guest->front_end().set_memory(table));
        if (more) EXPECT_TRUE(serves_from(*guest, 0, extra, count % 200 * 4096, count)) << count;
    });
}

TEST_P(MemoryChange, regions_may_be_added_and_removed_every_few_milliseconds_under_load) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    const ExtraMemory extra{1 << 20};
    under_load(*guest, [&](std::uint32_t count) {
        const auto region = extra.region(count % 16 * 65536ULL, 65536);
        ASSERT_TRUE(guest->front_end().add_region(region));
        EXPECT_TRUE(serves_from(*guest, 0, extra, count % 16 * 65536ULL + 4096, count)) << count;
        ASSERT_TRUE(guest->front_end().remove_region(region.description));
    });
}

TEST_P(MemoryChange, there_are_slots_for_509_regions) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    auto& front_end = guest->front_end();
    const auto slots = front_end.get_memory_slots();
    ASSERT_TRUE(slots);
    ASSERT_GE(*slots, 509U);
    const ExtraMemory extra{4096 * (*slots + 1)};
    for (std::uint64_t index = 0; index + 1 < *slots; ++index)
        ASSERT_TRUE(front_end.add_region(extra.region(4096 * index, 4096))) << index;
    EXPECT_TRUE(serves_from(*guest, 0, extra, 0, 1));
    EXPECT_TRUE(serves_from(*guest, 0, extra, 4096 * (*slots - 2), 2));
    EXPECT_TRUE(serves_from(*guest, 0, extra, 4096 * 8 - 1024 + 256, 3)); // runs from one into the next
    EXPECT_EQ(front_end.add_region(extra.region(4096 * *slots, 4096)).error(), Errno{EREMOTEIO});
    for (std::uint64_t index = 0; index + 1 < *slots; ++index)
        ASSERT_TRUE(front_end.remove_region(extra.region(4096 * index, 4096).description)) << index;
    EXPECT_TRUE(guest->serves(0));
    for (const std::uint32_t queue : {1U, 2U, 3U, 4U}) EXPECT_TRUE(guest->serves(queue));
}

TEST_P(MemoryChange, removing_what_was_never_added_is_refused) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    auto& front_end = guest->front_end();
    const ExtraMemory extra{1 << 20};
    ASSERT_TRUE(front_end.add_region(extra.region(0, 65536)));
    const auto right = extra.region(0, 65536).description;
    for (int field = 0; field < 3; ++field) {
        auto wrong = right;
        (field == 0 ? wrong.guest_address : field == 1 ? wrong.user_address : wrong.bytes) += 4096;
        EXPECT_EQ(front_end.remove_region(wrong).error(), Errno{EREMOTEIO}) << field;
    }
    EXPECT_TRUE(serves_from(*guest, 0, extra, 0, 1));
    ASSERT_TRUE(front_end.remove_region(right));
    EXPECT_EQ(front_end.remove_region(right).error(), Errno{EREMOTEIO});
    // Where a ring lies that runs.
    EXPECT_EQ(front_end.remove_region(guest->region(0, guest->bytes()).description).error(),
              Errno{EREMOTEIO});
    EXPECT_EQ(front_end.set_memory({{extra.whole()}}).error(), Errno{EREMOTEIO});
    EXPECT_TRUE(guest->serves(0));
}

TEST_P(MemoryChange, memory_that_was_removed_is_not_reached_any_more) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    const ExtraMemory extra{1 << 20};
    ASSERT_TRUE(guest->front_end().add_region(extra.whole()));
    EXPECT_TRUE(serves_from(*guest, 1, extra, 0, 1));
    ASSERT_TRUE(guest->front_end().remove_region(extra.whole().description));
    const std::vector<std::byte> before{extra.at(0), extra.at(4096)};
    const std::array readable{extra.range(0, 56)};
    const std::array writable{extra.range(512, 512)};
    ASSERT_TRUE(guest->ring(1).add(readable, writable, guest.get()));
    guest->kick(1);
    EXPECT_TRUE(readable_within(guest->error_fd(1), kPatience));
    EXPECT_EQ(before, (std::vector<std::byte>{extra.at(0), extra.at(4096)}));
    EXPECT_TRUE(guest->serves(2));
}

TEST_P(MemoryChange, memory_is_let_go_only_when_the_requests_in_it_have_ended) {
    ServedShare slow{{"--faults", "getattr:delay=300"}};
    const auto guest = RawGuest::connect({.socket = slow.socket(), .packed = GetParam()});
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    const ExtraMemory extra{1 << 20};
    ASSERT_TRUE(guest->front_end().add_region(extra.whole()));
    const auto request = getattr_request(5);
    std::memcpy(extra.at(0), request.data(), request.size());
    const std::array readable{extra.range(0, request.size())};
    const std::array writable{extra.range(4096, 512)};
    ASSERT_TRUE(guest->ring(1).add(readable, writable, guest.get()));
    ASSERT_TRUE(guest->ring(1).add(readable, writable, guest.get()));
    const auto begun = std::chrono::steady_clock::now();
    guest->kick(1);
    // Taken, both of them, when what lies behind is answered.
    read_event(guest->call_fd(1));
    const auto next = guest->add(1, statfs_request());
    ASSERT_TRUE(next);
    guest->kick(1);
    ASSERT_TRUE(readable_within(guest->call_fd(1), kPatience));
    ASSERT_TRUE(guest->front_end().remove_region(extra.whole().description));
    EXPECT_GE(std::chrono::steady_clock::now() - begun, 300ms);
    fuse_out_header header;
    std::memcpy(&header, extra.at(4096), sizeof header);
    EXPECT_EQ(header.unique, 5U);
    EXPECT_EQ(header.len, kGetattrReplyBytes);
    const std::vector<std::byte> before{extra.at(0), extra.at(1 << 20)};
    EXPECT_FALSE(readable_within(guest->error_fd(1), 100ms));
    EXPECT_EQ(before, (std::vector<std::byte>{extra.at(0), extra.at(1 << 20)}));
}

TEST_P(MemoryChange, a_front_end_that_shrinks_its_memory_loses_its_connection_and_the_next_is_served) {
    for (const bool rings : {false, true}) {
        SCOPED_TRACE(rings ? "rings" : "buffers");
        {
            const auto guest = connect();
            ASSERT_TRUE(guest);
            const ExtraMemory extra{1 << 20};
            ASSERT_TRUE(guest->front_end().add_region(extra.whole()));
            EXPECT_TRUE(serves_from(*guest, 0, extra, 0, 1));
            if (rings) {
                ASSERT_EQ(::ftruncate(guest->file(), 0), 0);
                guest->kick(1);
            } else {
                const std::array readable{extra.range(8192, 56)};
                const std::array writable{extra.range(16384, 512)};
                ASSERT_TRUE(guest->ring(1).add(readable, writable, guest.get()));
                extra.shrink(4096);
                guest->kick(1);
            }
            EXPECT_EQ(guest->front_end().receive().error(), Errno{EPIPE});
        }
        EXPECT_TRUE(share.runs());
        const auto next = connect();
        ASSERT_TRUE(next);
        EXPECT_TRUE(next->serves(0));
    }
}

TEST_P(MemoryChange, memory_that_shrinks_under_a_load_ends_that_connection_alone) {
    for (int round = 0; round < 3; ++round) {
        {
            const auto guest = connect();
            ASSERT_TRUE(guest);
            const ExtraMemory extra{1 << 20};
            ASSERT_TRUE(guest->front_end().add_region(extra.whole()));
            const auto request = getattr_request();
            for (std::uint64_t index = 0; index < 30; ++index) {
                std::memcpy(extra.at(index * 8192), request.data(), request.size());
                const std::array readable{extra.range(index * 8192, request.size())};
                const std::array writable{extra.range(index * 8192 + 4096, 512)};
                for (const std::uint32_t queue : {1U, 2U, 3U, 4U})
                    ASSERT_TRUE(guest->ring(queue).add(readable, writable, guest.get()));
            }
            for (const std::uint32_t queue : {1U, 2U, 3U, 4U}) guest->kick(queue);
            extra.shrink(0);
            for (const std::uint32_t queue : {1U, 2U, 3U, 4U}) guest->kick(queue);
            // All may have been served before it shrank; one more is not.
            const std::array readable{extra.range(0, 56)};
            const std::array writable{extra.range(4096, 512)};
            (void)guest->ring(1).add(readable, writable, guest.get());
            guest->kick(1);
            EXPECT_EQ(guest->front_end().receive().error(), Errno{EPIPE});
        }
        const auto next = connect();
        ASSERT_TRUE(next);
        EXPECT_TRUE(next->serves(0));
    }
    EXPECT_TRUE(share.runs());
}

} // namespace
} // namespace viaduct::test
