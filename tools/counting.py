# SPDX-License-Identifier: Apache-2.0
"""Instructions and system calls of one operation of a daemon.

A daemon is started twice, loaded with a few operations and with many, and what the many took more is divided by their
number: starting, connecting and ending cost the same in both.  Under Valgrind or strace a daemon is many times slower
than the load, so that it always finds work, provided that the load is not kept off its CPU: it runs at real-time
priority where that is allowed.
"""
import collections
import functools
import json
import os
import pathlib
import re
import subprocess
import sys

from pinned_daemon import pinned_daemon

TOP = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = 77
# Whatever goes wrong under Valgrind, it is over after this.
ENDS_WITHIN_S = 600


def fail(text, status=1):
    print(f"{os.path.basename(sys.argv[0])}: {text}", file=sys.stderr)
    sys.exit(status)


@functools.cache
def valgrind():
    """The Valgrind of Debian 13; without one the tool is skipped."""
    got = subprocess.run([TOP / "tools/valgrind13"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         check=False)
    if got.returncode != 0:
        fail(f"skipped: tools/valgrind13: {got.stderr.strip()}", SKIPPED)
    return got.stdout.split("\n")[-2]


@functools.cache
def first_in_line():
    """A prefix for the load: ahead of everything else on its CPU, if this user may."""
    prefix = ["chrt", "-f", "50"]
    try:
        allowed = subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    return prefix if allowed else []


def under_callgrind(out, command):
    return ["timeout", "--foreground", "-s", "KILL", str(ENDS_WITHIN_S), valgrind(), "--tool=callgrind",
            f"--callgrind-out-file={out}", f"--log-file={out}.log", *command]


def instructions_in(out):
    """The sum of a file of callgrind's."""
    found = re.search(r"^totals: (\d+)", pathlib.Path(out).read_text(encoding="utf8"), re.M)
    if not found:
        fail(f"{out} has no sum; was callgrind ended too early?")
    return int(found[1])


def functions_in(out):
    """Instructions by function, inlined ones counted where they are."""
    annotate = pathlib.Path(valgrind()).parent / "callgrind_annotate"
    text = subprocess.run(["perl", annotate, "--threshold=100", "--auto=no", out], capture_output=True, text=True,
                          check=True).stdout
    counts = collections.Counter()
    for line in text.splitlines():
        found = re.match(r"\s*([\d,]+) \([^)]*\)\s+[^:]*:(.*?)(?: \[[^]]*\])?$", line)
        if found:
            counts[found[2]] += int(found[1].replace(",", ""))
    return counts


def under_strace(out, command):
    return ["strace", "-f", "-c", "-o", str(out), *command]


def system_calls_in(out):
    """Calls by name, from a table of strace -c."""
    calls = collections.Counter()
    for line in pathlib.Path(out).read_text(encoding="utf8").splitlines():
        words = line.split()
        if len(words) in (5, 6) and re.fullmatch(r"[\d.]+", words[0]) and words[-1] != "total":
            calls[words[-1]] += int(words[3])
    if not calls:
        fail(f"{out} has no system calls")
    return calls


class Loaded:
    """viaductd of `build`, with one worker on `server_cpu`, and the load on `load_cpu`."""

    def __init__(self, build, folder, server_cpu, load_cpu):
        self.build, self.folder = pathlib.Path(build), pathlib.Path(folder)
        self.server_cpu, self.load_cpu = server_cpu, load_cpu
        self.share = self.folder / "share"
        self.share.mkdir(exist_ok=True)
        for program in ("viaductd", "viaduct"):
            if not os.access(self.build / "bin" / program, os.X_OK):
                fail(f"{self.build}/bin/{program} is missing")

    def run(self, wrap, out, load, count):
        """Starts viaductd as `wrap(out, command)` says, puts `count` operations of `load` on it, and ends it."""
        socket = self.folder / "socket"
        socket.unlink(missing_ok=True)
        # What counts makes calls slow, and slow calls would leave the worker.
        command = [str(self.build / "bin/viaductd"), "--shared-dir", str(self.share), "--socket-path", str(socket),
                   "--workers", "1", "--inline", "always", "--log-level", "warn"]
        with pinned_daemon(wrap(out, command), socket, self.server_cpu, self.folder / "log", ENDS_WITHIN_S):
            bench = [*first_in_line(), str(self.build / "bin/viaduct"), "bench", str(socket), *load, "--threads", "1",
                     "--cpus", str(self.load_cpu), "--ramp", "0ms", "--repeat", "1", "--count", str(count), "--json"]
            done = subprocess.run(bench, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                fail(f"{' '.join(bench)}: status {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout.splitlines()[-1])

    def each(self, wrap, read, load, few, many):
        """What one operation takes, of whatever `read(out)` finds after a run: a number or a Counter."""
        outs = [self.folder / "few", self.folder / "many"]
        for out, count in zip(outs, (few, many)):
            self.run(wrap, out, load, count)
        before, after = map(read, outs)
        if isinstance(after, int):
            return (after - before) / (many - few)
        return {name: (after[name] - before[name]) / (many - few) for name in after}
