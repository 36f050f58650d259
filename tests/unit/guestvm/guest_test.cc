// SPDX-License-Identifier: Apache-2.0
#include "guestvm/guest.h"

#include "guestvm/files.h"
#include "guestvm/initramfs.h"
#include "guestvm/process.h"
#include "guestvm/temp_dir.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>

namespace viaduct::guestvm {
namespace {

using namespace std::chrono_literals;

std::string refusal(GuestOptions options) {
    const auto checked = check(options);
    EXPECT_FALSE(checked);
    if (checked) return {};
    EXPECT_EQ(checked.error().exit_status, 2);
    return checked.error().message;
}

TEST(GuestOptions, wrong_values_are_named_with_what_would_be_right) {
    const std::vector<std::string> command{"true"};
    EXPECT_EQ(refusal({}), "no command for the guest; it follows after --");
    EXPECT_EQ(refusal({.command = command, .environment = {"A"}}), "--env is \"A\"; it must be NAME=VALUE");
    EXPECT_EQ(refusal({.command = command, .cpus = 256}), "--cpus is 256; it must be between 1 and 255");
    EXPECT_EQ(refusal({.command = command, .queues = 5000}),
              "--queues is 5000; it must be between 1 and 1023");
    EXPECT_EQ(refusal({.command = command, .tag = ""}), "--tag is \"\"; a tag has 1 to 36 bytes");
    EXPECT_EQ(refusal({.command = command, .root_disk = "/nowhere"}),
              "--root-disk /nowhere cannot be read: No such file or directory");
    EXPECT_TRUE(check({.command = command, .environment = {"A=", "_b1=x=y"}}));
}

TEST(Initramfs, words_survive_the_shell) {
    const std::string word = "it's \"$HOME\" `x` \\ \n*";
    EXPECT_EQ(output_of({"sh", "-c", "printf %s " + shell_quoted(word)}).value_or(""), word);
    EXPECT_EQ(output_of({"sh", "-c", "printf '[%s]' " + shell_quoted("")}).value_or(""), "[]");
}

TEST(Initramfs, assignments_have_a_name_that_a_shell_knows) {
    EXPECT_TRUE(is_assignment("A=b"));
    EXPECT_TRUE(is_assignment("_a1="));
    EXPECT_FALSE(is_assignment("A"));
    EXPECT_FALSE(is_assignment("=b"));
    EXPECT_FALSE(is_assignment("1a=b"));
    EXPECT_FALSE(is_assignment("a-b=c"));
}

// The run itself, with a script in QEMU's place.
class FakeQemu : public testing::Test {
protected:
    void SetUp() override {
        if (!find_program("busybox")) GTEST_SKIP() << "needs the Debian package busybox-static";
        ASSERT_TRUE(write_file(scratch_.file("kernel"), "\177ELF Linux version 6.12.0-test (x)"));
        options_.command = {"true"};
        options_.kernel = scratch_.file("kernel");
        options_.qemu = scratch_.file("qemu");
        options_.accel = Accel::tcg;
        output_ = Fd{::open(scratch_.file("out").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
        errors_ = Fd{::open(scratch_.file("err").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
        options_.stdout_fd = output_.get();
        options_.stderr_fd = errors_.get();
    }
    // The body finds the ports open: 3 control, 4 stdout, 5 stderr; 6 is the console; the trailer is
    // $trailer.
    void script(const std::string& body) {
        const std::string text = R"sh(#!/bin/bash
[ "$1" = --version ] && { echo "QEMU emulator version 7.2.0"; exit 0; }
fd() { for word; do case $word in socket,id=$id,fd=*) echo "${word##*=}" ;; esac; done; }
for word; do
    [ "$previous" = -initrd ] && initrd=$word
    previous=$word
done
trailer=$(grep -a -o '<end [0-9a-f]*>' "$initrd" | head -n 1)
eval "exec 3>&$(id=port0; fd "$@") 4>&$(id=port2; fd "$@") 5>&$(id=port3; fd "$@") 6>&$(id=console; fd "$@")"
)sh" + body;
        ASSERT_TRUE(write_file(options_.qemu, text));
        ASSERT_EQ(::chmod(options_.qemu.c_str(), 0755), 0);
    }
    std::string out() { return read_file(scratch_.file("out")).value_or("?"); }
    std::string err() { return read_file(scratch_.file("err")).value_or("?"); }

    TempDir scratch_ = *TempDir::create();
    Fd output_;
    Fd errors_;
    GuestOptions options_;
};

TEST_F(FakeQemu, streams_and_status_come_back) {
    script("echo 'hello 6' >&3; printf out >&4; printf err >&5; printf %s \"$trailer\" >&4\n"
           "printf %s \"$trailer\" >&5; echo 'exit 42' >&3; exec sleep 1000\n");
    const auto status = run_guest(options_, "/nowhere");
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ(*status, 42);
    EXPECT_EQ(out(), "out");
    EXPECT_EQ(err(), "err");
}

TEST_F(FakeQemu, status_without_the_end_of_the_output_is_not_success) {
    script("echo 'hello 6' >&3; printf out >&4; echo 'exit 0' >&3; exit 0\n");
    const auto status = run_guest(options_, "/nowhere");
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().exit_status, kStatusOurs);
}

TEST_F(FakeQemu, refusal_to_start_is_told_in_its_words) {
    script("echo 'qemu: no such device' >&2; exit 1\n");
    const auto status = run_guest(options_, "/nowhere");
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().exit_status, kStatusOurs);
    EXPECT_EQ(status.error().message, "QEMU ended (status 1) before the command did: qemu: no such device");
}

TEST_F(FakeQemu, kernel_panic_is_told) {
    script("printf '[1.0] Kernel panic - not syncing: no init\\r\\n' >&6; exec sleep 1000\n");
    const auto status = run_guest(options_, "/nowhere");
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message, "the guest's kernel panicked: no init");
}

TEST_F(FakeQemu, failure_inside_the_guest_is_told) {
    script("echo 'hello 6' >&3; echo 'fail mount failed' >&3; exec sleep 1000\n");
    const auto status = run_guest(options_, "/nowhere");
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().exit_status, kStatusOurs);
    EXPECT_EQ(status.error().message, "mount failed");
}

