# Part of ../launch.sh: finds the program and the launcher, puts the command together.
# shellcheck shell=bash disable=SC2034,SC2154  # variables are shared with ../launch.sh

# Sets `cohort`, the program.
find_program() {
    local built installed=''
    built=$here/../build/release/jobs/cohort
    [[ $here != */share/cohort/jobs ]] || installed=${here%/share/*}/bin/cohort
    if [[ -n ${COHORT:-} ]]; then
        cohort=$COHORT
        if [[ $cohort != */* && -e $cohort ]]; then
            cohort=$PWD/$cohort # the ranks would look for a bare name in PATH
        fi
    elif [[ -x $built ]]; then
        cohort=$(realpath "$built")
    elif [[ -x $installed ]]; then
        cohort=$installed
    elif ! cohort=$(command -v cohort); then
        usage_error "there is no $built and no cohort in PATH; build it" \
            "(cmake --preset release && cmake --build build/release) or set COHORT=FILE"
    fi
    [[ -x $cohort && ! -d $cohort ]] || usage_error "COHORT=$cohort is not a program"
}

# The options for mpirun are Open MPI's; another MPI's mpirun would start ranks that do not find each other.
check_mpirun() {
    local version
    version=$(mpirun --version 2>&1 || true)
    if [[ $version != *'Open MPI'* ]]; then
        usage_error "$(command -v mpirun) is not Open MPI's mpirun; it says:" \
            "$(tr -s ' \n' ' ' <<<"${version:0:100}")... Put Open MPI's first: PATH=/usr/bin:\$PATH"
    fi
}

# Sets `launcher`.
choose_launcher() {
    local mpi_types
    if [[ -z $launcher && -n ${SLURM_JOB_ID:-} && -z $hosts$hostfile ]]; then
        mpi_types=$(srun --mpi=list 2>&1 || true)
        [[ $mpi_types != *pmix* ]] || launcher=srun
    fi
    launcher=${launcher:-mpirun}
    if ! command -v "$launcher" >/dev/null; then
        usage_error "$launcher is missing (jobs/install_deps.sh installs Open MPI)"
    fi
    if [[ $launcher == mpirun ]]; then
        check_mpirun
    fi
    if [[ -n $hostfile && ! -r $hostfile ]]; then
        usage_error "--hostfile $hostfile cannot be read"
    elif [[ -n $hosts && -n $hostfile ]]; then
        usage_error "--hosts and --hostfile exclude each other"
    elif [[ $launcher == srun && -n $hosts$hostfile ]]; then
        usage_error "--hosts and --hostfile are for mpirun; srun takes the allocation's hosts"
    fi
    ranks=${ranks:-${SLURM_NTASKS:-}}
    if [[ -z $ranks && -z $hosts$hostfile ]]; then
        usage_error "how many ranks? -n N"
    fi
}

# With too few open files mpirun waits for ranks of this host that it cannot start. Open MPI 4.1 needs 28 files and
# 4 for each rank (measured with 1 to 16 ranks); 4 and 1 more are asked for, as other versions may need more.
check_open_files() {
    local need
    need=$((32 + 5 * ${ranks:-1}))
    [[ $launcher == mpirun && -z $hosts$hostfile && $(ulimit -Sn) != unlimited ]] || return 0
    (($(ulimit -Sn) >= need)) || ulimit -Sn "$need" 2>/dev/null ||
        usage_error "mpirun needs about $need open files for $ranks ranks, the limit is $(ulimit -Hn) (ulimit -n)"
}

# setting NAME: the value of a text or number in the effective options of the job.
setting() { sed -nE "/^$1 = /{s/^$1 = \"?//;s/\"?\$//p;q}" <<<"$settings"; }

