#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over src/, one process per CPU, and keeps what passed.

Usage: tidy.py BUILD_DIR.  A file is checked again only when it, one of its headers below src/, or .clang-tidy
has changed since it last passed (the build folder keeps a note).
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def closure(path, seen):
    """The file and every header below src/ that it reaches."""
    if path in seen or not path.exists():
        return
    seen.add(path)
    for name in INCLUDE.findall(path.read_text()):
        closure(ROOT / "src" / name, seen)


def key(path):
    files = set()
    closure(path, files)
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    known = {e["file"] for e in json.loads((build / "compile_commands.json").read_text())}
    files = [f for f in sorted((ROOT / "src").rglob("*.cc")) if str(f) in known]
    notes_path = build / "tidy-passed.json"
    notes = json.loads(notes_path.read_text()) if notes_path.exists() else {}
    todo = [f for f in files if notes.get(str(f.relative_to(ROOT))) != key(f)]

    def check(file):
        run = subprocess.run(["clang-tidy-19", "--quiet", "-p", str(build), str(file)], capture_output=True, text=True)
        return file, run.returncode, run.stdout

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, status, output in pool.map(check, todo):
            if status == 0:
                notes[str(file.relative_to(ROOT))] = key(file)
            else:
                failed += 1
                print(output)
    notes_path.write_text(json.dumps(notes, indent=1))
    print(f"{len(files)} files, {len(todo)} checked now, {failed} with findings")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
