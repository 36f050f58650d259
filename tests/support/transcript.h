// SPDX-License-Identifier: Apache-2.0
//
// Transcript: what calls gave, line by line, so that a directory and its mount can be compared.
#pragma once

#include "base/fd.h"
#include "base/result.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <grp.h>
#include <string>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace viaduct::test {

class Transcript {
public:
    // A system call's result: negative is an error, whose name is noted.  Gives the result.
    template <class R> R call(const std::string& what, R result) {
        const int error = errno;
        line(what, result < 0 ? Errno{error}.name() : "done");
        return result;
    }
    // ... whose value counts as well.
    template <class R> R count(const std::string& what, R result) {
        const int error = errno;
        line(what, result < 0 ? Errno{error}.name() : std::to_string(result));
        return result;
    }
    void line(const std::string& what, const std::string& value) { text_ += what + ": " + value + "\n"; }
    void append(const std::string& lines) { text_ += lines; }
    const std::string& text() const noexcept { return text_; }

private:
    std::string text_;
};

// Type, mode, owners, links and size; or the error.
inline std::string status_text(const std::string& path) {
    struct stat st{};
    if (::lstat(path.c_str(), &st) != 0) return Errno{errno}.name();
    char text[128];
    std::snprintf(text, sizeof text, "%o %u:%u", st.st_mode, st.st_uid, st.st_gid);
    std::string result = text;
    if (!S_ISDIR(st.st_mode)) result += " x" + std::to_string(st.st_nlink) + " " + std::to_string(st.st_size);
    return result;
}

// What can be read of a file; a stream would throw at an error.
inline std::string contents_of(const std::string& path) {
    const Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    std::string text;
    char part[65536];
    for (ssize_t got = 0; file && (got = ::read(file.get(), part, sizeof part)) > 0;)
        text.append(part, static_cast<std::size_t>(got));
    return text;
}

// Everything below `root`, sorted by name: status_text(), and what is in it.
inline std::string tree_text(const std::string& root) {
    std::vector<std::string> lines;
    std::error_code error;
    for (const auto& entry : std::filesystem::recursive_directory_iterator{root, error}) {
        std::string line = entry.path().lexically_relative(root).string() + " " + status_text(entry.path());
        if (entry.is_symlink()) line += " -> " + std::filesystem::read_symlink(entry.path(), error).string();
        // Large ones are sparse: their ends are enough.
        if (!entry.is_symlink() && entry.is_regular_file() && entry.file_size() < (1U << 20U))
            line += " " + std::to_string(std::hash<std::string>{}(contents_of(entry.path())));
        lines.push_back(line);
    }
    std::ranges::sort(lines);
    std::string text;
    for (const auto& line : lines) text += line + "\n";
    return text;
}

struct User {
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups = {};
};
inline constexpr uid_t kNobody = 65534;

// Runs `steps` in a process of its own, as `user`; what it has noted.
inline std::string as_user(const User& user, const std::function<void(Transcript&)>& steps) {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) return "pipe: " + Errno{errno}.name() + "\n";
    const Fd reading{fds[0]};
    Fd writing{fds[1]};
    const pid_t pid = ::fork();
    if (pid < 0) return "fork: " + Errno{errno}.name() + "\n";
    if (pid == 0) {
        Transcript transcript;
        if (::setgroups(user.groups.size(), user.groups.data()) != 0 ||
            ::setresgid(user.gid, user.gid, user.gid) != 0 || ::setresuid(user.uid, user.uid, user.uid) != 0)
            transcript.line("becoming another user", Errno{errno}.name());
        else
            steps(transcript);
        const std::string& text = transcript.text();
        for (std::size_t done = 0; done < text.size();) {
            const ssize_t put = ::write(writing.get(), text.data() + done, text.size() - done);
            if (put < 0) break;
            done += static_cast<std::size_t>(put);
        }
        ::_exit(0);
    }
    writing.reset();
    std::string text;
    char part[4096];
    for (ssize_t got = 0; (got = ::read(reading.get(), part, sizeof part)) > 0;)
        text.append(part, static_cast<std::size_t>(got));
    int status = 0;
    ::waitpid(pid, &status, 0);
    return status == 0 ? text : text + "it died\n";
}

} // namespace viaduct::test
