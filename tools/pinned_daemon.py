# SPDX-License-Identifier: Apache-2.0
"""A daemon on one CPU, for the tools that measure."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

LISTENS_WITHIN_S = 30
ENDS_WITHIN_S = 15


def listens(socket):
    """Whether somebody listens there; nobody connects to find out, some daemons serve one connection only."""
    with open("/proc/net/unix", encoding="utf8") as table:
        return any(line.rstrip().endswith(" " + str(socket)) and " 00010000 " in line for line in table)


@contextlib.contextmanager
def pinned_daemon(command, socket, cpu, log, ends_within_s=ENDS_WITHIN_S):
    """Listens on `socket` until the end of the with block; what it prints goes into the file `log`."""
    with open(log, "w", encoding="utf8") as to:
        process = subprocess.Popen(["taskset", "-c", str(cpu), *command], stdout=to, stderr=to)
    try:
        limit = time.monotonic() + LISTENS_WITHIN_S
        while not listens(socket):
            if process.poll() is not None or time.monotonic() > limit:
                tool = os.path.basename(sys.argv[0])
                sys.exit(f"{tool}: {command[0]} does not listen:\n" + pathlib.Path(log).read_text(encoding="utf8"))
            time.sleep(0.01)  # listen() has no event
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(ends_within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
