// SPDX-License-Identifier: Apache-2.0
#include "driver/load.h"

#include "driver/load_pattern.h"
#include "driver/load_slot.h"
#include "driver/load_thread.h"
#include "rt/thread.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <unistd.h>

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
                                KindName{LoadKind::create_unlink, "create-unlink"}};

constexpr std::uint32_t kFillBytes = 1U << 20;
constexpr const char* kFileName = "file";

// Two loads of one process on one share do not meet.
std::string next_folder_name() {
    static std::atomic<int> last{0};
    return "viaduct-load-" + std::to_string(::getpid()) + "-" + std::to_string(last.fetch_add(1));
}

} // namespace

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
    : device_(device), options_(options), client_(device, {.queue = 0}), folder_name_(next_folder_name()) {}

Outcome<std::unique_ptr<Load>> Load::prepare(Device& device, const LoadOptions& options) {
    if (options.queues == 0 || options.queues > device.request_queue_count())
        return usage_failure("queues: " + std::to_string(options.queues) +
                             " were asked for, the device has " +
                             std::to_string(device.request_queue_count()));
    if (options.wait && options.threads < options.queues)
        return usage_failure(
            "wait: a thread can wait on one queue only; give at least as many threads as queues");
    if (options.threads == 0 || options.depth == 0) return usage_failure("threads and depth: at least 1");
    if (options.block_bytes == 0 || options.block_bytes % 8 != 0 ||
        options.block_bytes > FuseClient::kBytesMax)
        return usage_failure("block: a multiple of 8 bytes, at most 1 MiB");
    if (options.segment_bytes == 0) return usage_failure("segment: at least 1 byte");
    const std::uint32_t slots = std::max(options.threads, options.queues) * options.depth;
    if (options.verify && options.file_bytes / options.block_bytes < slots)
        return usage_failure("verify: the file must have a block for each outstanding request");

    std::unique_ptr<Load> load{new Load{device, options}};
    TRY_STATUS(load->make_files());
    TRY_STATUS(load->make_slots());
    return load;
}

Outcome<void> Load::make_files() {
    const auto folder = client_.mkdir(FuseClient::kRoot, folder_name_, 0777);
    if (!folder) return failure("cannot make a folder on the share", folder.error());
    folder_ = folder->nodeid;
    if (options_.uid != 0) { // mkdir may have been masked
        const fuse_setattr_in change{.valid = FATTR_MODE, .mode = 040777};
        if (const auto changed = client_.setattr(folder_, change); !changed)
            return failure("cannot open the folder to others", changed.error());
    }
    const auto created = client_.create(folder_, kFileName, O_RDWR | O_CREAT | O_EXCL, 0100666);
    if (!created) return failure("cannot make a file on the share", created.error());
    file_ = created->entry.nodeid;
    handle_ = created->handle;
    if (options_.kind != LoadKind::read && options_.kind != LoadKind::write) return {};

    if (block_count() == 0) return usage_failure("file: it must hold at least one block");
    std::string part;
    for (std::uint64_t offset = 0; offset < options_.file_bytes; offset += part.size()) {
        part.resize(std::min<std::uint64_t>(kFillBytes, options_.file_bytes - offset) / 8 * 8);
        if (part.empty()) break;
        fill_pattern(std::as_writable_bytes(std::span{part}), offset, generation_);
        const auto written = client_.write(file_, handle_, offset, part);
        if (!written || *written != part.size())
            return failure("cannot fill the file", written ? Errno{EIO} : written.error());
    }
    return {};
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
    // The device may have left: then nothing of this succeeds, and need not.
    std::uint64_t lookups = 1;
    for (const auto& of_thread : slots_) {
        for (const auto& slot : of_thread) lookups += slot->take_lookups();
    }
    if (!device_.hiprio().drain(after(std::chrono::seconds{10})))
        device_.hiprio().end(Errno{ETIMEDOUT}, true);
    if (file_ != 0) {
        static_cast<void>(client_.release(file_, handle_));
        static_cast<void>(client_.unlink(folder_, kFileName));
        static_cast<void>(client_.forget(file_, lookups));
    }
    if (folder_ == 0) return;
    static_cast<void>(client_.rmdir(FuseClient::kRoot, folder_name_));
    static_cast<void>(client_.forget(folder_));
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

LoadResult Load::run(const LoadLimit& limit) {
    LoadResult total;
    count_queues(total, -1);
    std::vector<LoadResult> results(options_.threads);
    std::vector<std::thread> threads;
    threads.reserve(options_.threads);
    for (std::uint32_t number = 0; number < options_.threads; ++number) {
        threads.push_back(rt::start_thread(
            "load", [&, number] { results[number] = LoadThread{*this, number, slots_[number]}.run(limit); }));
    }
    for (std::thread& thread : threads) thread.join();
    if (!device_.hiprio().drain(after(std::chrono::seconds{30}))) {
        ++total.errors;
        total.first_error = "FORGET: no answer for 30 s";
    }
    count_queues(total, 1);
    for (const LoadResult& result : results) {
        total.operations += result.operations;
        total.requests += result.requests;
        total.seconds = std::max(total.seconds, result.seconds);
        total.client_cpu_ns += result.client_cpu_ns;
        total.mismatches += result.mismatches;
        total.errors += result.errors;
        if (total.first_error.empty()) total.first_error = result.first_error;
    }
    if (options_.kind == LoadKind::read || options_.kind == LoadKind::write)
        total.bytes = total.operations * options_.block_bytes;
    if (options_.kind == LoadKind::write && options_.verify && total.errors == 0)
        total.mismatches += verify_written();
    return total;
}

// Every block that was written holds what was written last.
std::uint64_t Load::verify_written() {
    std::uint64_t mismatches = 0;
    for (const auto& of_thread : slots_) {
        for (const auto& slot : of_thread) {
            for (const auto& [offset, generation] : slot->written()) {
                const auto block = client_.read(file_, handle_, offset, options_.block_bytes);
                const bool right = block && block->size() == options_.block_bytes &&
                                   has_pattern(std::as_bytes(std::span{*block}), offset, generation);
                if (!right) ++mismatches;
            }
        }
    }
    return mismatches;
}

} // namespace viaduct::driver
