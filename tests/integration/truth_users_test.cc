// SPDX-License-Identifier: Apache-2.0
//
// Users, set-id bits, capabilities and ACLs in a mount, compared with the directory itself.
#include "support/truth.h"

#include <array>
#include <cstring>
#include <linux/capability.h>
#include <sys/xattr.h>

namespace viaduct::test {
namespace {

constexpr gid_t kGroup = 12345;

class TruthUsers : public Truth {};
INSTANTIATE_TEST_SUITE_P(Cache, TruthUsers, each_cache_mode(), cache_mode_name);

// Set-group-id without execution by the group is left out: whether it stays depends on the caller's other
// groups, of which the kernel tells a FUSE server nothing.
TEST_P(TruthUsers, set_id_bits_follow_owner_and_mode) {
    compare([](const std::string& folder, Transcript& transcript) {
        constexpr std::pair<uid_t, gid_t> kOwners[] = {{0, 0}, {0, -1},      {-1, 0},           {-1, -1},
                                                       {7, 8}, {-1, kGroup}, {kNobody, kNobody}};
        constexpr mode_t kModes[] = {06755, 04711, 02755, 06777, 01755, 0644};
        int number = 0;
        for (const User& user : {User{}, User{.uid = kNobody, .gid = kNobody},
                                 User{.uid = kNobody, .gid = kNobody, .groups = {kGroup}}}) {
            // What is done to a file, and to a directory.
            std::vector<std::pair<std::string, std::function<long(const std::string&)>>> steps;
            for (const mode_t mode : kModes) {
                const auto step = [&](const std::function<long(const std::string&)>& change,
                                      bool directories) {
                    const std::string name = folder + "/" + std::to_string(number++);
                    put(name, "x");
                    if (directories) ::mkdir((name + "d").c_str(), 0755);
                    for (const auto& path : {name, name + "d"}) {
                        ::chown(path.c_str(), kNobody, kGroup);
                        ::chmod(path.c_str(), mode | 0222);
                        if (path == name || directories) steps.emplace_back(path, change);
                    }
                };
                step([mode](const std::string& path) { return ::chmod(path.c_str(), mode | 02000); }, true);
                for (const auto& [uid, gid] : kOwners)
                    step([uid, gid](const std::string& path) { return ::chown(path.c_str(), uid, gid); },
                         true);
                step([](const std::string& path) { return ::truncate(path.c_str(), 1); }, false);
                for (const int flags : {O_WRONLY, O_WRONLY | O_TRUNC, O_WRONLY | O_APPEND}) {
                    const auto write = [flags](const std::string& path) {
                        const Fd file{::open(path.c_str(), flags | O_CLOEXEC)};
                        return file ? ::write(file.get(), "y", 1) : -1;
                    };
                    step(write, false);
                }
            }
            transcript.append(as_user(user, [&](Transcript& inner) {
                for (const auto& [path, change] : steps) inner.count("change", change(path));
            }));
            for (const auto& [path, change] : steps)
                transcript.line(path.substr(folder.size()), status_text(path));
        }
    });
}

TEST_P(TruthUsers, who_creates_a_file_may_use_it_whatever_its_mode) {
    compare([](const std::string& folder, Transcript& transcript) {
        transcript.append(as_user({.uid = kNobody, .gid = kNobody}, [&](Transcript& inner) {
            for (const mode_t mode : {0444, 0200, 0000, 0600, 0777}) {
                for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR, O_RDWR | O_APPEND, O_RDWR | O_TRUNC}) {
                    const std::string path =
                        folder + "/" + std::to_string(mode) + "-" + std::to_string(flags);
                    const Fd file{::open(path.c_str(), O_CREAT | O_EXCL | flags | O_CLOEXEC, mode)};
                    inner.line("create", file ? "done" : Errno{errno}.name());
                    inner.count("write", ::write(file.get(), "payload", 7));
                    char text[8]{};
                    inner.count("read", ::pread(file.get(), text, 7, 0));
                    inner.call("fchmod", ::fchmod(file.get(), mode));
                    inner.call("ftruncate", ::ftruncate(file.get(), 3));
                    inner.call("fsync", ::fsync(file.get()));
                    inner.line("status", status_text(path));
                    for (const int again : {O_RDONLY, O_WRONLY, O_RDWR})
                        inner.line("open again", Fd{::open(path.c_str(), again | O_CLOEXEC)}
                                                     ? "done"
                                                     : Errno{errno}.name());
                }
            }
        }));
    });
}

