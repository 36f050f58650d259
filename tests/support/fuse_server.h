// SPDX-License-Identifier: Apache-2.0
//
// A tiny FUSE file system on /dev/fuse that answers when the test says so.
//
// One folder of files whose contents lie in memory.  Requests of an opcode can be held: they stay unanswered
// until they are let go.  One thread of its own reads and answers; the test's calls may come from any thread.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "fuse/protocol.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace viaduct::test {

class TestFuseServer {
public:
    struct Options {
        // Files are read from here each time, not from the page cache (FOPEN_DIRECT_IO).
        bool direct_io = true;
        // How long names and attributes are believed.  0: each stat and each step of a path asks.
        std::uint64_t valid_seconds = 0;
        // A request that is held ends with EINTR when its caller is interrupted.
        bool heeds_interrupts = false;
        // Direct reads of several at a time do not wait in the system call, and no signal ends them.
        bool async_dio = true;
    };
    // Fails where /dev/fuse is missing or mounting is not permitted: a reason to skip the test.
    static Outcome<std::unique_ptr<TestFuseServer>> mount(const std::string& mountpoint,
                                                          const Options& options);
    static Outcome<std::unique_ptr<TestFuseServer>> mount(const std::string& mountpoint) {
        return mount(mountpoint, Options{});
    }
    // Lets everything go, unmounts, and ends the connection: nobody hangs on it afterwards.
    ~TestFuseServer();
    TestFuseServer(const TestFuseServer&) = delete;
    TestFuseServer& operator=(const TestFuseServer&) = delete;

    const std::string& path() const noexcept { return mountpoint_; }
    std::string file(std::string_view name) const { return mountpoint_ + "/" + std::string{name}; }

    // Creates or replaces.
    void set_content(std::string_view name, std::string content);
    std::string content(std::string_view name) const;

    // From now on requests of that opcode wait.
    void hold(std::uint32_t opcode);
    // Answers those that wait, with what is right now, and holds no more.
    void let_go(std::uint32_t opcode);
    void let_go_all();
    // Answers the one that has waited longest; false: none waits.
    bool let_go_one(std::uint32_t opcode);
    std::size_t held(std::uint32_t opcode) const;
    // Until `count` requests of the opcode wait.
    bool wait_for_held(std::uint32_t opcode, std::size_t count, std::chrono::milliseconds limit) const;
    // Requests of the opcode are answered with this error; 0: no more.
    void set_error(std::uint32_t opcode, int error);
    // Requests of the opcode that have come.
    std::size_t count(std::uint32_t opcode) const;

    // As if the server had died: requests under way end with ECONNABORTED, later ones with ENOTCONN.
    void abort();

private:
    struct File {
        std::string name;
        std::string content;
        std::uint32_t mode = 0;
    };
    using Message = std::vector<std::byte>;

    TestFuseServer(std::string mountpoint, Fd device, Fd stop, const Options& options)
        : options_(options), mountpoint_(std::move(mountpoint)), stop_(std::move(stop)),
          device_(std::move(device)), files_{{FUSE_ROOT_ID, {.name = {}, .content = {}, .mode = 0040755}}} {}

    void serve();
    // With the lock held.
    void take(Message message);
    void answer(const Message& message);
    void reply(std::uint64_t unique, int error, std::span<const std::byte> body = {});
    template <class T> void reply_with(std::uint64_t unique, const T& value);
    void interrupt(std::uint64_t unique);
    void answer_init(const Message& message);
    void answer_lookup(const Message& message);
    void answer_getattr(const Message& message);
    void answer_setattr(const Message& message);
    void answer_create(const Message& message);
    void answer_read(const Message& message);
    void answer_write(const Message& message);
    void answer_readdir(const Message& message);
    void answer_unlink(const Message& message);
    std::uint64_t node_of(std::string_view name) const;
    fuse_attr attr_of(std::uint64_t node) const;
    fuse_entry_out entry_of(std::uint64_t node) const;

    const Options options_;
    const std::string mountpoint_;
    const Fd stop_; // an eventfd

    mutable std::mutex mutex_; // guards what follows, and writing to the device
    Fd device_;                // /dev/fuse; the thread's to read
    mutable std::condition_variable changed_;
    std::map<std::uint64_t, File> files_; // by node
    std::uint64_t last_node_ = FUSE_ROOT_ID;
    std::map<std::uint32_t, std::vector<Message>> held_; // a key that is there: the opcode is held
    std::map<std::uint32_t, int> errors_;
    std::map<std::uint32_t, std::size_t> counts_;
    std::thread thread_;
};

} // namespace viaduct::test
