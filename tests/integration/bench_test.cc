// SPDX-License-Identifier: Apache-2.0
//
// `viaduct bench` as a user runs it, on real daemons.
#include "support/run_program.h"
#include "support/served_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <sstream>

namespace viaduct {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

using Line = std::map<std::string, std::string>;

// The members of one of our JSON lines, as they are written: no member of it is an object or a list.
std::optional<Line> parse_line(const std::string& text) {
    Line line;
    std::size_t at = 1;
    if (!text.starts_with('{') || !text.ends_with('}')) return std::nullopt;
    while (at < text.size() - 1) {
        const std::size_t key_end = text.find("\":", at);
        if (text[at] != '"' || key_end == std::string::npos) return std::nullopt;
        const std::string key = text.substr(at + 1, key_end - at - 1);
        at = key_end + 2;
        const bool quoted = text[at] == '"';
        const std::size_t end = quoted ? text.find('"', at + 1) + 1 : text.find_first_of(",}", at);
        line[key] = quoted ? text.substr(at + 1, end - at - 2) : text.substr(at, end - at);
        at = text[end] == ',' ? end + 1 : end;
    }
    return line;
}

// Short runs; what is measured is not looked at.
test::Ran bench(std::vector<std::string> words, bool short_runs = true) {
    words.insert(words.begin(), {test::program("viaduct"), "bench"});
    if (short_runs)
        for (const char* const word : {"--count", "200", "--ramp", "0", "--repeat", "2", "--file", "1M"})
            words.emplace_back(word);
    return test::run_program(words);
}

// The lines of a run with --json; of rows alone when `medians`.
std::vector<Line> json_of(const std::string& text, bool medians = true) {
    std::vector<Line> lines;
    std::istringstream stream{text};
    for (std::string line; std::getline(stream, line);) {
        const auto parsed = parse_line(line);
        EXPECT_TRUE(parsed) << line;
        if (parsed && (!medians || parsed->contains("median"))) lines.push_back(*parsed);
    }
    return lines;
}

class Bench : public testing::Test {
protected:
    test::ServedShare share_;
};

TEST_F(Bench, every_kind_and_a_mix_is_measured_and_nothing_is_left_behind) {
    const auto ran =
        bench({share_.socket(), "--json", "--verify", "--queues", "2", "--threads", "2", "--bare",
               share_.share(), "--bare-time", "1ms", "--kind",
               "null,getattr,lookup,open-release,create-unlink,readdir,readdirplus,read,write,randread:8K,"
               "randwrite,rw,randrw",
               "--mix", "randread:4K=70,randwrite:8K=30,getattr=5"});
    ASSERT_EQ(ran.status, 0) << ran.err << ran.out;
    const auto rows = json_of(ran.out);
    ASSERT_EQ(rows.size(), 14U);
    for (const Line& row : rows) {
        EXPECT_EQ(row.at("errors"), "0") << row.at("workload") << row.at("first_error");
        EXPECT_EQ(row.at("mismatches"), "0") << row.at("workload");
        EXPECT_NE(row.at("operations_per_second"), "0") << row.at("workload");
        EXPECT_NE(row.at("p50_ns"), "0") << row.at("workload");
        EXPECT_EQ(row.at("bare_ns") == "0.0", row.at("kind") == "null") << row.at("workload");
        EXPECT_EQ(row.at("queues"), "2");
    }
    EXPECT_EQ(rows.back().at("workload"), "randread:4K=70,randwrite:8K=30,getattr=5");
    EXPECT_EQ(json_of(ran.out, false).size(), 3 * rows.size()) << "two runs and a median for each";
    EXPECT_TRUE(std::filesystem::is_empty(share_.share()));
}

TEST_F(Bench, the_table_goes_to_stdout_and_json_to_a_file_beside_it) {
    const test::TempDir folder;
    const auto ran =
        bench({"tree=" + share_.socket(), "--kind", "getattr,randread:4K", "--json=" + folder.file("lines")});
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("getattr"));
    EXPECT_THAT(ran.out, HasSubstr("randread:4K"));
    EXPECT_THAT(ran.out, HasSubstr("p99.9"));
    EXPECT_THAT(ran.out, Not(HasSubstr("bare"))) << "it was not asked for";
    EXPECT_EQ(ran.err, "");
    const auto rows = json_of(test::text_of(folder.file("lines")));
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[0].at("server"), "tree");
}

