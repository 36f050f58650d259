// SPDX-License-Identifier: Apache-2.0
#include "bench/plan.h"

#include "bench/preset.h"
#include "bench/sweep.h"
#include "bench/workload.h"
#include "config/size.h"
#include "topology/cpu_set.h"
#include "virtio/driver_queue.h"

#include <algorithm>
#include <charconv>
#include <sched.h>

namespace viaduct::bench {
namespace {

constexpr const char* kDefaultKinds = "null,getattr,lookup,randread:4K,randwrite:4K,read:256K";
// Beyond a request's block: its header, reply, forget, and what rounding costs.
constexpr std::uint64_t kRequestBytes = 8192;
constexpr std::uint64_t kMemoryMax = 64ULL << 30;

// "NAME=WORD": the name has no slash, so that a path may have a "=".
std::pair<std::string, std::string> split_name(const std::string& word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || word.find('/') < equals) return {"", word};
    return {word.substr(0, equals), word.substr(equals + 1)};
}

std::string quoted(const std::string& word) {
    std::string text = "\"";
    text += word;
    text += '"';
    return text;
}

Outcome<std::vector<Target>> targets_of(const config::BenchCommand& command) {
    std::vector<Target> targets;
    for (const std::string& word : command.servers) {
        const auto [name, socket] = split_name(word);
        targets.push_back({.name = name.empty() ? socket : name, .socket = socket, .pids = {}});
        if (std::ranges::count(targets, targets.back().name, &Target::name) > 1)
            return usage_failure(quoted(word) +
                                 " has the name of another device; give each its own, as a=" + socket);
    }
    for (const std::string& word : command.server_pids) {
        const auto [name, number] = split_name(word);
        pid_t pid = 0;
        const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), pid);
        if (error != std::errc{} || end != number.data() + number.size() || pid <= 0)
            return usage_failure("--server-pid is \"" + word + "\"; it takes the number of a process");
        if (name.empty() && targets.size() > 1)
            return usage_failure("--server-pid is \"" + word + "\"; with several devices it takes NAME=PID");
        const auto target = name.empty() ? targets.begin() : std::ranges::find(targets, name, &Target::name);
        if (target == targets.end())
            return usage_failure("--server-pid is " + quoted(word) + "; no device has the name " +
                                 quoted(name));
        target->pids.push_back(pid);
    }
    return targets;
}

Outcome<std::vector<int>> cpus_of(const std::string& list) {
    std::vector<int> numbers; // in the order in which they are written
    for (const std::string_view part : split_list(list)) {
        const auto cpus = topology::CpuSet::parse(part);
        if (!cpus)
            return usage_failure("--cpus is \"" + list + "\"; it takes CPU numbers and ranges, as 0,2-5");
        for (const topology::CpuId cpu : *cpus) numbers.push_back(static_cast<int>(cpu));
    }
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return numbers;
    for (const int cpu : numbers) {
        if (!CPU_ISSET_S(static_cast<std::size_t>(cpu), sizeof allowed, &allowed))
            return usage_failure("--cpus is \"" + list + "\"; CPU " + std::to_string(cpu) +
                                 " is not there, or this process may not run on it");
    }
    return numbers;
}

driver::Completion completion_of(const config::BenchCommand& command) {
    if (command.completion == "wait") return driver::Completion::wait;
    // Affinity is of those threads.
    const bool affinity = !command.affinity.empty() || command.sweep.find("affinity=") != std::string::npos;
    if (command.completion == "threads" || (command.completion.empty() && affinity))
        return driver::Completion::threads;
    return driver::Completion::poll;
}

// What all points have in common.
Outcome<driver::LoadOptions> common_load(const config::BenchCommand& command) {
    driver::LoadOptions load;
    load.queues = static_cast<std::uint32_t>(command.queues.value_or(1));
    load.threads = static_cast<std::uint32_t>(command.threads.value_or(1));
    load.depth = static_cast<std::uint32_t>(command.depth.value_or(32));
    load.block_bytes = static_cast<std::uint32_t>(command.block_bytes.value_or(4096));
    load.segment_bytes = static_cast<std::uint32_t>(command.segment_bytes);
    load.file_bytes = command.file_bytes;
    load.directory_entries = static_cast<std::uint32_t>(command.entries);
    load.completion = completion_of(command);
    load.dispatch = command.dispatch == "staged" ? driver::Dispatch::staged : driver::Dispatch::direct;
    load.affinity = command.affinity == "on";
    load.by_cpu = command.queue_by == "cpu";
    load.verify = command.verify;
    load.uid = static_cast<std::uint32_t>(command.uid);
    load.gid = static_cast<std::uint32_t>(command.gid);
    TRY(load.cpus, cpus_of(command.cpus));
    return load;
}

