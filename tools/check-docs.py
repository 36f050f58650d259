#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# check-docs.py BIN_DIR: is what is written about the programs true?
#
# Compares the --help of viaductd and of every command of viaduct with its manual page and with both completions
# (options, defaults, choices), the opcode table of docs/fuse.md with src/fuse/opcodes.cc, the vhost-user requests
# of docs/vhost-user.md with src/vhost/messages.cc, and looks for links to files that do not exist.
# One line per offence; status 1 if there is any.
import os
import re
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
offences = []


def offend(where, what):
    offences.append(f"{where}: {what}")


def read(path):
    try:
        with open(os.path.join(TOP, path), encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        offend(path, error.strerror)
        return ""


class Option:
    def __init__(self, default=None, choices=()):
        self.default = default
        self.choices = tuple(choices)


def run(*words):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)


def options_of_help(text):
    """--name -> Option, from the lines that begin with an option; their text may go on below."""
    options = {}
    entry = None
    for line in text.splitlines():
        head = re.match(r"  (?:-\w,)?(--[a-z][a-z0-9-]*)(?: (\S+))?", line)
        if head:
            value = head[2] if head[2] and "  " not in line[: head.end(2)].strip() else None
            entry = Option(choices=value.split("|") if value and re.fullmatch(r"[a-z_]+(\|[a-z_]+)*", value) else ())
            options[head[1]] = entry
        elif not line.startswith("      "):
            entry = None
        default = re.search(r"\[([^\[\]]*)\]$", line)
        if entry and default and re.fullmatch(r"[\w.-]+", default[1]):
            entry.default = default[1]
    return options


def plain(roff):
    text = re.sub(r"\\f[A-Z]|\\&|\"", "", roff).replace("\\-", "-")
    return re.sub(r"^\.(?:[BIR]{1,2}|SM) ", "", text)


def sections_of_page(page):
    """Heading -> lines, in plain text; a line that begins an entry is marked with a NUL."""
    sections, lines, head = {}, [], False
    for line in read(page).splitlines():
        if line.startswith(".SH "):
            lines = sections.setdefault(line[4:].strip('" '), [])
        elif line in (".TP", ".TQ") or line.startswith(".TP "):
            head = True
        elif not line.startswith('.\\"'):
            lines.append(("\0" if head else "") + plain(line))
            head = False
    return sections


def entries_of(lines):
    """--name -> the text of its entry."""
    entries, names = {}, []
    for line in lines:
        if line.startswith("\0"):
            found = re.findall(r"--[a-z][a-z0-9-]*", line)
            if found:
                names = found
                for name in names:
                    entries[name] = ""
        elif line.startswith(".SS") or line.startswith(".SH"):
            names = []
        for name in names:
            entries[name] += line + "\n"
    return entries


def check_page(page, options, program):
    if not os.path.exists(os.path.join(TOP, page)):
        return offend(page, "is missing")
    sections = sections_of_page(page)
    entries = entries_of(sections.get("OPTIONS", []))
    compare(page, options, entries)
    for name in options.keys() & entries.keys():
        words = set(re.findall(r"[\w.-]*\w", entries[name]))
        default = options[name].default
        if default and default not in words and "Required" not in words:
            offend(page, f"the entry of {name} does not name its default {default}")
        for choice in options[name].choices:
            if choice not in words:
                offend(page, f"the entry of {name} does not name its choice {choice}")
    refused = set(re.findall(r"--[a-z][a-z0-9-]*", "\n".join(sections.get("NOT SUPPORTED", [])))) - options.keys()
    for name in sorted(refused):
        result = run(*program, name)
        if result.returncode != 2 or "not supported" not in result.stderr:
            offend(page, f"{name} is said to be refused, but the program does not say so")


def compare(where, options, documented):
    for name in sorted(options.keys() - documented):
        offend(where, f"option {name} is missing")
    for name in sorted(documented - options.keys()):
        offend(where, f"option {name} does not exist")


BASH = """
source "$1"; function=$2; shift 2
COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
$function; printf '%s\\n' "${COMPREPLY[@]}"
"""


def bash_candidates(*words):
    path = os.path.join(TOP, "completions/viaduct.bash")
    result = run("bash", "-c", BASH, "bash", path, "_" + words[0], *words)
    if result.returncode != 0 or result.stderr:
        offend("completions/viaduct.bash", result.stderr.strip() or f"status {result.returncode}")
    return set(result.stdout.split())


def check_bash(command, options):
    where = f"completions/viaduct.bash ({' '.join(command)})"
    compare(where, options, {word for word in bash_candidates(*command, "--")})
    for name, option in options.items():
        if option.choices and bash_candidates(*command, name, "") != set(option.choices):
            offend(where, f"{name} is not completed with its choices {' '.join(option.choices)}")


def zsh_options():
    """Array name -> {--name: choices}, with the arrays it includes."""
    arrays = {}
    for array in re.finditer(r"^local -a (\w+)=\(\n(.*?)^\)", read("completions/_viaduct"), re.M | re.S):
        options = arrays.setdefault(array[1], {})
        for line in array[2].splitlines():
            line = line.strip()
            if line.startswith("$"):
                options.update(arrays.get(line[1:], {}))
            spec = re.search(r"(?:^'(?:\([^)]*\))?\*?|[{,])(--[a-z][a-z0-9-]*)(?=[=\[}])", line)
            if spec:
                choices = re.search(r":\(([^()]*)\)'$", line)
                options[spec[1]] = set(choices[1].split()) if choices else set()
    return arrays


def check_zsh(name, command, options, arrays):
    where = f"completions/_viaduct ({' '.join(command)})"
    documented = arrays.get(name, {})
    compare(where, options, documented.keys())
    for option in options.keys() & documented.keys():
        if set(options[option].choices) != documented[option]:
            offend(where, f"{option} is not completed with its choices {' '.join(options[option].choices)}")


