#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Our unit and integration tests inside a guest with Debian 12's own kernel (6.1), the oldest that is supported
# on a host.
. "$(dirname "$0")/lib.sh"
disk=$(root_disk)
kernel=$(ls -d "$top"/build/guest/6.1.* 2>/dev/null | tail -n 1)
[ -n "$kernel" ] || skip "no Debian 12 kernel; tools/guest-kernel --suite bookworm fetches it"
bin=$(dirname "$viaduct")

for program in "$bin"/unit_* "$bin/integration" "$bin/viaduct" "$bin/viaductd"; do
    if [ -x "$program" ]; then cp "$program" "$share/"; fi
done
guest_limit_s=1700
# Left out: 40,000 wake-ups across CPUs, milliseconds each when QEMU emulates both.
in_guest='cd /mnt
failed=
for program in unit_* integration; do
    [ -x $program ] || continue
    cp $program /tmp/program
    VIADUCT_BIN=/mnt /tmp/program --gtest_brief=1 --gtest_filter=-*two_sleeping_workers* || { echo "failed: $program"; failed=1; }
done
[ -z "$failed" ]'
guest --share "$share" --cpus 2 --queues 2 --memory 2048 --kernel "$kernel" --root-disk "$disk" -- bash -c "$in_guest"
