// SPDX-License-Identifier: Apache-2.0
//
// The vrings of one connection: what the front end has said of each, and whether it runs.
//
// A vring is stopped or started, and independently enabled or not.  It starts with its kick descriptor; when
// that came early, once number, addresses and base were all sent and its memory is there.  When the front end
// never sends one, it starts when it is enabled, if number, addresses and base were all sent since it last
// stopped: an enable that comes for every queue must not wake a ring of a guest that is gone. Enabled changes
// by SET_VRING_ENABLE and reset alone; without protocol features a vring is enabled from the start.
//
// Control thread.  Everything is checked before anything is changed; a sentence says why something is
// refused.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "rt/task.h"
#include "vhost/device_operations.h"
#include "vhost/messages.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace viaduct::vhost {

class Vrings {
public:
    explicit Vrings(DeviceOperations& device);

    // Negotiated features, vhost-user's own bit included.  The format of a ring that runs cannot change.
    Outcome<void> check_features(std::uint64_t features) const;
    void set_features(std::uint64_t features) noexcept { features_ = features; }

    // Every ring that runs is in `table`?
    Outcome<void> check_memory(const MemoryTable& table) const;
    // The table in force.  Starts what was kicked or enabled when its ring could not be found yet.
    rt::Task<void> set_memory(std::shared_ptr<const MemoryTable> table);

    rt::Task<Outcome<void>> set_num(VringState state);
    rt::Task<Outcome<void>> set_address(VringAddress address);
    rt::Task<Outcome<void>> set_base(VringState state);
    // Stops the vring; its base, now and when asked again.
    rt::Task<Outcome<std::uint32_t>> get_base(std::uint32_t index);
    // Descriptors: invalid ones mean "none".
    rt::Task<Outcome<void>> set_kick(std::uint32_t index, Fd kick);
    rt::Task<Outcome<void>> set_call(std::uint32_t index, Fd call);
    rt::Task<Outcome<void>> set_error(std::uint32_t index, Fd error);
    rt::Task<Outcome<void>> set_enable(VringState state);

    rt::Task<void> disable_all();
    // The device was reset: it has stopped every queue.  Call and error descriptors stay (QEMU sends the
    // latter once, before the first reset).
    void forget();
    // The connection is over.
    void clear();

private:
    struct Addresses {
        std::uint64_t descriptor = 0;
        std::uint64_t driver = 0;
        std::uint64_t device = 0;
        friend bool operator==(const Addresses&, const Addresses&) = default;
    };
    struct Vring {
        std::uint32_t size = 0;
        std::optional<Addresses> addresses;
        std::optional<std::uint32_t> base;
        // Sent since the vring last stopped.
        bool size_is_new = false;
        bool addresses_are_new = false;
        bool base_is_new = false;

        bool kicked = false; // SET_VRING_KICK came since it last stopped, with or without a descriptor
        Fd kick;
        Fd call;
        Fd error;
        std::optional<bool> enabled; // not said yet: see enabled()
        bool started = false;

        bool configured() const noexcept { return size != 0 && addresses.has_value(); }
        bool all_new() const noexcept { return size_is_new && addresses_are_new && base_is_new; }
    };

    Outcome<void> check_index(std::uint32_t index) const;
    bool packed() const noexcept { return (features_ & virtio::kFeatureRingPacked) != 0; }
    bool enabled(const Vring& vring) const noexcept;
    std::uint32_t base_of(const Vring& vring) const noexcept;
    virtio::QueueLayout layout_of(const Vring& vring, const Addresses& addresses) const noexcept;
    Outcome<void> check_ring(std::uint32_t index, const virtio::QueueLayout& layout,
                             const MemoryTable& table) const;

    // Starts what was kicked early, when the last of what it needs has come.
    rt::Task<void> start_if_due(std::uint32_t index);
    rt::Task<Outcome<void>> start(std::uint32_t index);
    rt::Task<Outcome<void>> stop(std::uint32_t index);
    rt::Task<Outcome<void>> restart(std::uint32_t index);

    DeviceOperations& device_;
    std::uint64_t features_ = 0;
    std::shared_ptr<const MemoryTable> table_; // shared with the protocol state and the device
    std::vector<Vring> vrings_;
};

} // namespace viaduct::vhost
