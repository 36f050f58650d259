// SPDX-License-Identifier: Apache-2.0
#include "load_options.h"

#include <array>
#include <charconv>
#include <functional>
#include <getopt.h>
#include <string_view>

namespace viaduct::bench {
namespace {

constexpr const char* kHelp =
    R"(Puts a load on a vhost-user-fs device and tells what it costs the server, beside the same call made locally.
Usage: viaduct-load --socket PATH --kind KIND[:BLOCK][,KIND...] [OPTION...]

  --socket PATH       the device
  --kind LIST         null, getattr, lookup, open-release, read, write, create-unlink, readdir, readdirplus; a block
                      size in bytes, K or M may follow: read:4K,read:1M
  --queues N          request queues to use [1]
  --threads N         threads; each drives every N-th queue [1]
  --depth N           outstanding, of each thread on each of its queues [32]
  --queue-size N      entries of a queue [128]
  --packed            packed rings
  --no-event-idx, --no-indirect
  --block BYTES       of read and write [4K]
  --segment BYTES     of a block in one descriptor [4K]
  --file BYTES        size of the file that is read and written [64M]
  --sequential        offsets in order, not at random
  --wait              for interrupts; otherwise completions are polled for
  --verify            check what is read, and read back what was written
  --cpus LIST         thread t on the t-th of these (0,2): anywhere without
  --uid N, --gid N    the caller [0]
  --time MS           of a run; milliseconds [1000]
  --count N           operations of a run, instead of a time
  --ramp MS           a run before, that does not count [200]
  --repeat N          runs; medians are told [5]
  --bare-folder DIR   on the file system that is shared: the bare call is made there
  --bare-cpu N        where it is made
  --bare-time MS      for how long, before each run [200]
  --server-pid N      whose CPU time is counted, children included; may be given more than once [who listens]
  --name NAME         of the server, in the report
  --json PATH         a line for each run and each median; - for stdout, and no table then
  --memory BYTES      shared with the device [256M]
)";

std::optional<std::uint64_t> number(std::string_view text) {
    std::uint64_t factor = 1;
    if (text.ends_with('K')) factor = 1U << 10;
    if (text.ends_with('M')) factor = 1U << 20;
    if (text.ends_with('G')) factor = 1U << 30;
    if (factor > 1) text.remove_suffix(1);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value * factor;
}

std::vector<std::string_view> parts_of(std::string_view text) {
    std::vector<std::string_view> parts;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(','), text.size());
        parts.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

// Options that take a number, and where it goes.
struct Numbers {
    const char* name;
    std::function<void(LoadCommand&, std::uint64_t)> set;
};
const auto& number_options() {
    using std::chrono::milliseconds;
    static const std::array options{
        Numbers{"queues", [](auto& c, auto n) { c.load.queues = static_cast<std::uint32_t>(n); }},
        Numbers{"threads", [](auto& c, auto n) { c.load.threads = static_cast<std::uint32_t>(n); }},
        Numbers{"depth", [](auto& c, auto n) { c.load.depth = static_cast<std::uint32_t>(n); }},
        Numbers{"queue-size", [](auto& c, auto n) { c.device.queue_size = static_cast<std::uint32_t>(n); }},
        Numbers{"block", [](auto& c, auto n) { c.load.block_bytes = static_cast<std::uint32_t>(n); }},
        Numbers{"segment", [](auto& c, auto n) { c.load.segment_bytes = static_cast<std::uint32_t>(n); }},
        Numbers{"file", [](auto& c, auto n) { c.load.file_bytes = n; }},
        Numbers{"uid", [](auto& c, auto n) { c.load.uid = static_cast<std::uint32_t>(n); }},
        Numbers{"gid", [](auto& c, auto n) { c.load.gid = static_cast<std::uint32_t>(n); }},
        Numbers{"time", [](auto& c, auto n) { c.limit.time = milliseconds{n}; }},
        Numbers{"count", [](auto& c, auto n) { c.limit.operations = n; }},
        Numbers{"ramp", [](auto& c, auto n) { c.ramp = milliseconds{n}; }},
        Numbers{"repeat", [](auto& c, auto n) { c.repetitions = static_cast<int>(n); }},
        Numbers{"bare-cpu", [](auto& c, auto n) { c.bare_cpu = static_cast<int>(n); }},
        Numbers{"bare-time", [](auto& c, auto n) { c.bare_time = milliseconds{n}; }},
        Numbers{"server-pid", [](auto& c, auto n) { c.server_pids.push_back(static_cast<pid_t>(n)); }},
        Numbers{"memory", [](auto& c, auto n) { c.device.memory.bytes = n; }},
    };
    return options;
}

Outcome<void> add_kinds(LoadCommand& command, std::string_view list) {
    for (const std::string_view part : parts_of(list)) {
        const std::size_t colon = std::min(part.find(':'), part.size());
        const auto kind = driver::load_kind(part.substr(0, colon));
        if (!kind)
            return usage_failure(
                "--kind: \"" + std::string{part.substr(0, colon)} +
                "\" is none of null, getattr, lookup, open-release, read, write, create-unlink, readdir, "
                "readdirplus");
        driver::LoadOptions load;
        load.kind = *kind;
        load.block_bytes = 0; // the common one
        if (colon < part.size()) {
            const auto bytes = number(part.substr(colon + 1));
            if (!bytes)
                return usage_failure("--kind: \"" + std::string{part} + "\": after the colon a block size");
            load.block_bytes = static_cast<std::uint32_t>(*bytes);
        }
        command.kinds.push_back(load);
    }
    return {};
}

Outcome<void> apply(LoadCommand& command, std::string_view name, const char* value) {
    for (const Numbers& option : number_options()) {
        if (option.name != name) continue;
        const auto parsed = number(value);
        if (!parsed) return usage_failure("--" + std::string{name} + ": \"" + value + "\" is not a number");
        option.set(command, *parsed);
        return {};
    }
    if (name == "kind") return add_kinds(command, value);
    if (name == "cpus") {
        for (const std::string_view part : parts_of(value)) {
            const auto cpu = number(part);
            if (!cpu) return usage_failure("--cpus: \"" + std::string{value} + "\": CPU numbers and commas");
            command.load.cpus.push_back(static_cast<int>(*cpu));
        }
    }
    if (name == "socket") command.device.socket = value;
    if (name == "bare-folder") command.bare_folder = value;
    if (name == "name") command.name = value;
    if (name == "json") command.json_path = value;
    if (name == "packed") command.device.packed = true;
    if (name == "no-event-idx") command.device.event_idx = false;
    if (name == "no-indirect") command.device.indirect = false;
    if (name == "sequential") command.load.random = false;
    if (name == "wait") command.load.completion = driver::Completion::wait;
    if (name == "verify") command.load.verify = true;
    if (name == "help") command.help = true;
    return {};
}

// The common options for each kind.
Outcome<void> complete(LoadCommand& command) {
    if (command.device.socket.empty()) return usage_failure("--socket: the device's socket is missing");
    if (command.kinds.empty()) return usage_failure("--kind: at least one kind of request");
    if (command.repetitions < 1) return usage_failure("--repeat: at least 1");
    if (!command.limit.time && !command.limit.operations) command.limit.time = std::chrono::seconds{1};
    for (driver::LoadOptions& load : command.kinds) {
        const driver::LoadKind kind = load.kind;
        const std::uint32_t block_bytes = load.block_bytes;
        load = command.load;
        load.kind = kind;
        if (block_bytes != 0) load.block_bytes = block_bytes;
    }
    command.device.request_queues = command.load.queues;
    return {};
}

} // namespace

