// SPDX-License-Identifier: Apache-2.0
#include "guestvm/kernel.h"

#include "base/fd.h"
#include "guestvm/files.h"
#include "guestvm/process.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <sys/stat.h>

namespace viaduct::guestvm {
namespace {

namespace stdfs = std::filesystem;

constexpr std::string_view kHowToGet = "; `make deps-test` fetches one (or install linux-image-cloud-amd64)";

// A file mapped for reading.
class Mapping {
public:
    static Outcome<Mapping> open(const std::string& path) {
        const Fd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
        struct stat status;
        if (!fd || ::fstat(fd.get(), &status) < 0) return failure("kernel " + path, Errno{errno});
        if (!S_ISREG(status.st_mode) || status.st_size == 0)
            return failure("kernel " + path + " is not a file with something in it");
        const auto bytes = static_cast<std::size_t>(status.st_size);
        void* const address = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
        if (address == MAP_FAILED) return failure("kernel " + path, Errno{errno});
        const std::string key = std::to_string(status.st_size) + "-" + std::to_string(status.st_mtim.tv_sec) +
                                "." + std::to_string(status.st_mtim.tv_nsec);
        return Mapping{{static_cast<const char*>(address), bytes}, key};
    }
    Mapping(Mapping&& other) noexcept : text_(std::exchange(other.text_, {})), key_(std::move(other.key_)) {}
    Mapping& operator=(Mapping&&) = delete;
    ~Mapping() {
        if (!text_.empty()) ::munmap(const_cast<char*>(text_.data()), text_.size());
    }
    std::string_view text() const noexcept { return text_; }
    // Changes when the file does.
    const std::string& key() const noexcept { return key_; }

private:
    Mapping(std::string_view text, std::string key) noexcept : text_(text), key_(std::move(key)) {}
    std::string_view text_;
    std::string key_;
};

template <class T> T little_endian_at(std::string_view image, std::size_t offset) {
    T value{};
    if (offset + sizeof value <= image.size()) std::memcpy(&value, image.data() + offset, sizeof value);
    return value;
}

bool is_bzimage(std::string_view image) {
    return image.size() > 0x250 && image.substr(0x202, 4) == "HdrS";
}

std::string image_in(const std::string& path) {
    if (!stdfs::is_directory(path)) return path;
    for (const char* const name : {"/vmlinux", "/vmlinuz"})
        if (exists(path + name)) return path + name;
    return path + "/vmlinuz";
}

// The candidate with the highest version in its name.
void keep_newest(std::string& best, const std::string& candidate) {
    const auto version = [](const std::string& path) {
        const auto digit = path.find_first_of("0123456789", path.rfind('/') + 1);
        return digit == std::string::npos ? std::string{} : path.substr(digit);
    };
    if (best.empty() || ::strverscmp(version(candidate).c_str(), version(best).c_str()) > 0) best = candidate;
}

std::string newest_image(const KernelSearch& search) {
    std::error_code error;
    for (const std::string& folder : search.folders) {
        std::string best;
        for (const auto& entry : stdfs::directory_iterator{folder, error})
            if (exists(image_in(entry.path().string())) && entry.is_directory(error))
                keep_newest(best, entry.path().string());
        if (!best.empty()) return image_in(best);
    }
    std::string best;
    for (const auto& entry : stdfs::directory_iterator{search.boot, error})
        if (entry.path().filename().string().starts_with("vmlinuz-"))
            keep_newest(best, entry.path().string());
    return best;
}

// Modules of `release` for the kernel at `image`: beside it, a level up (…/boot/vmlinuz), or installed.
std::string modules_of(const std::string& image, const std::string& release) {
    const std::string beside = stdfs::path{image}.parent_path().string();
    for (const char* const base : {"/", "/../"}) {
        std::string folder = beside;
        folder.append(base).append("lib/modules/").append(release);
        if (exists(folder + "/modules.dep")) return folder;
    }
    std::string installed = "/lib/modules/" + release;
    if (exists(installed + "/modules.dep")) return installed;
    return {};
}

Status run_filter(const std::vector<std::string>& argv, const std::string& from, const std::string& to) {
    const Fd input{::open(from.c_str(), O_RDONLY | O_CLOEXEC)};
    const Fd output{::open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    if (!input || !output) return fail(errno);
    auto child = Child::start(
        {.argv = argv, .stdin_fd = input.get(), .stdout_fd = output.get(), .stderr_fd = -1, .kept_fds = {}});
    if (!child) return fail(ENOENT);
    if (child->wait() != 0) return fail(EIO);
    return {};
}

// The uncompressed kernel of a bzImage, from the cache or into it.
Outcome<std::string> extract(const std::string& path, const Mapping& image, const KernelSearch& search) {
    const std::string release = kernel_release(image.text());
    const std::string folder = search.cache.empty() ? search.scratch : search.cache;
    const std::string name = "vmlinux-" + release + "-" + image.key();
    std::string result = folder + "/" + name;
    if (exists(result)) return result;

    TRY(const Payload payload, find_payload(image.text()));
    const std::string& program = payload.decompress.front();
    if (!find_program(program))
        return failure(program + " is missing, which unpacks the kernel " + path +
                       "; install the Debian package " + payload.package);
    const std::string mine = folder + "/.new-" + std::to_string(::getpid());
    const std::string packed = mine + ".packed";
    const std::string unpacked = mine + ".unpacked";
    auto status = write_file(packed, image.text().substr(payload.offset, payload.bytes));
    if (status) status = run_filter(payload.decompress, packed, unpacked);
    ::unlink(packed.c_str());
    // The name appears with the complete file: runs beside this one may use it.
    if (status && ::rename(unpacked.c_str(), result.c_str()) < 0) status = fail(errno);
    if (!status) {
        ::unlink(unpacked.c_str());
        return failure("cannot unpack the kernel " + path + " with " + program, status.error());
    }
    // Others of this release came from a file that has been replaced.
    std::error_code ignored;
    for (const auto& entry : stdfs::directory_iterator{folder, ignored})
        if (const std::string other = entry.path().filename().string();
            other.starts_with("vmlinux-" + release + "-") && other != name)
            stdfs::remove(entry.path(), ignored);
    return result;
}

} // namespace

KernelSearch default_kernel_search() {
    KernelSearch search;
    if (const char* const named = std::getenv("VIADUCT_KERNEL"); named != nullptr) search.named = named;
    std::error_code error;
    // build/<preset>/bin/viaduct -> build/guest
    const stdfs::path program = stdfs::read_symlink("/proc/self/exe", error);
    if (!error)
        search.folders.push_back(program.parent_path().parent_path().parent_path().string() + "/guest");
    search.folders.emplace_back("build/guest");
    search.cache = cache_dir();
    if (!search.cache.empty()) search.folders.push_back(search.cache + "/guest");
    return search;
}

Outcome<Kernel> find_kernel(const KernelSearch& search) {
    const std::string path = search.named.empty() ? newest_image(search) : image_in(search.named);
    if (path.empty()) return failure("no kernel for the guest was found" + std::string{kHowToGet});
    TRY(const Mapping image, Mapping::open(path));
    const std::string release = kernel_release(image.text());
    if (release.empty()) return failure("kernel " + path + " is neither a vmlinux nor a bzImage for x86-64");
    Kernel kernel{.vmlinux = path, .release = release, .modules = modules_of(path, release)};
    if (!is_elf(image.text())) {
        TRY(kernel.vmlinux, extract(path, image, search));
    }
    return kernel;
}

bool is_elf(std::string_view image) {
    return image.starts_with("\177ELF");
}

// Offsets: Linux, Documentation/arch/x86/boot.rst, "The Real-Mode Kernel Header".
Outcome<Payload> find_payload(std::string_view image) {
    if (!is_bzimage(image)) return failure("not a bzImage");
    if (little_endian_at<std::uint16_t>(image, 0x206) < 0x208)
        return failure("a bzImage older than boot protocol 2.08");
    const std::size_t setup_sectors = std::max<std::size_t>(static_cast<std::uint8_t>(image[0x1f1]), 1);
    Payload payload;
    payload.offset = (setup_sectors + 1) * 512 + little_endian_at<std::uint32_t>(image, 0x248);
    payload.bytes = little_endian_at<std::uint32_t>(image, 0x24c);
    if (payload.offset >= image.size() || payload.bytes > image.size() - payload.offset || payload.bytes < 8)
        return failure("a bzImage whose payload is cut off");

    const std::string_view data = image.substr(payload.offset);
    struct Form {
        std::string_view magic;
        std::vector<std::string> decompress;
        const char* package;
    };
    using namespace std::string_view_literals;
    const Form forms[] = {
        {"\x28\xb5\x2f\xfd"sv, {"zstd", "-dcq"}, "zstd"},
        {"\xfd"
         "7zXZ\0"sv,
         {"xz", "-dcq"},
         "xz-utils"},
        {"\x1f\x8b"sv, {"gzip", "-dcq"}, "gzip"},
        {"\x02\x21\x4c\x18"sv, {"lz4", "-dcq"}, "lz4"},
        {"BZh"sv, {"bzip2", "-dcq"}, "bzip2"},
        {"\x5d\0\0"sv, {"xz", "--format=lzma", "-dcq"}, "xz-utils"},
    };
    for (const Form& form : forms) {
        if (!data.starts_with(form.magic)) continue;
        payload.decompress = form.decompress;
        payload.package = form.package;
        // All but gzip carry the unpacked size behind the data: 4 bytes that are not the program's.
        if (form.decompress.front() != "gzip") payload.bytes -= 4;
        return payload;
    }
    return failure("a bzImage with a payload in an unknown form (known: zstd, xz, gzip, lz4, bzip2, lzma)");
}

std::string kernel_release(std::string_view image) {
    std::string_view text;
    if (is_bzimage(image)) {
        // The field counts from 0x200; "6.12.95 (builder) #1 ...".
        const std::size_t offset = little_endian_at<std::uint16_t>(image, 0x20e) + std::size_t{0x200};
        if (offset < image.size()) text = image.substr(offset);
    } else if (is_elf(image)) {
        constexpr std::string_view banner = "Linux version ";
        for (auto at = image.find(banner); at != std::string_view::npos; at = image.find(banner, at + 1)) {
            text = image.substr(at + banner.size());
            if (!text.empty() && text[0] >= '0' && text[0] <= '9') break;
        }
    }
    // A release has at most 64 characters (struct utsname).
    const auto end = text.substr(0, 65).find_first_of(std::string_view{" \0\n", 3});
    if (end == std::string_view::npos || text.empty() || text[0] < '0' || text[0] > '9') return {};
    return std::string{text.substr(0, end)};
}

} // namespace viaduct::guestvm
