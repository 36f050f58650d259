// SPDX-License-Identifier: Apache-2.0
//
// vhost-user messages from a front end that sends anything: assembly, decoding and the state machine, without
// a socket.
//
// The input is the byte stream.  Descriptors are not in it: bit 4 of a message's flags, which the protocol
// leaves unused, asks for as many as the message takes, bit 5 for one more, bit 6 for memory where an eventfd
// belongs and the other way round.
#include "base/assert.h"
#include "base/log.h"
#include "rt/gate.h"
#include "vhost/assembler.h"
#include "vhost/device_protocol.h"

#include <algorithm>
#include <cstdint>
#include <fcntl.h>
#include <map>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using namespace viaduct;
using namespace viaduct::vhost;

constexpr std::size_t kFileBytes = 1 << 20;

int file_fd() {
    static const int fd = [] {
        const int made = ::memfd_create("guest", MFD_CLOEXEC);
        ASSERT(::ftruncate(made, kFileBytes) == 0);
        return made;
    }();
    return fd;
}

int event_fd() {
    static const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return fd;
}

// Answers at once, and checks that it is asked nothing out of turn.
class NullDevice final : public DeviceOperations {
public:
    std::map<std::uint16_t, virtio::QueueLayout> running;
    std::vector<std::byte> config_space = std::vector<std::byte>(40);
    std::shared_ptr<const MemoryTable> memory;

    std::uint64_t features() const override {
        return virtio::kFeatureVersion1 | virtio::kFeatureIndirectDesc | virtio::kFeatureEventIdx |
               virtio::kFeatureRingPacked | virtio::kFeatureRingReset;
    }
    std::uint16_t queue_count() const override { return 3; }
    std::span<const std::byte> config() const override { return config_space; }
    void set_features(std::uint64_t features) override { ASSERT((features & ~this->features()) == 0); }
    rt::Task<Status> set_memory(std::shared_ptr<const MemoryTable> table, bool) override {
        memory = std::move(table);
        for (const auto& [index, layout] : running)
            ASSERT(memory->view().at_user(layout.device_area, 4) != nullptr);
        co_return Status{};
    }
    rt::Task<Status> start_queue(std::uint16_t index, QueueSetup setup) override {
        ASSERT(index < 3);
        ASSERT(!running.contains(index));
        ASSERT(memory->view().at_user(setup.layout.device_area, 4) != nullptr);
        running[index] = setup.layout;
        co_return Status{};
    }
    rt::Task<Status> stop_queue(std::uint16_t index, std::uint32_t& base) override {
        ASSERT(running.erase(index) == 1);
        base = 5;
        co_return Status{};
    }
    rt::Task<Status> enable_queue(std::uint16_t index, bool) override {
        ASSERT(running.contains(index));
        co_return Status{};
    }
    rt::Task<Status> set_queue_call(std::uint16_t index, Fd) override {
        ASSERT(running.contains(index));
        co_return Status{};
    }
    rt::Task<Status> set_queue_error(std::uint16_t index, Fd) override {
        ASSERT(running.contains(index));
        co_return Status{};
    }
    rt::Task<void> reset() override {
        running.clear();
        memory.reset();
        co_return;
    }
};

std::size_t fds_taken(const Message& message) {
    switch (message.request()) {
    case Request::set_mem_table:
        return message.payload.empty()
                   ? 0
                   : std::min<std::size_t>(static_cast<std::size_t>(message.payload[0]), 8);
    case Request::add_mem_reg:
    case Request::set_vring_kick:
    case Request::set_vring_call:
    case Request::set_vring_err:
        return 1;
    default:
        return 0;
    }
}

void attach_fds(Message& message) {
    const std::uint32_t flags = message.header.flags;
    std::size_t count = (flags & 1U << 4) != 0 ? fds_taken(message) : 0;
    if ((flags & 1U << 5) != 0) ++count;
    const bool memory =
        message.request() == Request::set_mem_table || message.request() == Request::add_mem_reg;
    const bool swapped = (flags & 1U << 6) != 0;
    const int from = memory != swapped ? file_fd() : event_fd();
    for (std::size_t index = 0; index < count; ++index)
        message.fds.emplace_back(::fcntl(from, F_DUPFD_CLOEXEC, 0));
}

void check_answer(std::uint32_t request, bool asked, const std::vector<std::byte>& answer) {
    if (answer.empty()) {
        ASSERT(!asked);
        return;
    }
    const auto header = decode<Header>(std::span{answer}.first(sizeof(Header)));
    ASSERT(header.has_value());
    ASSERT(header->request == request);
    ASSERT(header->size == answer.size() - sizeof(Header));
}

rt::Task<void> converse(std::span<const std::byte> bytes) {
    NullDevice device;
    DeviceProtocol protocol{device};
    MessageAssembler assembler;
    while (!bytes.empty()) {
        const auto room = assembler.room();
        const std::size_t count = std::min(room.size(), bytes.size());
        std::ranges::copy(bytes.first(count), room.begin());
        bytes = bytes.subspan(count);
        if (!assembler.advance(count)) break;
        if (!assembler.complete()) continue;

        Message message = assembler.take();
        attach_fds(message);
        const std::uint32_t request = message.header.request;
        const bool asked = message.need_reply();
        const auto answer = co_await protocol.handle(std::move(message));
        if (!answer) break;
        check_answer(request, asked, *answer);
    }
    co_await protocol.end();
    ASSERT(device.running.empty());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    log::set_level(log::Level::off);
    rt::Gate gate;
    gate.spawn(converse(std::as_bytes(std::span{data, size})));
    return 0;
}
