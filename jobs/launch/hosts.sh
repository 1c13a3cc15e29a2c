# Part of ../launch.sh: which hosts are left after a loss.
# shellcheck shell=bash disable=SC2034,SC2154  # variables are shared with ../launch.sh

# Whether a host is this one.
is_here() {
    local address
    for address in localhost 127.0.0.1 "$(uname -n)" $(hostname -I 2>/dev/null || true); do
        [[ $1 != "$address" ]] || return 0
    done
    return 1
}

# Whether mpirun could start something on a host.
is_reachable() {
    local agent
    is_here "$1" && return
    read -ra agent <<<"${mca[plm_rsh_agent]:-ssh -o BatchMode=yes -o ConnectTimeout=5}"
    timeout 15 "${agent[@]}" "$1" true </dev/null >/dev/null 2>&1
}

# The hosts with their slots, "HOST SLOTS" a line.
host_slots() {
    if [[ -n $hosts ]]; then
        tr ',' '\n' <<<"$hosts" | sed -E 's/:([0-9]+)$/ \1/;/ /!s/$/ 1/'
    else
        sed -nE 's/#.*//;s/^[[:space:]]*([^[:space:]]+)(.*[[:space:]]slots=([0-9]+))?.*/\1 \3/p' "$hostfile" |
            sed -E 's/ $/ 1/'
    fi
}

# Leaves out hosts that have gone since the start, and their share of the ranks. Under srun the
# allocation says what is left.
drop_lost_hosts() {
    local name slots all=0 left=0 kept=() gone=() least
    [[ -n $hosts$hostfile ]] || return 0
    while read -r name slots; do
        all=$((all + slots))
        if is_reachable "$name"; then
            left=$((left + slots))
            kept+=("$name:$slots")
        else
            gone+=("$name")
        fi
    done < <(host_slots)
    if ((${#gone[@]} == 0 || ${#kept[@]} == 0)); then
        return 0
    fi
    hosts=$(IFS=, && echo "${kept[*]}") hostfile=''
    if [[ -n $ranks ]]; then
        least=1
        if [[ $(setting arch) == servers ]]; then
            least=$(setting servers)
            least=$((least > 0 ? least + 1 : 2))
        fi
        ranks=$((ranks * left / all))
        ranks=$((ranks > least ? ranks : least))
    fi
    say "cannot reach ${gone[*]}: going on with $hosts${ranks:+, $ranks ranks}"
}
