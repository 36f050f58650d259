// SPDX-License-Identifier: Apache-2.0
//
// Labelling what is made as the client's security module says.
//
// Where the host runs SELinux and the label is SELinux' own, the kernel makes the object with it
// (/proc/thread-self/attr/fscreate); elsewhere, and under another name, it is an attribute that the object
// gets before anybody is told of it.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "fs/types.h"

#include <string>

namespace viaduct::passthrough {

class Labels {
public:
    Labels();
    // For tests: the file that takes the label of what this thread makes next; empty: there is none.
    explicit Labels(std::string create_file) : create_file_(std::move(create_file)) {}

    // While it lives, what this thread makes has the label, if the kernel can do that.
    class Making {
    public:
        Making(Making&&) noexcept = default;
        Making& operator=(Making&&) = delete;
        ~Making();

        // After it was made: gives it the label if the kernel has not.
        Status finish(int fd) const;

    private:
        friend Labels;
        explicit Making(const fs::SecurityLabel* label) noexcept : label_(label) {}
        const fs::SecurityLabel* label_; // nullptr: none is asked for
        Fd by_kernel_;                   // the kernel has been told
    };
    // `label` may be nullptr, and outlives the Making.
    Result<Making> begin(const fs::SecurityLabel* label) const;

private:
    std::string create_file_;
};

} // namespace viaduct::passthrough
