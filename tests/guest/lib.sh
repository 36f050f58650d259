# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the guest tests.  Each is called with the path of `viaduct`; it exits 77 with a line "skipped: ..."
# when something it needs is not there.

viaduct=${1:?the path of the viaduct program}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../support/script.sh"
share=$work/share
mkdir "$share"

guest_limit_s=270 # ctest's own limit is 300
# guest OPTION… -- COMMAND…: `viaduct guest` on $share within its time; without QEMU, kernel or busybox: skipped.
guest() {
    local status=0
    "$viaduct" guest --timeout "$guest_limit_s" "$@" 2> >(tee "$work/stderr" >&2) || status=$?
    if [ $status = 125 ] && missing=$(grep -E 'is missing; install|no kernel for the guest' "$work/stderr"); then
        skip "$missing"
    fi
    return $status
}

root_disk() {
    [ -r "$top/build/guest/root.ext4" ] || skip "no disk with tools for the guest; tools/root-disk makes it"
    echo "$top/build/guest/root.ext4"
}

# The count of requests of queue $2 in the daemon's statistics $1.
requests_on() {
    grep -oE '"name": *"[^"]*", *"requests": *[0-9]+' "$1" | sed -nE "s/^\"name\": *\"$2\", *\"requests\": *([0-9]+)/\1/p"
}

# Every object below the current folder with what a client can see of it; runs on host and guest alike.
manifest='find . ! -path . | sort | while read -r path; do
    case $(stat -c %F "$path") in
    directory) stat -c "%n %F %a %u %g" "$path" ;;
    fifo) stat -c "%n %F %a" "$path" ;; # reading it would wait for a writer
    "symbolic link") echo "$path -> $(readlink "$path")" ;;
    *) echo "$(stat -c "%n %F %a %u %g %s %h %Y" "$path") $(sha256sum <"$path")" ;;
    esac
done'
