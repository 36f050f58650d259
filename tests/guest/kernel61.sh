#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Our unit and integration tests inside a guest with Debian 12's own kernel (6.1), the oldest that is supported
# on a host.  Two boots, one for each kind; what is skipped is told with its reason.
. "$(dirname "$0")/lib.sh"
disk=$(root_disk)
kernel=$(ls -d "$top"/build/guest/6.1.* 2>/dev/null | tail -n 1)
[ -n "$kernel" ] || skip "no Debian 12 kernel; tools/guest-kernel --suite bookworm fetches it"
bin=$(dirname "$viaduct")

# Left out.  An emulated machine is some twenty times slower, and these say nothing about its kernel.
left_out=(
    '*QueueThreads.*|the order of memory between spinning threads, no matter of the kernel'
    'AvailIndex.a_long_run*:AvailIndex.a_packed_ring*:*EventIdx.who_sleeps*|tens of thousands of requests, which show how ring indexes wrap'
    '*two_sleeping_workers*|10,000 wake-ups across CPUs, each some milliseconds where QEMU emulates both'
)
filter=-
for entry in "${left_out[@]}"; do
    filter+=${entry%%|*}:
    echo "skipped: ${entry%%|*}: ${entry#*|}"
done

# Each program writes its log and "STATUS SECONDS" onto the share.  The programs of the build are found in
# VIADUCT_BIN; /tmp is memory of the guest.
in_guest='cd /mnt
for program in $programs; do
    cp $program /tmp/program
    begin=$SECONDS status=0
    VIADUCT_BIN=/mnt /tmp/program --gtest_filter="$filter" >log.$program 2>&1 || status=$?
    echo $status $((SECONDS - begin)) >took.$program
done'

# Skipped tests with what they said, and all that failed ones said.
digest='/^\[ RUN / { name = $0; sub(/^[^]]*\] /, "", name); text = "" }
    { text = text $0 "\n" }
    /: Skipped$/ { getline reason; print "skipped: " name ": " reason; text = text reason "\n" }
    /^\[  FAILED  \] .* ms\)$/ { printf "%s", text }'

failed=
run() { # run PROGRAM…: one boot
    local program status seconds
    guest --share "$share" --cpus 2 --queues 2 --memory 2048 --kernel "$kernel" --root-disk "$disk" -- \
        bash -c "programs='$*' filter='$filter'; $in_guest" || failed=1
    for program in "$@"; do
        read -r status seconds <"$share/took.$program" || status=unfinished seconds=
        awk "$digest" "$share/log.$program" || true
        [ "$status" = 0 ] || { failed=1 && tail -n 3 "$share/log.$program" || true; }
        echo "$program: status $status, $seconds s, $(grep -c '^\[       OK' "$share/log.$program") passed"
    done
}

units=()
for program in "$bin"/unit_* "$bin/integration" "$bin/viaduct" "$bin/viaductd"; do
    [ -x "$program" ] || continue
    cp "$program" "$share/"
    case $program in */unit_*) units+=("$(basename "$program")") ;; esac
done
guest_limit_s=2400 # some ten minutes for both boots on an idle machine
[ ${#units[@]} = 0 ] || run "${units[@]}"
[ ! -x "$share/integration" ] || run integration
[ -z "$failed" ] || fail "some tests do not pass on $(basename "$kernel")"
