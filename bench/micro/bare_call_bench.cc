// SPDX-License-Identifier: Apache-2.0
//
// bench_bare_call KIND FOLDER COUNT: makes the calls that an operation of `viaduct bench` stands for, COUNT
// times, and nothing else, for whoever counts instructions and system calls.  One JSON line.
#include "bench/bare_call.h"
#include "bench/workload.h"

#include <charconv>
#include <cstdio>
#include <string_view>

namespace viaduct::bench {
namespace {

constexpr std::uint64_t kFileBytes = 4 << 20;

Outcome<void> run(const char* kind, const char* folder, std::string_view count) {
    std::uint64_t wanted = 0;
    if (std::from_chars(count.data(), count.data() + count.size(), wanted).ptr != count.data() + count.size())
        return usage_failure("\"" + std::string{count} + "\" is no number of operations");
    TRY(const auto workloads, parse_workloads("KIND", kind));
    driver::LoadOptions load{.file_bytes = kFileBytes};
    set_workload(workloads.front(), load);
    if (workloads.size() != 1 || !BareCall::possible(load))
        return usage_failure("KIND is \"" + std::string{kind} +
                             "\"; it takes one, and there is no bare null");
    TRY(BareCall call, BareCall::make(folder, load));
    const std::uint64_t done = call.repeat(wanted);
    if (done != wanted) return failure(std::to_string(wanted - done) + " calls failed");
    std::printf("{\"name\":\"bare_call\",\"kind\":\"%s\",\"operations\":%llu}\n", workload_name(load).c_str(),
                static_cast<unsigned long long>(done));
    return {};
}

} // namespace
} // namespace viaduct::bench

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fputs("usage: bench_bare_call KIND FOLDER COUNT\n", stderr);
        return 2;
    }
    const auto result = viaduct::bench::run(argv[1], argv[2], argv[3]);
    if (result) return 0;
    std::fprintf(stderr, "bench_bare_call: %s\n", result.error().message.c_str());
    return result.error().exit_status;
}
