// SPDX-License-Identifier: Apache-2.0
#include "guestvm/machine.h"

#include "guestvm/process.h"
#include "guestvm/trailer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

namespace viaduct::guestvm {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::size_t kTailMax = 64 * 1024;
constexpr std::string_view kPanic = "Kernel panic - not syncing: ";

struct SocketPair {
    Fd ours;
    Fd theirs;
};

Outcome<SocketPair> socket_pair() {
    std::array<int, 2> fds;
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) < 0)
        return failure("socketpair", Errno{errno});
    SocketPair pair{.ours = Fd{fds[0]}, .theirs = Fd{fds[1]}};
    // Only our end: O_NONBLOCK is a property of each end.
    if (::fcntl(pair.ours.get(), F_SETFL, O_NONBLOCK) < 0) return failure("fcntl", Errno{errno});
    return pair;
}

bool readable(FdRef fd) {
    pollfd event{.fd = fd.get(), .events = POLLIN, .revents = 0};
    return ::poll(&event, 1, 0) > 0;
}

std::string last_line(std::string_view text) {
    while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
    return std::string{text.substr(text.rfind('\n') + 1)};
}

// One output stream of the guest on its way to a file of the caller.
struct Stream {
    Fd source;
    int sink;
    TrailerFilter filter;
    std::string pending = {};

    bool done() const noexcept { return filter.complete() && pending.empty(); }
};

class Machine {
public:
    Machine(const GuestOptions& options, const std::string& trailer, const MachineLimits& limits,
            const SignalGuard& signals)
        : options_(options), limits_(limits), signals_(signals),
          hello_deadline_(Clock::now() + limits.hello_limit), started_(Clock::now()),
          output_{.source = Fd{}, .sink = options.stdout_fd, .filter = TrailerFilter{trailer}},
          errors_{.source = Fd{}, .sink = options.stderr_fd, .filter = TrailerFilter{trailer}} {}

    Outcome<void> start(QemuPlan plan);
    MachineEnd run();

private:
    void one_round();
    void take_console();
    void take_control();
    void take_line(std::string_view line);
    void take_output(Stream& stream);
    void give_output(Stream& stream);
    void pass_stdin(short stdin_events);
    void qemu_ended();
    void check_deadlines();
    void show_progress();
    void erase_progress();
    void finish(MachineEnd end) {
        if (!end_) end_ = std::move(end);
    }
    void fail_with(std::string sentence, int status = kStatusOurs) {
        finish({.kind = MachineEnd::Kind::failed, .status = status, .sentence = std::move(sentence)});
    }
    std::string panic_line() const;
    // What there is to read now; "" with `ended` set at the end of file.
    std::string read_some(Fd& from, bool& ended);

    const GuestOptions& options_;
    const MachineLimits limits_;
    const SignalGuard& signals_;
    const Clock::time_point hello_deadline_;
    const Clock::time_point started_;

    std::optional<Child> qemu_;
    Fd control_;
    Fd input_;
    Fd console_;
    Fd qemu_errors_;
    Stream output_;
    Stream errors_;

    std::string control_text_;
    std::string console_tail_;
    std::string qemu_tail_;
    std::string input_pending_;
    bool stdin_open_ = false;
    bool hello_ = false;
    std::optional<int> command_status_;
    std::optional<std::chrono::seconds> progress_shown_;
    std::optional<MachineEnd> end_;
};

Outcome<void> Machine::start(QemuPlan plan) {
    TRY(auto control, socket_pair());
    TRY(auto input, socket_pair());
    TRY(auto output, socket_pair());
    TRY(auto errors, socket_pair());
    TRY(auto console, socket_pair());
    TRY(auto qemu_errors, socket_pair());
    plan.port_fds[0] = control.theirs.get();
    plan.port_fds[1] = input.theirs.get();
    plan.port_fds[2] = output.theirs.get();
    plan.port_fds[3] = errors.theirs.get();
    plan.console_fd = console.theirs.get();
    TRY(qemu_, Child::start({.argv = qemu_command(plan),
                             .stdin_fd = -1,
                             .stdout_fd = qemu_errors.theirs.get(),
                             .stderr_fd = qemu_errors.theirs.get(),
                             .kept_fds = {plan.port_fds[0], plan.port_fds[1], plan.port_fds[2],
                                          plan.port_fds[3], plan.console_fd}}));
    control_ = std::move(control.ours);
    input_ = std::move(input.ours);
    output_.source = std::move(output.ours);
    errors_.source = std::move(errors.ours);
    console_ = std::move(console.ours);
    qemu_errors_ = std::move(qemu_errors.ours);
    stdin_open_ = options_.pass_stdin;
    return {};
}

MachineEnd Machine::run() {
    while (!end_) one_round();
    erase_progress();
    // After the command nothing is mounted any more.  QEMU stops the device on SIGTERM, for which it needs
    // the daemon's answer; when something is wrong already it is not worth waiting long.
    qemu_->end(end_->kind == MachineEnd::Kind::exited ? 15s : 1s);
    return *std::move(end_);
}

