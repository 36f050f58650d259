// SPDX-License-Identifier: Apache-2.0
//
// A temporary directory served by a Passthrough, with a worker to call it on.
#pragma once

#include "backend/passthrough/passthrough.h"
#include "rt/worker.h"
#include "support/on_worker.h"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

namespace viaduct::passthrough {

inline constexpr Caller kRoot{.uid = 0, .gid = 0, .pid = 1};

inline Name name(std::string_view text) {
    return *Name::make(text);
}

class TempDir {
public:
    explicit TempDir(const std::string& parent = "/tmp") {
        std::string text = parent + "/viaduct-test-XXXXXX";
        path_ = ::mkdtemp(text.data());
    }
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;
    ~TempDir() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    std::string path(const std::string& below = "") const {
        return below.empty() ? path_ : path_ + "/" + below;
    }

private:
    std::string path_;
};

inline void put(const std::string& path, std::string_view text) {
    std::ofstream{path, std::ios::binary} << text;
}
inline std::string contents(const std::string& path) {
    std::ifstream file{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{file}, {}};
}

class Share {
public:
    explicit Share(Options options = {}) {
        options.share = dir.path();
        auto made = Passthrough::make(std::move(options));
        if (!made) ADD_FAILURE() << made.error().message;
        fs = std::move(*made);
        worker = *rt::Worker::start({.name = "test"});
    }
    ~Share() {
        run([this] { fs->end_session(); });
        worker.reset();
    }

    // Calls `function` on the worker and awaits what it returns.
    template <class Function> auto call(Function function) {
        using T = typename std::invoke_result_t<Function&>::Value;
        std::optional<T> result;
        test::run_on(*worker, await_into<T>(function, result));
        return std::move(*result);
    }
    // Calls an ordinary function on the worker.
    template <class Function> void run(Function function) { test::run_on(*worker, run_it(function)); }

    Result<Entry> lookup(NodeId parent, std::string_view child) {
        return call([&] { return fs->lookup(kRoot, parent, name(child)); });
    }
    NodeId node(std::string_view child, NodeId parent = kRootNode) {
        const auto entry = lookup(parent, child);
        EXPECT_TRUE(entry) << child << ": " << entry.error().name();
        return entry ? entry->node : NodeId{};
    }
    Result<Opened> open(NodeId id, int flags) {
        return call([&] { return fs->open(kRoot, id, static_cast<std::uint32_t>(flags), false); });
    }
    HandleId handle(std::string_view child, int flags) {
        const auto opened = open(node(child), flags);
        EXPECT_TRUE(opened) << child << ": " << opened.error().name();
        return opened ? opened->handle : HandleId{};
    }
    Result<std::string> read(HandleId id, std::uint64_t offset, std::size_t bytes) {
        std::string text(bytes, '?');
        const iovec iov{.iov_base = text.data(), .iov_len = bytes};
        const auto got = call([&] { return fs->read(kRoot, id, offset, Segments{&iov, 1}); });
        if (!got) return fail(got.error());
        text.resize(*got);
        return text;
    }
    Result<std::size_t> write(HandleId id, std::uint64_t offset, std::string text,
                              WriteOptions options = {}) {
        const iovec iov{.iov_base = text.data(), .iov_len = text.size()};
        return call([&] { return fs->write(kRoot, id, offset, Segments{&iov, 1}, options); });
    }
    Result<AttrReply> getattr(NodeId id) {
        return call([&] { return fs->getattr(kRoot, id, std::nullopt); });
    }
    Status release(HandleId id) {
        return call([&] { return fs->release(id); });
    }
    // Lets the worker pass quiescent points until nothing waits for one; the number of nodes then.
    std::uint32_t settled_nodes() {
        std::uint32_t nodes = 0;
        for (int i = 0; i < 3; ++i) run([] {});
        run([&] {
            rt::EpochMember::current()->collect();
            nodes = fs->nodes();
        });
        return nodes;
    }

    TempDir dir;
    std::unique_ptr<Passthrough> fs;
    std::unique_ptr<rt::Worker> worker;

private:
    template <class T, class Function>
    static rt::Task<void> await_into(Function& function, std::optional<T>& result) {
        auto async = function();
        result = co_await std::move(async);
    }
    template <class Function> static rt::Task<void> run_it(Function& function) {
        function();
        co_return;
    }
};

} // namespace viaduct::passthrough
