// SPDX-License-Identifier: Apache-2.0
//
// FUSE as a client may speak it: forgets, bodies that lie, listings that are counted, every kernel's INIT.
#include "driver/fuse_client.h"
#include "support/daemon.h"
#include "support/temp_dir.h"
#include "support/waiting.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <optional>
#include <set>
#include <sys/xattr.h>

namespace viaduct {
namespace {

using namespace std::chrono_literals;
using driver::CallOptions;
using driver::FuseClient;

class FuseProtocol : public testing::Test {
protected:
    void SetUp() override {
        share_ = folder_.make_folder("share");
        folder_.write("share/file", std::string(10'000, 'f'));
        start({});
    }

    void start(std::vector<std::string> more) {
        std::vector<std::string> argv = {test::program("viaduct"),
                                         "serve",
                                         "--share",
                                         share_,
                                         "--socket",
                                         socket_,
                                         "--queues",
                                         "4",
                                         "--xattr"};
        argv.insert(argv.end(), more.begin(), more.end());
        client_.reset();
        device_.reset();
        daemon_.reset();
        auto started = test::Daemon::start({.argv = argv, .socket = socket_});
        ASSERT_TRUE(started) << started.error().message;
        daemon_ = std::move(*started);
        connect();
    }

    void connect(std::uint32_t queue_size = 128) {
        client_.reset();
        device_.reset(); // one front end at a time
        auto connected =
            driver::Device::connect({.socket = socket_, .request_queues = 4, .queue_size = queue_size});
        ASSERT_TRUE(connected) << connected.error().message;
        device_ = std::move(*connected);
        client_.emplace(*device_);
    }

    // Sends on hiprio, or on a request queue, and waits; the reply's body.
    Result<std::vector<std::byte>> call_on(driver::RequestQueue& queue, const CallOptions& options) {
        TRY(const auto call, driver::Call::make(device_->memory(), options, next_unique_ += 2));
        TRY_STATUS(call->submit(queue));
        TRY(const auto reply, call->wait(driver::after(test::kPatience)));
        return std::vector<std::byte>(reply.begin(), reply.end());
    }

    CallOptions getattr_of(std::uint64_t node) {
        auto options = client_->call_options(FUSE_GETATTR, node);
        options.add(fuse_getattr_in{});
        options.reply_bytes_max = sizeof(fuse_attr_out);
        return options;
    }

    const test::TempDir folder_;
    std::string share_;
    const std::string socket_ = folder_.file("socket");
    std::unique_ptr<test::Daemon> daemon_;
    std::unique_ptr<driver::Device> device_;
    std::optional<FuseClient> client_;
    std::uint64_t next_unique_ = 1'000'000;
};

TEST_F(FuseProtocol, forgets_are_given_back_without_an_answer_and_counts_stop_at_zero) {
    ASSERT_TRUE(client_->init());
    const std::size_t fds = daemon_->open_fds();
    const auto entry = client_->lookup(FuseClient::kRoot, "file");
    ASSERT_TRUE(entry);

    auto forget = client_->call_options(FUSE_FORGET, entry->nodeid);
    forget.add(fuse_forget_in{.nlookup = ~0ULL});
    forget.no_reply = true;
    EXPECT_TRUE(call_on(device_->hiprio(), forget));
    EXPECT_TRUE(test::wait_until([&] { return daemon_->open_fds() <= fds; }, test::kPatience));
    EXPECT_EQ(client_->getattr(entry->nodeid).error(), Errno{ESTALE});
    // Again, for a node that is gone; and for the root, which never goes.
    EXPECT_TRUE(call_on(device_->hiprio(), forget));
    auto root = client_->call_options(FUSE_FORGET, FuseClient::kRoot);
    root.add(fuse_forget_in{.nlookup = 1ULL << 63});
    root.no_reply = true;
    EXPECT_TRUE(call_on(device_->hiprio(), root));
    EXPECT_TRUE(client_->getattr(FuseClient::kRoot));
}

TEST_F(FuseProtocol, batches_of_forgets_are_believed_as_far_as_they_reach) {
    ASSERT_TRUE(client_->init());
    const std::size_t fds = daemon_->open_fds();
    for (const std::uint32_t claimed : {100U, 0U, 0xffff'ffffU}) {
        auto batch = client_->call_options(FUSE_BATCH_FORGET, 0);
        batch.add(fuse_batch_forget_in{.count = claimed});
        for (int index = 0; index < 100; ++index) {
            const auto entry = client_->lookup(FuseClient::kRoot, "file");
            ASSERT_TRUE(entry);
            batch.add(fuse_forget_one{.nodeid = entry->nodeid, .nlookup = 1});
        }
        batch.no_reply = true;
        EXPECT_TRUE(call_on(device_->hiprio(), batch));
        if (claimed == 100)
            EXPECT_TRUE(test::wait_until([&] { return daemon_->open_fds() <= fds; }, test::kPatience));
    }
    EXPECT_TRUE(client_->getattr(FuseClient::kRoot));
}

TEST_F(FuseProtocol, hiprio_answers_everything_and_never_waits_behind_slow_requests) {
    start({"--faults", "read:delay=1500:calls=8"});
    ASSERT_TRUE(client_->init());
    const auto entry = client_->lookup(FuseClient::kRoot, "file");
    ASSERT_TRUE(entry);
    const auto handle = client_->open(entry->nodeid, O_RDONLY);
    ASSERT_TRUE(handle);
    const auto begun = std::chrono::steady_clock::now();
    std::vector<std::shared_ptr<driver::Call>> slow;
    for (std::uint32_t queue = 0; queue < 4; ++queue) {
        for (int index = 0; index < 2; ++index) {
            const auto call = client_->on_queue(queue).begin_read(entry->nodeid, *handle, 0, 100);
            ASSERT_TRUE(call);
            slow.push_back(*call);
        }
    }
    const auto attr = call_on(device_->hiprio(), getattr_of(entry->nodeid));
    ASSERT_TRUE(attr) << attr.error().name();
    EXPECT_EQ(attr->size(), sizeof(fuse_attr_out));
    auto interrupt = client_->call_options(FUSE_INTERRUPT, 0);
    interrupt.add(fuse_interrupt_in{.unique = 424242});
    interrupt.no_reply = true;
    EXPECT_TRUE(call_on(device_->hiprio(), interrupt));
    std::size_t ended = 0;
    for (const auto& call : slow) ended += call->ended() ? 1 : 0;
    // On a machine that needed as long as they do there is nothing to see.
    if (std::chrono::steady_clock::now() - begun < 1500ms) EXPECT_EQ(ended, 0U);
    for (const auto& call : slow) EXPECT_TRUE(call->wait(driver::after(test::kPatience)));
}

TEST_F(FuseProtocol, a_forget_with_room_for_a_reply_gets_none) {
    ASSERT_TRUE(client_->init());
    const auto entry = client_->lookup(FuseClient::kRoot, "file");
    ASSERT_TRUE(entry);
    auto forget = client_->call_options(FUSE_FORGET, entry->nodeid);
    forget.add(fuse_forget_in{.nlookup = 1});
    forget.reply_bytes_max = 64;
    // The driver expects a header; nothing of it is written, which it calls a lie.
    EXPECT_EQ(call_on(device_->request_queue(1), forget).error(), Errno{EIO});
    EXPECT_TRUE(client_->getattr(FuseClient::kRoot));
}

TEST_F(FuseProtocol, bodies_that_lie_get_an_error_and_nothing_else_happens) {
    ASSERT_TRUE(client_->init());
    const auto entry = client_->lookup(FuseClient::kRoot, "file");
    ASSERT_TRUE(entry);
    const auto handle = client_->open(entry->nodeid, O_RDWR);
    ASSERT_TRUE(handle);
    const auto error_of = [&](const CallOptions& options) {
        const auto reply = client_->call(options);
        return reply ? 0 : reply.error().value();
    };
    const std::string ten = "0123456789";

    auto xattr = client_->call_options(FUSE_SETXATTR, entry->nodeid);
    xattr.body.resize(FUSE_COMPAT_SETXATTR_IN_SIZE);
    const std::uint32_t claimed = 1 << 20;
    std::memcpy(xattr.body.data(), &claimed, sizeof claimed);
    xattr.add_name("user.x");
    xattr.add_bytes(std::as_bytes(std::span{ten}));
    EXPECT_EQ(error_of(xattr), EINVAL);

    for (const std::uint32_t size : {0U, 9U, 11U, 1U << 20, ~0U}) {
        auto write = client_->call_options(FUSE_WRITE, entry->nodeid);
        write.add(fuse_write_in{.fh = *handle, .offset = 0, .size = size});
        write.add_bytes(std::as_bytes(std::span{ten}));
        write.reply_bytes_max = sizeof(fuse_write_out);
        EXPECT_EQ(error_of(write), EINVAL) << "size " << size;
    }
    EXPECT_EQ(folder_.read("share/file"), std::string(10'000, 'f'));

    for (const std::uint32_t length : {1U, 39U, 41U, 1000U, 0xffff'ffffU}) {
        auto lookup = client_->call_options(FUSE_LOOKUP, FuseClient::kRoot);
        lookup.add_name("file");
        lookup.reply_bytes_max = sizeof(fuse_entry_out);
        lookup.length = length;
        EXPECT_EQ(error_of(lookup), EINVAL) << "length " << length;
    }

    auto unended = client_->call_options(FUSE_LOOKUP, FuseClient::kRoot);
    unended.add_bytes(std::as_bytes(std::span{ten}));
    unended.reply_bytes_max = sizeof(fuse_entry_out);
    EXPECT_EQ(error_of(unended), EINVAL);

    for (const std::string& name : {std::string{}, std::string{"."}, std::string{".."}, std::string{"a/b"}}) {
        auto lookup = client_->call_options(FUSE_LOOKUP, FuseClient::kRoot);
        lookup.add_name(name);
        lookup.reply_bytes_max = sizeof(fuse_entry_out);
        EXPECT_EQ(error_of(lookup), EINVAL) << "name " << name;
    }
    auto longest = client_->call_options(FUSE_LOOKUP, FuseClient::kRoot);
    longest.add_name(std::string(256, 'n'));
    longest.reply_bytes_max = sizeof(fuse_entry_out);
    EXPECT_EQ(error_of(longest), ENAMETOOLONG);

    for (const std::uint32_t opcode :
         {0U, 7U, 9999U, 4096U, 0xffff'ffffU, 1048576U /* CUSE_INIT_BSWAP_RESERVED */})
        EXPECT_EQ(error_of(client_->call_options(opcode, FuseClient::kRoot)), ENOSYS) << "opcode " << opcode;

    EXPECT_EQ(error_of(getattr_of(0)), ESTALE);
    EXPECT_EQ(error_of(getattr_of(0xdead'beef'0000'0001)), ESTALE);
    EXPECT_EQ(client_->read(entry->nodeid, *handle + 77, 0, 10).error(), Errno{EBADF});
    EXPECT_TRUE(client_->getattr(entry->nodeid));
}

TEST_F(FuseProtocol, a_reply_is_bounded_by_its_room_whatever_size_is_asked_for) {
    ASSERT_TRUE(client_->init());
    const auto entry = client_->lookup(FuseClient::kRoot, "file");
    ASSERT_TRUE(entry);
    const auto handle = client_->open(entry->nodeid, O_RDONLY);
    ASSERT_TRUE(handle);
    auto read = client_->call_options(FUSE_READ, entry->nodeid);
    read.add(fuse_read_in{.fh = *handle, .offset = 0, .size = 0xffff'ffff});
    read.reply_bytes_max = 100;
    const auto data = client_->call(read);
    ASSERT_TRUE(data) << data.error().name();
    EXPECT_EQ(data->size(), 100U);
    auto value = client_->call_options(FUSE_GETXATTR, entry->nodeid);
    value.add(fuse_getxattr_in{.size = 0xffff'ffff}).add_name("user.none");
    value.reply_bytes_max = 32;
    // ENODATA, or EOPNOTSUPP where the file system has no such attributes (tmpfs before Linux 6.6).
    ASSERT_LT(::getxattr(folder_.file("share/file").c_str(), "user.none", nullptr, 0), 0);
    const Errno locally{errno};
    EXPECT_EQ(client_->call(value).error(), locally);
}

TEST_F(FuseProtocol, nothing_is_served_before_init_and_a_second_init_starts_over) {
    EXPECT_EQ(client_->getattr(FuseClient::kRoot).error(), Errno{EIO});
    ASSERT_TRUE(client_->init());
    const auto entry = client_->lookup(FuseClient::kRoot, "file");
    ASSERT_TRUE(entry);
    ASSERT_TRUE(client_->init());
    EXPECT_EQ(client_->getattr(entry->nodeid).error(), Errno{ESTALE});
    EXPECT_TRUE(client_->lookup(FuseClient::kRoot, "file"));
    ASSERT_TRUE(client_->destroy());
    EXPECT_EQ(client_->getattr(FuseClient::kRoot).error(), Errno{EIO});
    ASSERT_TRUE(client_->init());
    EXPECT_TRUE(client_->getattr(FuseClient::kRoot));
}

TEST_F(FuseProtocol, listings_with_lookups_count_exactly_what_was_returned) {
    constexpr int kFiles = 300;
    for (int index = 0; index < kFiles; ++index) folder_.write("share/n" + std::to_string(index), "");
    ASSERT_TRUE(client_->init());
    const std::size_t fds = daemon_->open_fds();
    for (std::uint32_t room = 200; room <= 400; room += 8) {
        const auto handle = client_->opendir(FuseClient::kRoot);
        ASSERT_TRUE(handle);
        std::set<std::string> names;
        std::uint64_t offset = 0;
        while (true) {
            const auto part = client_->readdir(FuseClient::kRoot, *handle, offset, room, true);
            ASSERT_TRUE(part) << "room " << room << ": " << part.error().name();
            if (part->empty()) break;
            for (const auto& entry : *part) {
                EXPECT_TRUE(names.insert(entry.name).second) << entry.name << " came twice";
                const bool dots = entry.name == "." || entry.name == "..";
                EXPECT_EQ(entry.entry && entry.entry->nodeid != 0, !dots) << entry.name;
                if (!dots) client_->forget(entry.entry->nodeid);
                offset = entry.offset;
            }
        }
        EXPECT_EQ(names.size(), kFiles + 3U) << "room " << room; // "file", "." and ".."
        ASSERT_TRUE(client_->releasedir(FuseClient::kRoot, *handle));
    }
    EXPECT_TRUE(test::wait_until([&] { return daemon_->open_fds() <= fds; }, test::kPatience))
        << daemon_->open_fds() << " descriptors, " << fds << " before";
}

TEST_F(FuseProtocol, names_are_looked_up_and_forgotten_on_all_queues_at_once_without_a_leak) {
    ASSERT_TRUE(client_->init());
    const std::size_t fds = daemon_->open_fds();
    std::vector<std::thread> threads;
    for (std::uint32_t queue = 0; queue < 4; ++queue) {
        threads.emplace_back([this, queue] {
            auto mine = client_->on_queue(queue);
            for (int round = 0; round < 3000; ++round) {
                const auto entry = mine.lookup(FuseClient::kRoot, "file");
                ASSERT_TRUE(entry) << entry.error().name();
                ASSERT_EQ(entry->attr.size, 10'000U);
                mine.forget(entry->nodeid);
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_TRUE(test::wait_until([&] { return daemon_->open_fds() <= fds; }, test::kPatience));
}

TEST_F(FuseProtocol, what_is_made_has_the_label_of_the_client) {
    start({"--security-label", "--xattrmap", ":map::user.virtiofs.:"});
    ASSERT_EQ(client_->init().error(), Errno{EPROTO}); // a client that sends none
    ASSERT_TRUE(client_->init(FuseClient::kInitFlags | FUSE_SECURITY_CTX));
    // As from 5.17 to 6.1: behind the names, and not announced in the header.
    constexpr std::string_view kLabel = "system_u:object_r:file_t:s0";
    const auto with_context = [&](CallOptions options) {
        const std::string_view name = "security.selinux";
        const std::size_t bytes = (16 + name.size() + 1 + kLabel.size() + 7) / 8 * 8;
        options.add(fuse_secctx_header{.size = static_cast<std::uint32_t>(bytes), .nr_secctx = 1});
        options.add(fuse_secctx{.size = kLabel.size(), .padding = 0});
        options.add_name(name).add_bytes(std::as_bytes(std::span{kLabel}));
        for (std::size_t end = 16 + name.size() + 1 + kLabel.size(); end < bytes; ++end) options.add('\0');
        options.reply_bytes_max = sizeof(fuse_entry_out) + sizeof(fuse_open_out);
        return client_->call(options);
    };
    auto mkdir = client_->call_options(FUSE_MKDIR, FuseClient::kRoot);
    ASSERT_TRUE(with_context(mkdir.add(fuse_mkdir_in{.mode = 0755, .umask = 0}).add_name("dir")));
    auto create = client_->call_options(FUSE_CREATE, FuseClient::kRoot);
    ASSERT_TRUE(with_context(create.add(fuse_create_in{.flags = O_RDWR, .mode = 0644}).add_name("made")));
    auto symlink = client_->call_options(FUSE_SYMLINK, FuseClient::kRoot);
    EXPECT_EQ(with_context(symlink.add_name("link").add_name("to")).error(), Errno{EPERM});

    for (const char* const name : {"dir", "made"}) {
        char value[64];
        const ssize_t bytes =
            ::getxattr((share_ + "/" + name).c_str(), "user.virtiofs.security.selinux", value, sizeof value);
        ASSERT_GT(bytes, 0) << name;
        EXPECT_EQ(std::string_view(value, static_cast<std::size_t>(bytes)), kLabel);
    }
    EXPECT_EQ(client_->lookup(FuseClient::kRoot, "link").error(), Errno{ENOENT});
}

TEST_F(FuseProtocol, init_of_every_kernel_gets_an_answer_that_kernel_accepts) {
    struct Kernel {
        std::uint32_t minor;
        std::uint64_t flags;
    };
    // What Linux 4.19, 5.15, 6.1, 6.12 and 6.18 offer, as far as their headers go.
    const Kernel kernels[] = {{27, 0x003fffffULL},
                              {34, 0x1fffffffULL},
                              {37, 0x1'7fffffffULL},
                              {41, 0xff'7fffffffULL},
                              {45, 0xfff'ffffffffULL}};
    for (const Kernel& kernel : kernels) {
        connect();
        const auto reply = client_->init(kernel.flags, kernel.minor);
        ASSERT_TRUE(reply) << "minor " << kernel.minor << ": " << reply.error().name();
        EXPECT_EQ(reply->major, 7U);
        EXPECT_LE(reply->minor, 45U);
        std::uint64_t flags = reply->flags;
        if ((flags & FUSE_INIT_EXT) != 0) flags |= static_cast<std::uint64_t>(reply->flags2) << 32;
        EXPECT_EQ(flags & ~(kernel.flags | FUSE_INIT_EXT), 0U) << "minor " << kernel.minor;
        EXPECT_GE(reply->max_write, 4096U);
        if ((flags & FUSE_MAX_PAGES) != 0) EXPECT_EQ(reply->max_pages, (reply->max_write + 4095) / 4096);
        EXPECT_TRUE(client_->getattr(FuseClient::kRoot));
    }
}

} // namespace
} // namespace viaduct
