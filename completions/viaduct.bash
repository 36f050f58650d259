# SPDX-License-Identifier: Apache-2.0
#
# bash completion for viaduct and viaductd.
# Each table has one option a line: its name and what its value is (choices divided by |, or a kind).

_viaduct_shared='
--workers number
--cache never|metadata|auto|always
--entry-timeout text
--attr-timeout text
--negative-timeout text
--writeback
--allow-mmap
--readonly
--allow-direct-io
--posix-acl
--security-label
--xattrmap text
--translate-uid text
--translate-gid text
--readdirplus auto|on|off
--no-readdirplus
--posix-lock
--no-posix-lock
--flock
--no-flock
--inline auto|always|never
--ring auto|io_uring|poll
--poll-us number
--faults text
--log-level error|warn|info|debug|trace|off
--syslog
--rlimit-nofile number
-h
--help
-V
--version'

_viaduct_served="
--tag text
--queues number
--xattr
--no-packed
--drain-timeout number
--stats-file file
$_viaduct_shared"

_viaduct_serve="
--share directory
--socket file
--once
$_viaduct_served"

_viaduct_mount="
-o text
--daemon
--stop-timeout number
--no-xattr
$_viaduct_shared"

_viaduct_viaductd="
--shared-dir directory
--socket-path file
--socket file
--fd number
--socket-group group
--keep-listening
--sandbox none
--seccomp none
--thread-pool-size number
--preserve-noatime
--inode-file-handles never
--killpriv-v2
--no-killpriv-v2
--announce-submounts
--no-announce-submounts
--print-capabilities
$_viaduct_served"

_viaduct_guest='
--share directory
--socket file
--queues number
--cpus number
--memory number
--kernel file
--qemu program
--accel auto|kvm|tcg
--root-disk file
--env text
--tag text
--console
--packed
--allow-reboot
--stdin
--timeout number
--stats-file file
--serve-option text
-h
--help
-V
--version'

_viaduct_map='
--queues number
--topology file
--policy even|modulo
--clusters
--json
-h
--help
-V
--version'

_viaduct_bench='
--kind text
--mix text
--preset random-write|threads-by-queues|sequential|random-read-write
--sweep text
--queues number
--threads number
--depth number
--block size
--segment size
--file size
--entries number
--completion poll|wait|threads
--dispatch direct|staged
--affinity on|off
--queue-by thread|cpu
--cpus text
--uid number
--gid number
--verify
--queue-size number
--packed
--no-event-idx
--no-indirect
--memory size
--time text
--count number
--ramp text
--repeat number
--bare directory
--bare-cpu number
--bare-time text
--server-pid number
--locality
--report file
--json
-h
--help
-V
--version'

_viaduct_commands='serve mount guest map bench'

# The kind of the value of option $2 in table $1; fails where there is none.
_viaduct_kind() {
    local option kind
    while read -r option kind; do
        [[ $option == "$2" ]] || continue
        [[ $kind ]] && printf %s "$kind"
        return
    done <<<"$1"
    return 1
}

# Candidates for a value of kind $1 that begins with $2.
_viaduct_values() {
    case $1 in
    directory) compgen -d -- "$2" ;;
    file) compgen -f -- "$2" ;;
    program) compgen -c -- "$2" ;;
    group) compgen -g -- "$2" ;;
    number | size | text) ;;
    *) compgen -W "${1//|/ }" -- "$2" ;;
    esac
}

_viaduct_reply() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do COMPREPLY+=("$line"); done
    return 0
}

# Completes the words after the command; $1: its table, $2: place of the first of them, $3: kind of words that are
# no options.
_viaduct_complete() {
    local table=$1 first=$2 current=${COMP_WORDS[COMP_CWORD]} before='' kind index
    ((COMP_CWORD > 0)) && before=${COMP_WORDS[COMP_CWORD - 1]}
    for ((index = first; index < COMP_CWORD; ++index)); do
        [[ ${COMP_WORDS[index]} == -- ]] || continue
        # What follows is a command of the guest's.
        compopt -o filenames 2>/dev/null
        _viaduct_reply < <(compgen -f -- "$current")
        return
    done
    # "=" is a word of its own, unless COMP_WORDBREAKS says otherwise.
    local glued=
    if [[ $current == --*=* ]]; then
        glued=${current%%=*}= before=${current%%=*} current=${current#*=}
    elif [[ $current == = ]]; then
        current=
    elif [[ $before == = ]] && ((COMP_CWORD > 1)); then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    kind=$(_viaduct_kind "$table" "$before")
    if [[ $kind ]]; then
        [[ $kind == directory || $kind == file ]] && compopt -o filenames 2>/dev/null
        _viaduct_reply < <(_viaduct_values "$kind" "$current")
        COMPREPLY=("${COMPREPLY[@]/#/$glued}")
        return
    fi
    if [[ $3 && $current != -* ]]; then
        compopt -o filenames 2>/dev/null
        _viaduct_reply < <(_viaduct_values "$3" "$current")
        return
    fi
    _viaduct_reply < <(compgen -W "$(while read -r option _; do echo "$option"; done <<<"$table")" -- "$current")
}

_viaduct() {
    if ((COMP_CWORD == 1)); then
        _viaduct_reply < <(compgen -W "$_viaduct_commands -h --help -V --version" -- "${COMP_WORDS[1]}")
        return
    fi
    local table=_viaduct_${COMP_WORDS[1]} words=
    [[ ${COMP_WORDS[1]} == mount ]] && words=directory
    [[ " $_viaduct_commands " == *" ${COMP_WORDS[1]} "* ]] && _viaduct_complete "${!table}" 2 $words
}

_viaductd() {
    _viaduct_complete "$_viaduct_viaductd" 1
}

complete -F _viaduct viaduct
complete -F _viaductd viaductd
