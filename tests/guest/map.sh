#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `viaduct map` says of a machine what the kernel in it does: 1 to 4 CPUs, and in each guest six devices with 1 to 6
# request queues, whose sysfs is compared with the table of the command.
. "$(dirname "$0")/lib.sh"
qemu=$(command -v qemu-system-x86_64) || skip "qemu-system-x86_64 is missing; install qemu-system-x86"

servers=()
end_servers() {
    local server
    for server in "${servers[@]}"; do kill "$server" 2>/dev/null || true; done
    for server in "${servers[@]}"; do wait "$server" || true; done
    servers=()
}
trap 'end_servers; finish' EXIT

# QEMU with five more devices than `viaduct guest` asks for.
cat >"$work/qemu" <<END
#!/bin/sh
[ "\$1" = --version ] && exec "$qemu" --version
for queues in 2 3 4 5 6; do
    set -- "\$@" -chardev "socket,id=share\$queues,path=$work/s\$queues" \\
        -device "vhost-user-fs-pci,chardev=share\$queues,tag=queues\$queues,num-request-queues=\$queues"
done
exec "$qemu" "\$@"
END
chmod +x "$work/qemu"

in_guest='for device in /sys/fs/virtiofs/*; do
    for queue in $device/mqs/*; do
        echo "$(cat $device/tag) ${queue##*/} $(cat $queue/name) $(cat $queue/cpu_list)"
    done
done >maps
cat /sys/devices/system/cpu/possible >possible'

combinations=0
for cpus in 1 2 3 4; do
    for queues in 2 3 4 5 6; do
        "$viaduct" serve --share "$share" --socket "$work/s$queues" --queues 6 --workers 1 2>>"$work/log" &
        servers+=($!)
    done
    for _ in $(seq 600); do
        [ "$(find "$work" -maxdepth 1 -type s | wc -l)" = 5 ] && break || read -rt 0.05 <> <(:) || true
    done
    rm -f "$share/maps"
    guest --share "$share" --cpus "$cpus" --queues 1 --tag queues1 --qemu "$work/qemu" --accel tcg -- sh -c "$in_guest"
    end_servers
    echo "$cpus CPUs, possible: $(cat "$share/possible")"
    for queues in 1 2 3 4 5 6; do
        "$viaduct" map --queues "$queues" --topology "Core:$cpus PU:1" | awk '
            /^index/ { table = 1; next }
            !NF { table = 0 }
            table { $1 = $1; print }' >"$work/ours"
        sed -n "s/^queues$queues //p" "$share/maps" | sort -n >"$work/guests"
        [ -s "$work/guests" ] || fail "the guest's sysfs has no queue map of the device with $queues queues"
        diff "$work/guests" "$work/ours" || fail "with $cpus CPUs and $queues queues the guest's map (<) is another (>)"
        combinations=$((combinations + 1))
    done
done
[ $combinations = 24 ] || fail "$combinations combinations were compared, not 24"
echo "$combinations combinations are the same"
