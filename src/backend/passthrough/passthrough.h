// SPDX-License-Identifier: Apache-2.0
//
// Passthrough: a directory of this host, served to one client.
//
// Every node is an O_PATH descriptor and every name is looked up relative to one, so the client cannot name
// anything outside the share.  A call runs where docs/design.md says: on the worker where it is quick,
// on its ring where there is a ring form, else on a helper.  Nothing borrowed crosses an await: calls that
// wait pin their nodes and handles first.
#pragma once

#include "backend/passthrough/credentials.h"
#include "backend/passthrough/host_calls.h"
#include "backend/passthrough/labels.h"
#include "backend/passthrough/mount_watch.h"
#include "backend/passthrough/mounts.h"
#include "backend/passthrough/options.h"
#include "backend/passthrough/worker_state.h"
#include "fs/file_system.h"
#include "fs/handle_table.h"
#include "fs/node_table.h"
#include "rt/helpers.h"

#include <memory>

namespace viaduct::passthrough {

using namespace fs; // the contract's types make up most of what is below

class Passthrough final : public FileSystem {
public:
    static Outcome<std::unique_ptr<Passthrough>> make(Options options);
    ~Passthrough() override;

    Async<Entry> lookup(const Caller& caller, NodeId parent, const Name& name) override;
    void forget(NodeId node, std::uint64_t count) override;
    Async<AttrReply> getattr(const Caller& caller, NodeId node, std::optional<HandleId> handle) override;
    Async<AttrReply> setattr(const Caller& caller, NodeId node, const SetAttr& change) override;
    Async<std::string> readlink(const Caller& caller, NodeId node) override;
    Async<Entry> symlink(const Caller& caller, NodeId parent, const Name& name, std::string target) override;
    Async<Entry> mknod(const Caller& caller, NodeId parent, const Name& name, std::uint32_t mode,
                       std::uint32_t device, std::uint32_t umask) override;
    Async<Entry> mkdir(const Caller& caller, NodeId parent, const Name& name, std::uint32_t mode,
                       std::uint32_t umask) override;
    Async<void> unlink(const Caller& caller, NodeId parent, const Name& name) override;
    Async<void> rmdir(const Caller& caller, NodeId parent, const Name& name) override;
    Async<void> rename(const Caller& caller, NodeId parent, const Name& name, NodeId new_parent,
                       const Name& new_name, std::uint32_t flags) override;
    Async<Entry> link(const Caller& caller, NodeId node, NodeId new_parent, const Name& new_name) override;
    Async<Opened> open(const Caller& caller, NodeId node, std::uint32_t flags, bool kill_suid_sgid) override;
    Async<Created> create(const Caller& caller, NodeId parent, const Name& name, std::uint32_t flags,
                          std::uint32_t mode, std::uint32_t umask, bool kill_suid_sgid) override;
    Async<Created> tmpfile(const Caller& caller, NodeId parent, std::uint32_t flags, std::uint32_t mode,
                           std::uint32_t umask) override;
    Async<std::size_t> read(const Caller& caller, HandleId handle, std::uint64_t offset,
                            Segments into) override;
    Async<std::size_t> write(const Caller& caller, HandleId handle, std::uint64_t offset, Segments from,
                             WriteOptions options) override;
    Async<void> flush(const Caller& caller, HandleId handle) override;
    Async<void> fsync(const Caller& caller, HandleId handle, bool data_only) override;
    Async<void> release(HandleId handle) override;
    Async<void> fallocate(const Caller& caller, HandleId handle, std::uint32_t mode, std::uint64_t offset,
                          std::uint64_t bytes) override;
    Async<std::uint64_t> lseek(const Caller& caller, HandleId handle, std::uint64_t offset,
                               std::uint32_t whence) override;
    Async<std::size_t> copy_file_range(const Caller& caller, HandleId from, std::uint64_t from_offset,
                                       HandleId to, std::uint64_t to_offset, std::uint64_t bytes,
                                       std::uint64_t flags) override;
    Async<Opened> opendir(const Caller& caller, NodeId node) override;
    Async<void> readdir(const Caller& caller, HandleId handle, std::uint64_t offset, bool plus,
                        DirentSink& sink) override;
    Async<void> fsyncdir(const Caller& caller, HandleId handle, bool data_only) override;
    Async<void> releasedir(HandleId handle) override;
    Async<FsStat> statfs(const Caller& caller, NodeId node) override;
    Async<void> syncfs(const Caller& caller, NodeId node) override;
    Async<void> access(const Caller& caller, NodeId node, std::uint32_t mask) override;
    Async<void> setxattr(const Caller& caller, NodeId node, std::string name,
                         std::span<const std::byte> value, std::uint32_t flags) override;
    Async<std::size_t> getxattr(const Caller& caller, NodeId node, std::string name,
                                std::span<std::byte> into) override;
    Async<std::size_t> listxattr(const Caller& caller, NodeId node, std::span<std::byte> into) override;
    Async<void> removexattr(const Caller& caller, NodeId node, std::string name) override;
    Result<NodeIdentity> identity_of(NodeId node) override;
    Result<std::unique_ptr<HostLocks>> host_locks(NodeId node, HandleId handle, LockKind kind) override;
    bool room_to_come() const noexcept override { return nodes_->room_to_come() || handles_->room_to_come(); }
    void begin_session(bool client_sees_submounts) override;
    void end_session() override;

