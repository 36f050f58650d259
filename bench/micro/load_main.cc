// SPDX-License-Identifier: Apache-2.0
//
// viaduct-load: a load on a vhost-user-fs device, and its price in server CPU beside the bare call.
#include "bare_call.h"
#include "load_options.h"
#include "load_report.h"
#include "server_cpu.h"

#include "base/log.h"
#include "driver/fuse_client.h"

#include <cstdio>
#include <memory>
#include <optional>

namespace viaduct::bench {
namespace {

struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
};

// Bare call and load in turn, so that both see the same machine.
Outcome<Measurement> measure_once(const LoadCommand& command, driver::Load& load,
                                  std::optional<BareCall>& bare, const std::vector<pid_t>& pids) {
    Measurement run;
    if (bare) run.bare_ns = bare->measure(command.bare_time, command.bare_cpu);
    if (command.ramp.count() > 0) load.run({.time = command.ramp, .operations = {}});
    const auto before = cpu_ns_of(pids);
    run.result = load.run(command.limit);
    const auto after = cpu_ns_of(pids);
    if (!before || !after)
        return failure("cannot read the server's CPU time", before ? after.error() : before.error(),
                       "; --server-pid names it");
    if (run.result.operations > 0)
        run.server_ns = static_cast<double>(*after - *before) / static_cast<double>(run.result.operations);
    return run;
}

Outcome<Summary> measure(const LoadCommand& command, driver::Device& device,
                         const driver::LoadOptions& options, std::FILE* json) {
    const auto pids =
        command.server_pids.empty() ? std::vector<pid_t>{device.peer_pid()} : command.server_pids;
    TRY(const auto load, driver::Load::prepare(device, options));
    std::optional<BareCall> bare;
    if (!command.bare_folder.empty() && BareCall::possible(options.kind)) {
        TRY(BareCall made, BareCall::make(command.bare_folder, options));
        bare.emplace(std::move(made));
    }
    std::vector<Measurement> runs;
    for (int number = 1; number <= command.repetitions; ++number) {
        TRY(const Measurement run, measure_once(command, *load, bare, pids));
        if (json != nullptr) print_run(json, command.name, device, options, number, run);
        runs.push_back(run);
        if (run.result.errors > 0) break;
    }
    return summarize(options, runs);
}

Outcome<int> run(const LoadCommand& command) {
    const bool to_stdout = command.json_path == "-";
    std::unique_ptr<std::FILE, CloseFile> json_file;
    if (!command.json_path.empty() && !to_stdout) {
        json_file.reset(std::fopen(command.json_path.c_str(), "ae"));
        if (!json_file) return failure("--json " + command.json_path, Errno{errno});
    }
    std::FILE* const json = to_stdout ? stdout : json_file.get();
    TRY(const auto device, driver::Device::connect(command.device));
    driver::FuseClient client{*device, {.queue = 0}};
    if (const auto init = client.init(); !init) return failure("INIT", init.error());

    if (!to_stdout) print_table_head(stdout);
    bool good = true;
    for (const driver::LoadOptions& options : command.kinds) {
        TRY(const Summary summary, measure(command, *device, options, json));
        if (json != nullptr) print_summary(json, command.name, *device, summary);
        if (!to_stdout) print_table_row(stdout, summary);
        good = good && summary.errors == 0 && summary.mismatches == 0;
        if (!device->alive()) return failure("the device has left");
    }
    return good ? 0 : 1;
}

int report(const Failure& failure) {
    std::fprintf(stderr, "viaduct-load: %s\n", failure.message.c_str());
    return failure.exit_status;
}

} // namespace
} // namespace viaduct::bench

int main(int argc, char** argv) {
    using namespace viaduct;
    log::set_level(log::Level::warn);
    const auto command = bench::parse_load(argc, argv);
    if (!command) return bench::report(command.error());
    if (command->help) return std::fputs(bench::load_help(), stdout) < 0 ? 1 : 0;
    const auto status = bench::run(*command);
    return status ? *status : bench::report(status.error());
}
