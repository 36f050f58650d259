#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A guest with 4 CPUs and 4 request queues: each CPU's requests go out on its queue, and a tree made in the guest
# is the same on the host.
. "$(dirname "$0")/lib.sh"

in_guest='set -e
interrupts() { # of request queue $1, on all CPUs
    awk -v name="-requests.$1" '"'"'$NF ~ name "$" { for (i = 2; i <= 5; ++i) sum += $i } END { print sum + 0 }'"'"' /proc/interrupts
}
for queue in /sys/fs/virtiofs/*/mqs/*; do echo "$(cat $queue/name) $(cat $queue/cpu_list)"; done >/tmp/map
for cpu in 0 1 2 3; do
    grep -qx "requests.$cpu $cpu" /tmp/map || { echo "queue map:"; cat /tmp/map; exit 3; }
done
cp /tmp/map map.guest
mkdir tree && cd tree
for cpu in 0 1 2 3; do
    before=$(interrupts $cpu)
    taskset -c $cpu sh -e -c "
        mkdir -p cpu$cpu/deep/er/still
        for size in 0 1 4095 4096 4097 100000 1300000; do
            head -c \$size /dev/urandom >cpu$cpu/deep/file.\$size
        done
        ln cpu$cpu/deep/file.4096 cpu$cpu/deep/er/hard
        ln -s ../file.1 cpu$cpu/deep/er/soft
        mkfifo cpu$cpu/fifo
        chmod 640 cpu$cpu/deep/file.1
        chown 1000:100 cpu$cpu/deep/file.4097
        touch -d 200102030405.06 cpu$cpu/deep/file.0
        mv cpu$cpu/deep/file.100000 cpu$cpu/moved
        rm cpu$cpu/deep/file.1300000
        rmdir cpu$cpu/deep/er/still
        for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo \$i >cpu$cpu/small.\$i; done"
    after=$(interrupts $cpu)
    [ $((after - before)) -ge 20 ] || { echo "queue requests.$cpu had $before, then $after interrupts"; exit 4; }
done
'"$manifest"' >/tmp/manifest
cp /tmp/manifest ../manifest.guest'

guest --share "$share" --cpus 4 --queues 4 --stats-file "$work/stats.json" -- sh -c "$in_guest"
(cd "$share/tree" && busybox sh -c "$manifest" >"$work/manifest.host")
diff "$share/manifest.guest" "$work/manifest.host" || fail "the host sees another tree than the guest made"
[ "$(wc -l <"$work/manifest.host")" -ge 100 ] || fail "the tree is too small: $(wc -l <"$work/manifest.host") objects"
# `viaduct map` foretells the map; more machines in map.sh.
"$viaduct" map --queues 4 --topology "Core:4 PU:1" |
    awk '/^index/ { table = 1; next } !NF { table = 0 } table { $1 = ""; print substr($0, 2) }' >"$work/map.host"
sort "$share/map.guest" | diff - "$work/map.host" || fail "viaduct map tells another map (>) than the guest (<)"
for queue in 0 1 2 3; do
    count=$(requests_on "$work/stats.json" requests.$queue)
    [ "${count:-0}" -gt 0 ] || fail "the daemon counts ${count:-no} requests on queue requests.$queue"
    echo "requests.$queue: $count requests"
done