// By owner, by group, by one of the other groups, and not at all.
TEST_P(TruthUsers, directory_of_a_group_is_open_to_its_members) {
    compare([](const std::string& folder, Transcript& transcript) {
        const std::string shared = folder + "/shared";
        ::mkdir(shared.c_str(), 0700);
        for (const mode_t mode : {0770, 02770, 0750, 0700}) {
            ::chown(shared.c_str(), 4321, kGroup);
            ::chmod(shared.c_str(), mode);
            for (const User& user :
                 {User{.uid = kNobody, .gid = kNobody, .groups = {5, kGroup, 77}},
                  User{.uid = kNobody, .gid = kGroup}, User{.uid = kNobody, .gid = kNobody},
                  User{.uid = 4321, .gid = 4321}, User{}}) {
                transcript.append(as_user(user, [&](Transcript& inner) {
                    const auto at = [&](const char* name) { return shared + "/" + name; };
                    inner.call("mkdir", ::mkdir(at("dir").c_str(), 0755));
                    inner.line("write", put(at("file"), "1") ? "done" : Errno{errno}.name());
                    inner.call("symlink", ::symlink("t", at("link").c_str()));
                    inner.call("link", ::link(at("file").c_str(), at("hard").c_str()));
                    inner.call("mkfifo", ::mkfifo(at("pipe").c_str(), 0644));
                    inner.call("rename", ::rename(at("file").c_str(), at("file2").c_str()));
                    const Fd nameless{::open(shared.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
                    inner.line("nameless", nameless ? "done" : Errno{errno}.name());
                    for (const char* const name : {"dir", "file2", "link", "hard", "pipe"})
                        inner.line(name, status_text(at(name)));
                    inner.call("chmod", ::chmod(at("file2").c_str(), 0640));
                    inner.call("rmdir", ::rmdir(at("dir").c_str()));
                    for (const char* const name : {"file2", "link", "hard", "pipe"})
                        inner.call("unlink", ::unlink(at(name).c_str()));
                }));
            }
        }
    });
}

// Of its directory's group, by the first group, by one of the others, and not at all.
TEST_P(TruthUsers, set_group_id_is_kept_by_what_a_member_makes) {
    compare([](const std::string& folder, Transcript& transcript) {
        int number = 0;
        for (const mode_t mode : {02777, 0777}) {
            for (const User& user : {User{.uid = kNobody, .gid = kNobody, .groups = {5, kGroup}},
                                     User{.uid = kNobody, .gid = kGroup},
                                     User{.uid = kNobody, .gid = kNobody, .groups = {5}}, User{}}) {
                const std::string shared = folder + "/" + std::to_string(number++);
                ::mkdir(shared.c_str(), 0700);
                ::chown(shared.c_str(), 4321, kGroup);
                ::chmod(shared.c_str(), mode);
                const auto at = [&](const char* name) { return shared + "/" + name; };
                transcript.append(as_user(user, [&](Transcript& inner) {
                    ::umask(0);
                    inner.call("file", Fd{::open(at("file").c_str(), O_CREAT | O_WRONLY, 02755)}.get());
                    inner.call("mkdir", ::mkdir(at("dir").c_str(), 02755));
                    inner.call("mknod", ::mknod(at("pipe").c_str(), S_IFIFO | 02775, 0));
                    const Fd nameless{::open(shared.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 02750)};
                    struct stat st{};
                    inner.call("nameless", ::fstat(nameless.get(), &st));
                    inner.count("mode", st.st_mode);
                }));
                for (const char* const name : {"file", "dir", "pipe"})
                    transcript.line(name, status_text(at(name)));
            }
        }
    });
}

// As the kernel stores it: cap_net_bind_service, permitted and effective.
vfs_cap_data capability() {
    vfs_cap_data data{};
    data.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE;
    data.data[0].permitted = 1U << CAP_NET_BIND_SERVICE;
    return data;
}

TEST_P(TruthUsers, capability_of_a_program_is_lost_with_a_change) {
    ASSERT_NO_FATAL_FAILURE(start());
    const auto value = capability();
    ASSERT_TRUE(put(native + "/prog", "x"));
    if (::setxattr((native + "/prog").c_str(), "security.capability", &value, sizeof value, 0) != 0)
        GTEST_SKIP() << "file capabilities: " << Errno{errno}.name();
    ASSERT_TRUE(put(behind + "/prog", "x"));
    compare([&](const std::string& folder, Transcript& transcript) {
        const std::string path = folder + "/prog";
        const auto opened = [&](int flags, auto use) {
            const Fd file{::open(path.c_str(), flags | O_CLOEXEC)};
            return use(file.get());
        };
        const timespec times[2]{{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}};
        const std::pair<const char*, std::function<long()>> changes[] = {
            {"nothing", [] { return 0; }},
            {"read", [&] { return static_cast<long>(contents_of(path).size()); }},
            {"times", [&] { return ::utimensat(AT_FDCWD, path.c_str(), times, 0); }},
            {"mode", [&] { return ::chmod(path.c_str(), 0711); }},
            {"write", [&] { return opened(O_WRONLY, [](int fd) { return ::pwrite(fd, "x", 1, 5); }); }},
            {"append",
             [&] { return opened(O_WRONLY | O_APPEND, [](int fd) { return ::write(fd, "x", 1); }); }},
            {"truncate", [&] { return ::truncate(path.c_str(), 100); }},
            {"ftruncate", [&] { return opened(O_RDWR, [](int fd) { return ::ftruncate(fd, 50); }); }},
            {"emptied", [&] { return opened(O_WRONLY | O_TRUNC, [](int) { return 0; }); }},
            {"allocate", [&] { return opened(O_RDWR, [](int fd) { return ::fallocate(fd, 0, 0, 8192); }); }},
            {"owner", [&] { return ::chown(path.c_str(), 0, 0); }},
            {"owner of nobody", [&] { return ::chown(path.c_str(), kNobody, kNobody); }},
            {"another name", [&] { return ::rename(path.c_str(), path.c_str()); }},
        };
        for (const auto& [what, change] : changes) {
            put(path, std::string(3000, '#'));
            transcript.call("set", ::setxattr(path.c_str(), "security.capability", &value, sizeof value, 0));
            transcript.call(what, change());
            std::array<std::byte, 64> read{};
            const ssize_t bytes = ::getxattr(path.c_str(), "security.capability", read.data(), read.size());
            transcript.count("capability", bytes);
            transcript.line(
                "the same",
                bytes == sizeof value && std::memcmp(read.data(), &value, sizeof value) == 0 ? "yes" : "no");
        }
    });
}

// A list as setfacl(1) stores it: version, and entries of tag, permission and id.
std::string acl(std::initializer_list<std::array<std::uint32_t, 3>> entries) {
    std::string value("\2\0\0\0", 4);
    for (const auto& [tag, permission, id] : entries) {
        const std::uint16_t shorts[2]{static_cast<std::uint16_t>(tag),
                                      static_cast<std::uint16_t>(permission)};
        value.append(reinterpret_cast<const char*>(shorts), sizeof shorts);
        value.append(reinterpret_cast<const char*>(&id), sizeof id);
    }
    return value;
}

TEST_P(TruthUsers, default_acl_decides_instead_of_the_umask) {
    constexpr std::uint32_t kNoId = UINT32_MAX;
    const std::string rights = acl({{1, 7, kNoId}, {2, 7, 1}, {4, 7, kNoId}, {16, 7, kNoId}, {32, 5, kNoId}});
    ASSERT_NO_FATAL_FAILURE(start({"--posix-acl"}));
    if (::setxattr(native.c_str(), "system.posix_acl_default", rights.data(), rights.size(), 0) != 0)
        GTEST_SKIP() << "the file system of the temporary folder has no ACLs: " << Errno{errno}.name();
    ASSERT_EQ(::setxattr(through.c_str(), "system.posix_acl_default", rights.data(), rights.size(), 0), 0)
        << Errno{errno}.name();
    compare([&](const std::string& folder, Transcript& transcript) {
        for (const mode_t mask : {022, 077, 0}) {
            const mode_t before = ::umask(mask);
            for (const mode_t mode : {0666, 0640, 0777}) {
                const std::string name = folder + "/" + std::to_string(mask) + "-" + std::to_string(mode);
                put(name + "file", "", mode);
                transcript.call("mkdir", ::mkdir((name + "dir").c_str(), mode));
                transcript.call("mkfifo", ::mkfifo((name + "fifo").c_str(), mode));
                for (const auto& path : {name + "file", name + "dir", name + "fifo"}) {
                    transcript.line("status", status_text(path));
                    char value[256];
                    transcript.count(
                        "access", ::getxattr(path.c_str(), "system.posix_acl_access", value, sizeof value));
                    transcript.count(
                        "default", ::getxattr(path.c_str(), "system.posix_acl_default", value, sizeof value));
                }
            }
            ::umask(before);
        }
    });
}

} // namespace
} // namespace viaduct::test
