// SPDX-License-Identifier: Apache-2.0
//
// Which kernel modules to load, and in which order, from the text of modules.dep and modules.builtin.
#pragma once

#include "base/result.h"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct::guestvm {

class ModuleIndex {
public:
    ModuleIndex(std::string_view modules_dep, std::string_view modules_builtin);

    // Paths relative to the folder of modules.dep, each once, dependencies first; what is built in is left
    // out.  Fails with the name of a module that is neither built in nor there.
    Outcome<std::vector<std::string>> load_order(const std::vector<std::string>& names) const;

private:
    struct Module {
        std::string path;
        std::vector<std::string> needs; // as in modules.dep: all of them, the first to load last
    };
    std::map<std::string, Module, std::less<>> modules_;
    std::set<std::string, std::less<>> builtin_;
};

// "kernel/fs/fuse/virtio-fs.ko.xz" -> "virtio_fs".
std::string module_name(std::string_view path);

} // namespace viaduct::guestvm
