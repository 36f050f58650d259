// SPDX-License-Identifier: Apache-2.0
#include "bench/bench.h"

#include "base/log.h"
#include "bench/bare_call.h"
#include "bench/output.h"
#include "bench/page.h"
#include "bench/plan.h"
#include "bench/report.h"
#include "bench/server.h"
#include "bench/summary.h"
#include "bench/sweep.h"
#include "bench/workload.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <optional>
#include <unistd.h>
#include <vector>

namespace viaduct::bench {
namespace {

std::atomic<bool> interrupted{false};

// The first Ctrl-C ends it after the present run, with the share as it was; the second at once.
void install_interrupt() {
    struct sigaction action{};
    action.sa_handler = [](int) { interrupted.store(true, std::memory_order_relaxed); };
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
    ::sigaction(SIGINT, &action, nullptr);
}

// A load on one device at one point of the plan, with what its runs gave.
struct Trial {
    Server& server;
    driver::LoadOptions options; // with the queues that the device has
    std::unique_ptr<driver::Load> load;
    std::vector<Measurement> runs;

    bool failed() const { return !runs.empty() && runs.back().result.errors > 0; }
};

class Bench {
public:
    Bench(const Plan& plan, Output& output) : plan_(plan), output_(output) {}

    Outcome<int> run() {
        TRY_STATUS(connect());
        const std::vector<driver::LoadOptions> rows = points();
        runs_ = static_cast<unsigned>(rows.size() * servers_.size()) * plan_.repetitions;
        for (const driver::LoadOptions& point : rows) {
            if (!interrupted.load(std::memory_order_relaxed)) TRY_STATUS(measure(point));
        }
        if (!plan_.report.empty())
            TRY_STATUS(write_report(plan_.report, report_header(plan_), report_points_));
        if (interrupted.load(std::memory_order_relaxed)) return 128 + SIGINT;
        return good_ ? 0 : 1;
    }

private:
    Outcome<void> connect() {
        for (const Target& target : plan_.targets) {
            std::vector<std::string> notes;
            TRY(auto server, Server::connect(target, plan_.device, notes));
            for (const std::string& note : notes) output_.note(target.name + ": " + note);
            servers_.push_back(std::move(server));
        }
        return {};
    }

    // One device that has fewer queues than some rows ask for makes such rows the same.
    std::vector<driver::LoadOptions> points() const {
        std::vector<driver::LoadOptions> points = plan_.points;
        if (servers_.size() > 1) return points;
        for (driver::LoadOptions& point : points)
            point.queues = std::min(point.queues, servers_.front()->queue_count());
        remove_repeated(points);
        return points;
    }

    Outcome<std::vector<Trial>> prepare(const driver::LoadOptions& point) {
        std::vector<Trial> trials;
        for (const auto& server : servers_) {
            driver::LoadOptions options = point;
            options.queues = std::min(options.queues, server->queue_count());
            TRY_STATUS(server->prepare_for(options));
            auto load = driver::Load::prepare(server->device(), options);
            if (!load) return failure(server->name() + ": " + load.error().message);
            trials.push_back({.server = *server, .options = options, .load = *std::move(load), .runs = {}});
        }
        return trials;
    }

    // The bare call and each device in turn, run by run, so that all see the same machine.
    Outcome<void> measure(const driver::LoadOptions& point) {
        TRY(std::vector<Trial> trials, prepare(point));
        std::optional<BareCall> bare;
        if (!plan_.bare_folder.empty() && BareCall::possible(point)) {
            TRY(BareCall made, BareCall::make(plan_.bare_folder, point));
            bare.emplace(std::move(made));
        }
        for (unsigned round = 0; round < plan_.repetitions; ++round) {
            const double bare_ns = bare ? bare->measure(plan_.bare_time, plan_.bare_cpu) : 0;
            // Whoever comes first in a round differs.
            for (std::size_t place = 0; place < trials.size(); ++place)
                TRY_STATUS(measure(trials[(round + place) % trials.size()], round, bare_ns));
            if (std::ranges::any_of(trials, &Trial::failed) || interrupted.load(std::memory_order_relaxed))
                break;
        }
        for (const Trial& trial : trials) {
            tell(trial);
            if (&trial != &trials.front())
                output_.comparison(trial.server, trial.options, trials.front().server.name(),
                                   compare(trial.runs, trials.front().runs));
        }
        return {};
    }

    Outcome<void> measure(Trial& trial, unsigned round, double bare_ns) {
        output_.progress(runs_done_++, runs_, trial.server.name() + ", " + workload_name(trial.options));
        if (plan_.ramp.count() > 0) trial.load->run({.time = plan_.ramp, .operations = {}});
        Measurement run{.result = {}, .server_ns = 0, .bare_ns = bare_ns};
        TRY(const std::uint64_t before, trial.server.cpu_ns());
        run.result = trial.load->run(plan_.limit);
        if (!trial.server.device().alive()) return failure(trial.server.name() + ": the device has left");
        TRY(const std::uint64_t after, trial.server.cpu_ns());
        // What a thread used that has ended since is in `before` alone.
        run.server_ns = share(after - std::min(before, after), run.result.operations);
        output_.run(trial.server, trial.options, round + 1, run);
        trial.runs.push_back(std::move(run));
        return {};
    }

    void tell(const Trial& trial) {
        const Summary summary = summarize(trial.options, trial.runs);
        good_ = good_ && summary.good();
        output_.row(trial.server, summary);
        if (!plan_.report.empty()) report_points_.push_back(report_point(trial.server.name(), summary));
        if (summary.operations == 0 || summary.server_ns > 0 || warned_) return;
        warned_ = true;
        output_.note(trial.server.name() + ": the server used no CPU time (process " +
                     std::to_string(trial.server.pids().front()) +
                     "); is another process serving? --server-pid names it");
    }

    const Plan& plan_;
    Output& output_;
    std::vector<std::unique_ptr<Server>> servers_;
    std::vector<ReportPoint> report_points_;
    unsigned runs_ = 0; // of all rows
    unsigned runs_done_ = 0;
    bool good_ = true;
    bool warned_ = false;
};

// Before everything is measured for it.
Outcome<void> check_report(const std::string& path) {
    if (path.empty()) return {};
    const std::size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    if (::access(folder.c_str(), W_OK | X_OK) != 0) return failure("--report " + path, Errno{errno});
    return {};
}

} // namespace

Outcome<int> run_bench(const config::BenchCommand& command) {
    // What the devices lack is told by note().
    log::set_level(log::Level::error);
    TRY(const Plan plan, make_plan(command));
    TRY_STATUS(check_report(plan.report));
    TRY(const auto output, Output::open(plan));
    install_interrupt();
    return Bench{plan, *output}.run();
}

} // namespace viaduct::bench
