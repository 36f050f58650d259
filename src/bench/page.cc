// SPDX-License-Identifier: Apache-2.0
#include "bench/page.h"

#include "bench/workload.h"
#include "config/size.h"

#include <array>
#include <ctime>
#include <fstream>
#include <sys/utsname.h>
#include <unistd.h>

namespace viaduct::bench {
namespace {

std::string cpu_model() {
    std::ifstream stream{"/proc/cpuinfo"};
    for (std::string line; std::getline(stream, line);) {
        if (line.starts_with("model name"))
            return line.substr(std::min(line.find(": "), line.size() - 2) + 2);
    }
    return "an unknown model";
}

std::string now_text() {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    std::array<char, 64> text{};
    if (::localtime_r(&now, &local) == nullptr) return {};
    return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M %z", &local)};
}

std::string list_text(const std::vector<int>& cpus) {
    std::string text;
    for (const int cpu : cpus) text += (text.empty() ? "" : ",") + std::to_string(cpu);
    return text;
}

// NaN for what was not measured.
double measured(double value) {
    return value > 0 ? value : kNotMeasured;
}

} // namespace

ReportPoint report_point(const std::string& server, const Summary& summary) {
    const driver::LoadOptions& load = summary.load;
    ReportPoint point{.server = server, .load = workload_name(load)};
    if (load.completion == driver::Completion::wait) point.server += ", waiting";
    if (load.completion == driver::Completion::threads) point.server += ", completion threads";
    if (load.affinity) point.server += ", affinity";
    if (load.dispatch == driver::Dispatch::staged) point.server += ", staged";
    if (load.by_cpu) point.server += ", queue by CPU";
    point.queues = load.queues;
    point.threads = load.threads;
    point.depth = load.depth;
    point.block_bytes = block_of(load);
    point.runs = summary.runs;
    point.operations_per_second = summary.operations_per_second.median;
    point.operations_per_second_min = summary.operations_per_second.least;
    point.operations_per_second_max = summary.operations_per_second.most;
    if (point.block_bytes > 0) point.mib_per_second = summary.mib_per_second;
    point.server_ns = measured(summary.server_ns);
    point.client_ns = measured(summary.client_ns);
    if (summary.bare_ns > 0) {
        point.bare_ns = summary.bare_ns;
        point.ratio = summary.ratio.median;
        point.ratio_min = summary.ratio.least;
        point.ratio_max = summary.ratio.most;
    }
    if (summary.latency.count() > 0) {
        point.p50_ns = static_cast<double>(summary.latency.percentile(50));
        point.p99_ns = static_cast<double>(summary.latency.percentile(99));
        point.p999_ns = static_cast<double>(summary.latency.percentile(99.9));
        point.max_ns = static_cast<double>(summary.latency.max());
    }
    for (const driver::Latency::Bucket& bucket : summary.latency.buckets())
        point.latencies.push_back({.upper_ns = static_cast<double>(bucket.last_ns), .count = bucket.count});
    point.kicks_per_request = summary.kicks_per_request;
    point.interrupts_per_request = summary.interrupts_per_request;
    point.same_cpu_share = summary.same_cpu_share;
    point.cpu_migrations = summary.migrations_per_second;
    point.errors = summary.errors;
    point.mismatches = summary.mismatches;
    return point;
}

ReportHeader report_header(const Plan& plan) {
    utsname kernel{};
    ::uname(&kernel);
    ReportHeader header;
    header.title = plan.compare ? "Devices compared" : "Measurements of " + plan.targets.front().name;
    header.command = plan.command;
    header.machine = std::to_string(::sysconf(_SC_NPROCESSORS_ONLN)) + " CPUs, " + cpu_model();
    header.kernel = std::string{kernel.sysname} + " " + kernel.release;
    header.date = now_text();
    const std::vector<int>& cpus = plan.points.front().cpus;
    header.cpus = cpus.empty() ? "load on any" : "load on " + list_text(cpus);
    if (plan.bare_cpu >= 0) header.cpus += ", bare calls on " + std::to_string(plan.bare_cpu);
    const std::string length = plan.limit.time ? config::duration_text(*plan.limit.time)
                                               : std::to_string(*plan.limit.operations) + " operations";
    header.others = {{"runs", "medians of " + std::to_string(plan.repetitions) + " runs of " + length},
                     {"queue size", std::to_string(plan.device.queue_size)},
                     {"rings", plan.device.packed ? "packed where offered" : "split"}};
    return header;
}

} // namespace viaduct::bench
