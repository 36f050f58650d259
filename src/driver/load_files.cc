// SPDX-License-Identifier: Apache-2.0
#include "driver/load_files.h"

#include "driver/load_pattern.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace viaduct::driver {
namespace {

constexpr std::uint32_t kFillBytes = 1U << 20;
constexpr std::string_view kWrittenName = "written";
constexpr std::string_view kListedName = "listed";
constexpr std::string_view kEntryPrefix = "entry-";

// Two loads of one process on one share do not meet.
std::string next_folder_name() {
    static std::atomic<int> last{0};
    return "viaduct-load-" + std::to_string(::getpid()) + "-" + std::to_string(last.fetch_add(1));
}

std::string entry_name(std::size_t number) {
    return std::string{kEntryPrefix} + std::to_string(number);
}

} // namespace

std::optional<std::size_t> LoadFiles::entry_number(std::string_view name) noexcept {
    if (!name.starts_with(kEntryPrefix)) return std::nullopt;
    name.remove_prefix(kEntryPrefix.size());
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc{} || end != name.data() + name.size()) return std::nullopt;
    return number;
}

LoadFiles::LoadFiles(const FuseClient& client) : client_(client), folder_name_(next_folder_name()) {}

Outcome<void> LoadFiles::make(const Options& options) {
    const auto folder = client_.mkdir(FuseClient::kRoot, folder_name_, 0777);
    if (!folder) return failure("cannot make a folder on the share", folder.error());
    folder_ = folder->nodeid;
    if (options.for_others) { // mkdir may have been masked
        const fuse_setattr_in change{.valid = FATTR_MODE, .mode = S_IFDIR | 0777};
        if (const auto changed = client_.setattr(folder_, change); !changed)
            return failure("cannot open the folder to others", changed.error());
    }
    TRY(file_, make_file(kFileName, options.file_bytes));
    if (options.two_files) {
        TRY(written_, make_file(kWrittenName, options.file_bytes));
    }
    if (options.entries > 0) return make_listed(options.entries);
    return {};
}

Outcome<LoadFiles::File> LoadFiles::make_file(std::string_view name, std::uint64_t bytes) {
    const auto created = client_.create(folder_, name, O_RDWR | O_CREAT | O_EXCL, S_IFREG | 0666);
    if (!created) return failure("cannot make a file on the share", created.error());
    const File file{.node = created->entry.nodeid, .handle = created->handle};
    std::string part;
    for (std::uint64_t offset = 0; offset < bytes; offset += part.size()) {
        part.resize(std::min<std::uint64_t>(kFillBytes, bytes - offset) / 8 * 8);
        if (part.empty()) break;
        fill_pattern(std::as_writable_bytes(std::span{part}), offset, kGeneration);
        const auto written = client_.write(file.node, file.handle, offset, part);
        if (!written || *written != part.size())
            return failure("cannot fill the file", written ? Errno{EIO} : written.error());
    }
    return file;
}

Outcome<void> LoadFiles::make_listed(std::uint32_t entries) {
    const auto folder = client_.mkdir(folder_, kListedName, 0777);
    if (!folder) return failure("cannot make a folder on the share", folder.error());
    listed_ = folder->nodeid;
    for (std::uint32_t number = 0; number < entries; ++number) {
        const auto made = client_.mknod(listed_, entry_name(number), S_IFREG | 0644, 0);
        if (!made) return failure("cannot fill a folder on the share", made.error());
        entries_.push_back(made->nodeid);
    }
    return {};
}

void LoadFiles::remove_file(const File& file, std::string_view name, std::uint64_t lookups) {
    if (file.node == 0) return;
    static_cast<void>(client_.release(file.node, file.handle));
    static_cast<void>(client_.unlink(folder_, name));
    static_cast<void>(client_.forget(file.node, lookups));
}

void LoadFiles::remove(std::uint64_t file_lookups, const std::vector<std::uint64_t>& entry_lookups) {
    remove_file(file_, kFileName, 1 + file_lookups);
    remove_file(written_, kWrittenName, 1);
    for (std::size_t number = 0; number < entries_.size(); ++number) {
        static_cast<void>(client_.unlink(listed_, entry_name(number)));
        const std::uint64_t listed = number < entry_lookups.size() ? entry_lookups[number] : 0;
        static_cast<void>(client_.forget(entries_[number], 1 + listed));
    }
    if (listed_ != 0) {
        static_cast<void>(client_.rmdir(folder_, kListedName));
        static_cast<void>(client_.forget(listed_));
    }
    if (folder_ == 0) return;
    static_cast<void>(client_.rmdir(FuseClient::kRoot, folder_name_));
    static_cast<void>(client_.forget(folder_));
}

} // namespace viaduct::driver
