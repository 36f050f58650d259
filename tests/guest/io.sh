#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Real programs on the share: fio with verification, git clone of a local repository; then unmount, mount again,
# and everything is still there.
. "$(dirname "$0")/lib.sh"
disk=$(root_disk)

export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@localhost \
    GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@localhost
git init -q "$share/origin"
for commit in 1 2 3; do
    for folder in a b c/d; do
        mkdir -p "$share/origin/$folder"
        for file in 1 2 3 4 5 6 7 8; do head -c 3000 /dev/urandom | base64 >"$share/origin/$folder/$file"; done
    done
    git -C "$share/origin" add .
    git -C "$share/origin" commit -qm "commit $commit"
done

in_guest='set -e
fio --name=verify --directory=/mnt --size=6m --numjobs=2 --rw=randrw --bsrange=4k-128k --ioengine=psync \
    --verify=crc32c --verify_fatal=1 --fsync_on_close=1 --output-format=terse >/tmp/fio
fio --name=direct --directory=/mnt --size=4m --direct=1 --rw=randwrite --bs=16k --ioengine=psync \
    --verify=crc32c --verify_fatal=1 --output-format=terse >>/tmp/fio
git clone -q --no-hardlinks /mnt/origin /mnt/clone
git -C /mnt/clone fsck --strict
test -z "$(git -C /mnt/clone status --porcelain)"
sha256sum /mnt/verify.0.0 /mnt/clone/c/d/8 >/tmp/before
cd /
umount /mnt
test -z "$(ls -A /mnt)"
mount -t virtiofs "$VIADUCT_TAG" /mnt
sha256sum /mnt/verify.0.0 /mnt/clone/c/d/8 >/tmp/after
cmp /tmp/before /tmp/after
echo "kept" >/mnt/after-remount'

guest --share "$share" --cpus 2 --queues 2 --root-disk "$disk" -- bash -c "$in_guest"
git -C "$share/clone" fsck --strict || fail "the clone is damaged on the host"
[ -z "$(git -C "$share/clone" status --porcelain)" ] || fail "the clone differs from its commit on the host"
[ "$(git -C "$share/clone" rev-list --count HEAD)" = 3 ] || fail "the clone has not 3 commits"
[ "$(cat "$share/after-remount")" = kept ] || fail "what was written after the second mount is not there"
