#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include of src/ against the table of folders in docs/design.md.

The table is the one place where the rules stand: a folder may include itself and what its row names.
Exit status 1 and one line per offence.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
ROW = re.compile(r"^\|\s*`([^`]+)`\s*\|\s*([^|]*)\|")
# Libraries that one file each may include, because they are slow to compile.
ONE_FILE = {"CLI/": "config/command_line.cc", "toml++/": "config/toml.cc", "nlohmann/": "base/json.cc",
            "httplib": "control/http.cc", "spdlog/": "base/log.cc", "liburing.h": "rt/uring_ring.h",
            "hwloc.h": "topology/machine.cc"}


def rules():
    """folder -> set of folders it may include."""
    table = {}
    for line in (ROOT / "docs/design.md").read_text().splitlines():
        row = ROW.match(line)
        if not row:
            continue
        allowed = {word.strip(" `") for word in row.group(2).split(",")} - {"", "-"}
        for name in row.group(1).split(","):
            table[name.strip()] = allowed
    return table


def folder_of(path, table):
    """The longest row that path lies in; None when there is none."""
    parts = path.split("/")[:-1]
    for length in range(len(parts), 0, -1):
        name = "/".join(parts[:length])
        if name in table:
            return name
        if length > 1 and "/".join(parts[: length - 1]) + "/*" in table:
            return "/".join(parts[: length - 1]) + "/*"
    return None


def main():
    table = rules()
    if len(table) < 10:
        print("docs/design.md: the table of folders was not found")
        return 1
    bad = []
    count = 0
    for file in sorted(SOURCE.rglob("*")):
        if file.suffix not in (".h", ".cc"):
            continue
        count += 1
        name = str(file.relative_to(SOURCE))
        own = folder_of(name, table)
        if own is None:
            bad.append(f"src/{name}: its folder is not in the table of docs/design.md")
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            for library, only in ONE_FILE.items():
                if re.match(rf"^\s*#\s*include\s*[<\"]{re.escape(library)}", line) and name != only:
                    bad.append(f"src/{name}:{number}: only src/{only} includes {library}")
            match = INCLUDE.match(line)
            if not match:
                continue
            other = folder_of(match.group(1), table)
            if other is None:
                bad.append(f"src/{name}:{number}: \"{match.group(1)}\" is in no folder of the table")
            elif "all" in table[own]:
                continue
            elif other.endswith("/*") and other == own and match.group(1).split("/")[1] != name.split("/")[1]:
                bad.append(f"src/{name}:{number}: siblings below {own[:-2]} never include each other")
            elif other != own and other not in table[own]:
                bad.append(f"src/{name}:{number}: {own} may not include {other}")
    for line in bad:
        print(line)
    print(f"{count} files checked, {len(bad)} offences")
    return 1 if bad or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
