# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the other tools: Debian packages into private folders, without touching the system's packages or
# apt configuration.  The mirror is the one this machine's own apt sources name for bookworm.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/viaduct
mkdir -p "$cache" 2>/dev/null && [ -w "$cache" ] || cache=$top/build/cache
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

die() {
    echo "${0##*/}: $*" >&2
    exit 1
}

need() { # need PROGRAM PACKAGE
    command -v "$1" >/dev/null || PATH=$PATH:/sbin:/usr/sbin command -v "$1" >/dev/null ||
        die "$1 is missing; install the Debian package $2 (make deps-test does)"
}

# The archive that serves SUITE (bookworm unless said) according to apt's own reading of its sources.
mirror() {
    apt-get update --print-uris 2>/dev/null |
        sed -nE "s|^'(.*)/dists/${1:-bookworm}/InRelease' .*|\1|p" | head -n 1
}

# private_apt DIR STATUS 'MIRROR-SUFFIX SUITE COMPONENT…'…: an apt state of its own in DIR; STATUS is the dpkg
# status file that dependencies are resolved against (/dev/null: nothing is installed).
private_apt() {
    local dir=$1 status=$2 base options=()
    shift 2
    base=$(mirror)
    [ -n "$base" ] || die "the apt sources of this machine name no mirror for bookworm; is this Debian 12?"
    [ -r "$keyring" ] && options+=("signed-by=$keyring")
    # A local mirror that the administrator trusts without signatures is trusted here too.
    grep -rqiE '^[^#]*(trusted=yes|^trusted: *yes)' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null &&
        options+=(trusted=yes)
    mkdir -p "$dir/lists/partial" "$dir/archives/partial"
    : >"$dir/sources.list"
    local line
    for line in "$@"; do
        echo "deb ${options:+[${options[*]}] }$base $line" >>"$dir/sources.list"
    done
    apt_private=(-q -o Dir::Etc::SourceList="$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o Dir::State::Lists="$dir/lists" -o Dir::State::status="$status"
        -o Dir::Cache::archives="$dir/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
        -o Dir::State::extended_states="$dir/extended_states" -o APT::Sandbox::User=root
        -o APT::Get::List-Cleanup=1 -o Acquire::Languages=none -o Debug::NoLocking=1)
    apt-get "${apt_private[@]}" -o Acquire::Retries=3 update >"$dir/update.log" 2>&1 ||
        die "no package lists from $base ($*): $(tail -n 1 "$dir/update.log")"
}

# A folder that appears at DEST complete or not at all: publish STAGING DEST.
publish() {
    mkdir -p "$(dirname "$2")"
    rm -rf "$2.old"
    [ -e "$2" ] && mv "$2" "$2.old"
    mv "$1" "$2"
    rm -rf "$2.old"
}

# unpack_packages DEST 'SUITE COMPONENT…' PACKAGE…: the packages and what they depend on, unpacked (not
# installed: no maintainer script runs) into DEST.
unpack_packages() {
    local dest=$1 suite=$2 work file
    shift 2
    work=$(mktemp -d "$cache/.new.XXXXXX")
    private_apt "$work/apt" /dev/null "$suite"
    apt-get "${apt_private[@]}" -o Acquire::Retries=3 --no-install-recommends --download-only -y install "$@" \
        >"$work/download.log" 2>&1 ||
        die "download of $* from ${suite%% *} failed: $(grep -m 1 '^E:' "$work/download.log" || tail -n 1 "$work/download.log")"
    mkdir "$work/tree"
    # The directories that a merged /usr has as links, so that packages of both layouts land in one place.
    mkdir -p "$work"/tree/usr/{bin,sbin,lib,lib64}
    for file in bin sbin lib lib64; do ln -s "usr/$file" "$work/tree/$file"; done
    for file in "$work"/apt/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$file" | tar -C "$work/tree" --keep-directory-symlink -xf - ||
            die "cannot unpack ${file##*/}"
    done
    publish "$work/tree" "$dest"
    rm -rf "$work"
}