void Machine::one_round() {
    enum {
        qemu,
        signal,
        daemon,
        console,
        control,
        qemu_text,
        out,
        err,
        out_sink,
        err_sink,
        in,
        in_source,
        count
    };
    std::array<pollfd, count> events;
    const auto watch = [&events](int slot, int fd, short what) {
        events[static_cast<std::size_t>(slot)] = {.fd = what != 0 ? fd : -1, .events = what, .revents = 0};
    };
    const auto happened = [&events](int slot) { return events[static_cast<std::size_t>(slot)].revents; };
    // A stream is read only when what came before has been passed on: a slow reader slows the guest.
    const auto source_events = [](const Stream& stream) -> short {
        return stream.pending.empty() ? POLLIN : 0;
    };
    const auto sink_events = [](const Stream& stream) -> short {
        return stream.pending.empty() ? 0 : POLLOUT;
    };
    watch(qemu, qemu_->pidfd().get(), POLLIN);
    watch(signal, signals_.fd().get(), POLLIN);
    watch(daemon, options_.daemon_pidfd ? options_.daemon_pidfd->get() : -1, POLLIN);
    watch(console, console_.get(), POLLIN);
    watch(control, control_.get(), POLLIN);
    watch(qemu_text, qemu_errors_.get(), POLLIN);
    watch(out, output_.source.get(), source_events(output_));
    watch(err, errors_.source.get(), source_events(errors_));
    watch(out_sink, output_.sink, sink_events(output_));
    watch(err_sink, errors_.sink, sink_events(errors_));
    watch(in, input_.get(), input_pending_.empty() ? 0 : POLLOUT);
    watch(in_source, options_.stdin_fd, stdin_open_ && hello_ && input_pending_.empty() ? POLLIN : 0);

    const auto next = std::min({limits_.deadline, hello_ ? Clock::time_point::max() : hello_deadline_,
                                Clock::now() + (hello_ ? 60s : 1s)});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
    if (::poll(events.data(), events.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0))) < 0 &&
        errno != EINTR)
        return fail_with("poll: " + Errno{errno}.text());

    if (happened(console)) take_console();
    if (bool ended = false; happened(qemu_text)) {
        qemu_tail_ += read_some(qemu_errors_, ended);
        if (qemu_tail_.size() > kTailMax) qemu_tail_.erase(0, qemu_tail_.size() - kTailMax / 2);
    }
    if (happened(out)) take_output(output_);
    if (happened(err)) take_output(errors_);
    if (happened(out_sink)) give_output(output_);
    if (happened(err_sink)) give_output(errors_);
    if (happened(control)) take_control();
    pass_stdin(happened(in_source));
    if (command_status_ && output_.done() && errors_.done())
        return finish({.kind = MachineEnd::Kind::exited, .status = *command_status_, .sentence = {}});
    if (happened(qemu)) qemu_ended();
    if (happened(daemon)) fail_with("the daemon ended while the guest was running");
    if (signalfd_siginfo info;
        happened(signal) && ::read(signals_.fd().get(), &info, sizeof info) == sizeof info)
        fail_with("ended by signal " + std::to_string(info.ssi_signo),
                  128 + static_cast<int>(info.ssi_signo));
    check_deadlines();
}

std::string Machine::read_some(Fd& from, bool& ended) {
    std::string text(64 * 1024, '\0');
    const ssize_t got = ::read(from.get(), text.data(), text.size());
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        ended = true;
        from.reset(); // poll ignores it from now on
    }
    return text;
}

void Machine::take_console() {
    bool ended = false;
    const std::string text = read_some(console_, ended);
    if (options_.console) errors_.pending += text;
    console_tail_ += text;
    if (console_tail_.size() > kTailMax) console_tail_.erase(0, console_tail_.size() - kTailMax / 2);
    if (const std::string line = panic_line(); !line.empty())
        fail_with("the guest's kernel panicked: " + line);
}

// The reason of a panic, once its line is complete.
std::string Machine::panic_line() const {
    const auto at = console_tail_.find(kPanic);
    const auto end = at == std::string::npos ? at : console_tail_.find_first_of("\r\n", at);
    if (end == std::string::npos) return {};
    const auto begin = at + kPanic.size();
    return console_tail_.substr(begin, end - begin);
}

void Machine::take_control() {
    bool ended = false;
    control_text_ += read_some(control_, ended);
    for (auto end = control_text_.find('\n'); end != std::string::npos; end = control_text_.find('\n')) {
        take_line(std::string_view{control_text_}.substr(0, end));
        control_text_.erase(0, end + 1);
    }
}

void Machine::take_line(std::string_view line) {
    if (line.starts_with("hello ")) {
        hello_ = true;
        erase_progress();
    } else if (line.starts_with("fail ")) {
        fail_with(std::string{line.substr(5)});
    } else if (line.starts_with("exit ")) {
        int status = 0;
        const auto [end, error] = std::from_chars(line.data() + 5, line.data() + line.size(), status);
        if (error == std::errc{}) command_status_ = status;
    }
}

void Machine::take_output(Stream& stream) {
    bool ended = false;
    stream.filter.feed(read_some(stream.source, ended), stream.pending);
}