    // For statistics; any thread.
    std::uint64_t calls(OpClass op, Place place) const noexcept { return states_.calls(op, place); }
    std::uint32_t nodes() const noexcept { return nodes_->count(); } // root included
    std::uint32_t handles() const noexcept { return handles_->count(); }

private:
    // Shared with the tables, which close descriptors through it, and with closes that are still running when
    // this object is gone.
    struct Core final : FdCloser, std::enable_shared_from_this<Core> {
        explicit Core(std::uint32_t helpers_max)
            : local_helpers(helpers_max), remote_helpers(helpers_max), crossing_helpers(helpers_max) {}

        // A remote mount that hangs keeps its callers' helpers; local ones must not wait behind them, nor
        // must the way into mounts that are well.
        rt::Helpers& helpers(std::uint16_t mount) noexcept {
            if (mount == MountTable::kUnknown) return crossing_helpers;
            return mounts.at(mount).remote ? remote_helpers : local_helpers;
        }
        void close(int fd, std::uint16_t mount) override;
        std::uint32_t closing() const noexcept override {
            return closing_now.load(std::memory_order_relaxed);
        }

        rt::Helpers local_helpers;
        rt::Helpers remote_helpers;
        rt::Helpers crossing_helpers;
        MountTable mounts;
        std::unique_ptr<MountWatch> mount_watch; // set once, before any call
        sync::Shared<std::uint32_t> closing_now; // closes that wait for a helper or are running
    };

    // Where a name is looked up: what is needed of a directory's node, for use while that is pinned.
    struct Dir {
        int fd;
        std::uint16_t mount;
        std::uint32_t device;
        std::uint64_t mount_id;
        explicit Dir(const Node& node) noexcept
            : fd(node.fd), mount(node.mount), device(node.device), mount_id(node.mount_id) {}
        explicit Dir(const Handle& handle) noexcept
            : fd(handle.fd), mount(handle.mount), device(handle.device), mount_id(handle.mount_id) {}
    };
    // What a call that waits holds on to.
    struct Pins {
        NodePin node = {};
        NodePin other_node = {};
        HandlePin handle = {};
        HandlePin other_handle = {};
    };
    template <class T> struct Timed {
        Result<T> value;
        MountTable::Took took;
    };
    struct WriteMode {
        bool append = false; // at the end of the file, wherever that is now
        Credentials::Dropping dropping = {};
    };
    struct OpenedFile {
        Fd fd;
        bool direct = false;
        bool nonblocking = false; // has O_NONBLOCK, see let_wait()
        bool uncached = false;    // the client must not keep pages, as it could not read them
    };
    struct Made {
        Found found;
        OpenedFile file;
    };

    Passthrough(Options options, ProcFd proc, std::shared_ptr<Core> core, std::unique_ptr<NodeTable> nodes,
                std::unique_ptr<HandleTable> handles);

    // Where calls run (dispatch.h).  A `call` takes nothing, captures values only, and returns a Result.
    bool inline_here(OpClass op, std::uint16_t mount) noexcept;
    void ended_inline(OpClass op, std::uint16_t mount) noexcept;
    void look_for_sleep(OpClass op, std::uint16_t mount, std::uint64_t took_ticks) noexcept;
    template <class Call> auto run_now(OpClass op, std::uint16_t mount, Call& call);
    template <class Call> auto run(OpClass op, Node& node, Call call);
    template <class Call> auto run(OpClass op, Node& node, Node& other, Call call);
    template <class Call> auto run(OpClass op, Handle& handle, Call call);
    template <class T, class Call>
    rt::Task<Result<T>> away(OpClass op, std::uint16_t mount, Pins pins, Call call);
    template <class Call> Async<Entry> run_entry(OpClass op, Node& dir, Node* other, Call call);
    template <class Call>
    rt::Task<Result<Entry>> entry_away(OpClass op, std::uint16_t mount, Pins pins, Dir dir, Call call);
    template <class Make>
    Async<Entry> make_entry(const Caller& caller, NodeId parent, const Name& name, Credentials::Making making,
                            Make make);
    template <class Call> Async<Created> run_made(Node& dir, std::uint32_t flags, Call call);
    template <class Call>
    rt::Task<Result<Created>> made_away(Pins pins, Dir dir, std::uint32_t flags, Call call);

    // create.cc
    Result<Labels::Making> labelling(const Caller& caller) const;
    Status label(const Labels::Making& labelling, const Dir& dir, const char* name, const Found& made) const;

