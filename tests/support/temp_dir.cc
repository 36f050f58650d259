// SPDX-License-Identifier: Apache-2.0
#include "support/temp_dir.h"

#include "base/assert.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <ftw.h>
#include <sstream>
#include <sys/stat.h>

namespace viaduct::test {
namespace {

std::string base_folder() {
    const char* const folder = std::getenv("TMPDIR");
    return folder != nullptr && folder[0] == '/' ? folder : "/tmp";
}

int remove_one(const char* path, const struct stat*, int, FTW*) {
    ::remove(path); // a mount point stays
    return 0;
}

} // namespace

TempDir::TempDir() : TempDir(base_folder()) {}

TempDir::TempDir(const std::string& parent) : path_(parent + "/viaduct-test-XXXXXX") {
    const char* const made = ::mkdtemp(path_.data());
    if (made == nullptr) std::perror(path_.c_str());
    ASSERT(made != nullptr);
}

TempDir::~TempDir() {
    ::nftw(path_.c_str(), remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

std::string TempDir::make_folder(std::string_view name) const {
    const std::string path = file(name);
    ASSERT(::mkdir(path.c_str(), 0755) == 0);
    return path;
}

std::string TempDir::write(std::string_view name, std::string_view contents) const {
    const std::string path = file(name);
    std::ofstream stream{path, std::ios::binary};
    stream << contents;
    stream.close();
    ASSERT(!stream.fail());
    return path;
}

std::string TempDir::read(std::string_view name) const {
    std::ifstream stream{file(name), std::ios::binary};
    std::ostringstream contents;
    contents << stream.rdbuf();
    return contents.str();
}

} // namespace viaduct::test
