// SPDX-License-Identifier: Apache-2.0
#include "driver/load.h"

#include "driver/load_pattern.h"
#include "driver/load_slot.h"
#include "driver/load_thread.h"
#include "rt/thread.h"

#include <algorithm>
#include <array>
#include <optional>
#include <time.h>

namespace viaduct::driver {
namespace {

struct KindName {
    LoadKind kind;
    const char* name;
};
constexpr std::array kKindNames{KindName{LoadKind::null, "null"},
                                KindName{LoadKind::getattr, "getattr"},
                                KindName{LoadKind::lookup, "lookup"},
                                KindName{LoadKind::open_release, "open-release"},
                                KindName{LoadKind::read, "read"},
                                KindName{LoadKind::write, "write"},
                                KindName{LoadKind::create_unlink, "create-unlink"},
                                KindName{LoadKind::readdir, "readdir"},
                                KindName{LoadKind::readdirplus, "readdirplus"}};

std::uint64_t weight_of(const std::vector<LoadPart>& parts) {
    std::uint64_t sum = 0;
    for (const LoadPart& part : parts) sum += part.weight;
    return sum;
}

Outcome<void> check(Device& device, const LoadOptions& options) {
    if (options.queues == 0 || options.queues > device.request_queue_count())
        return usage_failure("queues: " + std::to_string(options.queues) +
                             " were asked for, the device has " +
                             std::to_string(device.request_queue_count()));
    if (options.completion != Completion::threads && device.completion_threads() != nullptr)
        return usage_failure("completion: the device has threads for that already");
    if (options.completion == Completion::wait &&
        (options.threads < options.queues || (options.by_cpu && options.queues > 1)))
        return usage_failure(
            "wait: a thread can wait on one queue only; give at least as many threads as queues");
    if (options.threads == 0 || options.depth == 0) return usage_failure("threads and depth: at least 1");
    if (options.segment_bytes == 0) return usage_failure("segment: at least 1 byte");
    const std::uint32_t slots = std::max(options.threads, options.queues) * options.depth;
    std::optional<std::uint32_t> written_bytes;
    for (const LoadPart& part : parts_of(options)) {
        if (part.weight == 0) return usage_failure("mix: a weight is at least 1");
        if (!moves_data(part.kind)) continue;
        if (part.block_bytes == 0 || part.block_bytes % 8 != 0 || part.block_bytes > FuseClient::kBytesMax)
            return usage_failure("block: a multiple of 8 bytes, at most 1 MiB");
        const std::uint64_t blocks = options.file_bytes / part.block_bytes;
        if (blocks == 0) return usage_failure("file: it must hold at least one block");
        if (!options.verify || part.kind != LoadKind::write) continue;
        if (blocks < slots)
            return usage_failure("verify: the file must have a block for each outstanding request");
        if (written_bytes.value_or(part.block_bytes) != part.block_bytes)
            return usage_failure("verify: all writes of a mix are of one size");
        written_bytes = part.block_bytes;
    }
    return {};
}

std::uint64_t process_cpu_ns() {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

// What one thread has done to what all have.
void add(LoadResult& total, const LoadResult& result) {
    total.operations += result.operations;
    total.requests += result.requests;
    total.bytes += result.bytes;
    total.seconds = std::max(total.seconds, result.seconds);
    total.latency.merge(result.latency);
    total.on_submitter_cpu += result.on_submitter_cpu;
    total.migrations += result.migrations;
    total.context_switches += result.context_switches;
    total.mismatches += result.mismatches;
    total.errors += result.errors;
    if (total.first_error.empty()) total.first_error = result.first_error;
}

} // namespace

std::vector<LoadPart> parts_of(const LoadOptions& options) {
    if (!options.mix.empty()) return options.mix;
    return {
        {.kind = options.kind, .weight = 1, .random = options.random, .block_bytes = options.block_bytes}};
}

const char* name_of(LoadKind kind) {
    return std::ranges::find(kKindNames, kind, &KindName::kind)->name;
}

std::optional<LoadKind> load_kind(std::string_view name) {
    const auto found = std::ranges::find(kKindNames, name,
                                         [](const KindName& entry) { return std::string_view{entry.name}; });
    if (found == kKindNames.end()) return std::nullopt;
    return found->kind;
}

Load::Load(Device& device, const LoadOptions& options)
    : device_(device), options_(options), parts_(parts_of(options)), weight_(weight_of(parts_)),
      client_(device, {.queue = 0}), files_(client_) {}

Outcome<std::unique_ptr<Load>> Load::prepare(Device& device, const LoadOptions& options) {
    TRY_STATUS(check(device, options));
    std::unique_ptr<Load> load{new Load{device, options}};
    TRY_STATUS(load->make_files());
    TRY_STATUS(load->make_slots());
    return load;
}

bool Load::has(LoadKind kind) const noexcept {
    return std::ranges::any_of(parts_, [kind](const LoadPart& part) { return part.kind == kind; });
}

Outcome<void> Load::make_files() {
    const bool reads = has(LoadKind::read);
    const bool writes = has(LoadKind::write);
    const bool lists = has(LoadKind::readdir) || has(LoadKind::readdirplus);
    return files_.make({.file_bytes = reads || writes ? options_.file_bytes : 0,
                        .two_files = options_.verify && reads && writes,
                        .entries = lists ? options_.directory_entries : 0,
                        .for_others = options_.uid != 0});
}

Outcome<void> Load::make_slots() {
    slots_.resize(options_.threads);
    std::uint32_t number = 0;
    const std::uint32_t total = std::max(options_.threads, options_.queues) * options_.depth;
    for (std::uint32_t pair = 0; pair < std::max(options_.threads, options_.queues); ++pair) {
        auto& of_thread = slots_[pair % options_.threads];
        RequestQueue& queue = device_.request_queue(pair % options_.queues);
        for (std::uint32_t count = 0; count < options_.depth; ++count) {
            auto slot = LoadSlot::make(*this, queue, {.number = number++, .slots = total});
            if (!slot)
                return failure("no memory for the load's requests", slot.error(), "give the device more");
            of_thread.push_back(*std::move(slot));
        }
    }
    return {};
}

Load::~Load() {
    std::uint64_t file_lookups = 0;
    std::vector<std::uint64_t> entry_lookups(files_.entry_count(), 0);
    for (const auto& of_thread : slots_) {
        for (const auto& slot : of_thread) {
            file_lookups += slot->take_lookups();
            for (std::size_t entry = 0; entry < slot->entry_lookups().size(); ++entry)
                entry_lookups[entry] += slot->entry_lookups()[entry];
        }
    }
    if (!device_.hiprio().drain(after(std::chrono::seconds{10})))
        device_.hiprio().end(Errno{ETIMEDOUT}, true);
    files_.remove(file_lookups, entry_lookups);
}

void Load::count_queues(LoadResult& result, int sign) const {
    const auto add = [sign](std::uint64_t& to, std::uint64_t value) { to += sign < 0 ? -value : value; };
    for (std::uint32_t index = 0; index <= options_.queues; ++index) {
        RequestQueue& queue = index == 0 ? device_.hiprio() : device_.request_queue(index - 1);
        queue.count_interrupts();
        add(result.kicks, queue.stats().kicks.get());
        add(result.interrupts, queue.stats().interrupts.get());
        add(result.parked, queue.stats().parked.get());
    }
}

void Load::begin_run() {
    if (options_.dispatch == Dispatch::staged) {
        for (std::uint32_t queue = 0; queue < options_.queues; ++queue)
            staged_.push_back(std::make_unique<StagedDispatch>(device_.request_queue(queue)));
    }
    if (options_.completion != Completion::threads || device_.completion_threads() != nullptr) return;
    std::vector<RequestQueue*> queues;
    queues.reserve(options_.queues);
    for (std::uint32_t queue = 0; queue < options_.queues; ++queue)
        queues.push_back(&device_.request_queue(queue));
    completions_ = std::make_unique<CompletionThreads>(queues);
    for (std::uint32_t queue = 0; options_.affinity && queue < options_.queues; ++queue)
        completions_->bind(queue, device_.completion_cpus(queue));
}

void Load::end_run() {
    staged_.clear();
    completions_.reset();
}

StagedDispatch* Load::staged(const RequestQueue& queue) const {
    for (std::size_t index = 0; index < staged_.size(); ++index)
        if (&device_.request_queue(static_cast<std::uint32_t>(index)) == &queue) return staged_[index].get();
    return nullptr;
}

LoadResult Load::run(const LoadLimit& limit) {
    LoadResult total;
    const std::uint64_t cpu_start = process_cpu_ns();
    begin_run();
    count_queues(total, -1);
    std::vector<LoadResult> results(options_.threads);
    std::vector<std::thread> threads;
    threads.reserve(options_.threads);
    for (std::uint32_t number = 0; number < options_.threads; ++number) {
        threads.push_back(rt::start_thread(
            "load", [&, number] { results[number] = LoadThread{*this, number, slots_[number]}.run(limit); }));
    }
    for (std::thread& thread : threads) thread.join();
    end_run();
    total.client_cpu_ns = process_cpu_ns() - cpu_start;
    if (!device_.hiprio().drain(after(std::chrono::seconds{30}))) {
        ++total.errors;
        total.first_error = "FORGET: no answer for 30 s";
    }
    count_queues(total, 1);
    for (const LoadResult& result : results) add(total, result);
    if (has(LoadKind::write) && options_.verify && total.errors == 0) total.mismatches += verify_written();
    return total;
}

// Every block that was written holds what was written last.
std::uint64_t Load::verify_written() {
    const LoadFiles::File& file = files_.written_file();
    const auto bytes = std::ranges::find(parts_, LoadKind::write, &LoadPart::kind)->block_bytes;
    std::uint64_t mismatches = 0;
    for (const auto& of_thread : slots_) {
        for (const auto& slot : of_thread) {
            for (const auto& [offset, generation] : slot->written()) {
                const auto block = client_.read(file.node, file.handle, offset, bytes);
                const bool right = block && block->size() == bytes &&
                                   has_pattern(std::as_bytes(std::span{*block}), offset, generation);
                if (!right) ++mismatches;
            }
        }
    }
    return mismatches;
}

} // namespace viaduct::driver