    // lookup.cc
    Result<Found> find_child(const Dir& dir, const char* name, Crossing crossing) const;
    bool may_stat_names(WorkerState& state);
    void look_at_mounts();
    std::optional<Result<Entry>> lookup_known(const Dir& dir, const char* name);
    rt::Task<Result<Entry>> lookup_away(NodePin parent, Name name, bool crossing);
    Result<Entry> enter(const Dir& dir, Found found);
    Entry entry_of(const Dir& dir, NodeId node, const Found& found) const noexcept;
    std::uint64_t fold(std::uint64_t inode, std::uint32_t device) const noexcept;
    AttrReply attr_reply(Attr attr) const noexcept;

    // open.cc
    Result<int> host_flags(std::uint32_t flags) const noexcept;
    int readable_too(int flags) const noexcept;
    Result<OpenedFile> open_file(int fd, int flags, Credentials::Dropping dropping, bool may_wait) const;
    HandleTable::Facts handle_facts(const Node& node, std::uint16_t flags) const noexcept;
    static void let_wait(Handle& handle) noexcept;
    Result<Opened> handle_for(OpenedFile file, const Node& node, std::uint32_t flags);
    Result<Created> created(const Dir& dir, Made made, std::uint32_t flags);
    rt::Task<Result<Opened>> open_away(NodePin node, std::uint32_t flags, Credentials::Dropping dropping);
    rt::Task<Result<Opened>> opendir_away(NodePin node);
    Result<Opened> dir_handle_for(Fd fd, const Node& node);

    // io.cc
    struct Moved {
        std::size_t bytes = 0;
        int error = 0;           // 0: done
        bool would_wait = false; // the rest is not in memory
    };
    Moved read_now(const Handle& handle, std::uint64_t offset, Segments into) noexcept;
    Moved write_now(int fd, std::uint64_t offset, Segments from, WriteMode mode) const noexcept;
    // Bounds what may block on this worker's ring; mounts whose server may hang have places of their own.
    rt::Slots& ring_slots(WorkerState& state, const Handle& handle) noexcept {
        return state.slots(core_->mounts.at(handle.mount).remote);
    }
    // For READ and WRITE on the ring.
    int ring_flags(const Handle& handle) const noexcept;
    rt::Task<Result<std::size_t>> read_on_ring(HandlePin handle, std::uint64_t offset, Segments into,
                                               std::size_t done);
    rt::Task<Result<std::size_t>> write_on_ring(HandlePin handle, std::uint64_t offset, Segments from,
                                                WriteMode mode);
    rt::Task<Result<std::size_t>> write_on_helper(HandlePin handle, std::uint64_t offset, Segments from,
                                                  WriteMode mode);

    // direct_io.cc
    rt::Task<Result<std::size_t>> read_remote(HandlePin handle, std::uint64_t offset, Segments into);
    rt::Task<Result<std::size_t>> read_bounced(HandlePin handle, std::uint64_t offset, Segments into);
    rt::Task<Result<std::size_t>> read_buffered(HandlePin handle, std::uint64_t offset, Segments into,
                                                std::size_t done);
    rt::Task<Result<std::size_t>> write_direct(HandlePin handle, std::uint64_t offset, Segments from);
    rt::Task<Result<std::size_t>> write_bounced(HandlePin handle, std::uint64_t offset, Segments from);
    rt::Task<Result<std::size_t>> write_buffered(HandlePin handle, std::uint64_t offset, Segments from,
                                                 std::size_t done, WriteMode mode);

    // file.cc
    rt::Task<Status> fsync_on_ring(HandlePin handle, bool data_only);
    rt::Task<Status> fallocate_on_ring(HandlePin handle, std::uint32_t mode, std::uint64_t offset,
                                       std::uint64_t bytes);

    // dir.cc
    struct Listing;
    struct Chunk;
    enum class Step { go_on, full, end };
    Result<Step> list_some(Listing& listing);
    rt::Task<Result<Step>> list_some_away(Listing& listing);
    rt::Task<Status> list_slowly(HandlePin handle, Listing listing, bool mine);
    Step emit(Listing& listing, Chunk& chunk);

    // attr.cc
    Status apply(const Caller& caller, int fd, std::uint32_t type, std::optional<int> handle_fd,
                 const SetAttr& change, bool may_wait) const;
    Status set_size(const Caller& caller, int fd, std::uint32_t type, std::optional<int> handle_fd,
                    const SetAttr& change, bool may_wait) const;

    const Options options_;
    const ProcFd proc_;
    const Credentials credentials_;
    const Labels labels_;
    const std::shared_ptr<Core> core_; // with the tables and running closes
    const std::unique_ptr<NodeTable> nodes_;
    const std::unique_ptr<HandleTable> handles_;
    std::uint32_t root_device_ = 0;
    sync::Shared<bool> fold_inodes_;            // set when a session begins, read by any worker
    const std::uint64_t began_ticks_ = ticks(); // for the length of a tick
    const std::uint64_t began_ns_ = monotonic_ns();
    const Validity entry_valid_;
    const Validity attr_valid_;
    WorkerStates states_;
};

} // namespace viaduct::passthrough
