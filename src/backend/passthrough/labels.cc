// SPDX-License-Identifier: Apache-2.0
#include "backend/passthrough/labels.h"

#include "backend/passthrough/host_calls.h"
#include "base/assert.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace viaduct::passthrough {
namespace {

constexpr const char* kSelinuxName = "security.selinux";

bool host_runs_selinux() {
    struct statfs st{};
    return ::statfs("/sys/fs/selinux", &st) == 0 && st.f_type == SELINUX_MAGIC;
}

} // namespace

Labels::Labels() : create_file_(host_runs_selinux() ? "/proc/thread-self/attr/fscreate" : "") {}

Result<Labels::Making> Labels::begin(const fs::SecurityLabel* label) const {
    Making making{label};
    if (label == nullptr || create_file_.empty() || label->name != kSelinuxName) return making;
    Fd file{::open(create_file_.c_str(), O_WRONLY | O_CLOEXEC)};
    if (!file) return fail(errno);
    if (::write(file.get(), label->value.data(), label->value.size()) < 0) return fail(errno);
    making.by_kernel_ = std::move(file);
    return making;
}

// An empty write takes the label back; what this thread made next would have it otherwise.
Labels::Making::~Making() {
    if (by_kernel_) ASSERT(::write(by_kernel_.get(), nullptr, 0) == 0);
}

Status Labels::Making::finish(int fd) const {
    if (label_ == nullptr || by_kernel_) return {};
    const auto path = ProcFd::path(fd);
    if (::setxattr(path.bytes, label_->name.c_str(), label_->value.data(), label_->value.size(), 0) != 0)
        return fail(errno);
    return {};
}

} // namespace viaduct::passthrough
