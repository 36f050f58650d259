#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `viaduct guest` in front of another daemon: the Rust virtiofsd, which has one request queue.
. "$(dirname "$0")/lib.sh"
virtiofsd=$top/build/peers/virtiofsd
[ -x "$virtiofsd" ] || skip "no Rust virtiofsd; tools/peer-virtiofsd fetches it"

echo "from the host" >"$share/file"
"$virtiofsd" --sandbox none --seccomp none --log-level error --shared-dir "$share" --socket-path "$work/s" &
server=$!
for _ in $(seq 200); do [ -S "$work/s" ] && break || read -rt 0.05 <> <(:) || true; done
status=0
guest --socket "$work/s" --queues 1 --accel tcg -- sh -c 'cat file && echo "from the guest" >file && exit 9' || status=$?
[ $status = 9 ] || fail "the command ended with $status, not 9"
[ "$(cat "$share/file")" = "from the guest" ] || fail "the host does not see what the guest wrote"
wait "$server" || true
server=
