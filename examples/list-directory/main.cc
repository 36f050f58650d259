// SPDX-License-Identifier: Apache-2.0
//
// list-directory SOCKET [PATH]: type, size and name of what is in a directory of a virtio-fs device.
#include <viaduct/driver.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <sys/stat.h>

namespace {

namespace client = viaduct::client;

int report(std::string_view what, std::error_code error) {
    std::fprintf(stderr, "list-directory: %.*s: %s\n", static_cast<int>(what.size()), what.data(),
                 error.message().c_str());
    return 1;
}

} // namespace

int main(int argc, char** argv) {
    if (argc < 2 || argc > 3) return std::fputs("usage: list-directory SOCKET [PATH]\n", stderr), 2;
    const std::string path = argc == 3 ? argv[2] : "/";
    client::set_log_level(client::LogLevel::warn);

    auto device = client::Device::connect({.socket = argv[1]});
    if (!device) return std::fprintf(stderr, "list-directory: %s\n", device.error().message.c_str()), 1;
    if (const auto session = device->begin_session(); !session) return report("INIT", session.error());

    client::FileClient files{*device};
    const auto folder = files.lookup_path(path);
    if (!folder) return report(path, folder.error());
    const auto handle = files.opendir(folder->node);
    if (!handle) return report(path, handle.error());
    for (std::uint64_t offset = 0;;) {
        const auto entries = files.readdir(folder->node, *handle, offset);
        if (!entries) return report(path, entries.error());
        if (entries->empty()) break;
        offset = entries->back().next_offset;
        for (const client::DirectoryEntry& entry : *entries) {
            if (entry.name == "." || entry.name == "..") continue;
            const auto found = files.lookup(folder->node, entry.name);
            if (!found) return report(entry.name, found.error());
            std::printf("%c %llu %s\n",
                        S_ISDIR(found->attributes.mode)   ? 'd'
                        : S_ISREG(found->attributes.mode) ? 'f'
                                                          : '?',
                        static_cast<unsigned long long>(found->attributes.size_bytes), entry.name.c_str());
            (void)files.forget(found->node);
        }
    }
    if (const auto released = files.releasedir(folder->node, *handle); !released)
        return report(path, released.error());
    if (const auto ended = device->end_session(); !ended) return report("DESTROY", ended.error());
}
