// SPDX-License-Identifier: Apache-2.0
#include "driver/completion_threads.h"

#include "base/log.h"
#include "rt/thread.h"

#include <sched.h>
#include <unistd.h>

namespace viaduct::driver {
namespace {

constexpr std::size_t kMaskBytes = CPU_ALLOC_SIZE(topology::kCpuIdMax + 1);

struct Mask {
    alignas(cpu_set_t) std::byte bytes[kMaskBytes]{};
    cpu_set_t* get() noexcept { return reinterpret_cast<cpu_set_t*>(bytes); }
};

topology::CpuSet allowed_here() {
    topology::CpuSet cpus;
    Mask mask;
    if (::sched_getaffinity(0, sizeof mask, mask.get()) != 0) return cpus;
    for (topology::CpuId cpu = 0; cpu <= topology::kCpuIdMax; ++cpu)
        if (CPU_ISSET_S(cpu, sizeof mask, mask.get())) cpus.add(cpu);
    return cpus;
}

} // namespace

CompletionThreads::CompletionThreads(const std::vector<RequestQueue*>& queues) : inherited_(allowed_here()) {
    for (RequestQueue* const queue : queues) {
        auto& thread = *threads_.emplace_back(std::make_unique<Thread>());
        thread.queue = queue;
        thread.thread = rt::start_thread("completion", [this, &thread] {
            thread.id.store(::gettid(), std::memory_order_release);
            thread.id.notify_one();
            thread.queue->serve(stop_);
        });
        thread.id.wait(0, std::memory_order_acquire);
    }
}

CompletionThreads::~CompletionThreads() {
    stop_.store(true, std::memory_order_release);
    for (const auto& thread : threads_) thread->queue->look_again();
    for (const auto& thread : threads_) thread->thread.join();
}

Status CompletionThreads::set(std::size_t index, const topology::CpuSet& cpus) {
    Mask mask;
    for (const topology::CpuId cpu : cpus) CPU_SET_S(cpu, sizeof mask, mask.get());
    if (::sched_setaffinity(threads_[index]->id, sizeof mask, mask.get()) != 0) return fail(errno);
    return {};
}

void CompletionThreads::bind(std::size_t index, const topology::CpuSet& cpus) {
    if (cpus.empty()) return clear(index);
    const topology::CpuSet allowed = cpus & inherited_;
    const Status bound = allowed.empty() ? fail(EPERM) : set(index, allowed);
    if (bound) return;
    log::info("completions are not bound to CPUs {}: {}; this process may use {}", cpus.list_text(),
              bound.error().name(), inherited_.list_text());
    clear(index);
}

void CompletionThreads::clear(std::size_t index) {
    if (inherited_.empty()) return;
    if (const Status cleared = set(index, inherited_); !cleared)
        log::info("a completion thread stays bound: {}", cleared.error().name());
}

} // namespace viaduct::driver
