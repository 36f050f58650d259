// SPDX-License-Identifier: Apache-2.0
#include "config/bench_options.h"

#include "config/size.h"

#include <string_view>

namespace viaduct::config {
namespace {

using namespace std::chrono_literals;

// What a preset or another option chooses unless it is given.
struct Overridable {
    std::uint64_t queues = 1;
    std::uint64_t threads = 1;
    std::uint64_t depth = 32;
    std::uint64_t block_bytes = 4096;
    std::string completion = "poll";
    std::string affinity = "off";
};

void add_load(CommandLine& line, BenchCommand& command, Overridable& numbers) {
    line.text(
        "--preset", command.preset, "NAME",
        "Rows that others have published: random-write (s0), threads-by-queues (s2), sequential (s3) or "
        "random-read-write (s4); options override its numbers");
    line.text(
        "--sweep", command.sweep, "AXES",
        "Each row once for every combination, as threads=1,2,4,queues=1,2; axes are threads, queues, depth, "
        "block, completion, dispatch and affinity");
    line.text("--kind", command.kinds, "LIST",
              "Rows: null, getattr, lookup, open-release, create-unlink, readdir, readdirplus; and read, "
              "write, rw, "
              "randread, randwrite, randrw, these with a block size, as randread:4K");
    line.texts(
        "--mix", command.mixes, "LIST",
        "One row of several kinds with their shares, as randread:4K=70,randwrite:4K=30; may be repeated");
    line.number("--queues", numbers.queues, 1, 1024, "N", "Request queues");
    line.number("--threads", numbers.threads, 1, 4096, "N",
                "Threads; each drives every N-th queue, and several share a queue where there are fewer");
    line.number("--depth", numbers.depth, 1, 65'536, "N",
                "Operations kept outstanding, by each thread on each of its queues");
    line.size("--block", numbers.block_bytes, 8, 1 << 20, "Of reads and writes without a size of their own");
    line.size("--segment", command.segment_bytes, 1, 1 << 20, "Of a block, in one descriptor");
    line.size("--file", command.file_bytes, 4096, 1ULL << 40, "The file that is read and written");
    line.number("--entries", command.entries, 1, 100'000, "N", "Entries of the folder that readdir lists");
    line.choice("--completion", numbers.completion, {"poll", "wait", "threads"},
                "How replies are found: by the load's threads all the time, by them asleep until they are "
                "interrupted, or by a thread for each queue");
    line.choice("--dispatch", command.dispatch, {"direct", "staged"},
                "Requests go on the queue at once, or by way of a list and a thread of the queue");
    line.choice("--affinity", numbers.affinity, {"on", "off"},
                "With --completion threads: each on the CPUs that the queue map gives its queue");
    line.choice("--queue-by", command.queue_by, {"thread", "cpu"},
                "A thread keeps to its queues, or uses the queue of the CPU that it is on");
    line.text("--cpus", command.cpus, "LIST", "Thread t runs on the t-th of these CPUs, as 0,2-5");
    line.number("--uid", command.uid, 0, UINT32_MAX, "N", "User id of the caller");
    line.number("--gid", command.gid, 0, UINT32_MAX, "N", "Group id of the caller");
    line.flag("--verify", command.verify, "Check what is read, and read back what was written");
}

void add_device(CommandLine& line, BenchCommand& command) {
    line.number("--queue-size", command.queue_size, 2, 32'768, "N", "Entries of a queue");
    line.flag("--packed", command.packed, "Packed virtqueues, where the device offers them");
    line.negative_flag("--no-event-idx", command.event_idx, "Do not use the event index");
    line.negative_flag("--no-indirect", command.indirect, "Do not use indirect descriptors");
    line.size("--memory", command.memory_bytes, 1 << 20, 1ULL << 40,
              "Shared with the device at least; more where the requests need it");
}

void add_runs(CommandLine& line, BenchCommand& command) {
    line.duration("--time", command.time, 1ms, "Of a run");
    line.number("--count", command.count, 0, UINT64_MAX, "N",
                "Operations of a run, instead of a time; 0: by time");
    line.duration("--ramp", command.ramp, 0ms, "Of load before each run that does not count");
    line.number("--repeat", command.repetitions, 1, 10'000, "N", "Runs of each row; medians are told");
}

void add_report(CommandLine& line, BenchCommand& command, std::uint64_t& bare_cpu) {
    line.text(
        "--bare", command.bare_folder, "DIR",
        "The shared folder as this host sees it: the same calls are made there by one thread, for the ratio");
    line.number("--bare-cpu", bare_cpu, 0, 8191, "N", "CPU of the bare calls; without it any");
    line.duration("--bare-time", command.bare_time, 1ms, "Of the bare calls before each run");
    line.texts(
        "--server-pid", command.server_pids, "[NAME=]PID",
        "Process whose CPU time is counted, with its children, instead of the socket's listener; may be "
        "repeated");
    line.flag(
        "--locality", command.locality,
        "Columns: share of requests that ended on the CPU that submitted them, moves of the load's threads "
        "between CPUs, context switches");
    line.text("--report", command.report, "FILE", "A page of HTML with plots, in one file");
    line.optional_text(
        "--json", command.json, "-", "FILE",
        "JSON lines, one for each run and each row, in place of the table, or added to FILE beside it");
}

} // namespace

Outcome<BenchCommand> parse_bench(int argc, const char* const* argv) {
    BenchCommand command;
    command.line = "viaduct";
    for (int index = 0; index < argc; ++index) command.line.append(" ").append(argv[index]);
    command.compare = argc > 1 && std::string_view{argv[1]} == "compare";
    Overridable numbers;
    std::uint64_t bare_cpu = 0;
    CommandLine line{
        "viaduct bench", "[compare] [NAME=]SOCKET... [OPTION...]",
        "Puts a load on a vhost-user-fs device and tells how fast it is and what it costs; compare: on "
        "several, in turn."};
    line.words(command.servers, "SOCKET", "The device's socket; the name before it is for the table");
    add_load(line, command, numbers);
    add_device(line, command);
    add_runs(line, command);
    add_report(line, command, bare_cpu);
    const int skipped = command.compare ? 1 : 0;
    TRY(command.request, line.parse(argc - skipped, argv + skipped));
    command.help = line.help();
    // No default is shown where there is none.
    for (const std::string_view option : {"CPU of the bare calls; without it any"}) {
        const std::size_t end = command.help.find(option) + option.size();
        if (command.help.compare(end, 4, " [0]") == 0) command.help.erase(end, 4);
    }
    if (command.request != Request::run) return command;

    const auto given = [&](const char* option, std::optional<std::uint64_t>& target, std::uint64_t value) {
        if (line.given(option)) target = value;
    };
    given("--queues", command.queues, numbers.queues);
    given("--threads", command.threads, numbers.threads);
    given("--depth", command.depth, numbers.depth);
    given("--block", command.block_bytes, numbers.block_bytes);
    given("--bare-cpu", command.bare_cpu, bare_cpu);
    if (line.given("--completion")) command.completion = numbers.completion;
    if (line.given("--affinity")) command.affinity = numbers.affinity;

    if (command.servers.empty())
        return usage_failure("the socket is missing; give the path that the device listens on");
    if (!command.compare && command.servers.size() > 1)
        return usage_failure("\"" + command.servers[1] +
                             "\" is a second socket; viaduct bench compare takes several");
    if (command.compare && command.servers.size() < 2)
        return usage_failure("compare has one socket, \"" + command.servers.front() +
                             "\"; it takes at least two");
    if (!command.preset.empty() && (line.given("--kind") || line.given("--mix")))
        return usage_failure("--preset is \"" + command.preset +
                             "\", which has kinds of its own; leave --kind and --mix out");
    for (const char* const option : {"--bare-cpu", "--bare-time"}) {
        if (line.given(option) && command.bare_folder.empty())
            return usage_failure(std::string{option} + " goes with --bare, which is not given");
    }
    return command;
}

} // namespace viaduct::config