void Machine::give_output(Stream& stream) {
    // POLLOUT promises room for PIPE_BUF bytes of a pipe: this much does not block.
    const std::size_t bytes = std::min<std::size_t>(stream.pending.size(), 4096);
    const ssize_t written = ::write(stream.sink, stream.pending.data(), bytes);
    if (written >= 0) {
        stream.pending.erase(0, static_cast<std::size_t>(written));
    } else if (errno == EPIPE) {
        fail_with("nobody reads the command's output any more", 128 + SIGPIPE);
    } else if (errno != EAGAIN && errno != EINTR) {
        fail_with("cannot write the command's output: " + Errno{errno}.text());
    }
}

void Machine::pass_stdin(short stdin_events) {
    if (stdin_events != 0) {
        std::array<char, 16 * 1024> buffer;
        const ssize_t got = ::read(options_.stdin_fd, buffer.data(), buffer.size());
        if (got > 0) input_pending_.assign(buffer.data(), static_cast<std::size_t>(got));
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
            stdin_open_ = false;
            // Not close(): on a hang-up QEMU drops what it has not read yet.
            ::shutdown(input_.get(), SHUT_WR);
        }
    }
    if (input_pending_.empty() || !input_) return;
    const ssize_t written = ::send(input_.get(), input_pending_.data(), input_pending_.size(), MSG_NOSIGNAL);
    if (written >= 0)
        input_pending_.erase(0, static_cast<std::size_t>(written));
    else if (errno != EAGAIN && errno != EINTR)
        input_pending_.clear(); // the guest is gone; the rest of the loop notices
}

void Machine::qemu_ended() {
    // What it wrote before is still in the sockets.
    while (console_ && readable(console_)) take_console();
    while (control_ && readable(control_)) take_control();
    for (Stream* const stream : {&output_, &errors_})
        while (!end_ && stream->source && readable(stream->source)) {
            take_output(*stream);
            while (!end_ && !stream->pending.empty()) give_output(*stream);
        }
    if (end_) return;
    if (command_status_ && output_.done() && errors_.done())
        return finish({.kind = MachineEnd::Kind::exited, .status = *command_status_, .sentence = {}});
    bool ended = false;
    while (!ended && qemu_errors_) {
        const std::string text = read_some(qemu_errors_, ended);
        if (text.empty()) break;
        qemu_tail_ += text;
    }
    std::string sentence = "QEMU ended (status " + std::to_string(qemu_->wait()) + ") before the command did";
    if (const std::string line = last_line(qemu_tail_); !line.empty()) sentence += ": " + line;
    if (!hello_ && limits_.may_fall_back)
        return finish({.kind = MachineEnd::Kind::no_kvm, .sentence = std::move(sentence)});
    fail_with(std::move(sentence));
}

void Machine::check_deadlines() {
    const auto now = Clock::now();
    if (end_) return;
    if (now >= limits_.deadline)
        return fail_with("the guest did not finish within " + std::to_string(options_.timeout.count()) + " s",
                         kStatusTimeout);
    if (hello_) return;
    if (now < hello_deadline_) return show_progress();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limits_.hello_limit).count();
    std::string sentence = "the guest gave no sign of life in " + std::to_string(seconds) + " s";
    if (limits_.may_fall_back)
        return finish({.kind = MachineEnd::Kind::no_kvm, .sentence = std::move(sentence)});
    if (const std::string line = last_line(console_tail_); !line.empty())
        sentence += "; last on its console: " + line;
    fail_with(std::move(sentence));
}

void Machine::show_progress() {
    if (options_.console || ::isatty(options_.stderr_fd) == 0) return;
    const auto elapsed = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - started_);
    if (progress_shown_ == elapsed) return;
    progress_shown_ = elapsed;
    errors_.pending += "\r\033[Kbooting the guest … " + std::to_string(elapsed.count()) + " s";
}

void Machine::erase_progress() {
    if (!progress_shown_) return;
    progress_shown_.reset();
    constexpr std::string_view erase = "\r\033[K";
    [[maybe_unused]] const auto written = ::write(options_.stderr_fd, erase.data(), erase.size());
}

} // namespace

SignalGuard::SignalGuard() {
    sigset_t taken;
    sigemptyset(&taken);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&taken, number);
    fd_ = Fd{::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK)};
    sigaddset(&taken, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &taken, &previous_);
}

SignalGuard::~SignalGuard() {
    // A SIGPIPE that came while it was blocked has been answered by EPIPE.
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    const timespec now{};
    while (!sigismember(&previous_, SIGPIPE) && ::sigtimedwait(&pipe, nullptr, &now) > 0) {
    }
    ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

MachineEnd run_machine(QemuPlan plan, const GuestOptions& options, const std::string& trailer,
                       const MachineLimits& limits, const SignalGuard& signals) {
    Machine machine{options, trailer, limits, signals};
    if (const auto started = machine.start(std::move(plan)); !started)
        return {.kind = MachineEnd::Kind::failed, .status = kStatusOurs, .sentence = started.error().message};
    return machine.run();
}

} // namespace viaduct::guestvm
