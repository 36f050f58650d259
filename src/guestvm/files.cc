// SPDX-License-Identifier: Apache-2.0
#include "guestvm/files.h"

#include "base/fd.h"
#include "guestvm/temp_dir.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>

namespace viaduct::guestvm {

Result<std::string> read_file(const std::string& path) {
    const Fd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    if (!fd) return fail(errno);
    struct stat status;
    if (::fstat(fd.get(), &status) < 0) return fail(errno);
    if (S_ISDIR(status.st_mode)) return fail(EISDIR);
    std::string contents;
    std::size_t used = 0;
    for (;;) {
        // One byte more than the size: the read that finds the end needs no second round.
        if (used == contents.size())
            contents.resize(std::max(used + 64 * 1024, static_cast<std::size_t>(status.st_size) + 1));
        const ssize_t got = ::read(fd.get(), contents.data() + used, contents.size() - used);
        if (got < 0) return fail(errno);
        if (got == 0) break;
        used += static_cast<std::size_t>(got);
    }
    contents.resize(used);
    return contents;
}

Status write_file(const std::string& path, std::string_view contents) {
    const Fd fd{::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    if (!fd) return fail(errno);
    while (!contents.empty()) {
        const ssize_t written = ::write(fd.get(), contents.data(), contents.size());
        if (written < 0) return fail(errno);
        contents.remove_prefix(static_cast<std::size_t>(written));
    }
    return {};
}

bool exists(const std::string& path) {
    return ::access(path.c_str(), F_OK) == 0;
}

std::string cache_dir() {
    const char* const cache = std::getenv("XDG_CACHE_HOME");
    const char* const home = std::getenv("HOME");
    std::string path;
    if (cache != nullptr && cache[0] == '/')
        path = cache;
    else if (home != nullptr && home[0] == '/')
        path = std::string{home} + "/.cache";
    else
        return {};
    path += "/viaduct";
    std::error_code ignored;
    std::filesystem::create_directories(path, ignored);
    return ::access(path.c_str(), W_OK) == 0 ? path : std::string{};
}

Outcome<TempDir> TempDir::create() {
    const char* const base = std::getenv("TMPDIR");
    std::string path = std::string{base != nullptr && base[0] == '/' ? base : "/tmp"} + "/viaduct-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr)
        return failure("cannot make a temporary folder " + path, Errno{errno}, "; TMPDIR names the place");
    return TempDir{std::move(path)};
}

TempDir::~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

} // namespace viaduct::guestvm