TEST_F(FakeQemu, time_limit_has_its_own_status) {
    script("echo 'hello 6' >&3; exec sleep 1000\n");
    options_.timeout = 1s;
    const auto status = run_guest(options_, "/nowhere");
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().exit_status, kStatusTimeout);
}

TEST_F(FakeQemu, kvm_without_a_sign_of_life_gives_way_to_emulation) {
    script("case \"$*\" in *accel=kvm*) exec sleep 1000;; esac\n"
           "printf %s \"$trailer\" >&4; printf %s \"$trailer\" >&5; echo 'exit 0' >&3; exec sleep 1000\n");
    options_.accel = Accel::automatic;
    options_.kvm_device = "/dev/null";
    options_.kvm_hello_limit = 300ms;
    const auto status = run_guest(options_, "/nowhere");
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ(*status, 0);
    EXPECT_NE(err().find("KVM runs no guest here"), std::string::npos);
}

TEST_F(FakeQemu, end_of_the_daemon_is_the_end_of_the_run) {
    script("echo 'hello 6' >&3; exec sleep 1000\n");
    auto daemon = Child::start({.argv = {"true"}, .kept_fds = {}});
    ASSERT_TRUE(daemon);
    options_.daemon_pidfd = daemon->pidfd();
    const auto status = run_guest(options_, "/nowhere");
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message, "the daemon ended while the guest was running");
}

TEST_F(FakeQemu, no_emulator_names_the_package_only_when_it_is_the_usual_one) {
    options_.qemu = "/nowhere/qemu";
    const auto status = run_guest(options_, "/nowhere");
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message, "--qemu /nowhere/qemu: there is no such program");
}

} // namespace
} // namespace viaduct::guestvm
