// SPDX-License-Identifier: Apache-2.0
#include "bench/server_cpu.h"

#include <filesystem>
#include <fstream>
#include <string>

namespace viaduct::bench {
namespace {

std::vector<pid_t> numbers_in(const std::string& path) {
    std::ifstream stream{path};
    std::vector<pid_t> numbers;
    for (pid_t number = 0; stream >> number;) numbers.push_back(number);
    return numbers;
}

} // namespace

Result<std::uint64_t> cpu_ns_of(const std::vector<pid_t>& pids) {
    std::uint64_t total = 0;
    for (const pid_t pid : pids) {
        const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
        std::error_code error;
        const std::filesystem::directory_iterator folder{tasks, error};
        if (error) return fail(ESRCH);
        for (const auto& task : folder) {
            std::uint64_t on_cpu_ns = 0;
            std::ifstream stream{task.path() / "schedstat"};
            if (!(stream >> on_cpu_ns)) return fail(ENOENT);
            total += on_cpu_ns;
            TRY(const std::uint64_t of_children, cpu_ns_of(numbers_in(task.path() / "children")));
            total += of_children;
        }
    }
    return total;
}

} // namespace viaduct::bench
