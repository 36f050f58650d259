// SPDX-License-Identifier: Apache-2.0
//
// A program that runs to its end, and what it wrote.
#pragma once

#include "guestvm/process.h"
#include "support/temp_dir.h"

#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace viaduct::test {

struct Ran {
    int status = -1; // 128 + n after signal n
    std::string out;
    std::string err;
};

inline std::string text_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream{path}.rdbuf();
    return text.str();
}

// status -1 and the reason in `err` when it cannot be started.
inline Ran run_program(const std::vector<std::string>& argv) {
    const TempDir folder;
    const std::string out = folder.file("out");
    const std::string err = folder.file("err");
    const Fd out_file{::open(out.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
    const Fd err_file{::open(err.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
    auto child = guestvm::Child::start(
        {.argv = argv, .stdout_fd = out_file.get(), .stderr_fd = err_file.get(), .kept_fds = {}});
    if (!child) return {.status = -1, .out = {}, .err = child.error().message};
    const int status = child->wait();
    return {.status = status, .out = text_of(out), .err = text_of(err)};
}

} // namespace viaduct::test