const char* load_help() {
    return kHelp;
}

Outcome<LoadCommand> parse_load(int argc, char** argv) {
    std::vector<option> options;
    for (const Numbers& entry : number_options())
        options.push_back({entry.name, required_argument, nullptr, 0});
    for (const char* name : {"kind", "cpus", "socket", "bare-folder", "name", "json"})
        options.push_back({name, required_argument, nullptr, 0});
    for (const char* name : {"packed", "no-event-idx", "no-indirect", "sequential", "wait", "verify", "help"})
        options.push_back({name, no_argument, nullptr, 0});
    options.push_back({});

    LoadCommand command;
    command.device.memory.bytes = 256ULL << 20;
    for (;;) {
        int index = 0;
        opterr = 0;
        const int found = ::getopt_long(argc, argv, "", options.data(), &index);
        if (found == -1) break;
        if (found != 0)
            return usage_failure(std::string{argv[optind - 1]} +
                                 ": no such option, or its value is missing (--help)");
        TRY_STATUS(apply(command, options[static_cast<std::size_t>(index)].name, optarg));
    }
    if (optind < argc)
        return usage_failure(std::string{argv[optind]} + ": an argument that belongs to no option");
    if (command.help) return command;
    TRY_STATUS(complete(command));
    return command;
}

} // namespace viaduct::bench