def check_programs(bin_dir):
    arrays = zsh_options()
    viaduct, viaductd = (os.path.join(bin_dir, name) for name in ("viaduct", "viaductd"))
    overview = run(viaduct, "--help").stdout
    listed = re.search(r"^Commands:\n((?:  .*\n)+)", overview, re.M)
    commands = re.findall(r"^  (\w+)  ", listed[1], re.M) if listed else []
    if not commands:
        offend("viaduct --help", "lists no commands")

    for command in commands:
        options = options_of_help(run(viaduct, command, "--help").stdout)
        if not options:
            offend(f"viaduct {command} --help", "lists no options")
        check_page(f"man/viaduct-{command}.1", options, (viaduct, command))
        check_bash(("viaduct", command), options)
        check_zsh(command, ("viaduct", command), options, arrays)
    options = options_of_help(run(viaductd, "--help").stdout)
    check_page("man/viaductd.1", options, (viaductd,))
    check_bash(("viaductd",), options)
    check_zsh("viaductd", ("viaductd",), options, arrays)

    sections = sections_of_page("man/viaduct.1")
    in_page = {line[1:].split()[0] for line in sections.get("COMMANDS", []) if line.startswith("\0")}
    in_bash = {word for word in bash_candidates("viaduct", "") if not word.startswith("-")}
    in_zsh = set(re.findall(r"^    '(\w+):", read("completions/_viaduct"), re.M))
    for where, found in (("man/viaduct.1", in_page), ("completions/viaduct.bash", in_bash),
                         ("completions/_viaduct", in_zsh)):
        for name in sorted(set(commands) - found):
            offend(where, f"command {name} is missing")
        for name in sorted(found - set(commands)):
            offend(where, f"command {name} does not exist")


def check_manual_syntax():
    pages = sorted(name for name in os.listdir(os.path.join(TOP, "man")) if name.endswith(".1"))
    for name in pages:
        path = os.path.join(TOP, "man", name)
        if shutil.which("groff"):
            result = run("groff", "-man", "-Tutf8", "-ww", "-z", path)
            for line in result.stderr.splitlines():
                offend(f"man/{name}", line)
        if shutil.which("mandoc"):
            result = run("mandoc", "-Tlint", "-Wwarning", path)
            for line in result.stdout.splitlines():
                offend(f"man/{name}", line)


def table_rows(page, heading):
    """Rows of the first table below a heading, as lists of cells."""
    text = read(page)
    at = text.find(f"## {heading}\n")
    if at < 0:
        offend(page, f"has no section {heading}")
        return []
    rows = []
    for line in text[at:].splitlines()[1:]:
        if line.startswith("|"):
            rows.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
        elif rows or line.startswith("## "):
            break
    return rows[2:]


def check_opcodes():
    source = read("src/fuse/opcodes.cc")
    expected = {name: "served" for name in re.findall(r"serve<[^;]*?>\(\s*\w+,\s*\"(\w+)\"", source)}
    expected.update({name: "ENOSYS" for name in re.findall(r"refuse\(\s*\w+,\s*\"(\w+)\"", source)})
    documented = {row[1]: row[2] for row in table_rows("docs/fuse.md", "Opcodes") if len(row) >= 3}
    for name in sorted(expected.keys() - documented.keys()):
        offend("docs/fuse.md", f"opcode {name} is missing")
    for name in sorted(documented.keys() - expected.keys()):
        offend("docs/fuse.md", f"opcode {name} does not exist")
    for name in sorted(expected.keys() & documented.keys()):
        if documented[name] != expected[name]:
            offend("docs/fuse.md", f"opcode {name} is {expected[name]}, not {documented[name]}")


def check_requests():
    """Every request that the protocol code names stands in the table, and no other."""
    enum = re.search(r"enum class Request[^{]*\{(.*?)\}", read("src/vhost/messages.h"), re.S)
    known = {name.upper() for name in re.findall(r"(\w+) = \d+", enum[1])} if enum else set()
    cases = read("src/vhost/device_protocol.cc")
    served = {name.upper() for name in re.findall(r"case Request::(\w+):", cases)} & known
    rows = {row[0]: row[1] for row in table_rows("docs/vhost-user.md", "Requests") if len(row) >= 2}
    for name in sorted(known - rows.keys()):
        offend("docs/vhost-user.md", f"request {name} is missing")
    for name in sorted(rows.keys() - known):
        offend("docs/vhost-user.md", f"request {name} does not exist")
    for name in sorted(known & rows.keys()):
        verdict = "served" if name in served else "refused"
        if rows[name] != verdict:
            offend("docs/vhost-user.md", f"request {name} is {verdict}, not {rows[name]}")


def check_links():
    tracked = run("git", "-C", TOP, "ls-files", "-co", "--exclude-standard", "*.md").stdout.split("\n")
    for page in filter(None, tracked):
        folder = os.path.dirname(os.path.join(TOP, page))
        for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", read(page)):
            if "://" not in target and not os.path.exists(os.path.join(folder, target)):
                offend(page, f"link to {target}, which does not exist")


def main():
    if len(sys.argv) != 2:
        print("usage: check-docs.py BIN_DIR", file=sys.stderr)
        return 2
    for program in ("viaduct", "viaductd"):
        if not os.access(os.path.join(sys.argv[1], program), os.X_OK):
            print(f"check-docs.py: there is no program {os.path.join(sys.argv[1], program)}", file=sys.stderr)
            return 2
    check_programs(sys.argv[1])
    check_manual_syntax()
    check_opcodes()
    check_requests()
    check_links()
    for line in offences:
        print(line)
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
