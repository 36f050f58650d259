// SPDX-License-Identifier: Apache-2.0
//
// Names watchers by number, so that an event which arrives after unwatch() finds nobody.
#pragma once

#include "rt/ring.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace viaduct::rt {

class WatchTable {
public:
    struct Watch {
        Watcher* watcher = nullptr; // nullptr: the entry is free
        int fd = -1;
        std::uint32_t generation = 0;
    };
    // index in the low 32 bits, 30 bits of generation above: rings keep a tag in the other two.
    using Key = std::uint64_t;

    Key add(int fd, Watcher& watcher) {
        std::size_t index = 0;
        while (index < watches_.size() && watches_[index].watcher != nullptr) ++index;
        if (index == watches_.size()) watches_.emplace_back();
        Watch& watch = watches_[index];
        watch.watcher = &watcher;
        watch.fd = fd;
        watch.generation = (watch.generation + 1) & 0x3fff'ffffU;
        return key_of(index);
    }
    // The entry's key; it is gone afterwards.  Nothing when there is none.
    std::optional<Key> remove(int fd, const Watcher& watcher) {
        for (std::size_t index = 0; index < watches_.size(); ++index) {
            if (watches_[index].watcher != &watcher || watches_[index].fd != fd) continue;
            watches_[index].watcher = nullptr;
            return key_of(index);
        }
        return std::nullopt;
    }
    const Watch* find(Key key) const {
        const auto index = static_cast<std::uint32_t>(key);
        if (index >= watches_.size()) return nullptr;
        const Watch& watch = watches_[index];
        return watch.watcher != nullptr && watch.generation == static_cast<std::uint32_t>(key >> 32)
                   ? &watch
                   : nullptr;
    }

private:
    Key key_of(std::size_t index) const {
        return static_cast<Key>(watches_[index].generation) << 32 | static_cast<Key>(index);
    }
    std::vector<Watch> watches_;
};

} // namespace viaduct::rt
