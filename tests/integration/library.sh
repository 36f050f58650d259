#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# library.sh BUILD_DIR: installs into a temporary prefix, moves that, builds examples/list-directory outside of the
# tree with the CMake package (clang) and with pkg-config (g++ where there is one), and lists a directory with both.
build=${1:?the build folder}
. "$(dirname "${BASH_SOURCE[0]}")/../support/script.sh"

cmake --install "$build" --prefix "$work/first" --component driver >"$work/install.log"
mv "$work/first" "$work/prefix"
prefix=$work/prefix
cp -r "$top/examples/list-directory" "$work/example"
if grep -rqF "$top" "$prefix" --include='*.cmake' --include='*.pc' --include='*.h'; then
    fail "what is installed names the source tree"
fi

# Each public header by itself; the example includes them all, with the other compiler, too.
for header in "$prefix"/include/viaduct/*.h; do
    echo "#include <viaduct/${header##*/}>" |
        clang++-19 -std=c++23 -Wall -Wextra -Wpedantic -Werror -I"$prefix/include" -fsyntax-only -x c++ -
done

cmake -S "$work/example" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER=clang++-19 >"$work/configure.log" ||
    fail "find_package: $(cat "$work/configure.log")"
cmake --build "$work/cmake" >"$work/build.log" || fail "build: $(cat "$work/build.log")"

other=$(command -v g++-12 || command -v clang++-19)
export PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name viaduct-driver.pc)")
flags=$(pkg-config --cflags --libs viaduct-driver)
# shellcheck disable=SC2086
"$other" -std=c++23 -Wall -Wextra -Wpedantic -Werror "$work/example/main.cc" -o "$work/with-pkg-config" $flags

share=$work/share
mkdir -p "$share/folder/inner"
for size in 0 1 4097 100000; do head -c $size /dev/zero >"$share/folder/file.$size"; done
for number in $(seq 400); do echo "$number" >"$share/folder/a file with a rather long name, number $number"; done
# list PROGRAM PATH: against a daemon of its own, which ends with its front end.
list() {
    rm -f "$work/s"
    "$build/bin/viaductd" --shared-dir "$share" --socket-path "$work/s" --sandbox none 2>"$work/log" &
    server=$!
    for _ in $(seq 600); do [ -S "$work/s" ] && break || read -rt 0.05 <> <(:) || true; done
    [ -S "$work/s" ] || fail "viaductd made no socket within 30 s: $(cat "$work/log")"
    local status=0
    "$1" "$work/s" "$2" >"$work/listed" 2>"$work/error" || status=$?
    wait "$server" || fail "viaductd ended with $?: $(cat "$work/log")"
    server=
    return $status
}

(cd "$share/folder" && find . -mindepth 1 -printf '%y %s %f\n' | sort) >"$work/expected"
[ "$(wc -l <"$work/expected")" = 405 ] || fail "the directory is not what it should be"
for program in "$work/cmake/list-directory" "$work/with-pkg-config"; do
    list "$program" /folder || fail "$program: $(cat "$work/error")"
    sort "$work/listed" | diff "$work/expected" - || fail "$program lists something else than find"
done
status=0
list "$work/with-pkg-config" /missing || status=$?
[ $status = 1 ] && grep -q "/missing: No such file or directory" "$work/error" ||
    fail "a missing directory ends with $status: $(cat "$work/error")"