# Sets `out`, `threads` and `patience` of a training run or a fleet, `out` of a Python program that has it; empty for
# other commands. `survives`: whether the job deals with the ranks that it loses. A wrong option ends here.
read_job() {
    local code=0 lost_after
    out='' threads='' settings='' survives=no
    if ((${#job[@]} == 0)) && [[ -z ${COHORT:-} ]]; then
        usage_error "there is no command after --"
    elif [[ ${job[0]:-} == *.py ]]; then # a program that joins a job (docs/pytorch.md)
        local i
        survives=yes
        for ((i = 1; i < ${#job[@]}; i++)); do
            case ${job[i]} in
                --out) out=${job[i + 1]:-} ;;
                --out=*) out=${job[i]#*=} ;;
            esac
        done
        return
    elif [[ ! ${job[0]:-} =~ ^(train|fleet)$ || " ${job[*]} " == *" --help "* || " ${job[*]} " == *" -h "* ]]; then
        return
    fi
    settings=$("$cohort" "${job[@]}" --dump-config) || code=$?
    ((code == 0)) || exit "$code"
    out=$(setting out)
    [[ -z $out ]] || survives=yes
    lost_after=$(setting lost-after-s)
    lost_after=${lost_after%%.*}
    [[ ! $lost_after =~ ^[0-9]{1,6}$ ]] || patience=$((lost_after + 10))
    ((patience >= 20)) || patience=20
    threads=$(setting threads)
}

# Cores that are no hyperthreads of each other, of those this process may use.
cores() {
    local all
    all=$(lscpu --parse=core,socket 2>/dev/null | grep -v '^#' | sort -u | wc -l || true)
    echo $((all > 0 && all < $(nproc) ? all : $(nproc)))
}

# Sets `binding`, mpirun's options for it.
choose_binding() {
    local fit=no
    binding=(--bind-to none --oversubscribe)
    if [[ -n $ranks && ${threads:-0} -gt 0 && -z $hosts$hostfile ]]; then
        if ((ranks * threads <= $(cores))); then
            fit=yes
        fi
    fi
    if [[ $bind == core && ${threads:-0} -eq 0 ]]; then
        usage_error "--bind core needs --threads after 'train', to know how many cores a rank gets"
    elif [[ $bind == core && -z $hosts$hostfile && $fit == no ]]; then
        usage_error "--bind core: $ranks ranks x $threads threads do not fit $(cores) cores"
    fi
    if [[ $bind == core || ($bind == auto && $fit == yes) ]]; then
        binding=(--bind-to core --map-by "slot:PE=$threads")
        say "each rank is bound to $threads core$([[ $threads == 1 ]] || echo s); several jobs on one machine want --bind none"
    fi
}

# Waiting threads must not burn cores, and parallelism is the program's own.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
export OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}
export COHORT_LAUNCH=1 # the program leaves it to launch.sh to say how a run is continued

# A stop that comes before the program listens must not kill it: USR1 is ignored at first and sent
# again until the job ends.
# shellcheck disable=SC2016  # expanded by the ranks
quiet='trap "" USR1; exec "$@"'
# The text of rank.sh without its comments.
noting=$(sed '/^ *#/d' "$here/launch/rank.sh")

# The words of the program that starts something on another host, as mpirun would choose it.
agent_words() {
    local given=${mca[plm_rsh_agent]:-} choice
    if [[ -z $given ]]; then
        given=$(ompi_info --parsable --param plm rsh --level 9 2>/dev/null |
            sed -n 's/^mca:plm:rsh:param:plm_rsh_agent:value:"\(.*\)"$/\1/p' || true)
    fi
    if [[ -z $given || $given == 'ssh : rsh' ]]; then
        given='ssh -x -o BatchMode=yes -o ConnectTimeout=5'
    fi
    while IFS= read -rd : choice; do
        read -ra agent <<<"$choice"
        ! command -v "${agent[0]}" >/dev/null || return 0
    done <<<"$given:"
}

# The hosts for --host. Where it has an address of this host, Open MPI 5 gives this host one slot, however
# many are asked for: the host is named instead.
hosts_for_mpirun() {
    local entries entry own='' list=''
    if [[ $settings_of_mpi == *prte_default_hostfile* ]]; then
        own=" $(hostname -I 2>/dev/null || true) "
    fi
    IFS=, read -ra entries <<<"$hosts"
    for entry in "${entries[@]}"; do
        if [[ $own == *" ${entry%%:*} "* ]]; then
            entry=$(uname -n)${entry#"${entry%%:*}"}
        fi
        list+=,$entry
    done
    echo "${list#,}"
}

# Sets `command`, all words from the launcher to the program and its arguments.
build_command() {
    local name
    if [[ $launcher == srun ]]; then
        # Training deals with the ranks that it loses, other commands end with them.
        command=(srun --mpi=pmix --ntasks="$ranks" --kill-on-bad-exit="$([[ $survives == yes ]] && echo 0 || echo 1)"
            --wait=0)
        if ((ranks > ${SLURM_NTASKS:-ranks})); then
            command+=(--overcommit)
        elif [[ -n ${SLURM_CPUS_PER_TASK:-} ]]; then
            command+=(--cpus-per-task="$SLURM_CPUS_PER_TASK")
        fi
        for name in "${!mca[@]}"; do
            export "OMPI_MCA_$name=${mca[$name]}"
        done
        command+=(sh -c "$quiet" sh "$cohort" "${job[@]}")
        return
    fi
    command=(mpirun)
    if [[ ${#agent[@]} -gt 0 && ${mca[plm_rsh_no_tree_spawn]} == 1 ]]; then
        command=(env "PATH=$here/launch:$PATH" "COHORT_AGENT=${agent[*]}"
            "COHORT_UNREACHABLE=$folder/unreachable" mpirun)
        mca[plm_rsh_agent]=agent.sh
    fi
    ((EUID != 0)) || command+=(--allow-run-as-root)
    [[ -z $ranks ]] || command+=(-n "$ranks")
    [[ -z $hosts ]] || command+=(--host "$(hosts_for_mpirun)")
    [[ -z $hostfile ]] || command+=(--hostfile "$hostfile")
    command+=("${binding[@]}")
    for name in $(printf '%s\n' "${!mca[@]}" | sort); do
        command+=(--mca "$name" "${mca[$name]}")
    done
    for name in COHORT_LAUNCH OMP_WAIT_POLICY OMP_NUM_THREADS OPENBLAS_NUM_THREADS \
        ${NCCL_SOCKET_IFNAME:+NCCL_SOCKET_IFNAME}; do
        command+=(-x "$name")
    done
    if [[ $survives == yes ]]; then
        command+=(--enable-recovery sh -c "$noting" sh "$folder/notes" "$cohort" "${job[@]}")
    else
        command+=(sh -c "$quiet" sh "$cohort" "${job[@]}")
    fi
}