Outcome<std::vector<driver::LoadOptions>> kind_points(const config::BenchCommand& command,
                                                      const driver::LoadOptions& common) {
    const bool neither = command.kinds.empty() && command.mixes.empty();
    std::vector<Workload> workloads;
    if (neither || !command.kinds.empty()) {
        TRY(workloads, parse_workloads("--kind", neither ? kDefaultKinds : command.kinds.c_str()));
    }
    for (const std::string& list : command.mixes) {
        TRY(Workload mix, parse_mix("--mix", list));
        workloads.push_back(std::move(mix));
    }
    std::vector<driver::LoadOptions> points;
    for (const Workload& workload : workloads) set_workload(workload, points.emplace_back(common));
    return points;
}

// What is given goes before what the preset says.
Outcome<std::vector<driver::LoadOptions>> overridden_preset(const config::BenchCommand& command,
                                                            const driver::LoadOptions& common) {
    TRY(auto points, preset_points(command.preset, common));
    for (driver::LoadOptions& load : points) {
        if (command.queues) load.queues = common.queues;
        if (command.threads) load.threads = common.threads;
        if (command.depth) load.depth = common.depth;
        if (command.block_bytes) set_block(load, common.block_bytes);
        if (!command.completion.empty() || common.completion == driver::Completion::threads)
            load.completion = common.completion;
    }
    remove_repeated(points);
    return points;
}

// An axis that is given as an option too would override it in silence.
Outcome<void> check_axes(const config::BenchCommand& command, const std::vector<Axis>& axes) {
    const struct {
        AxisName name;
        bool given;
        const char* option;
    } options[] = {{AxisName::threads, command.threads.has_value(), "--threads"},
                   {AxisName::queues, command.queues.has_value(), "--queues"},
                   {AxisName::depth, command.depth.has_value(), "--depth"},
                   {AxisName::block, command.block_bytes.has_value(), "--block"},
                   {AxisName::completion, !command.completion.empty(), "--completion"},
                   {AxisName::dispatch, command.dispatch != "direct", "--dispatch"},
                   {AxisName::affinity, !command.affinity.empty(), "--affinity"}};
    for (const auto& option : options) {
        if (option.given && std::ranges::find(axes, option.name, &Axis::name) != axes.end())
            return usage_failure("--sweep is \"" + command.sweep + "\" and " + option.option +
                                 " is given as well; leave one of them out");
    }
    return {};
}

Outcome<std::vector<driver::LoadOptions>> points_of(const config::BenchCommand& command) {
    TRY(const driver::LoadOptions common, common_load(command));
    TRY(auto points,
        command.preset.empty() ? kind_points(command, common) : overridden_preset(command, common));
    if (command.sweep.empty()) return points;
    TRY(const auto axes, parse_sweep(command.sweep));
    TRY_STATUS(check_axes(command, axes));
    return expand(points, axes);
}

std::uint64_t outstanding(const driver::LoadOptions& load) {
    return static_cast<std::uint64_t>(std::max(load.threads, load.queues)) * load.depth;
}

