#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/split_queue and corpus/packed_queue: inputs in the form that queue_fuzz.h reads."""
import pathlib
import struct

NEXT, WRITE, INDIRECT, AVAIL, USED = 1, 2, 4, 1 << 7, 1 << 15
EVENT_IDX, INDIRECT_DESC = 1, 2
DESCRIPTORS, DRIVER_AREA, DEVICE_AREA, TABLE, DATA = 0, 0x1000, 0x2000, 0x3000, 0x3800
POP, PUSH, PUSH_LAST, PUBLISH, SUPPRESS, ENABLE, WRITE_MORE, RESTART = 0, 2, 3, 4, 5, 6, 7, 135
SERVE = [POP, PUSH, PUBLISH]


def pieces(*parts):
    """(place, bytes) pairs, cut to 255 bytes, and the 0 that ends them."""
    out = b""
    for place, data in parts:
        for start in range(0, len(data), 255):
            cut = data[start:start + 255]
            out += struct.pack("<BH", len(cut), place + start) + cut
    return out + b"\0"


def split(address=DATA, length=16, flags=0, following=0):
    return struct.pack("<QIHH", address, length, flags, following)


def packed(address=DATA, length=16, flags=0, buffer_id=0, wrap=True):
    return struct.pack("<QIHH", address, length, buffer_id, flags | (AVAIL if wrap else USED))


def split_input(descriptors, heads, steps, options=0, size=8, base=0, table=b"", avail_idx=None, used_event=0):
    ring = [0] * size
    for index, head in enumerate(heads):
        ring[(base + index) % size] = head
    idx = (base + len(heads) if avail_idx is None else avail_idx) & 0xffff
    avail = struct.pack(f"<HH{size}HH", 0, idx, *ring, used_event)
    used = struct.pack("<HH", 0, base)
    memory = pieces((DESCRIPTORS, b"".join(descriptors)), (DRIVER_AREA, avail), (DEVICE_AREA, used), (TABLE, table))
    return struct.pack("<BBH", options, size, base) + memory + bytes(steps)


def packed_input(entries, steps, options=0, size=7, base=0x80008000, table=b"", event=0):
    memory = pieces((DESCRIPTORS, b"".join(entries)), (DRIVER_AREA, struct.pack("<I", event)), (TABLE, table))
    return struct.pack("<BBI", options, size, base) + memory + bytes(steps)


def chain(count, make, last_flags=0):
    return [make(flags=NEXT if index + 1 < count else last_flags, following=index + 1) for index in range(count)]


SPLIT = {
    "request-and-reply": split_input([split(flags=NEXT, following=1), split(flags=WRITE)], [0], SERVE + [ENABLE]),
    "self-loop": split_input([split(flags=NEXT, following=0)], [0], [POP, POP, ENABLE, PUBLISH]),
    "two-element-loop": split_input([split(flags=NEXT, following=1), split(flags=NEXT)], [0], [POP, RESTART, POP]),
    "next-beyond-table": split_input([split(flags=NEXT, following=8)], [0], [POP]),
    "head-beyond-table": split_input([split()], [8], [POP]),
    "readable-after-writable": split_input([split(flags=NEXT | WRITE, following=1), split()], [0], [POP]),
    "whole-ring": split_input(chain(8, split, WRITE), [0], SERVE),
    "avail-jump": split_input([split()], [0], [POP], avail_idx=9),
    "index-wrap": split_input([split()] * 8, [0, 1, 2, 3, 4, 5, 6, 7], SERVE * 8, options=EVENT_IDX, base=65530,
                              used_event=1),
    "across-regions": split_input([split(address=0x3ff8)], [0], SERVE),
    "outside-memory": split_input([split(address=0x4ff8)], [0], SERVE),
    "out-of-order": split_input([split()] * 4, [0, 1, 2, 3], [POP] * 4 + [PUSH_LAST] * 4 + [PUBLISH, SUPPRESS]),
    "indirect": split_input([split(TABLE, 48, INDIRECT)], [0], SERVE, options=INDIRECT_DESC,
                            table=split(flags=NEXT, following=2) + split() + split(flags=WRITE)),
    "indirect-unaligned": split_input([split(flags=NEXT, following=1), split(TABLE + 3, 16, INDIRECT)], [0], SERVE,
                                      options=INDIRECT_DESC, table=b"\0\0\0" + split(flags=WRITE)),
    "indirect-loop": split_input([split(TABLE, 32, INDIRECT)], [0], [POP], options=INDIRECT_DESC,
                                 table=split(flags=NEXT, following=1) + split(flags=NEXT)),
    "indirect-nested": split_input([split(TABLE, 16, INDIRECT)], [0], [POP], options=INDIRECT_DESC,
                                   table=split(TABLE, 16, INDIRECT)),
    "restart-in-flight": split_input([split()] * 4, [0, 1, 2, 3], [POP, POP, RESTART, POP, POP, PUSH, PUSH, PUBLISH]),
    "written-while-running": split_input([split()] * 4, [0], SERVE + [WRITE_MORE]) +
                             pieces((DRIVER_AREA, struct.pack("<HH", 1, 2))) + bytes(SERVE),
}
PACKED = {
    "request-and-reply": packed_input([packed(flags=NEXT), packed(flags=WRITE, buffer_id=5)], SERVE + [ENABLE]),
    "no-end": packed_input([packed(flags=NEXT)] * 7, [POP, POP, ENABLE, PUBLISH]),
    "whole-ring": packed_input([packed(flags=NEXT)] * 6 + [packed(flags=WRITE)], SERVE),
    "readable-after-writable": packed_input([packed(flags=NEXT | WRITE), packed()], [POP]),
    "wrap-in-chain": packed_input([packed(flags=WRITE, wrap=False)] + [packed()] * 5 + [packed(flags=NEXT)], SERVE * 2,
                                  base=0x80068006),
    "out-of-order": packed_input([packed(buffer_id=index) for index in range(4)],
                                 [POP] * 4 + [PUSH_LAST] * 4 + [PUBLISH, SUPPRESS]),
    "event": packed_input([packed(buffer_id=index) for index in range(7)], SERVE * 7, options=EVENT_IDX,
                          event=0x00028003),
    "indirect": packed_input([packed(TABLE, 48, INDIRECT)], SERVE, options=INDIRECT_DESC,
                             table=packed() + packed(flags=NEXT) + packed(flags=WRITE)),
    "indirect-nested": packed_input([packed(TABLE, 16, INDIRECT)], [POP], options=INDIRECT_DESC,
                                    table=packed(TABLE, 16, INDIRECT)),
    "indirect-in-chain": packed_input([packed(flags=NEXT), packed(TABLE, 16, INDIRECT)], [POP], options=INDIRECT_DESC,
                                      table=packed()),
    "outside-memory": packed_input([packed(address=0x4ff8)], SERVE),
    "restart-in-flight": packed_input([packed(buffer_id=index) for index in range(4)],
                                      [POP, POP, RESTART, POP, POP, PUSH_LAST, PUSH, PUBLISH]),
    "base-beyond-ring": packed_input([packed()], [POP], base=0x80078000),
    "whole-ring-in-flight": packed_input([packed()] * 7, [POP], base=0x80000000),
}

corpus = pathlib.Path(__file__).parent / "corpus"
for name, inputs in (("split_queue", SPLIT), ("packed_queue", PACKED)):
    folder = corpus / name
    folder.mkdir(parents=True, exist_ok=True)
    for title, data in inputs.items():
        (folder / title).write_bytes(data)
