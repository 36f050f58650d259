// SPDX-License-Identifier: Apache-2.0
//
// The layers that translate ids and names of attributes.
#include "fs/layers/mapped_ids.h"
#include "fs/layers/mapped_xattrs.h"

#include "rt/worker.h"
#include "support/on_worker.h"

#include <gtest/gtest.h>

#include <cstring>

namespace viaduct::fs {
namespace {

// Everything belongs to whoever made it last; calls wait first if told so.
struct OneFile final : Forwarding {
    explicit OneFile(bool wait) : Forwarding(nullptr), waits(wait) {}

    Attr attr() const { return {.uid = uid, .gid = gid}; }
    template <class T> static rt::Task<Result<T>> late(Result<T> value) {
        co_await rt::Worker::current()->yield();
        co_return value;
    }
    template <class T> Async<T> give(T value) const {
        if (waits) return late<T>(std::move(value));
        return value;
    }
    // Reads the caller only when it is its turn, as a call that waits may.
    rt::Task<Result<Entry>> make(const Caller& caller) {
        co_await rt::Worker::current()->yield();
        uid = caller.uid;
        gid = caller.gid;
        supplementary = caller.supplementary;
        label_name = caller.label != nullptr ? caller.label->name : "";
        co_return Entry{.attr = attr()};
    }
    Async<Entry> lookup(const Caller&, NodeId, const Name&) override { return give(Entry{.attr = attr()}); }
    Async<AttrReply> getattr(const Caller&, NodeId, std::optional<HandleId>) override {
        return give(AttrReply{.attr = attr()});
    }
    Async<AttrReply> setattr(const Caller&, NodeId, const SetAttr& change) override {
        if (change.has(SetAttr::uid_field)) uid = change.uid;
        if (change.has(SetAttr::gid_field)) gid = change.gid;
        return give(AttrReply{.attr = attr()});
    }
    Async<Entry> mkdir(const Caller& caller, NodeId, const Name&, std::uint32_t, std::uint32_t) override {
        return make(caller);
    }
    Async<Opened> open(const Caller& caller, NodeId, std::uint32_t, bool) override {
        gid = caller.gid;
        return give(Opened{});
    }
    Async<std::size_t> write(const Caller& caller, HandleId, std::uint64_t, Segments, WriteOptions) override {
        gid = caller.gid;
        return give(std::size_t{0});
    }
    Async<void> readdir(const Caller&, HandleId, std::uint64_t, bool plus, DirentSink& sink) override {
        const Entry entry{.attr = attr()};
        sink.add({.name = "name"}, plus ? &entry : nullptr);
        return Status{};
    }
    Async<void> setxattr(const Caller&, NodeId, std::string name, std::span<const std::byte>,
                         std::uint32_t) override {
        names.append(name).push_back('\0');
        return Status{};
    }
    Async<std::size_t> getxattr(const Caller&, NodeId, std::string name, std::span<std::byte>) override {
        if (names.find(name + '\0') == names.npos) return fail(ENODATA);
        return give(name.size());
    }
    Async<std::size_t> listxattr(const Caller&, NodeId, std::span<std::byte> into) override {
        if (into.size() < names.size()) return fail(ERANGE);
        std::memcpy(into.data(), names.data(), names.size());
        return give(names.size());
    }
    Async<void> removexattr(const Caller&, NodeId, std::string name) override {
        const auto at = names.find(name + '\0');
        if (at == names.npos) return fail(ENODATA);
        names.erase(at, name.size() + 1);
        return Status{};
    }