// What the driver would refuse, in the words of the command line.
Outcome<void> check(const driver::LoadOptions& load) {
    using driver::Completion;
    if (load.completion == Completion::wait && load.threads < load.queues)
        return usage_failure(
            "--completion is \"wait\" with " + std::to_string(load.threads) + " threads and " +
            std::to_string(load.queues) +
            " queues; a thread can wait on one queue only, so give --threads at least as many");
    if (load.completion == Completion::wait && load.by_cpu && load.queues > 1)
        return usage_failure(
            "--queue-by is \"cpu\" and --completion \"wait\"; a thread that changes its queue cannot "
            "wait on one, so use poll or threads");
    if (load.affinity && load.completion != Completion::threads)
        return usage_failure(
            "--affinity is \"on\" and --completion is not \"threads\"; it binds those threads");
    const std::uint32_t block_bytes = block_of(load);
    if (block_bytes == 0) return {};
    const std::uint64_t blocks = load.file_bytes / block_bytes;
    if (blocks == 0)
        return usage_failure("--file is \"" + config::size_text(load.file_bytes) +
                             "\"; it takes at least one block, " + config::size_text(block_bytes));
    if (load.verify && blocks < outstanding(load))
        return usage_failure("--verify needs a block for each outstanding operation; give --file at least " +
                             config::size_text(outstanding(load) * block_bytes));
    std::vector<std::uint32_t> written;
    for (const driver::LoadPart& part : parts_of(load)) {
        if (part.kind == driver::LoadKind::write) written.push_back(part.block_bytes);
    }
    if (load.verify && std::ranges::adjacent_find(written, std::ranges::not_equal_to{}) != written.end())
        return usage_failure("--verify goes with writes of one size in a mix, and " + workload_name(load) +
                             " has several; give them the same");
    return {};
}

} // namespace

std::uint64_t memory_needed(const std::vector<driver::LoadOptions>& points,
                            const driver::DeviceOptions& device) {
    std::uint64_t bytes = 0;
    for (const driver::LoadOptions& load : points) {
        const std::uint64_t block = (block_of(load) + 4095ULL) / 4096 * 4096;
        bytes = std::max(bytes, outstanding(load) * (block + kRequestBytes));
    }
    const std::uint64_t ring = virtio::DriverQueue::ring_bytes({.packed = device.packed,
                                                                .event_idx = device.event_idx,
                                                                .indirect = device.indirect,
                                                                .size = device.queue_size});
    // A call of a client's own, beside the load: some blocks of 1 MiB.
    return bytes + (device.request_queues + 1ULL) * (ring + 4096) + (16ULL << 20);
}

Outcome<Plan> make_plan(const config::BenchCommand& command) {
    Plan plan;
    TRY(plan.targets, targets_of(command));
    if (command.block_bytes && *command.block_bytes % 8 != 0)
        return usage_failure("--block is \"" + std::to_string(*command.block_bytes) +
                             "\"; it takes a multiple of 8");
    TRY(plan.points, points_of(command));
    for (const driver::LoadOptions& load : plan.points) TRY_STATUS(check(load));
    if (!command.packed && (command.queue_size & (command.queue_size - 1)) != 0)
        return usage_failure("--queue-size is \"" + std::to_string(command.queue_size) +
                             "\"; a split queue takes a power of two");
    plan.device.request_queues = std::ranges::max(plan.points, {}, &driver::LoadOptions::queues).queues;
    plan.device.queue_size = static_cast<std::uint32_t>(command.queue_size);
    plan.device.packed = command.packed;
    plan.device.event_idx = command.event_idx;
    plan.device.indirect = command.indirect;
    plan.device.start = false;
    const std::uint64_t needed = memory_needed(plan.points, plan.device);
    if (needed > kMemoryMax)
        return usage_failure(
            "the outstanding operations need " + std::to_string(needed >> 30) +
            " GiB of shared memory, and 64 are possible; lower --depth, --threads or --block");
    plan.device.memory.bytes = std::max(command.memory_bytes, needed);
    plan.device.memory.bytes_max = std::max(plan.device.memory.bytes_max, plan.device.memory.bytes);
    if (command.count != 0)
        plan.limit.operations = command.count;
    else
        plan.limit.time = command.time;
    plan.ramp = command.ramp;
    plan.repetitions = static_cast<unsigned>(command.repetitions);
    plan.bare_folder = command.bare_folder;
    if (command.bare_cpu) plan.bare_cpu = static_cast<int>(*command.bare_cpu);
    plan.bare_time = command.bare_time;
    plan.compare = command.compare;
    plan.locality = command.locality;
    plan.command = command.line;
    plan.report = command.report;
    plan.json = command.json;
    return plan;
}

} // namespace viaduct::bench
