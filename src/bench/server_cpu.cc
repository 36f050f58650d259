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
        std::filesystem::directory_iterator task{tasks, error};
        if (error) return fail(ESRCH);
        bool any = false;
        for (; !error && task != std::filesystem::directory_iterator{}; task.increment(error)) {
            std::uint64_t on_cpu_ns = 0;
            std::ifstream stream{task->path() / "schedstat"};
            if (!(stream >> on_cpu_ns)) continue; // the thread has ended since: helpers come and go
            any = true;
            total += on_cpu_ns;
            for (const pid_t child : numbers_in(task->path() / "children"))
                total += cpu_ns_of({child}).value_or(0); // may have ended as well
        }
        if (!any) return fail(ENOENT);
    }
    return total;
}

} // namespace viaduct::bench
