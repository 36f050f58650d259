#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# load.sh VIADUCT rust|qemu: our driver's load on a daemon of others, with --verify.
#
# A check on the driver: what it does wrong and our own daemon forgives shows here.  Also asked for is what these
# daemons do not have (more queues, packed rings): the driver goes on with what there is.
set -uo pipefail
viaduct=$1
peer=$2
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/viaduct-peer.XXXXXX")
server=
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null
    rm -rf "$work"
}
trap finish EXIT

skip() {
    echo "skipped: $*" >&2
    exit 77
}
fail() {
    echo "FAILED: $*" >&2
    echo "--- the daemon wrote:" >&2
    cat "$work/log" >&2
    exit 1
}

mkdir "$work/share"
case $peer in
rust)
    program=$top/build/peers/virtiofsd
    [ -x "$program" ] || skip "no Rust virtiofsd; tools/peer-virtiofsd fetches it"
    command=("$program" --sandbox none --seccomp none --log-level error --shared-dir "$work/share")
    ;;
qemu)
    program=/usr/lib/qemu/virtiofsd
    [ -x "$program" ] || skip "no virtiofsd of QEMU: $program (Debian 12's package qemu-system-common)"
    [ "$(id -u)" = 0 ] || skip "QEMU's virtiofsd runs as root only"
    command=("$program" -f -o "source=$work/share" -o sandbox=chroot -o log_level=warn)
    ;;
*)
    fail "there is no peer \"$peer\""
    ;;
esac

# Each serves one connection and ends with it.
load() { # load WHAT ARGUMENT…: a daemon, and viaduct bench on it
    local what=$1 status=0
    shift
    rm -f "$work/socket"
    "${command[@]}" "--socket-path=$work/socket" >"$work/log" 2>&1 &
    server=$!
    for _ in $(seq 400); do
        grep -q " 00010000 .* $work/socket\$" /proc/net/unix && break
        kill -0 "$server" 2>/dev/null || fail "the daemon ended before it listened"
        read -rt 0.05 <> <(:) || true
    done
    timeout 120 "$viaduct" bench "$work/socket" --verify --repeat 1 --ramp 0ms "$@" >"$work/out" 2>&1 || status=$?
    cat "$work/out"
    [ "$status" = 0 ] || fail "$what: viaduct bench ended with $status"
    kill "$server" 2>/dev/null
    wait "$server" 2>/dev/null || true
    server=
    [ -z "$(ls -A "$work/share")" ] || fail "$what: left on the share: $(ls -A "$work/share")"
}

all=null,getattr,lookup,open-release,create-unlink,readdir,readdirplus,randread:4K,randwrite:4K,read:1M,write:1M
small=null,randread:4K,randwrite:4K,create-unlink
load "all kinds" --kind $all --count 2000 --file 64M --depth 16
load "more outstanding than the queue has room for" --kind $small --count 5000 --file 64M --depth 64 --queue-size 16
load "without indirect descriptors and event index" --kind $small --count 5000 --file 64M --no-indirect --no-event-idx
load "more queues than there are" --kind $small --count 5000 --file 64M --queues 4 --threads 4
grep -q '4 were asked for' "$work/out" || fail "that there are fewer queues was not said"
load "asleep until interrupted" --kind $small --count 5000 --file 64M --completion wait
load "packed rings, where there are any" --kind $small --count 5000 --file 64M --packed
grep -q 'does not offer packed' "$work/out" || fail "that there are no packed rings was not said"
load "as another user" --kind create-unlink --count 2000 --uid 1000 --gid 1000
