// SPDX-License-Identifier: Apache-2.0
//
// What an operator gets wrong: one sentence that names it and the way out, and the right exit status.
#include "guestvm/process.h"
#include "support/daemon.h"
#include "support/temp_dir.h"

#include <gtest/gtest.h>

#include <sys/resource.h>

namespace viaduct {
namespace {

using namespace std::chrono_literals;

struct Mistake {
    std::vector<std::string> arguments; // "SHARE" and "SOCKET" stand for good values
    int status;
    std::string says; // part of what is printed
};

void PrintTo(const Mistake& mistake, std::ostream* out) {
    for (const auto& word : mistake.arguments) *out << word << ' ';
}

class BadInput : public testing::TestWithParam<Mistake> {};

TEST_P(BadInput, is_answered_with_one_sentence_and_a_status) {
    const test::TempDir folder;
    const std::string share = folder.make_folder("share");
    std::vector<std::string> argv = {test::program(GetParam().arguments.front())};
    for (auto word = GetParam().arguments.begin() + 1; word != GetParam().arguments.end(); ++word)
        argv.push_back(*word == "SHARE" ? share : *word == "SOCKET" ? folder.file("socket") : *word);
    auto daemon = test::Daemon::start({.argv = argv});
    ASSERT_TRUE(daemon) << daemon.error().message;
    EXPECT_EQ((*daemon)->wait(test::kPatience), GetParam().status) << (*daemon)->log();
    EXPECT_TRUE((*daemon)->wait_for_log(GetParam().says, test::kPatience)) << (*daemon)->log();
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, BadInput,
    testing::Values(
        Mistake{{"viaduct"}, 2, "Usage: viaduct COMMAND"},
        Mistake{{"viaduct", "sreve"}, 2, "there is no command \"sreve\""},
        Mistake{{"viaduct", "serve"}, 2, "--share is missing"},
        Mistake{{"viaduct", "serve", "--share", "SHARE"}, 2, "--socket is missing"},
        Mistake{{"viaduct", "serve", "--share", "SHARE", "--socket", "SOCKET", "--queues", "0"},
                2,
                "--queues is \"0\"; it takes a whole number from 1 to 64"},
        Mistake{{"viaduct", "serve", "--share", "SHARE", "--socket", "SOCKET", "--queues=many"},
                2,
                "--queues is \"many\""},
        Mistake{{"viaduct", "serve", "--share", "SHARE", "--socket", "SOCKET", "--workers", "-1"},
                2,
                "--workers"},
        Mistake{{"viaduct", "serve", "--share", "SHARE", "--socket", "SOCKET", "--cache", "some"},
                2,
                "--cache is \"some\"; it takes never, metadata, auto or always"},
        Mistake{{"viaduct", "serve", "--share", "SHARE", "--socket", "SOCKET", "--inline", "x"},
                2,
                "--inline is"},
        Mistake{
            {"viaduct", "serve", "--share", "SHARE", "--socket", "SOCKET", "--ring", "x"}, 2, "--ring is"},
        Mistake{{"viaduct", "serve", "--share", "SHARE", "--socket", "SOCKET", "--log-level", "x"},
                2,
                "--log-level is"},
        Mistake{{"viaduct", "serve", "--share", "SHARE", "--socket", "SOCKET", "--poll-us", "2s"},
                2,
                "--poll-us is \"2s\""},
        Mistake{{"viaduct", "serve", "--share", "SHARE", "--socket", "SOCKET", "--drain-timeout", "0"},
                2,
                "--drain-timeout is"},
        Mistake{{"viaduct", "serve", "--share", "SHARE", "--socket", "SOCKET", "--faults", "read:delay=x"},
                2,
                "--faults says \"delay=x\""},
        Mistake{{"viaduct", "serve", "--share", "SHARE", "--socket", "SOCKET", "--tag", std::string(37, 't')},
                2,
                "--tag is"},
        Mistake{{"viaduct", "serve", "--share", "SHARE", "--socket", "SOCKET", "--xattr=yes"},
                2,
                "--xattr takes no value"},
        Mistake{{"viaduct", "serve", "--share", "SHARE", "--socket", "SOCKET", "--quues", "3"},
                2,
                "did you mean --queues?"},
        Mistake{{"viaduct", "serve", "--share", "SHARE", "--socket"}, 2, "--socket has no value"},
        Mistake{{"viaduct", "serve", "--share", "/nowhere/at/all", "--socket", "SOCKET"},
                1,
                "cannot share \"/nowhere/at/all\": ENOENT"},
        Mistake{
            {"viaduct", "serve", "--share", "/dev/null", "--socket", "SOCKET"}, 1, "it is not a directory"},
        Mistake{{"viaduct", "serve", "--share", "SHARE", "--socket", "/nowhere/at/all/socket"},
                1,
                "make its directory first"},
        Mistake{{"viaduct", "serve", "--share", "SHARE", "--socket", "/tmp/" + std::string(120, 'l')},
                2,
                "at most 107"},
        Mistake{{"viaduct", "serve", "--share", "SHARE", "--socket", "SOCKET", "--rlimit-nofile", "20"},
                1,
                "too small to serve with"},
        Mistake{{"viaductd", "--socket-path", "SOCKET"}, 2, "--shared-dir is missing"},
        Mistake{{"viaductd", "--shared-dir", "SHARE", "--fd", "77"}, 1, "EBADF"},
        Mistake{{"viaductd", "--shared-dir", "SHARE", "--fd", "3", "--socket-path", "SOCKET"},
                2,
                "--fd and --socket-path are both given"},
        Mistake{{"viaductd", "--shared-dir", "SHARE", "--socket-path", "SOCKET", "--sandbox", "chroot"},
                2,
                "--sandbox is \"chroot\"; it takes none"},
        Mistake{{"viaductd", "--shared-dir", "SHARE", "--socket-path", "SOCKET", "--seccomp=kill"},
                2,
                "--seccomp is \"kill\"; it takes none"},
        Mistake{
            {"viaductd", "--shared-dir", "SHARE", "--socket-path", "SOCKET", "--migration-verify-handles"},
            2,
            "--migration-verify-handles is not supported"},
        Mistake{{"viaductd", "--shared-dir", "SHARE", "--socket-path", "SOCKET", "--posix-acl",
                 "--translate-uid", "map:0:1000:1"},
                2,
                "--posix-acl does not go with --translate-uid"},
        Mistake{{"viaduct", "mount", "SHARE", "/mnt", "--posix-acl", "--translate-gid=map:0:1000:1"},
                2,
                "--posix-acl does not go with --translate-uid"},
        Mistake{{"viaductd", "--shared-dir", "SHARE", "--socket-path", "SOCKET", "--uid-map", ":0:1:1:"},
                2,
                "--uid-map is not supported"},
        Mistake{{"viaductd", "--shared-dir", "SHARE", "--socket-path", "SOCKET", "--xattrmap", ":ok:all"},
                2,
                "--xattrmap: rule 1 is not complete"},
        Mistake{{"viaduct", "serve", "--share", "SHARE", "--socket", "SOCKET", "--translate-uid=0:1000:1"},
                2,
                "--translate-uid: \"0:1000:1\" begins with no known word"},
        Mistake{{"viaduct", "serve", "--share", "SHARE", "--socket", "SOCKET", "--translate-gid",
                 "guest:0:0:9", "--translate-gid", "map:8:8:1"},
                2,
                "--translate-gid: \"map:8:8:1\" covers ids that \"guest:0:0:9\" covers too"},
        Mistake{{"viaductd", "--shared-dir", "SHARE", "--socket-path", "SOCKET", "--socket-group", "no such"},
                2,
                "there is no such group"},
        Mistake{{"viaductd", "--socket-path", "SOCKET", "-o", "source=/,modcaps=+chown"},
                2,
                "-o modcaps is not supported"},
        Mistake{{"viaduct", "guest", "--share", "SHARE"}, 2, "there is no command; give it behind"},
        Mistake{
            {"viaduct", "guest", "--share", "SHARE", "--qemu", "/nowhere/qemu", "--", "true"}, 125, "qemu"},
        Mistake{{"viaduct", "map", "--queues", "none"}, 2, "--queues is \"none\""}));

TEST(BadInputOf, a_socket_of_a_live_daemon_is_left_alone_and_a_stale_one_replaced) {
    const test::TempDir folder;
    const std::string share = folder.make_folder("share");
    const std::string socket = folder.file("socket");
    const test::Daemon::Options options{
        .argv = {test::program("viaduct"), "serve", "--share", share, "--socket", socket}, .socket = socket};
    auto first = test::Daemon::start(options);
    ASSERT_TRUE(first) << first.error().message;
    auto second = test::Daemon::start({.argv = options.argv});
    ASSERT_TRUE(second);
    EXPECT_EQ((*second)->wait(test::kPatience), 1);
    EXPECT_TRUE((*second)->wait_for_log("in use", test::kPatience)) << (*second)->log();
    (*first)->send_signal(SIGKILL);
    EXPECT_EQ((*first)->wait(test::kPatience), 128 + SIGKILL);
    auto third = test::Daemon::start(options);
    ASSERT_TRUE(third) << third.error().message;
    // The dead one's socket may have been seen until now.
    EXPECT_TRUE((*third)->wait_for_log("sharing", test::kPatience)) << (*third)->log();
    EXPECT_EQ((*third)->end(), 0);
}

TEST(BadInputOf, exit_statuses_are_those_of_the_programs_they_stand_for) {
    const test::TempDir folder;
    const std::string share = folder.make_folder("share");
    const std::string socket = folder.file("socket");
    for (const int signal : {SIGTERM, SIGHUP, SIGINT}) {
        auto serve = test::Daemon::start(
            {.argv = {test::program("viaduct"), "serve", "--share", share, "--socket", socket},
             .socket = socket});
        ASSERT_TRUE(serve) << serve.error().message;
        (*serve)->send_signal(signal);
        EXPECT_EQ((*serve)->wait(test::kPatience), 0);
        auto old = test::Daemon::start(
            {.argv = {test::program("viaductd"), "--shared-dir", share, "--socket-path=" + socket},
             .socket = socket});
        ASSERT_TRUE(old) << old.error().message;
        (*old)->send_signal(signal);
        EXPECT_EQ((*old)->wait(test::kPatience), 1);
    }
}

} // namespace
} // namespace viaduct
