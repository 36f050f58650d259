# SPDX-License-Identifier: Apache-2.0
#
# Sourced by test scripts: $top is the source tree, $work a folder that goes away with the script, and the process
# $server, if there is one, ends with it.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/viaduct-test-XXXXXX")

server=
finish() {
    local status=$?
    if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi
    rm -rf "$work"
    exit $status
}
trap finish EXIT

skip() {
    echo "skipped: $*"
    exit 77
}
fail() {
    echo "failed: $*" >&2
    exit 1
}
