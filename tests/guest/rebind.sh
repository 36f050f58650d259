#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The guest's driver lets go of the device and takes it again: after an unmount, and while the share is mounted.
. "$(dirname "$0")/lib.sh"

in_guest='set -e
driver=/sys/bus/virtio/drivers/virtiofs
for device in $driver/virtio*; do device=${device##*/}; break; done
echo one >one
cd /
umount /mnt
for round in 1 2 3; do
    echo $device >$driver/unbind
    test ! -e $driver/$device
    echo $device >$driver/bind
done
mount -t virtiofs "$VIADUCT_TAG" /mnt
grep -qx one /mnt/one
for cpu in 0 1; do taskset -c $cpu sh -c "echo $cpu >/mnt/cpu$cpu; cat /mnt/one >/dev/null"; done

echo $device >$driver/unbind
if cat /mnt/cpu1 >/dev/null 2>&1 && ls /mnt/new >/dev/null 2>&1; then exit 3; fi
umount /mnt
echo $device >$driver/bind
mount -t virtiofs "$VIADUCT_TAG" /mnt
grep -qx 0 /mnt/cpu0
echo two >/mnt/two'
guest --share "$share" --cpus 2 --queues 2 -- sh -c "$in_guest"
[ "$(cat "$share/one" "$share/two" "$share/cpu0" "$share/cpu1" | tr '\n' ' ')" = "one two 0 1 " ] ||
    fail "the files are not what the guest wrote"
