// SPDX-License-Identifier: Apache-2.0
//
// Which change takes set-id bits and file capabilities away, by whom: a mount compared with the directory
// itself.
#include "support/truth.h"

#include <array>
#include <linux/capability.h>
#include <sys/xattr.h>

namespace viaduct::test {
namespace {

constexpr gid_t kGroup = 12345;
constexpr const char* kCapability = "security.capability";

struct Change {
    const char* name;
    std::function<long(const std::string& path)> make;
};

template <class Use> long opened(const std::string& path, int flags, Use use) {
    const Fd file{::open(path.c_str(), flags | O_CLOEXEC, 0600)};
    return file ? use(file.get()) : -1;
}

const std::vector<Change>& changes() {
    static const std::vector<Change> all{
        {"open", [](const auto& path) { return opened(path, O_RDWR, [](int) { return 0; }); }},
        {"open, cut",
         [](const auto& path) { return opened(path, O_WRONLY | O_TRUNC, [](int) { return 0; }); }},
        {"open or create, cut",
         [](const auto& path) { return opened(path, O_WRONLY | O_CREAT | O_TRUNC, [](int) { return 0; }); }},
        {"write",
         [](const auto& path) {
             return opened(path, O_WRONLY, [](int fd) { return ::pwrite(fd, "y", 1, 1); });
         }},
        {"append",
         [](const auto& path) {
             return opened(path, O_WRONLY | O_APPEND, [](int fd) { return ::write(fd, "y", 1); });
         }},
        {"write, synced",
         [](const auto& path) {
             return opened(path, O_WRONLY | O_SYNC, [](int fd) { return ::pwrite(fd, "y", 1, 1); });
         }},
        {"truncate", [](const auto& path) { return ::truncate(path.c_str(), 1); }},
        {"truncate to the size it has", [](const auto& path) { return ::truncate(path.c_str(), 4); }},
        {"ftruncate",
         [](const auto& path) { return opened(path, O_WRONLY, [](int fd) { return ::ftruncate(fd, 1); }); }},
        {"fallocate",
         [](const auto& path) {
             return opened(path, O_WRONLY, [](int fd) { return ::fallocate(fd, 0, 0, 8192); });
         }},
        {"fallocate behind the end",
         [](const auto& path) {
             return opened(path, O_WRONLY,
                           [](int fd) { return ::fallocate(fd, FALLOC_FL_KEEP_SIZE, 8192, 4096); });
         }},
        {"punch",
         [](const auto& path) {
             return opened(path, O_WRONLY, [](int fd) {
                 return ::fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, 4096);
             });
         }},
        {"copy_file_range",
         [](const auto& path) {
             return opened(path + "-source", O_RDONLY, [&](int from) {
                 return opened(path, O_WRONLY,
                               [&](int to) { return ::copy_file_range(from, nullptr, to, nullptr, 4, 0); });
             });
         }},
        {"chown to nobody in particular", [](const auto& path) { return ::chown(path.c_str(), -1, -1); }},
        {"chown to the owner it has", [](const auto& path) { return ::chown(path.c_str(), kNobody, -1); }},
        {"chown to a group", [](const auto& path) { return ::chown(path.c_str(), -1, kNobody); }},
        {"chmod", [](const auto& path) { return ::chmod(path.c_str(), 06777); }},
        {"times", [](const auto& path) { return ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }},
        {"attribute", [](const auto& path) { return ::setxattr(path.c_str(), "user.x", "v", 1, 0); }},
    };
    return all;
}

bool give_capability(const std::string& path) {
    vfs_cap_data data{};
    data.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE;
    data.data[0].permitted = 1U << CAP_NET_BIND_SERVICE;
    return ::setxattr(path.c_str(), kCapability, &data, sizeof data, 0) == 0;
}

struct Start {
    User user;
    gid_t group; // of the file, whose owner is nobody
    mode_t mode;
    bool capability;
};

class TruthPrivileges : public Truth {
protected:
    // Each change to a file of its own, and what is left of its bits and its capability.
    void compare_from(const std::vector<Start>& starts) {
        ASSERT_NO_FATAL_FAILURE(start());
        for (const Start& from : starts) {
            const auto wanted = outcomes(native, from);
            const auto got = outcomes(through, from);
            ASSERT_EQ(got.size(), wanted.size());
            for (std::size_t index = 0; index < changes().size(); ++index) {
                EXPECT_EQ(got[index], wanted[index])
                    << changes()[index].name << " by " << from.user.uid << ":" << from.user.gid
                    << " of a file of group " << from.group << ", mode " << std::oct << from.mode
                    << (from.capability ? ", with a capability" : "");
            }
            ++round_;
        }
    }

private:
    std::vector<std::string> outcomes(const std::string& folder, const Start& from) const {
        const std::string below = folder + "/" + std::to_string(round_) + "-";
        const auto path_of = [&](std::size_t index) { return below + std::to_string(index); };
        for (std::size_t index = 0; index < changes().size(); ++index) {
            const std::string path = path_of(index);
            put(path + "-source", "copy");
            put(path, "four");
            EXPECT_EQ(::chown(path.c_str(), kNobody, from.group), 0);
            EXPECT_EQ(::chmod(path.c_str(), from.mode), 0);
            if (from.capability) EXPECT_TRUE(give_capability(path));
        }
        const std::string results = as_user(from.user, [&](Transcript& inner) {
            for (std::size_t index = 0; index < changes().size(); ++index)
                inner.count("gave", changes()[index].make(path_of(index)));
        });
        std::vector<std::string> all;
        for (std::size_t index = 0, at = 0; index < changes().size(); ++index) {
            const std::size_t end = results.find('\n', at);
            const std::string path = path_of(index);
            const ssize_t bytes = ::getxattr(path.c_str(), kCapability, nullptr, 0);
            all.push_back(results.substr(at, end - at) + ", left " + status_text(path) +
                          (bytes > 0 ? " and a capability" : ""));
            at = end + 1;
        }
        return all;
    }

    int round_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Cache, TruthPrivileges, each_cache_mode(), cache_mode_name);

// Left out: what root does to a file with both set-id bits and a capability, and a stranger's chown(2) of
// neither owner nor group.  What the kernel asks then is what it asks when an ordinary user writes.
TEST_P(TruthPrivileges, of_a_file_go_with_the_same_changes) {
    std::vector<Start> starts;
    for (const mode_t mode : {04777, 02777, 06766, 02767, 0777}) {
        starts.push_back({{}, kGroup, mode, mode == 0777});
        for (const gid_t gid : {kNobody, kGroup}) {
            starts.push_back({{.uid = kNobody, .gid = gid}, kGroup, mode, false});
            starts.push_back({{.uid = kNobody, .gid = gid}, kGroup, mode, true});
        }
    }
    compare_from(starts);
}

// A server may be of root's group itself.
TEST_P(TruthPrivileges, of_a_file_of_root_s_group_go_with_the_same_changes) {
    std::vector<Start> starts;
    for (const mode_t mode : {02777, 02767}) {
        starts.push_back({{.uid = kNobody, .gid = kNobody}, 0, mode, false});
        starts.push_back({{}, 0, mode, false});
    }
    compare_from(starts);
}

} // namespace
} // namespace viaduct::test
