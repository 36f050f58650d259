// SPDX-License-Identifier: Apache-2.0
//
// The one table of FUSE opcodes: what each is called, how long its fixed parts are, and what becomes of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace viaduct::fuse {

enum class Verdict : std::uint8_t {
    served,  // a FileSystem or the session answers it
    refused, // ENOSYS, on purpose: `reason` says why
    unknown, // ENOSYS: no such opcode
};

// What a request is about; counters and limits go by it.
enum class OpcodeClass : std::uint8_t {
    session,
    nodes,
    names,
    files,
    directories,
    attributes,
    locks,
    mapping,
    other
};

struct Opcode {
    std::uint32_t number = 0;
    const char* name = "";
    Verdict verdict = Verdict::unknown;
    OpcodeClass group = OpcodeClass::other;
    // The struct behind the header: shorter than `in_bytes_min` is a lie; what is missing up to
    // `in_bytes_max` counts as zero (messages that have grown over time).
    std::uint16_t in_bytes_min = 0;
    std::uint16_t in_bytes_max = 0;
    // A reply carries at least that many bytes behind its header; less room than that is refused before the
    // call.
    std::uint16_t reply_bytes = 0;
    bool has_reply = true;
    bool gives_out = false; // its reply has a node or a handle that the client gives back later
    const char* reason = "";
};

// Opcodes below this number are counted apart.
inline constexpr std::size_t kOpcodeCount = 54;

// Never fails: numbers that are no opcode give an entry with Verdict::unknown.
const Opcode& opcode(std::uint32_t number) noexcept;

// Every entry, also those of numbers that the protocol leaves free (verdict unknown).
std::span<const Opcode> opcodes() noexcept;

} // namespace viaduct::fuse