TEST_F(Bench, what_the_device_lacks_is_said_and_done_without) {
    test::ServedShare split{{"--no-packed"}};
    const auto ran = bench({split.socket(), "--kind", "getattr", "--queues", "9", "--packed", "--json"});
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("has 4 request queues; 9 were asked for"));
    EXPECT_THAT(ran.err, HasSubstr("does not offer packed virtqueues"));
    EXPECT_EQ(json_of(ran.out).front().at("queues"), "4");
    EXPECT_EQ(json_of(ran.out).front().at("ring"), "split");
    const auto packed = bench({share_.socket(), "--kind", "getattr", "--packed", "--json"});
    EXPECT_EQ(json_of(packed.out).front().at("ring"), "packed");
    EXPECT_EQ(packed.err, "");
}

TEST_F(Bench, daemons_are_compared_in_turn) {
    test::ServedShare other;
    const auto ran = bench(
        {"compare", "one=" + share_.socket(), "two=" + other.socket(), "--kind", "getattr,null", "--json"});
    ASSERT_EQ(ran.status, 0) << ran.err;
    std::vector<std::string> order;
    std::vector<Line> compared;
    for (const Line& line : json_of(ran.out, false)) {
        if (line.contains("run")) order.push_back(line.at("server") + line.at("run"));
        if (line.contains("comparison")) compared.push_back(line);
    }
    EXPECT_THAT(order, testing::ElementsAre("one1", "two1", "two2", "one2", "one1", "two1", "two2", "one2"));
    ASSERT_EQ(compared.size(), 2U);
    EXPECT_EQ(compared[0].at("server"), "two");
    EXPECT_EQ(compared[0].at("beside"), "one");
    EXPECT_GT(std::stod(compared[0].at("rate_ratio")), 0);
    const auto table =
        bench({"compare", "one=" + share_.socket(), "two=" + other.socket(), "--kind", "getattr"});
    EXPECT_THAT(table.out, HasSubstr("beside one: operations/s "));
}

TEST_F(Bench, a_sweep_and_a_preset_have_their_rows_and_a_report) {
    const test::TempDir folder;
    const auto ran = bench({share_.socket(), "--kind", "getattr,randread:4K", "--sweep",
                            "threads=1,2,queues=1,2,8,dispatch=direct,staged", "--json",
                            "--report=" + folder.file("r.html")});
    ASSERT_EQ(ran.status, 0) << ran.err;
    std::vector<std::string> shapes;
    for (const Line& row : json_of(ran.out)) {
        EXPECT_EQ(row.at("errors"), "0") << row.at("first_error");
        if (row.at("kind") == "getattr")
            shapes.push_back(row.at("threads") + "x" + row.at("queues") + row.at("dispatch"));
    }
    EXPECT_THAT(shapes, testing::ElementsAre("1x1direct", "1x1staged", "1x2direct", "1x2staged", "1x4direct",
                                             "1x4staged", "2x1direct", "2x1staged", "2x2direct", "2x2staged",
                                             "2x4direct", "2x4staged"))
        << "the device has four queues";
    const std::string page = test::text_of(folder.file("r.html"));
    EXPECT_THAT(page, HasSubstr("randread:4K"));
    EXPECT_THAT(page, HasSubstr("--sweep"));
    for (const char* const preset : {"random-write", "s2", "s3", "s4"}) {
        const auto rows =
            bench({share_.socket(), "--preset", preset, "--block", "8K", "--depth", "4", "--json"});
        EXPECT_EQ(rows.status, 0) << preset << rows.err;
        for (const Line& row : json_of(rows.out)) EXPECT_EQ(row.at("completion"), "wait") << preset;
    }
    const auto nowhere = bench({share_.socket(), "--kind", "getattr", "--report", "/nowhere/r.html"});
    EXPECT_EQ(nowhere.status, 1);
    EXPECT_THAT(nowhere.err, HasSubstr("--report /nowhere/r.html: ENOENT"));
}

TEST_F(Bench, affinity_is_measured_with_and_without_over_several_numbers_of_queues) {
    const auto ran = bench({share_.socket(), "--kind", "getattr", "--threads", "2", "--queue-by", "cpu",
                            "--sweep", "queues=1,2,affinity=off,on", "--locality"});
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("moves/s"));
    EXPECT_THAT(ran.out, HasSubstr("off"));
    EXPECT_EQ(std::ranges::count(ran.out, '\n'), 6) << "head and four rows";
    // One that serves a single connection cannot be connected anew.
    test::ServedShare once{{"--once"}};
    const auto again =
        bench({once.socket(), "--kind", "getattr", "--queue-by", "cpu", "--sweep", "queues=1,2"});
    EXPECT_EQ(again.status, 1);
    EXPECT_THAT(again.err, HasSubstr("does the daemon listen again?"));
}

