# Part of ../launch.sh: which hosts can be reached.
# shellcheck shell=bash disable=SC2034,SC2154  # variables are shared with ../launch.sh

# Whether a host is this one.
is_here() {
    local address
    for address in localhost 127.0.0.1 "$(uname -n)" $(hostname -I 2>/dev/null || true); do
        [[ $1 != "$address" ]] || return 0
    done
    return 1
}

# Whether something can be started on a host.
is_reachable() {
    is_here "$1" && return
    local options
    read -ra options <<<"${mca[plm_rsh_args]:-}"
    timeout --kill-after=1 10 "${agent[@]}" "${options[@]}" "$1" true </dev/null >/dev/null 2>&1
}

# out_of_reach HOST...: those that cannot be reached. They are all asked at once.
out_of_reach() {
    local name
    for name; do
        { is_reachable "$name" || echo "$name"; } &
    done
    wait
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

# Sets `given`, the hosts with their slots, and `agent`; both are empty when nobody named hosts.
read_hosts() {
    given=() agent=()
    if [[ $launcher == mpirun && -n $hosts$hostfile ]]; then
        mapfile -t given < <(host_slots)
        given_options=("$ranks" "$hosts" "$hostfile")
        agent_words
    fi
}

# Parameters of PRRTE, which starts the ranks of Open MPI 5, in ompi_info's form.
prte_settings() {
    prte_info --all 2>/dev/null | tr -s '\n ' ' ' |
        grep -oE '"(oob_tcp_if_(in|ex)clude|prte_default_hostfile)" \(current value: "[^"]*", data source: [a-z]+' |
        sed -E 's/"(.*)" \(current value: "(.*)", data source: (.*)/mca:prte:param:\1:value:\2\nmca:prte:param:\1:source:\3/'
}

# Sets `settings_of_mpi`, parameters of Open MPI as its files of settings and the environment have them.
read_mpi_settings() {
    local part
    settings_of_mpi=$({
        for part in 'btl tcp' 'oob tcp' 'orte all'; do
            # shellcheck disable=SC2086  # two words
            ompi_info --parsable --param $part --level 9 2>/dev/null
        done
        prte_settings
    } || true)
}

# Whether all ranks run on this host, as far as one can know before the start.
all_here() {
    local line default
    for line in "${given[@]}"; do
        is_here "${line% *}" || return 1
    done
    ((${#given[@]} == 0)) || return 0
    default=$(sed -nE 's/^mca:.*:(orte|prte)_default_hostfile:value://p' <<<"$settings_of_mpi")
    [[ -z ${SLURM_JOB_ID:-}${PBS_JOBID:-}${LSB_JOBID:-}${PE_HOSTFILE:-} ]] &&
        ! grep -qs '^[[:space:]]*[^#[:space:]]' "$default"
}

# Which networks Open MPI and NCCL use when --interfaces did not say it, and when mpirun and its
# daemons count as cut off from each other: once a job would have given up, and 20 seconds later.
choose_networks() {
    local stall
    read_mpi_settings
    if [[ -n $interfaces ]]; then
        if [[ -z ${NCCL_SOCKET_IFNAME:-} && ! $interfaces =~ [/:] ]]; then
            export NCCL_SOCKET_IFNAME="=$interfaces"
        fi
    elif [[ "${!mca[*]}" == *_tcp_if_* ]] ||
        grep -qE '_tcp_if_(in|ex)clude:source:' <<<"${settings_of_mpi//source:default/}"; then
        : # Open MPI's own settings say it
    elif all_here; then
        mca[btl_tcp_if_include]=127.0.0.1/8 mca[oob_tcp_if_include]=127.0.0.1/8
    elif [[ ${SLURM_NNODES:-2} != 1 ]]; then
        say "no --interfaces: the job uses every network of its hosts and trusts it (docs/trust.md)"
    fi
    # Open MPI 5 does not let its daemons do with the loopback interface alone.
    if [[ $settings_of_mpi == *prte_default_hostfile* && ${mca[oob_tcp_if_include]:-} =~ ^(lo|127\..*)$ ]]; then
        unset 'mca[oob_tcp_if_include]'
    fi
    all_here && return
    stall=$(setting stall-limit-s)
    stall=${stall%%.*}
    [[ $stall =~ ^[1-9][0-9]{0,5}$ ]] || stall=60
    : "${mca[oob_tcp_keepalive_time]:=$((2 * stall))}"
    : "${mca[oob_tcp_keepalive_intvl]:=5}" "${mca[oob_tcp_keepalive_probes]:=4}"
}

# start_failed: whether a host could not be reached, so that the job has not begun.
start_failed() { [[ -s $folder/unreachable ]] && ! left_code && ! has_begun; }

# Chooses hosts for a restart, and their share of the ranks: of those given at first, which may have
# come back, the ones that can be reached now and are not in `barred`. Under srun the allocation says
# what is left. Fails when no host is left.
choose_hosts() {
    local line name slots all=0 left=0 kept=() gone least
    ((${#given[@]} > 0)) || return 0
    gone=" ${barred[*]} $(out_of_reach "${given[@]%% *}" | tr '\n' ' ') "
    for line in "${given[@]}"; do
        read -r name slots <<<"$line"
        all=$((all + slots))
        if [[ $gone != *" $name "* ]]; then
            left=$((left + slots))
            kept+=("$name:$slots")
        fi
    done
    ranks=${given_options[0]} hosts=${given_options[1]} hostfile=${given_options[2]}
    if ((${#kept[@]} == 0)); then
        say "cannot reach any host"
        return 1
    fi
    ((left < all)) || return 0
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
    read -ra gone <<<"$gone"
    say "cannot reach $(printf '%s\n' "${gone[@]}" | sort -u | paste -sd ' '):" \
        "going on with $hosts${ranks:+, $ranks ranks}"
}

# Starts the job again, and once more without a host that turns out to be out of mpirun's reach.
run_again() {
    barred=()
    resume_job
    while choose_hosts; do
        build_command
        run_once
        start_failed && [[ $stopping == no ]] || return 0
        say "$reason"
        mapfile -t -O "${#barred[@]}" barred < <(cut -d ' ' -f 1 "$folder/unreachable")
    done
    lost=no
}
