#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The guest reboots while `viaduct serve` goes on: the share is there again after it, and the daemon listens
# again when QEMU has gone.
. "$(dirname "$0")/lib.sh"

"$viaduct" serve --share "$share" --socket "$work/s" --queues 2 &
server=$!
for _ in $(seq 200); do [ -S "$work/s" ] && break || read -rt 0.05 <> <(:) || true; done
[ -S "$work/s" ] || fail "serve made no socket within 10 s"

in_guest='set -e
if [ -e first ]; then
    grep -qx "written before the reboot" first
    echo "written after the reboot" >second
    mkdir folder && mv first folder/
    exit 5
fi
exec 3>held-open
echo "written before the reboot" >first
reboot -f
sleep 1000'
status=0
guest --socket "$work/s" --cpus 2 --queues 2 --allow-reboot -- sh -c "$in_guest" || status=$?
[ $status = 5 ] || fail "the command after the reboot ended with $status, not 5"
[ "$(cat "$share/second")" = "written after the reboot" ] || fail "the second boot wrote nothing"
[ -e "$share/folder/first" ] || fail "the second boot renamed nothing"

kill -0 "$server" || fail "serve has ended with its front end"
awk -v path="$work/s" '$NF == path && $4 == "00010000" { found = 1 } END { exit !found }' /proc/net/unix ||
    fail "serve does not listen again"
kill -TERM "$server"
status=0
wait "$server" || status=$?
server=
[ $status = 0 ] || fail "serve ended with $status on SIGTERM, not 0"
