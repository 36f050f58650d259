// SPDX-License-Identifier: Apache-2.0
#include "vhost/vrings.h"

#include "vhost/event_fd.h"
#include "vhost/text.h"
#include "virtio/device_queue.h"

#include <bit>
#include <utility>

namespace viaduct::vhost {
namespace {

// What decides how a ring is read.
constexpr std::uint64_t kFormatFeatures = virtio::kFeatureIndirectDesc | virtio::kFeatureEventIdx |
                                          virtio::kFeatureVersion1 | virtio::kFeatureRingPacked;

// Where a packed ring begins: both offsets 0, both wrap counters 1 (virtio 1.2, 2.8.1).
constexpr std::uint32_t kPackedBaseAtStart = 0x80008000;

} // namespace

Vrings::Vrings(DeviceOperations& device)
    : device_(device), table_(std::make_shared<MemoryTable>()), vrings_(device.queue_count()) {}

Outcome<void> Vrings::check_index(std::uint32_t index) const {
    if (index >= vrings_.size())
        return failure(sentence(
            "queue {} does not exist: the device has hiprio and {} request queues; let the front end "
            "use fewer, or start the device with a larger --queues",
            index, vrings_.size() - 1));
    return {};
}

bool Vrings::enabled(const Vring& vring) const noexcept {
    return vring.enabled.value_or((features_ & kFeatureProtocolFeatures) == 0);
}

std::uint32_t Vrings::base_of(const Vring& vring) const noexcept {
    return vring.base.value_or(packed() ? kPackedBaseAtStart : 0);
}

virtio::QueueLayout Vrings::layout_of(const Vring& vring, const Addresses& addresses) const noexcept {
    return {.packed = packed(),
            .event_idx = (features_ & virtio::kFeatureEventIdx) != 0,
            .indirect = (features_ & virtio::kFeatureIndirectDesc) != 0,
            .size = vring.size,
            .descriptor_area = addresses.descriptor,
            .driver_area = addresses.driver,
            .device_area = addresses.device,
            .base = base_of(vring)};
}

Outcome<void> Vrings::check_ring(std::uint32_t index, const virtio::QueueLayout& layout,
                                 const MemoryTable& table) const {
    // A queue that is made and thrown away: the checks are where the ring is read.
    if (virtio::DeviceQueue::make(table.view(), layout)) return {};
    return failure(sentence("queue {}: no {} ring of {} entries with base {} at {}, {}, {} in guest memory",
                            index, layout.packed ? "packed" : "split", layout.size, layout.base,
                            hex(layout.descriptor_area), hex(layout.driver_area), hex(layout.device_area)));
}

Outcome<void> Vrings::check_features(std::uint64_t features) const {
    if (((features ^ features_) & kFormatFeatures) == 0) return {};
    for (std::size_t index = 0; index < vrings_.size(); ++index) {
        if (vrings_[index].started)
            return failure(sentence("the ring format would change ({} to {}) while queue {} runs",
                                    hex(features_), hex(features), index));
    }
    return {};
}

Outcome<void> Vrings::check_memory(const MemoryTable& table) const {
    for (std::size_t index = 0; index < vrings_.size(); ++index) {
        const Vring& vring = vrings_[index];
        if (!vring.started) continue;
        TRY_STATUS(check_ring(static_cast<std::uint32_t>(index), layout_of(vring, *vring.addresses), table));
    }
    return {};
}

rt::Task<void> Vrings::set_memory(std::shared_ptr<const MemoryTable> table) {
    table_ = std::move(table);
    for (std::uint32_t index = 0; index < vrings_.size(); ++index) {
        const Vring& vring = vrings_[index];
        const bool wanted = vring.kicked || (vring.enabled.value_or(false) && vring.all_new());
        if (vring.started || !wanted || !vring.configured()) continue;
        const auto started = co_await start(index);
        if (!started) log::debug("vhost-user: {}", started.error().message);
    }
}

rt::Task<Outcome<void>> Vrings::set_num(VringState state) {
    CO_TRY_STATUS(check_index(state.index));
    Vring& vring = vrings_[state.index];
    if (state.num == 0 || state.num > virtio::kQueueSizeMax)
        co_return failure(sentence("queue {}: {} entries; 1 to {} are possible", state.index, state.num,
                                   virtio::kQueueSizeMax));
    if (!packed() && !std::has_single_bit(state.num))
        co_return failure(
            sentence("queue {}: {} entries; a split ring has a power of two", state.index, state.num));
    if (vring.started && state.num != vring.size)
        co_return failure(sentence("queue {} runs: its size stays {}", state.index, vring.size));
    vring.size = state.num;
    vring.size_is_new = true;
    co_await start_if_due(state.index);
    co_return Outcome<void>{};
}

rt::Task<Outcome<void>> Vrings::set_address(VringAddress address) {
    CO_TRY_STATUS(check_index(address.index));
    Vring& vring = vrings_[address.index];
    // 2.7 and 2.8.10, tables of alignments.
    const std::uint64_t event_alignment = packed() ? 4 : 2;
    if (address.descriptor % 16 != 0 || address.available % event_alignment != 0 || address.used % 4 != 0)
        co_return failure(sentence("queue {}: misaligned ring at {}, {}, {}", address.index,
                                   hex(address.descriptor), hex(address.available), hex(address.used)));

    const Addresses addresses{
        .descriptor = address.descriptor, .driver = address.available, .device = address.used};
    if (!vring.started) {
        vring.addresses = addresses;
        vring.addresses_are_new = true;
        co_await start_if_due(address.index);
        co_return Outcome<void>{};
    }
    // The flags ask for dirty logging, which is not offered; nothing else about them matters.
    if (vring.addresses == addresses) co_return Outcome<void>{};

    CO_TRY_STATUS(check_ring(address.index, layout_of(vring, addresses), *table_));
    const auto stopped = co_await stop(address.index);
    if (!stopped) co_return stopped;
    vring.addresses = addresses;
    co_return co_await start(address.index);
}

rt::Task<Outcome<void>> Vrings::set_base(VringState state) {
    CO_TRY_STATUS(check_index(state.index));
    Vring& vring = vrings_[state.index];
    if (vring.started) co_return failure(sentence("queue {} runs: its base is its own", state.index));
    if (!packed() && state.num > 0xffff)
        co_return failure(
            sentence("queue {}: base {} of a split ring is beyond 65535", state.index, state.num));
    vring.base = state.num;
    vring.base_is_new = true;
    co_await start_if_due(state.index);
    co_return Outcome<void>{};
}

rt::Task<Outcome<std::uint32_t>> Vrings::get_base(std::uint32_t index) {
    CO_TRY_STATUS(check_index(index));
    Vring& vring = vrings_[index];
    if (vring.started) {
        // The base is right even when requests would not end: they were cut off.
        const auto stopped = co_await stop(index);
        if (!stopped) log::error("vhost-user: {}", stopped.error().message);
    }
    vring.kicked = false;
    vring.kick.reset();
    vring.size_is_new = vring.addresses_are_new = vring.base_is_new = false;
    co_return base_of(vring);
}

rt::Task<Outcome<void>> Vrings::set_kick(std::uint32_t index, Fd kick) {
    CO_TRY_STATUS(check_index(index));
    Vring& vring = vrings_[index];
    if (!vring.configured() || (!vring.started && table_->mappings().empty())) {
        // Early: it starts when the rest is known.
        vring.kick = std::move(kick);
        vring.kicked = true;
        log::debug("vhost-user: queue {} was kicked off before its ring is known", index);
        co_return Outcome<void>{};
    }
    if (!vring.started) CO_TRY_STATUS(check_ring(index, layout_of(vring, *vring.addresses), *table_));
    Fd replaced = std::exchange(vring.kick, std::move(kick));
    const bool kicked_before = std::exchange(vring.kicked, true);
    if (vring.started) co_return co_await restart(index);
    auto started = co_await start(index);
    if (!started) {
        vring.kick = std::move(replaced);
        vring.kicked = kicked_before;
    }
    co_return started;
}

rt::Task<Outcome<void>> Vrings::set_call(std::uint32_t index, Fd call) {
    CO_TRY_STATUS(check_index(index));
    Vring& vring = vrings_[index];
    if (vring.started) {
        auto copy = duplicate(call);
        if (!copy) co_return failure(sentence("queue {}: call descriptor", index), copy.error());
        const auto set = co_await device_.set_queue_call(static_cast<std::uint16_t>(index), std::move(*copy));
        if (!set) co_return failure(sentence("queue {}: call descriptor", index), set.error());
    }
    vring.call = std::move(call);
    co_return Outcome<void>{};
}

rt::Task<Outcome<void>> Vrings::set_error(std::uint32_t index, Fd error) {
    CO_TRY_STATUS(check_index(index));
    Vring& vring = vrings_[index];
    if (vring.started) {
        auto copy = duplicate(error);
        if (!copy) co_return failure(sentence("queue {}: error descriptor", index), copy.error());
        const auto set =
            co_await device_.set_queue_error(static_cast<std::uint16_t>(index), std::move(*copy));
        if (!set) co_return failure(sentence("queue {}: error descriptor", index), set.error());
    }
    vring.error = std::move(error);
    co_return Outcome<void>{};
}

rt::Task<Outcome<void>> Vrings::set_enable(VringState state) {
    CO_TRY_STATUS(check_index(state.index));
    if (state.num > 1) co_return failure(sentence("queue {}: enable {}; 0 or 1", state.index, state.num));
    Vring& vring = vrings_[state.index];
    const bool enable = state.num == 1;

    if (vring.started) {
        const auto changed = co_await device_.enable_queue(static_cast<std::uint16_t>(state.index), enable);
        if (!changed) co_return failure(sentence("queue {}: enable", state.index), changed.error());
        vring.enabled = enable;
        co_return Outcome<void>{};
    }
    const auto before = std::exchange(vring.enabled, enable);
    // Early: as with an early kick, it starts when the rest is known.
    if (!enable || !vring.configured() || table_->mappings().empty()) co_return Outcome<void>{};
    if (!vring.kicked && !vring.all_new()) co_return Outcome<void>{};
    const auto started = co_await start(state.index);
    if (started) co_return Outcome<void>{};
    if (vring.kicked) {
        vring.enabled = before;
        co_return started;
    }
    // Its kick may still come, after its memory.
    log::debug("vhost-user: enabled, not started: {}", started.error().message);
    co_return Outcome<void>{};
}

rt::Task<void> Vrings::disable_all() {
    for (std::uint32_t index = 0; index < vrings_.size(); ++index) {
        vrings_[index].enabled = false;
        if (!vrings_[index].started) continue;
        const auto changed = co_await device_.enable_queue(static_cast<std::uint16_t>(index), false);
        if (!changed) log::error("vhost-user: queue {} cannot be disabled: {}", index, changed.error());
    }
}

void Vrings::forget() {
    for (Vring& vring : vrings_) {
        Vring fresh;
        fresh.call = std::move(vring.call);
        fresh.error = std::move(vring.error);
        vring = std::move(fresh);
    }
}

void Vrings::clear() {
    for (Vring& vring : vrings_) vring = Vring{};
    table_ = std::make_shared<MemoryTable>();
    features_ = 0;
}

rt::Task<void> Vrings::start_if_due(std::uint32_t index) {
    const Vring& vring = vrings_[index];
    if (vring.started || !vring.kicked || !vring.all_new() || table_->mappings().empty()) co_return;
    const auto started = co_await start(index);
    // Its memory may still come, or other addresses.
    if (!started) log::debug("vhost-user: kicked, not started: {}", started.error().message);
}

// The device gets descriptors of its own: ours serve the next start.
rt::Task<Outcome<void>> Vrings::start(std::uint32_t index) {
    Vring& vring = vrings_[index];
    QueueSetup setup{.layout = layout_of(vring, *vring.addresses),
                     .kick = {},
                     .call = {},
                     .error = {},
                     .enabled = enabled(vring)};
    CO_TRY_STATUS(check_ring(index, setup.layout, *table_));
    auto kick = duplicate(vring.kick);
    auto call = duplicate(vring.call);
    auto error = duplicate(vring.error);
    if (!kick || !call || !error)
        co_return failure(sentence("queue {}: no descriptors left for its events", index));
    setup.kick = std::move(*kick);
    setup.call = std::move(*call);
    setup.error = std::move(*error);
    const auto started = co_await device_.start_queue(static_cast<std::uint16_t>(index), std::move(setup));
    if (!started) co_return failure(sentence("queue {} does not start", index), started.error());
    vring.started = true;
    co_return Outcome<void>{};
}

rt::Task<Outcome<void>> Vrings::stop(std::uint32_t index) {
    Vring& vring = vrings_[index];
    std::uint32_t base = base_of(vring);
    const auto stopped = co_await device_.stop_queue(static_cast<std::uint16_t>(index), base);
    vring.base = base;
    vring.started = false;
    if (!stopped) co_return failure(sentence("queue {} does not stop in order", index), stopped.error());
    co_return Outcome<void>{};
}

rt::Task<Outcome<void>> Vrings::restart(std::uint32_t index) {
    const auto stopped = co_await stop(index);
    if (!stopped) co_return stopped;
    co_return co_await start(index);
}

} // namespace viaduct::vhost
