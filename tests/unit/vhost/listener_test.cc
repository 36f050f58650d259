// SPDX-License-Identifier: Apache-2.0
#include "vhost/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rt/worker.h"
#include "support/on_worker.h"
#include "vhost/front_end.h"

#include <filesystem>
#include <fstream>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>

namespace viaduct::vhost {
namespace {

using testing::HasSubstr;

class Folder {
public:
    Folder() {
        char name[] = "/tmp/viaduct-listener-XXXXXX";
        EXPECT_NE(::mkdtemp(name), nullptr);
        path_ = name;
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string operator/(const char* name) const { return path_ + "/" + name; }

private:
    std::string path_;
};

std::string why_not(const std::string& path) {
    const auto listener = Listener::bind(path);
    EXPECT_FALSE(listener);
    return listener ? "" : listener.error().message;
}

rt::Task<void> accept_one(Listener& listener, Result<Fd>& result) {
    result = co_await listener.accept();
}

TEST(Listener, makes_its_socket_and_takes_it_away) {
    const Folder folder;
    const std::string path = folder / "s";
    {
        const auto listener = Listener::bind(path);
        ASSERT_TRUE(listener);
        EXPECT_TRUE(std::filesystem::is_socket(path));
    }
    EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Listener, stale_socket_is_replaced_and_a_live_one_is_not) {
    const Folder folder;
    const std::string path = folder / "s";
    {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        const Fd stale{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        ASSERT_EQ(::bind(stale.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        EXPECT_THAT(why_not(path), HasSubstr("in use by a running process"));
    }
    const auto listener = Listener::bind(path);
    ASSERT_TRUE(listener);
    EXPECT_THAT(why_not(path), HasSubstr("in use by a running process"));
    EXPECT_TRUE(std::filesystem::is_socket(path));
}

TEST(Listener, says_what_is_wrong_with_a_path) {
    const Folder folder;
    EXPECT_THAT(why_not(""), HasSubstr("empty"));
    EXPECT_THAT(why_not(folder / "none/s"), HasSubstr("make its directory first"));
    EXPECT_THAT(why_not("/tmp/" + std::string(103, 'x')), HasSubstr("at most 107"));
    std::ofstream{folder / "file"} << "content";
    EXPECT_THAT(why_not(folder / "file"), HasSubstr("not a socket"));
    EXPECT_THAT(why_not(folder / "file/s"), HasSubstr("not a directory"));
    EXPECT_EQ(std::filesystem::file_size(folder / "file"), 7U);
    const auto too_long = Listener::bind("/tmp/" + std::string(103, 'x'));
    EXPECT_EQ(too_long.error().exit_status, 2);
}

TEST(Listener, socket_of_someone_else_is_left_when_it_has_taken_the_path) {
    const Folder folder;
    const std::string path = folder / "s";
    std::optional<Listener> first{*Listener::bind(path)};
    ASSERT_EQ(::unlink(path.c_str()), 0);
    const auto second = Listener::bind(path);
    ASSERT_TRUE(second);
    first.reset();
    EXPECT_TRUE(std::filesystem::is_socket(path));
}

TEST(Listener, accepts_a_front_end_and_passes_over_one_that_is_gone) {
    const Folder folder;
    const std::string path = folder / "s";
    auto listener = Listener::bind(path);
    ASSERT_TRUE(listener);
    auto worker = rt::Worker::start({.name = "control"});
    ASSERT_TRUE(worker);
    {
        const auto gone = FrontEnd::connect(path);
    }
    const auto stays = FrontEnd::connect(path);
    ASSERT_TRUE(stays);

    Result<Fd> accepted = fail(EAGAIN);
    test::run_on(**worker, accept_one(*listener, accepted));
    ASSERT_TRUE(accepted);
    char byte = 0;
    EXPECT_EQ(::recv(accepted->get(), &byte, 1, MSG_DONTWAIT), -1); // alive, and nothing sent
}

TEST(Listener, stop_ends_a_wait) {
    const Folder folder;
    auto listener = Listener::bind(folder / "s");
    ASSERT_TRUE(listener);
    auto worker = rt::Worker::start({.name = "control"});
    ASSERT_TRUE(worker);
    Result<Fd> accepted = fail(EAGAIN);
    std::thread waiting{[&] { test::run_on(**worker, accept_one(*listener, accepted)); }};
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
    struct Stop final : rt::Message {
        Listener& listener;
        explicit Stop(Listener& l) : listener(l) {}
        void deliver() override { listener.stop(); }
    };
    Stop stop{*listener};
    (*worker)->post(stop);
    waiting.join();
    ASSERT_FALSE(accepted);
    EXPECT_EQ(accepted.error(), Errno{ECANCELED});
}

TEST(Listener, adopts_what_listens_and_nothing_else) {
    const Folder folder;
    auto listener = Listener::bind(folder / "s");
    ASSERT_TRUE(listener);
    EXPECT_TRUE(Listener::adopt(Fd{::dup(listener->fd())}));
    const auto not_listening = Listener::adopt(Fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)});
    ASSERT_FALSE(not_listening);
    EXPECT_THAT(not_listening.error().message, HasSubstr("not a listening Unix socket"));
    EXPECT_FALSE(Listener::adopt(Fd{::dup(0)}));
}

TEST(FrontEnd, says_why_it_cannot_connect) {
    const Folder folder;
    const auto absent = FrontEnd::connect(folder / "s");
    ASSERT_FALSE(absent);
    EXPECT_THAT(absent.error().message, HasSubstr("is the daemon running?"));
}

} // namespace
} // namespace viaduct::vhost
