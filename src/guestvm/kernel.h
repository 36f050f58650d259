// SPDX-License-Identifier: Apache-2.0
//
// The guest's kernel: finding one, taking the uncompressed kernel out of a bzImage, finding its modules.
//
// QEMU boots an uncompressed kernel directly (PVH), which saves an emulated CPU seconds of decompression.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct::guestvm {

struct Kernel {
    std::string vmlinux; // path of the uncompressed kernel
    std::string release; // "6.12.95+deb12-cloud-amd64"
    std::string modules; // folder with modules.dep; empty when there is none
};

struct KernelSearch {
    std::string named;                // by an option: a file, or a folder with one; nothing else is tried
    std::vector<std::string> folders; // each with a folder per release
    std::string boot = "/boot";       // after that, vmlinuz-* here
    std::string cache;                // extracted kernels; empty: `scratch`
    std::string scratch;              // a folder that the caller removes
};

// Where kernels are looked for when none is named: $VIADUCT_KERNEL, build/guest beside this program,
// build/guest here, the cache of tools/guest-kernel.
KernelSearch default_kernel_search();

Outcome<Kernel> find_kernel(const KernelSearch& search);

// Pieces of the above that are pure.

struct Payload {
    std::size_t offset = 0;
    std::size_t bytes = 0;
    std::vector<std::string> decompress; // program and options: filter from stdin to stdout
    std::string package;                 // that holds the program
};

bool is_elf(std::string_view image);
// The compressed kernel in a bzImage (Linux boot protocol 2.08 or newer).
Outcome<Payload> find_payload(std::string_view image);
// From either form; empty when it is not a kernel.
std::string kernel_release(std::string_view image);

} // namespace viaduct::guestvm