    bool waits;
    std::uint32_t uid = 1001;
    std::uint32_t gid = 100;
    std::string names;
    std::optional<std::uint32_t> supplementary;
    std::string label_name;
};

struct Mapped : testing::TestWithParam<bool> {
    // `call()` gives an Async; called and awaited on a worker.
    template <class Call> auto wait_for(Call call) {
        using R = typename std::invoke_result_t<Call&>::Value;
        std::optional<R> result;
        test::run_on(*worker, [](Call* made, std::optional<R>* into) -> rt::Task<void> {
            auto async = (*made)();
            *into = co_await std::move(async);
        }(&call, &result));
        return *result;
    }
    std::unique_ptr<rt::Worker> worker = *rt::Worker::start({.name = "test"});
    OneFile* file = new OneFile{GetParam()}; // owned by the layer
    const Name name = *Name::make("name");
};

struct MappedIdsTest : Mapped {
    MappedIds ids{
        std::unique_ptr<FileSystem>{file},
        *IdMap::parse(std::vector<std::string>{"map:1000:1001:1", "forbid-guest:0:10"}),
        *IdMap::parse(std::vector<std::string>{"squash-guest:0:100:4294967295", "host:100:1000:1"})};
    const Caller user{.uid = 1000, .gid = 5};
    const Caller root{};
};
INSTANTIATE_TEST_SUITE_P(Calls, MappedIdsTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "that_wait" : "that_do_not"; });

TEST_P(MappedIdsTest, attributes_have_the_ids_of_the_client) {
    const auto entry = wait_for([&] { return ids.lookup(user, kRootNode, name); });
    EXPECT_EQ(entry->attr.uid, 1000U);
    EXPECT_EQ(entry->attr.gid, 1000U);
    const auto reply = wait_for([&] { return ids.getattr(root, kRootNode, std::nullopt); });
    EXPECT_EQ(reply->attr.uid, 1000U);
    EXPECT_EQ(reply->attr.gid, 1000U);
}

TEST_P(MappedIdsTest, what_is_made_belongs_to_the_ids_of_the_host) {
    file->uid = file->gid = 0;
    const auto made = wait_for([&] { return ids.mkdir(user, kRootNode, name, 0755, 0); });
    ASSERT_TRUE(made);
    EXPECT_EQ(file->uid, 1001U);
    EXPECT_EQ(file->gid, 100U);
    EXPECT_EQ(made->attr.uid, 1000U);
    EXPECT_EQ(made->attr.gid, 1000U);
}

TEST_P(MappedIdsTest, forbidden_ids_make_nothing_and_own_nothing_new) {
    const auto made = wait_for([&] { return ids.mkdir(root, kRootNode, name, 0755, 0); });
    EXPECT_EQ(made.error(), Errno{EPERM});
    const SetAttr change{.fields = SetAttr::uid_field, .uid = 3};
    const auto given = wait_for([&] { return ids.setattr(user, kRootNode, change); });
    EXPECT_EQ(given.error(), Errno{EPERM});
    EXPECT_EQ(file->uid, 1001U);
    EXPECT_TRUE(wait_for([&] { return ids.lookup(root, kRootNode, name); }));
}

TEST_P(MappedIdsTest, chown_gives_to_the_id_of_the_host) {
    const SetAttr change{.fields = SetAttr::uid_field | SetAttr::gid_field, .uid = 1000, .gid = 7};
    file->uid = file->gid = 0;
    const auto reply = wait_for([&] { return ids.setattr(user, kRootNode, change); });
    ASSERT_TRUE(reply);
    EXPECT_EQ(file->uid, 1001U);
    EXPECT_EQ(file->gid, 100U);
    EXPECT_EQ(reply->attr.uid, 1000U);
}

// By its group is decided whether a file keeps set-group-id.
TEST_P(MappedIdsTest, who_drops_set_id_bits_is_of_the_host_s_group) {
    EXPECT_TRUE(wait_for([&] { return ids.open(user, kRootNode, 0, true); }));
    EXPECT_EQ(file->gid, 100U);
    file->gid = 0;
    EXPECT_TRUE(
        wait_for([&] { return ids.write(user, HandleId{1}, 0, Segments{}, {.kill_suid_sgid = true}); }));
    EXPECT_EQ(file->gid, 100U);
}

TEST_P(MappedIdsTest, other_group_of_whoever_makes_something_is_the_host_s) {
    const Caller member{.uid = 1000, .gid = 5, .supplementary = 7};
    EXPECT_TRUE(wait_for([&] { return ids.mkdir(member, kRootNode, name, 0755, 0); }));
    EXPECT_EQ(file->supplementary, 100U);
    EXPECT_TRUE(wait_for([&] { return ids.mkdir(user, kRootNode, name, 0755, 0); }));
    EXPECT_EQ(file->supplementary, std::nullopt);
}

TEST_P(MappedIdsTest, listings_have_the_ids_of_the_client) {
    struct Sink final : DirentSink {
        std::optional<std::uint32_t> uid;
        bool add(const Dirent&, const Entry* entry) override {
            uid = entry != nullptr ? std::optional{entry->attr.uid} : std::nullopt;
            return true;
        }
        bool has_room(std::size_t) const override { return true; }
    } sink;
    EXPECT_TRUE(wait_for([&] { return ids.readdir(user, HandleId{1}, 0, true, sink); }));
    EXPECT_EQ(sink.uid, 1000U);
    EXPECT_TRUE(wait_for([&] { return ids.readdir(user, HandleId{1}, 0, false, sink); }));
    EXPECT_EQ(sink.uid, std::nullopt);
}

struct MappedXattrsTest : Mapped {
    MappedXattrs xattrs{std::unique_ptr<FileSystem>{file}, *XattrMap::parse(":map:trusted.:user.virtiofs.:")};
    const Caller caller;

