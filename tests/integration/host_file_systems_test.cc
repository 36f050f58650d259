// SPDX-License-Identifier: Apache-2.0
//
// Shares on the file systems that hosts have: what calls give through a mount is what they give beside it, on
// the same file system.
#include "support/truth.h"
#include "support/waiting.h"

#include <linux/falloc.h>
#include <set>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

namespace viaduct::test {
namespace {

// The parameter is the file system's type.
class HostFileSystem : public testing::TestWithParam<const char*> {
protected:
    static constexpr std::size_t kImageBytes = 512U << 20U;

    void SetUp() override {
        if (const std::string reason = no_mounts_because(); !reason.empty()) GTEST_SKIP() << reason;
        ::umask(022);
        const Outcome<void> ready = prepare();
        if (!ready) GTEST_SKIP() << ready.error().message;
        ASSERT_TRUE(mounted.mount({"--cache", "never", "-o", "suid,dev,allow_other"}));
        native = mounted.in_share("native");
        through = mounted.in_mount("work");
        for (const auto& path : {native, through}) ASSERT_EQ(::mkdir(path.c_str(), 0777), 0);
    }
    void TearDown() override {
        if (!mount_line(mounted.mountpoint()).empty()) {
            EXPECT_TRUE(mounted.unmount());
            mounted.daemon().wait(kPatience); // its nodes keep the file system busy
        }
    }

    Outcome<void> prepare() {
        const std::string type = GetParam();
        if (type == "tmpfs") {
            TRY(plain_, Mount::tmpfs(mounted.share()));
        } else if (type == "overlay") {
            const auto& folder = mounted.folder();
            TRY(plain_, Mount::tmpfs(folder.make_folder("layers")));
            for (const char* const name : {"layers/lower", "layers/upper", "layers/scratch"})
                (void)folder.make_folder(name);
            folder.write("layers/lower/below", "from below");
            const std::string layers = "lowerdir=" + folder.file("layers/lower") +
                                       ",upperdir=" + folder.file("layers/upper") +
                                       ",workdir=" + folder.file("layers/scratch");
            if (::mount("overlay", mounted.share().c_str(), "overlay", 0, layers.c_str()) != 0)
                return failure("mount overlay", Errno{errno});
            overlay_ = std::make_unique<Overlay>(mounted.share());
        } else {
            const std::string image = mounted.folder().file("image");
            TRY_STATUS(make_image(image, type, kImageBytes));
            TRY(disk_, LoopMount::mount(image, mounted.share(), type));
        }
        return {};
    }
    bool is(std::string_view type) const { return type == GetParam(); }

    template <class Steps> void compare(Steps steps) {
        Transcript host;
        Transcript mount;
        steps(native, host);
        steps(through, mount);
        EXPECT_FALSE(host.text().empty());
        EXPECT_EQ(mount.text(), host.text());
        EXPECT_EQ(tree_text(through), tree_text(native));
    }

    struct Overlay {
        std::string path;
        explicit Overlay(std::string at) : path(std::move(at)) {}
        Overlay(const Overlay&) = delete;
        Overlay& operator=(const Overlay&) = delete;
        ~Overlay() {
            if (::umount2(path.c_str(), 0) != 0) ::umount2(path.c_str(), MNT_DETACH);
        }
    };

