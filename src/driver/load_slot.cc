// SPDX-License-Identifier: Apache-2.0
#include "driver/load_slot.h"

#include "driver/directory_walk.h"
#include "driver/load_pattern.h"
#include "driver/load_thread.h"
#include "virtio/ring_access.h"

#include <algorithm>
#include <fcntl.h>

namespace viaduct::driver {
namespace {

constexpr std::uint32_t kUnknownOpcode = 9999;
constexpr std::size_t kRequestBytes = 512; // the longest: CREATE with a short name
constexpr std::size_t kReplyBytes = 512;   // the longest: CREATE's

// What libc's getdents asks for; the kernel's FUSE client asks for a page or more.
constexpr std::uint32_t kListingBytes = 32U << 10;

struct CreateReply {
    fuse_entry_out entry;
    fuse_open_out open;
};

} // namespace

LoadForget::LoadForget(DmaArena& arena)
    : memory_(arena.allocate(sizeof(fuse_in_header) + sizeof(fuse_forget_in)).value_or(DmaBuffer{})) {
    ASSERT(memory_.data() != nullptr);
    const iovec in{.iov_base = memory_.data(), .iov_len = memory_.size()};
    ASSERT(prepare(arena, {&in, 1}, {}));
}

void LoadForget::send(RequestQueue& hiprio, std::uint64_t node) {
    auto* const header = reinterpret_cast<fuse_in_header*>(memory_.data());
    *header = {.len = static_cast<std::uint32_t>(memory_.size()), .opcode = FUSE_FORGET, .nodeid = node};
    *reinterpret_cast<fuse_forget_in*>(header + 1) = {.nlookup = 1};
    ended_.store(false, std::memory_order_relaxed);
    if (!hiprio.submit(*this)) ended_.store(true, std::memory_order_relaxed); // the device has left
}

Result<std::unique_ptr<LoadSlot>> LoadSlot::make(Load& load, RequestQueue& queue, const Place& place) {
    std::unique_ptr<LoadSlot> slot{new LoadSlot{load, queue, place}};
    TRY_STATUS(slot->lay_out());
    return slot;
}

LoadSlot::LoadSlot(Load& load, RequestQueue& queue, const Place& place)
    : load_(load), queue_(&queue), place_(place), name_("file-" + std::to_string(place.number)),
      part_(load.parts_.data()), forget_(load.device_.memory()), random_(place.number + 1),
      unique_next_((static_cast<std::uint64_t>(place.number) + 1) << 32) {}

Status LoadSlot::lay_out() {
    const LoadOptions& options = load_.options_;
    TRY(memory_, load_.device_.memory().allocate(kRequestBytes + kReplyBytes));
    header() = {.uid = options.uid, .gid = options.gid, .pid = static_cast<std::uint32_t>(::getpid())};
    std::uint32_t block_bytes = 0;
    for (const LoadPart& part : load_.parts_) {
        if (moves_data(part.kind)) block_bytes = std::max(block_bytes, part.block_bytes);
        if (part.kind == LoadKind::readdir || part.kind == LoadKind::readdirplus)
            block_bytes = std::max(block_bytes, kListingBytes);
    }
    if (block_bytes > 0) {
        TRY(block_, load_.device_.memory().allocate(block_bytes, 4096));
    }
    entry_lookups_.resize(load_.files_.entry_count());
    next_block_ = place_.number;
    return {};
}

void LoadSlot::set_step(std::uint32_t opcode, std::uint64_t node, std::size_t body_bytes,
                        std::size_t out_bytes) {
    const std::size_t in_bytes = sizeof(fuse_in_header) + body_bytes;
    ASSERT(in_bytes <= kRequestBytes);
    header().len = static_cast<std::uint32_t>(in_bytes);
    header().opcode = opcode;
    header().nodeid = node;
    header().unique = unique_next_ += 2;

    if (opcode == FUSE_WRITE) header().len += static_cast<std::uint32_t>(block_bytes_);
    const bool to_block = opcode == FUSE_READ || opcode == FUSE_READDIR || opcode == FUSE_READDIRPLUS;
    const bool with_block = to_block || opcode == FUSE_WRITE;
    // But for its block an opcode is always of the same shape here.
    if (laid_out_ == opcode && (!with_block || laid_out_bytes_ == block_bytes_)) return;
    laid_out_ = opcode;
    laid_out_bytes_ = block_bytes_;

    std::byte* const reply = memory_.data() + kRequestBytes;
    in_ = {{.iov_base = memory_.data(), .iov_len = in_bytes}};
    out_ = {{.iov_base = reply, .iov_len = sizeof(fuse_out_header)}};
    if (out_bytes > 0) {
        ASSERT(out_bytes <= kReplyBytes - sizeof(fuse_out_header));
        out_.push_back({.iov_base = reply + sizeof(fuse_out_header), .iov_len = out_bytes});
    }
    auto& segments = to_block ? out_ : in_;
    const std::size_t segment_bytes = load_.options_.segment_bytes;
    for (std::size_t place = 0; with_block && place < block_bytes_; place += segment_bytes) {
        segments.push_back(
            {.iov_base = block_.data() + place, .iov_len = std::min(segment_bytes, block_bytes_ - place)});
    }
    ASSERT(prepare(load_.device_.memory(), in_, out_));
}

void LoadSlot::put_name(std::size_t offset, std::string_view name) noexcept {
    std::memcpy(body() + offset, name.data(), name.size());
    body()[offset + name.size()] = std::byte{0};
}

const LoadPart& LoadSlot::choose_part() {
    const auto& parts = load_.parts_;
    if (parts.size() == 1) return parts.front();
    std::uint64_t drawn = random_() % load_.weight_;
    for (const LoadPart& part : parts) {
        if (drawn < part.weight) return part;
        drawn -= part.weight;
    }
    return parts.back();
}

void LoadSlot::choose_block() {
    block_bytes_ = part_->block_bytes;
    // A slot writes only blocks of its own: which write was the last one is then known.
    const bool own_only = part_->kind == LoadKind::write && load_.options_.verify;
    const std::uint64_t blocks = load_.options_.file_bytes / part_->block_bytes;
    std::uint64_t block = 0;
    if (own_only) {
        const std::uint64_t own = (blocks - place_.number + place_.slots - 1) / place_.slots;
        block = place_.number + random_() % own * place_.slots;
    } else if (part_->random) {
        block = random_() % blocks;
    } else {
        block = next_block_ % blocks;
        next_block_ += place_.slots;
    }
    offset_ = block * part_->block_bytes;
}

void LoadSlot::begin() {
    mismatch_ = false;
    part_ = &choose_part();
    switch (part_->kind) {
    case LoadKind::null:
        return set_step(kUnknownOpcode, FUSE_ROOT_ID, 0, 0);
    case LoadKind::getattr:
        *reinterpret_cast<fuse_getattr_in*>(body()) = {};
        return set_step(FUSE_GETATTR, load_.files_.read_file().node, sizeof(fuse_getattr_in),
                        sizeof(fuse_attr_out));
    case LoadKind::lookup:
        put_name(0, LoadFiles::kFileName);
        return set_step(FUSE_LOOKUP, load_.files_.folder(), LoadFiles::kFileName.size() + 1,
                        sizeof(fuse_entry_out));
    case LoadKind::open_release:
        return open(FUSE_OPEN, load_.files_.read_file().node);
    case LoadKind::read:
        choose_block();
        *reinterpret_cast<fuse_read_in*>(body()) = {.fh = load_.files_.read_file().handle,
                                                    .offset = offset_,
                                                    .size = static_cast<std::uint32_t>(block_bytes_)};
        return set_step(FUSE_READ, load_.files_.read_file().node, sizeof(fuse_read_in), 0);
    case LoadKind::write:
        choose_block();
        if (load_.options_.verify) fill_pattern(block(), offset_, ++generation_);
        *reinterpret_cast<fuse_write_in*>(body()) = {.fh = load_.files_.written_file().handle,
                                                     .offset = offset_,
                                                     .size = static_cast<std::uint32_t>(block_bytes_)};
        return set_step(FUSE_WRITE, load_.files_.written_file().node, sizeof(fuse_write_in),
                        sizeof(fuse_write_out));
    case LoadKind::create_unlink:
        *reinterpret_cast<fuse_create_in*>(body()) = {.flags = O_RDWR | O_CREAT | O_EXCL, .mode = 0100644};
        put_name(sizeof(fuse_create_in), name_);
        return set_step(FUSE_CREATE, load_.files_.folder(), sizeof(fuse_create_in) + name_.size() + 1,
                        sizeof(CreateReply));
    case LoadKind::readdir:
    case LoadKind::readdirplus:
        listed_ = 0;
        offset_ = 0;
        return open(FUSE_OPENDIR, load_.files_.listed_folder());
    }
}

void LoadSlot::open(std::uint32_t opcode, std::uint64_t node) {
    *reinterpret_cast<fuse_open_in*>(body()) = {.flags = O_RDONLY};
    set_step(opcode, node, sizeof(fuse_open_in), sizeof(fuse_open_out));
}

void LoadSlot::release(std::uint32_t opcode, std::uint64_t node) {
    *reinterpret_cast<fuse_release_in*>(body()) = {.fh = handle_};
    set_step(opcode, node, sizeof(fuse_release_in), 0);
}

// The next part of the listing.
void LoadSlot::list() {
    block_bytes_ = kListingBytes;
    *reinterpret_cast<fuse_read_in*>(body()) = {.fh = handle_, .offset = offset_, .size = kListingBytes};
    set_step(part_->kind == LoadKind::readdirplus ? FUSE_READDIRPLUS : FUSE_READDIR,
             load_.files_.listed_folder(), sizeof(fuse_read_in), 0);
}

// A reply without entries is the end.
bool LoadSlot::go_on_listing() {
    const bool plus = part_->kind == LoadKind::readdirplus;
    const std::size_t bytes = *reply_bytes_ - sizeof(fuse_out_header);
    DirectoryWalk walk{block().first(bytes), plus};
    while (const auto entry = walk.next()) {
        offset_ = entry->offset;
        ++listed_;
        const auto number = LoadFiles::entry_number(entry->name);
        if (entry->entry.nodeid != 0 && number && *number < entry_lookups_.size()) ++entry_lookups_[*number];
    }
    if (bytes > 0 && !walk.malformed()) {
        list();
        return false;
    }
    // "." and ".." as well.
    mismatch_ = walk.malformed() || listed_ != load_.files_.entry_count() + 2;
    release(FUSE_RELEASEDIR, load_.files_.listed_folder());
    return false;
}

std::uint64_t LoadSlot::bytes() const noexcept {
    return moves_data(part_->kind) ? part_->block_bytes : 0;
}

// What the reply says, or EIO for one that is shorter than it must be.
int LoadSlot::check_reply() const {
    if (!reply_bytes_) return reply_bytes_.error().value();
    const int error = -reply_header().error;
    if (opcode() == kUnknownOpcode) return error == ENOSYS ? 0 : EPROTO;
    if (error != 0) return error;
    const std::size_t body_bytes = *reply_bytes_ - sizeof(fuse_out_header);
    switch (opcode()) {
    case FUSE_READ:
        return body_bytes == block_bytes_ ? 0 : EIO;
    case FUSE_CREATE:
        return body_bytes == sizeof(CreateReply) ? 0 : EIO;
    case FUSE_OPEN:
    case FUSE_OPENDIR:
        return body_bytes == sizeof(fuse_open_out) ? 0 : EIO;
    default:
        return 0;
    }
}

bool LoadSlot::go_on() {
    error_ = check_reply();
    if (error_ != 0) return true;
    const std::byte* const reply = memory_.data() + kRequestBytes + sizeof(fuse_out_header);
    switch (opcode()) {
    case FUSE_LOOKUP:
        ++lookups_;
        return true;
    case FUSE_READ:
        mismatch_ = load_.options_.verify && !has_pattern(block(), offset_, LoadFiles::kGeneration);
        return true;
    case FUSE_WRITE:
        mismatch_ = reinterpret_cast<const fuse_write_out*>(reply)->size != block_bytes_;
        if (load_.options_.verify) written_[offset_] = generation_;
        return true;
    case FUSE_OPEN:
        handle_ = reinterpret_cast<const fuse_open_out*>(reply)->fh;
        release(FUSE_RELEASE, load_.files_.read_file().node);
        return false;
    case FUSE_OPENDIR:
        handle_ = reinterpret_cast<const fuse_open_out*>(reply)->fh;
        list();
        return false;
    case FUSE_READDIR:
    case FUSE_READDIRPLUS:
        return go_on_listing();
    case FUSE_CREATE: {
        const auto* const created = reinterpret_cast<const CreateReply*>(reply);
        node_ = created->entry.nodeid;
        handle_ = created->open.fh;
        release(FUSE_RELEASE, node_);
        return false;
    }
    case FUSE_RELEASE:
        if (part_->kind == LoadKind::open_release) return true;
        put_name(0, name_);
        set_step(FUSE_UNLINK, load_.files_.folder(), name_.size() + 1, 0);
        return false;
    case FUSE_UNLINK:
        // The one before has long ended, or nearly so.
        if (!forget_.ended())
            load_.device_.hiprio().wait_for(forget_.flag(), after(std::chrono::seconds{30}));
        if (forget_.ended()) forget_.send(load_.device_.hiprio(), node_);
        return true;
    default:
        return true;
    }
}

void LoadSlot::done(Result<std::uint32_t> reply_bytes) {
    reply_bytes_ = reply_bytes;
    // The device has read the header, and the next request is written over it.
    virtio::prefetch_to_write(memory_.data());
    owner_->came_back(*this);
}

} // namespace viaduct::driver