    Result<std::string> listed(std::size_t room) {
        std::vector<std::byte> into(room);
        const auto bytes = wait_for([&] { return xattrs.listxattr(caller, kRootNode, into); });
        if (!bytes) return fail(bytes.error());
        if (room == 0) return std::to_string(*bytes);
        return std::string(reinterpret_cast<const char*>(into.data()), *bytes);
    }
};
INSTANTIATE_TEST_SUITE_P(Calls, MappedXattrsTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "that_wait" : "that_do_not"; });

TEST_P(MappedXattrsTest, names_are_the_hosts_behind_the_layer_and_the_clients_before_it) {
    using namespace std::literals;
    const auto set = [&](const char* attribute) {
        return wait_for([&] { return xattrs.setxattr(caller, kRootNode, attribute, {}, 0); });
    };
    EXPECT_TRUE(set("trusted.x"));
    EXPECT_TRUE(set("user.y"));
    EXPECT_EQ(set("user.virtiofs.trusted.z").error(), Errno{EPERM});
    EXPECT_EQ(set("system.posix_acl_access").error(), Errno{EOPNOTSUPP});
    EXPECT_EQ(file->names, "user.virtiofs.trusted.x\0user.y\0"s);
    file->names += "trusted.of_the_host\0system.posix_acl_access\0"s;

    EXPECT_EQ(wait_for([&] { return xattrs.getxattr(caller, kRootNode, "trusted.x", {}); }), 23U);
    EXPECT_EQ(listed(64), "trusted.x\0user.y\0"s);
    EXPECT_EQ(listed(0), "17");
    EXPECT_EQ(listed(16).error(), Errno{ERANGE});
    EXPECT_TRUE(wait_for([&] { return xattrs.removexattr(caller, kRootNode, "trusted.x"); }));
    EXPECT_EQ(listed(64), "user.y\0"s);
}

TEST_P(MappedXattrsTest, labels_have_the_name_of_the_host) {
    const auto mkdir = [&](const char* label_name) {
        const SecurityLabel label{.name = label_name, .value = {}};
        const Caller labelling{.label = &label};
        return wait_for([&] { return xattrs.mkdir(labelling, kRootNode, name, 0755, 0); });
    };
    EXPECT_TRUE(mkdir("trusted.x"));
    EXPECT_EQ(file->label_name, "user.virtiofs.trusted.x");
    file->label_name = "none was made";
    EXPECT_EQ(mkdir("user.virtiofs.trusted.x").error(), Errno{EPERM});
    EXPECT_EQ(mkdir("system.posix_acl_access").error(), Errno{EOPNOTSUPP});
    EXPECT_EQ(file->label_name, "none was made");
    EXPECT_TRUE(wait_for([&] { return xattrs.mkdir(caller, kRootNode, name, 0755, 0); }));
    EXPECT_EQ(file->label_name, "");
}

// Neither under another name nor by way of one.
TEST_P(MappedXattrsTest, acls_keep_their_names) {
    using namespace std::literals;
    auto* const behind = new OneFile{GetParam()};
    MappedXattrs acls{std::unique_ptr<FileSystem>{behind}, *XattrMap::parse(":map::user.virtiofs.:"), true};
    const auto call = [&](const char* attribute) {
        return wait_for([&] { return acls.setxattr(caller, kRootNode, attribute, {}, 0); });
    };
    EXPECT_TRUE(call("system.posix_acl_access"));
    EXPECT_TRUE(call("system.x"));
    EXPECT_EQ(behind->names, "system.posix_acl_access\0user.virtiofs.system.x\0"s);
    behind->names += "user.virtiofs.system.posix_acl_default\0"s;
    std::array<std::byte, 64> into{};
    EXPECT_EQ(wait_for([&] { return acls.listxattr(caller, kRootNode, into); }), 33U);
    EXPECT_EQ(std::memcmp(into.data(), "system.posix_acl_access\0system.x", 33), 0);
}

} // namespace
} // namespace viaduct::fs
