#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# flat_cost.sh BUILD: a request costs viaductd hardly more instructions on 64 queues than on one.
#
# The limits are those of a build without whole-program optimisation, see docs/benchmarks.md for the release build.
. "$(dirname "$0")/../support/script.sh"
[ -x "$top/build/valgrind13/valgrind" ] || skip "no Valgrind of Debian 13; tools/valgrind13 fetches it"
status=0
"$top/tools/flat-cost" --instructions --build "$1" --kinds getattr,randread:4K --limit 8 || status=$?
"$top/tools/flat-cost" --instructions --build "$1" --kinds null --limit 15 || status=$?
exit $status