TEST_F(Bench, a_server_that_uses_no_cpu_is_warned_of) {
    // A process that sleeps all the time.
    auto idle = guestvm::Child::start({.argv = {"sleep", "600"}, .kept_fds = {}});
    ASSERT_TRUE(idle) << idle.error().message;
    const auto ran =
        bench({share_.socket(), "--kind", "getattr", "--server-pid", std::to_string(idle->pid())});
    EXPECT_EQ(ran.status, 0);
    EXPECT_THAT(ran.err, HasSubstr("used no CPU time (process " + std::to_string(idle->pid()) + ")"));
    const auto right =
        bench({share_.socket(), "--kind", "getattr", "--server-pid", std::to_string(share_.daemon().pid())});
    EXPECT_EQ(right.err, "");
    idle->end(std::chrono::seconds{10});
}

TEST_F(Bench, errors_are_told_and_make_the_status) {
    test::ServedShare failing{{"--faults", "getattr:errno=EIO"}};
    const auto ran = bench({failing.socket(), "--kind", "getattr"});
    EXPECT_EQ(ran.status, 1);
    EXPECT_THAT(ran.out, HasSubstr("GETATTR: EIO"));
}

TEST_F(Bench, verify_finds_a_block_that_is_not_what_was_written) {
    const test::TempDir folder;
    const std::string lines = folder.file("lines");
    auto child = guestvm::Child::start(
        {.argv = {test::program("viaduct"), "bench", share_.socket(), "--kind", "randread:4K", "--verify",
                  "--count", "200", "--ramp", "0", "--repeat", "10000", "--file", "1M", "--json=" + lines},
         .kept_fds = {}});
    ASSERT_TRUE(child) << child.error().message;
    while (test::text_of(lines).empty()) std::this_thread::yield(); // the first run: the file is there
    EXPECT_EQ(json_of(test::text_of(lines), false).front().at("mismatches"), "0");
    for (const auto& entry : std::filesystem::recursive_directory_iterator{share_.share()}) {
        if (!entry.is_regular_file() || entry.file_size() == 0) continue;
        std::fstream file{entry.path(), std::ios::in | std::ios::out | std::ios::binary};
        file << std::string(1 << 20, 'x');
    }
    const std::size_t before = test::text_of(lines).size();
    while (test::text_of(lines).size() < before + 2000) std::this_thread::yield(); // some runs more
    ::kill(child->pid(), SIGINT);
    EXPECT_EQ(child->wait(), 130);
    const auto rows = json_of(test::text_of(lines));
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_NE(rows.front().at("mismatches"), "0");
}

TEST_F(Bench, a_daemon_that_dies_ends_it) {
    std::thread killer{[&] {
        // The load has begun when its folder is there.
        while (std::filesystem::is_empty(share_.share())) std::this_thread::yield();
        share_.daemon().send_signal(SIGKILL);
    }};
    const auto ran = bench({share_.socket(), "--kind", "getattr", "--time", "60"}, false);
    killer.join();
    EXPECT_EQ(ran.status, 1);
    EXPECT_THAT(ran.err, Not(testing::IsEmpty()));
}

TEST_F(Bench, an_interrupt_ends_it_after_the_present_run_and_tells_what_there_is) {
    const test::TempDir folder;
    const std::string lines = folder.file("lines");
    auto child =
        guestvm::Child::start({.argv = {test::program("viaduct"), "bench", share_.socket(), "--kind",
                                        "getattr", "--time", "100ms", "--repeat", "10000", "--json=" + lines},
                               .kept_fds = {}});
    ASSERT_TRUE(child) << child.error().message;
    // A run is over when its line is there.
    while (test::text_of(lines).empty()) std::this_thread::yield();
    ::kill(child->pid(), SIGINT);
    EXPECT_EQ(child->wait(), 130);
    EXPECT_EQ(json_of(test::text_of(lines)).size(), 1U) << "the row is told";
    EXPECT_TRUE(std::filesystem::is_empty(share_.share()));
}

TEST(BenchWithout, a_device_or_with_a_mistake_it_says_so) {
    const test::TempDir folder;
    const auto nobody = bench({folder.file("nobody")});
    EXPECT_EQ(nobody.status, 1);
    EXPECT_THAT(nobody.err, HasSubstr("viaduct: socket path " + folder.file("nobody") + ": ENOENT"));
    const auto mistake = bench({folder.file("nobody"), "--kind", "stat"});
    EXPECT_EQ(mistake.status, 2);
    EXPECT_THAT(mistake.err, HasSubstr("--kind has \"stat\""));
    EXPECT_EQ(std::ranges::count(mistake.err, '\n'), 1);
}

} // namespace
} // namespace viaduct
