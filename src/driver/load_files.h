// SPDX-License-Identifier: Apache-2.0
//
// What a load needs on the share: a folder with a file to read and write, and one with entries to list.
#pragma once

#include "base/result.h"
#include "driver/fuse_client.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct::driver {

class LoadFiles {
public:
    struct Options {
        std::uint64_t file_bytes = 0; // of each file; 0: left empty
        bool two_files = false;       // one that is read and one that is written
        std::uint32_t entries = 0;    // of the folder that is listed; 0: there is none
        bool for_others = false;      // not root alone uses them
    };
    struct File {
        std::uint64_t node = 0;
        std::uint64_t handle = 0;
    };

    explicit LoadFiles(const FuseClient& client);
    Outcome<void> make(const Options& options);
    // All of it.  The device may have left: then nothing of this succeeds, and need not.
    // How often the load has looked up the file by its name, and each entry of the listed folder.
    void remove(std::uint64_t file_lookups, const std::vector<std::uint64_t>& entry_lookups);

    std::uint64_t folder() const noexcept { return folder_; }
    const File& read_file() const noexcept { return file_; }
    // The same one, but with two_files.
    const File& written_file() const noexcept { return written_.node != 0 ? written_ : file_; }
    std::uint64_t listed_folder() const noexcept { return listed_; }
    std::size_t entry_count() const noexcept { return entries_.size(); }
    // Which entry of the listed folder a name is.
    static std::optional<std::size_t> entry_number(std::string_view name) noexcept;

    static constexpr std::string_view kFileName = "file";
    // Of what the files hold at first, see load_pattern.h.
    static constexpr std::uint64_t kGeneration = 0;

private:
    Outcome<File> make_file(std::string_view name, std::uint64_t bytes);
    Outcome<void> make_listed(std::uint32_t entries);
    void remove_file(const File& file, std::string_view name, std::uint64_t lookups);

    FuseClient client_;
    const std::string folder_name_;
    std::uint64_t folder_ = 0; // nodes
    std::uint64_t listed_ = 0;
    std::vector<std::uint64_t> entries_;
    File file_;
    File written_;
};

} // namespace viaduct::driver
