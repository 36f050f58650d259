#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Packed virtqueues with a real guest: the feature is negotiated, and data goes both ways on every queue.
. "$(dirname "$0")/lib.sh"
qemu=$top/build/qemu10/qemu-system-x86_64
[ -x "$qemu" ] || skip "no QEMU 10, which packed queues need; tools/qemu10 fetches it"

head -c 3000000 /dev/urandom >"$share/from-host"
in_guest='set -e
for device in /sys/bus/virtio/drivers/virtiofs/virtio*; do break; done
features=$(cat $device/features)
[ "$(echo "$features" | cut -c 35)" = 1 ] || { echo "VIRTIO_F_RING_PACKED (34) is off: $features"; exit 3; }
for cpu in 0 1 2 3; do
    taskset -c $cpu sh -c "cat from-host >from-cpu$cpu; for i in 1 2 3 4 5 6 7 8 9; do echo \$i >small$cpu.\$i; done"
    # Past the page cache, too.
    taskset -c $cpu dd if=from-cpu$cpu of=direct$cpu bs=256k iflag=direct conv=fsync 2>/dev/null
done'
guest --share "$share" --cpus 4 --queues 4 --packed --qemu "$qemu" --stats-file "$work/stats.json" -- sh -c "$in_guest"
for cpu in 0 1 2 3; do
    cmp "$share/from-host" "$share/from-cpu$cpu"
    cmp "$share/from-host" "$share/direct$cpu"
    [ "$(cat "$share/small$cpu.9")" = 9 ] || fail "small$cpu.9 is not what the guest wrote"
    count=$(requests_on "$work/stats.json" requests.$cpu)
    [ "${count:-0}" -gt 0 ] || fail "the daemon counts ${count:-no} requests on queue requests.$cpu"
done
