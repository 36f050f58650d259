// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target: what a hostile client can send to a session.
//
// The input is a list of requests, each: room for the reply (2 bytes), how memory is cut (1: bytes a piece, 0
// as Linux does), flags (1: bit 0 sets in_header.len right), length (2), then that many bytes from
// fuse_in_header on. They go to a session over a toy file system that is past INIT.
#include "session/session.h"
#include "support/fake_request.h"
#include "support/toy_file_system.h"

#include "base/log.h"

#include <memory>

namespace viaduct {
namespace {

struct Record {
    std::uint16_t room;
    std::uint8_t piece;
    std::uint8_t flags;
    std::uint16_t length;
};

void check(const test::FakeRequest& request, const std::vector<std::byte>& bytes) {
    ASSERT(request.completed());
    if (request.reply_bytes() == 0) return;
    fuse_in_header header;
    ASSERT(bytes.size() >= sizeof header);
    std::memcpy(&header, bytes.data(), sizeof header);
    ASSERT(request.header().len == request.reply_bytes());
    ASSERT(request.header().unique == header.unique);
    ASSERT(request.header().error <= 0);
    ASSERT(request.header().error > -512);
    ASSERT(request.header().error == 0 || request.reply_bytes() == sizeof(fuse_out_header));
}

void run(rt::Worker& worker, const std::uint8_t* data, std::size_t size) {
    test::ToyFileSystem fs;
    fs.add_file("a", "some content");
    fs.add_file("b");
    session::Session session{fs, {}};
    session.attach_worker(worker);
    fuse_init_in offer{};
    offer.major = 7;
    offer.minor = 45;
    offer.flags = 0x7fffffff;
    test::FakeRequest init{test::FuseMessage{FUSE_INIT}.with(offer), 256};
    session.handle(init);

    constexpr std::size_t kRecordBytes = 6;
    while (size >= kRecordBytes) {
        Record record;
        std::memcpy(&record.room, data, 2);
        record.piece = data[2];
        record.flags = data[3];
        std::memcpy(&record.length, data + 4, 2);
        data += kRecordBytes;
        size -= kRecordBytes;
        const std::size_t length = std::min<std::size_t>(record.length, size);
        std::vector<std::byte> bytes(length);
        if (length > 0) std::memcpy(bytes.data(), data, length);
        data += length;
        size -= length;
        const auto right_length = static_cast<std::uint32_t>(length);
        if ((record.flags & 1) != 0 && length >= sizeof right_length)
            std::memcpy(bytes.data(), &right_length, sizeof right_length);
        test::FakeRequest request{bytes, record.room, record.piece, record.piece};
        session.handle(request);
        // INTERRUPT for a request that is not known is looked at again behind what the worker was sent.
        if (!request.completed()) {
            worker.stop();
            worker.run();
        }
        check(request, bytes);
    }
    test::FakeRequest destroy{test::FuseMessage{FUSE_DESTROY}, 16};
    session.handle(destroy);
    ASSERT(fs.lookups_held() == 0);
    ASSERT(fs.handles_open() == 0);
}

} // namespace
} // namespace viaduct

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const auto worker = [] {
        viaduct::log::set_level(viaduct::log::Level::off);
        return std::move(*viaduct::rt::Worker::make({.name = "fuzz"}));
    }();
    viaduct::run(*worker, data, size);
    return 0;
}