    std::unique_ptr<LoopMount> disk_;
    std::unique_ptr<Mount> plain_;
    std::unique_ptr<Overlay> overlay_;
    MountedShare mounted; // ends first
    std::string native;   // a folder of the share, used directly ...
    std::string through;  // ... and another one, used through the mount
};

class OverlayShare : public HostFileSystem {};
class UpperLayer : public HostFileSystem {};
std::string type_name(const testing::TestParamInfo<const char*>& type) {
    return type.param;
}
INSTANTIATE_TEST_SUITE_P(Types, HostFileSystem, testing::Values("ext4", "xfs", "btrfs", "tmpfs", "overlay"),
                         type_name);
INSTANTIATE_TEST_SUITE_P(Types, OverlayShare, testing::Values("overlay"), type_name);
// An overlay cannot be the upper layer of another.
INSTANTIATE_TEST_SUITE_P(Types, UpperLayer, testing::Values("ext4", "xfs", "btrfs", "tmpfs"), type_name);

TEST_P(HostFileSystem, files_names_and_attributes) {
    compare([](const std::string& folder, Transcript& transcript) {
        const auto at = [&](const char* name) { return folder + "/" + name; };
        transcript.line("write", put(at("a"), "text") ? "done" : Errno{errno}.name());
        transcript.call("mkdir", ::mkdir(at("dir").c_str(), 02775));
        transcript.call("link", ::link(at("a").c_str(), at("dir/b").c_str()));
        transcript.call("symlink", ::symlink("../a", at("dir/link").c_str()));
        transcript.call("fifo", ::mkfifo(at("fifo").c_str(), 0600));
        transcript.call("device", ::mknod(at("null").c_str(), S_IFCHR | 0666, ::makedev(1, 3)));
        transcript.call("chown", ::chown(at("dir").c_str(), 12, 34));
        transcript.call("inherits", ::mkdir(at("dir/sub").c_str(), 0755));
        transcript.line("write",
                        put(at("dir/sub/c"), std::string(70'000, 'c')) ? "done" : Errno{errno}.name());
        for (const unsigned flags :
             {0U, static_cast<unsigned>(RENAME_NOREPLACE), static_cast<unsigned>(RENAME_EXCHANGE),
              static_cast<unsigned>(RENAME_WHITEOUT)}) {
            transcript.line("write", put(at("from"), "from") && put(at("to"), "to!") ? "done" : "failed");
            transcript.call("rename " + std::to_string(flags),
                            ::renameat2(AT_FDCWD, at("from").c_str(), AT_FDCWD, at("to").c_str(), flags));
            transcript.line("from", status_text(at("from")));
            transcript.line("to", status_text(at("to")));
            ::unlink(at("from").c_str());
        }
        const Fd nameless{::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0640)};
        transcript.call("tmpfile", nameless.get());
        if (nameless) {
            const std::string self = "/proc/self/fd/" + std::to_string(nameless.get());
            transcript.call(
                "linkat", ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, at("named").c_str(), AT_SYMLINK_FOLLOW));
        }
        for (const char* const name : {"user.u", "trusted.t", "security.s", "system.x", "none.n"}) {
            transcript.call(name, ::setxattr(at("a").c_str(), name, "value", 5, 0));
            transcript.call(name, ::lsetxattr(at("dir/link").c_str(), name, "value", 5, 0));
            char value[64];
            transcript.count(name, ::lgetxattr(at("dir/link").c_str(), name, value, sizeof value));
            transcript.count(name, ::getxattr(at("dir").c_str(), name, value, sizeof value));
        }
        const std::string large(1U << 16U, 'x');
        transcript.call("large value",
                        ::setxattr(at("a").c_str(), "user.large", large.data(), large.size(), 0));
        struct statx st{};
        transcript.call("statx", ::statx(AT_FDCWD, at("a").c_str(), 0, STATX_BASIC_STATS, &st));
        transcript.line("blocks", std::to_string(st.stx_blocks > 0));
        struct statfs fs{};
        transcript.call("statfs", ::statfs(folder.c_str(), &fs));
        transcript.line("space", std::to_string(fs.f_blocks) + " of " + std::to_string(fs.f_bsize) +
                                     ", names " + std::to_string(fs.f_namelen));
    });
}

TEST_P(HostFileSystem, space_is_reserved_punched_and_cut) {
    compare([](const std::string& folder, Transcript& transcript) {
        constexpr off_t kBlock = 65536;
        const std::string path = folder + "/f";
        const Fd file{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)};
        for (int block = 0; block < 8; ++block) {
            const std::string text(kBlock, static_cast<char>('a' + block));
            transcript.count("write", ::pwrite(file.get(), text.data(), text.size(), block * kBlock));
        }
        struct Step {
            const char* name;
            int mode;
            off_t offset;
            off_t bytes;
        };
        const Step steps[] = {
            {"reserve", 0, 8 * kBlock, kBlock},
            {"reserve beyond the end", FALLOC_FL_KEEP_SIZE, 16 * kBlock, kBlock},
            {"punch", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kBlock, kBlock},
            {"punch parts of blocks", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 3 * kBlock + 100, 5000},
            {"punch without keeping the size", FALLOC_FL_PUNCH_HOLE, 0, kBlock},
            {"zero", FALLOC_FL_ZERO_RANGE, 4 * kBlock, kBlock},
            {"zero and grow", FALLOC_FL_ZERO_RANGE, 20 * kBlock, kBlock},
            {"unknown", 0x4000, 0, kBlock},
            {"nothing", 0, 0, 0},
            {"negative", 0, -1, 1},
        };
        for (const Step& step : steps) {
            transcript.call(step.name, ::fallocate(file.get(), step.mode, step.offset, step.bytes));
            transcript.line("state", status_text(path) + " " +
                                         std::to_string(std::hash<std::string>{}(contents_of(path))));
        }
        ::fsync(file.get());
        off_t at = 0;
        for (int turn = 0; turn < 20 && at >= 0; ++turn)
            at = transcript.count("extent", ::lseek(file.get(), at, turn % 2 == 0 ? SEEK_DATA : SEEK_HOLE));
        const Fd copy{::open((folder + "/copy").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)};
        off_t from = 3;
        off_t to = 0;
        transcript.count("copy", ::copy_file_range(file.get(), &from, copy.get(), &to, 300'000, 0));
        transcript.call("far beyond", ::ftruncate(file.get(), off_t{1} << 62));
        transcript.call("back", ::ftruncate(file.get(), 1000));
        transcript.call("syncfs", ::syncfs(file.get()));
    });
}

// Linux hands no server a fallocate that moves what lies behind.
TEST_P(HostFileSystem, space_cannot_be_taken_out_or_put_in) {
    ASSERT_TRUE(put(through + "/f", std::string(262'144, 'x')));
    const Fd file{::open((through + "/f").c_str(), O_RDWR | O_CLOEXEC)};
    for (const int mode : {FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE}) {
        EXPECT_EQ(::fallocate(file.get(), mode, 0, 65536), -1);
        EXPECT_EQ(errno, EOPNOTSUPP);
    }
}

// What is full on the host is full in the mount, and room made there is room here.
TEST_P(HostFileSystem, full_file_system_is_told_of) {
    if (is("overlay") || is("tmpfs")) {
        // As large as the host's memory otherwise.
        const std::string target = is("overlay") ? mounted.folder().file("layers") : mounted.share();
        ASSERT_EQ(::mount("tmpfs", target.c_str(), nullptr, MS_REMOUNT, "size=32m"), 0)
            << Errno{errno}.name();
    }
    const Fd file{::open((through + "/f").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)};
    ASSERT_TRUE(file);
    const Fd filler{::open((native + "/filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)};
    const std::string block(1U << 20U, 'x');
    for (std::size_t size = block.size(); size >= 4096; size /= 2)
        while (::write(filler.get(), block.data(), size) > 0) {
        }
    ASSERT_EQ(errno, ENOSPC);
    ssize_t written = 0;
    for (int turn = 0; turn < 64 && written >= 0; ++turn) {
        written = ::write(file.get(), block.data(), block.size());
        if (written >= 0 && ::fsync(file.get()) != 0) written = -1;
    }
    EXPECT_EQ(written, -1);
    EXPECT_EQ(errno, ENOSPC);
    EXPECT_EQ(::ftruncate(filler.get(), 0), 0);
    EXPECT_EQ(::fsync(filler.get()), 0);
    EXPECT_TRUE(wait_until([&] { return ::pwrite(file.get(), "text", 4, 0) == 4; }, kPatience));
    EXPECT_EQ(::fsync(file.get()), 0);
}

// File systems give a number that has become free to the next file.
TEST_P(HostFileSystem, file_that_gets_the_number_of_another_is_another_file) {
    const std::string name = mounted.in_share("work/f");
    std::set<ino_t> numbers;
    for (int turn = 0; turn < 50; ++turn) {
        const std::string text = "number " + std::to_string(turn);
        ASSERT_TRUE(put(name, text));
        struct stat st{};
        ASSERT_EQ(::stat(name.c_str(), &st), 0);
        numbers.insert(st.st_ino);
        const Fd held{::open((through + "/f").c_str(), O_RDONLY | O_CLOEXEC)};
        EXPECT_EQ(contents_of(through + "/f"), text);
        ASSERT_EQ(::unlink(name.c_str()), 0);
        ASSERT_TRUE(put(name, "next"));
        EXPECT_EQ(contents_of(through + "/f"), "next");
        char read[64]{};
        EXPECT_EQ(::pread(held.get(), read, sizeof read, 0), static_cast<ssize_t>(text.size()));
        EXPECT_EQ(read, text);
        ASSERT_EQ(::unlink(name.c_str()), 0);
        EXPECT_EQ(::access((through + "/f").c_str(), F_OK), -1);
    }
    if (is("ext4")) EXPECT_LT(numbers.size(), 50U); // the case is there
}

// A file of the lower layer becomes another one on the host with its first change; not for who uses it.
TEST_P(OverlayShare, file_that_is_copied_up_stays_the_same_file) {
    const std::string path = mounted.in_mount("below");
    const Fd reader{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    ASSERT_TRUE(reader);
    struct stat before{};
    ASSERT_EQ(::stat(path.c_str(), &before), 0);
    const Fd writer{::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)};
    ASSERT_TRUE(writer);
    EXPECT_EQ(::write(writer.get(), "!", 1), 1);
    struct stat after{};
    ASSERT_EQ(::stat(path.c_str(), &after), 0);
    EXPECT_EQ(after.st_ino, before.st_ino);
    EXPECT_EQ(contents_of(path), "from below!");
    EXPECT_EQ(::chmod(path.c_str(), 0600), 0);
    EXPECT_EQ(status_text(path), status_text(mounted.in_share("below")));
}

// The other way round: a layered file system whose upper layer lies on a share.
TEST_P(UpperLayer, share_can_be_the_upper_layer_of_an_overlay) {
    for (const char* const name : {"/upper", "/scratch"})
        ASSERT_EQ(::mkdir((through + name).c_str(), 0755), 0);
    const auto& folder = mounted.folder();
    (void)folder.make_folder("lower");
    (void)folder.make_folder("lower/dir");
    folder.write("lower/dir/below", "from below");
    folder.write("lower/gone", "x");
    const std::string point = folder.make_folder("merged");
    const std::string layers = "lowerdir=" + folder.file("lower") + ",upperdir=" + through +
                               "/upper,workdir=" + through + "/scratch";
    ASSERT_EQ(::mount("overlay", point.c_str(), "overlay", 0, layers.c_str()), 0) << Errno{errno}.name();
    {
        const Overlay overlay{point};
        EXPECT_TRUE(put(point + "/new", "new"));
        const Fd file{::open((point + "/dir/below").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)};
        ASSERT_TRUE(file) << Errno{errno}.name();
        EXPECT_EQ(::write(file.get(), "!", 1), 1);
        EXPECT_EQ(::unlink((point + "/gone").c_str()), 0);
        EXPECT_EQ(::rename((point + "/new").c_str(), (point + "/dir/moved").c_str()), 0);
        EXPECT_EQ(contents_of(point + "/dir/below"), "from below!");
        EXPECT_EQ(::access((point + "/gone").c_str(), F_OK), -1);
        EXPECT_EQ(contents_of(point + "/dir/moved"), "new");
    }
    // In the share itself: what was copied up, and the mark of what is gone.
    EXPECT_EQ(contents_of(mounted.in_share("work/upper/dir/below")), "from below!");
    struct stat st{};
    ASSERT_EQ(::lstat(mounted.in_share("work/upper/gone").c_str(), &st), 0);
    EXPECT_TRUE(S_ISCHR(st.st_mode));
    EXPECT_EQ(st.st_rdev, 0U);
}

// A part of the share that is bound to another place in it is reached by both paths, as what it is.
TEST_P(HostFileSystem, bound_folder_shows_what_it_stands_for) {
    ASSERT_TRUE(put(native + "/file", "text"));
    const std::string point = mounted.in_share("bound");
    ASSERT_EQ(::mkdir(point.c_str(), 0755), 0);
    const auto bound = Mount::bind(native, point);
    ASSERT_TRUE(bound) << bound.error().message;
    const std::string here = mounted.in_mount("bound/file");
    EXPECT_TRUE(wait_until([&] { return contents_of(here) == "text"; }, kPatience));
    ASSERT_TRUE(put(here, "changed"));
    EXPECT_EQ(contents_of(mounted.in_mount("native/file")), "changed");
    EXPECT_EQ(::link(here.c_str(), mounted.in_mount("native/other").c_str()), -1);
    EXPECT_EQ(errno, EXDEV); // as on the host
    EXPECT_EQ(::rename(here.c_str(), mounted.in_mount("bound/renamed").c_str()), 0);
    EXPECT_EQ(contents_of(native + "/renamed"), "changed");
}

} // namespace
} // namespace viaduct::test
