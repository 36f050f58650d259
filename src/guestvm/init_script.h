// SPDX-License-Identifier: Apache-2.0
//
// /init of the guest: a shell script, run by busybox as process 1.
//
// It speaks one line per event on the control port: "hello RELEASE", then "exit STATUS" or "fail SENTENCE".
// The command's output goes to ports of its own, each ended by a trailer that the host knows, so that the
// host can tell the last byte.  After "exit" or "fail" the host ends QEMU.
#pragma once

namespace viaduct::guestvm {

inline constexpr const char* kInitScript = R"init(#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
ln -s /proc/self/fd /dev/fd 2>/dev/null
. /viaduct/settings

forever() { while :; do sleep 86400; done; }
fail() {
    echo "fail $*" >&7 || echo "viaduct: $*" >/dev/console
    forever
}
# Device of the virtio-serial port named $1.  The host announces names one after another: they may come a moment
# after the driver.
port() {
    tries=0
    while [ $tries -lt 1000 ]; do
        for entry in /sys/class/virtio-ports/*; do
            name=
            [ -r "$entry/name" ] && read -r name <"$entry/name"
            if [ "$name" = "$1" ] && [ -e "/dev/${entry##*/}" ]; then
                echo "/dev/${entry##*/}"
                return 0
            fi
        done
        usleep 10000
        tries=$((tries + 1))
    done
    return 1
}

exec 7>/dev/console
while read -r module; do
    insmod "$module" 2>/tmp/insmod || fail "module $module does not load: $(cat /tmp/insmod)"
done </viaduct/modules
control=$(port viaduct.control) || fail "no virtio-serial port; does the kernel have virtio_pci and virtio_console?"
exec 7<>"$control"
echo "hello $(uname -r)" >&7
output=$(port viaduct.stdout) && errors=$(port viaduct.stderr) && input=$(port viaduct.stdin) ||
    fail "the virtio-serial ports for input and output do not appear"
[ -n "$reads_stdin" ] || input=/dev/null
exec 5<>"$output" 6<>"$errors" 8<"$input"

mount -t virtiofs "$tag" /mnt 2>/tmp/mount ||
    fail "mount of the share (tag $tag) failed: $(tr '\n' ' ' </tmp/mount)"
run="sh /viaduct/command"
if [ -n "$root_disk" ]; then
    mount -t ext4 -o ro /dev/vda /disk 2>/tmp/mount ||
        fail "mount of the root disk failed: $(tr '\n' ' ' </tmp/mount)"
    for folder in proc sys dev tmp run mnt; do
        [ -d /disk/$folder ] || fail "the root disk has no folder /$folder"
    done
    for folder in proc sys dev; do mount -o rbind /$folder /disk/$folder; done
    mount -t tmpfs tmpfs /disk/tmp
    mount -t tmpfs tmpfs /disk/run
    # Moved, so that the command can unmount it for good.
    mount -o move /mnt /disk/mnt
    # The command's shell is ours: the disk need not have one.
    cp /bin/busybox /viaduct/command /disk/run/
    run="chroot /disk /run/busybox sh /run/command"
fi

$run <&8 >&5 2>&6 5>&- 6>&- 7>&- 8>&-
status=$?
kill -9 -1
cd /
sync
for folder in $(sed -n 's/^[^ ]* \([^ ]*\) virtiofs .*/\1/p' /proc/mounts); do
    umount $folder || umount -l $folder
done
printf %s "$trailer" >&5
printf %s "$trailer" >&6
echo "exit $status" >&7
forever
)init";

} // namespace viaduct::guestvm
