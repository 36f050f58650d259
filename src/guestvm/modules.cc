// SPDX-License-Identifier: Apache-2.0
#include "guestvm/modules.h"

#include <algorithm>
#include <ranges>

namespace viaduct::guestvm {
namespace {

// Calls `take` with each non-empty piece of `text` between separators.
template <class Take> void each_piece(std::string_view text, char separator, Take take) {
    for (const auto piece : std::views::split(text, separator)) {
        const std::string_view word{piece.begin(), piece.end()};
        if (!word.empty()) take(word);
    }
}

} // namespace

std::string module_name(std::string_view path) {
    path.remove_prefix(path.rfind('/') + 1); // npos + 1 is 0
    std::string name{path.substr(0, path.find(".ko"))};
    std::ranges::replace(name, '-', '_');
    return name;
}

ModuleIndex::ModuleIndex(std::string_view modules_dep, std::string_view modules_builtin) {
    each_piece(modules_dep, '\n', [this](std::string_view line) {
        const auto colon = line.find(':');
        if (colon == std::string_view::npos) return;
        Module module{.path = std::string{line.substr(0, colon)}, .needs = {}};
        each_piece(line.substr(colon + 1), ' ',
                   [&module](std::string_view path) { module.needs.emplace_back(path); });
        modules_.insert_or_assign(module_name(module.path), std::move(module));
    });
    each_piece(modules_builtin, '\n', [this](std::string_view line) { builtin_.insert(module_name(line)); });
}

Outcome<std::vector<std::string>> ModuleIndex::load_order(const std::vector<std::string>& names) const {
    std::vector<std::string> order;
    const auto add = [&order](const std::string& path) {
        if (std::ranges::find(order, path) == order.end()) order.push_back(path);
    };
    for (const std::string& wanted : names) {
        const std::string name = module_name(wanted);
        if (builtin_.contains(name)) continue;
        const auto found = modules_.find(name);
        if (found == modules_.end()) return failure("the guest kernel has no module " + name);
        for (const std::string& path : found->second.needs | std::views::reverse) add(path);
        add(found->second.path);
    }
    return order;
}

} // namespace viaduct::guestvm
