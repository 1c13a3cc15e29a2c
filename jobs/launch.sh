#!/usr/bin/env bash
# Starts cohort on many ranks, by mpirun or, inside a Slurm allocation, by srun.
#
#   jobs/launch.sh [OPTION...] -- COMMAND [ARGUMENT...]
#   jobs/launch.sh -n 4 -- train --data data/fashion-mnist.h5 --model lenet --out runs/four
#
#   -n, --ranks N        processes; needed unless hosts or Slurm say how many
#   --hosts A:2,B:2      hosts and their slots
#   --hostfile FILE      the same, from a file with lines "HOST slots=N"
#   --tcp-only           no shared memory between ranks of one host
#   --interfaces LIST    network interfaces or subnets to use, e.g. eth0 or 10.0.0.0/24
#   --bind auto|none|core  core: cores of its own for each rank; auto (default): if they fit
#   --mca NAME VALUE     an Open MPI parameter, added or in place of the one chosen here
#   --launcher mpirun|srun  default: srun in a Slurm allocation with PMIx, otherwise mpirun
#   --restarts K         after a lost rank start again with --resume, at most K times
#   --resume             go on from the newest checkpoint, whatever the job's own words say
#   --dry-run            print the command that would be run and stop
#
# Ctrl-C, TERM, HUP and USR1 stop the job after a checkpoint, exit code 75; a second Ctrl-C or TERM
# ends it at once. docs/launch.md has all exit codes. COHORT=FILE names another program.
set -euo pipefail

say() { echo "launch: $*" >&2; }

usage_error() { # ends with code 2
    say "$*; launch.sh --help tells more"
    exit 2
}

declare -A mca=(
    [pml]=ob1 [btl]='self,vader,tcp' [btl_tcp_flags]=0x201 [osc]=^rdma
    [mpi_yield_when_idle]=1 [plm_rsh_no_tree_spawn]=1
)
ranks='' hosts='' hostfile='' bind=auto launcher='' restarts=0 dry_run=no resume=no patience=25

# Sets the options above and `job`, the words after --.
read_options() {
    while (($# > 0)); do
        case $1 in
            -h | --help)
                sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
                exit 0
                ;;
            --tcp-only) mca[btl]=self,tcp ;;
            --resume) resume=yes ;;
            --dry-run) dry_run=yes ;;
            --)
                job=("${@:2}")
                return
                ;;
            --mca=*) usage_error "--mca takes two words, as in --mca pml ob1" ;;
            --mca)
                (($# > 2)) || usage_error "--mca needs a name and a value"
                mca[$2]=$3
                shift 2
                ;;
            -n | --ranks | --hosts | --hostfile | --interfaces | --bind | --launcher | --restarts)
                [[ $# -gt 1 && $2 != -- ]] || usage_error "$1 needs a value"
                set_option "$1" "$2"
                shift
                ;;
            --*=*) set -- --placeholder "${1%%=*}" "${1#*=}" "${@:2}" ;;
            *) usage_error "unknown option '$1'" ;;
        esac
        shift
    done
    usage_error "there is no -- with a command after it"
}

# set_option NAME VALUE: checks and stores a value.
set_option() {
    case $1 in
        -n | --ranks)
            [[ $2 =~ ^[1-9][0-9]{0,5}$ ]] || usage_error "$1 takes a number of ranks, not '$2'"
            ranks=$2
            ;;
        --hosts) hosts=$2 ;;
        --hostfile) hostfile=$2 ;;
        --interfaces) mca[btl_tcp_if_include]=$2 mca[oob_tcp_if_include]=$2 ;;
        --bind)
            [[ $2 =~ ^(auto|none|core)$ ]] || usage_error "--bind takes auto, none or core, not '$2'"
            bind=$2
            ;;
        --launcher)
            [[ $2 =~ ^(mpirun|srun)$ ]] || usage_error "--launcher takes mpirun or srun, not '$2'"
            launcher=$2
            ;;
        --restarts)
            [[ $2 =~ ^[0-9]{1,4}$ ]] || usage_error "--restarts takes a number, not '$2'"
            restarts=$2
            ;;
    esac
}

# Sets `cohort`, the program.
find_program() {
    local built
    built=$(dirname "${BASH_SOURCE[0]}")/../build/release/jobs/cohort
    if [[ -n ${COHORT:-} ]]; then
        cohort=$COHORT
    elif [[ -x $built ]]; then
        cohort=$(realpath "$built")
    elif ! cohort=$(command -v cohort); then
        usage_error "there is no $built and no cohort in PATH; build it" \
            "(cmake --preset release && cmake --build build/release) or set COHORT=FILE"
    fi
    [[ -x $cohort && ! -d $cohort ]] || usage_error "COHORT=$cohort is not a program"
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

# setting NAME: the value of a text or number in the effective options of the job.
setting() { sed -nE "/^$1 = /{s/^$1 = \"?//;s/\"?\$//p;q}" <<<"$settings"; }

# Sets `out`, `threads` and `patience` of a training run; empty for other commands. A wrong option ends here.
read_job() {
    local code=0 lost_after
    out='' threads=''
    if ((${#job[@]} == 0)) && [[ -z ${COHORT:-} ]]; then
        usage_error "there is no command after --"
    elif [[ ${job[0]:-} != train || " ${job[*]} " == *" --help "* || " ${job[*]} " == *" -h "* ]]; then
        return
    fi
    settings=$("$cohort" "${job[@]}" --dump-config) || code=$?
    ((code == 0)) || exit "$code"
    out=$(setting out)
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
        say "each rank is bound to $threads core(s); several jobs on one machine want --bind none"
    fi
}

# Waiting threads must not burn cores, and parallelism is the program's own.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
export OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}

# A stop that comes before the program listens must not kill it: USR1 is ignored at first and sent
# again until the job ends.
# shellcheck disable=SC2016  # expanded by the ranks
quiet='trap "" USR1; exec "$@"'
# The same, and notes how the ranks of this host ended. mpirun is always told 0: with recovery its own
# code is 0 in any case, and it does not end after ranks of other hosts that ended with another one.
# shellcheck disable=SC2016
noting='trap "" USR1; notes=$1; shift; code=0
note() { if [ -d "${notes%/*}" ]; then echo "$1 ${OMPI_COMM_WORLD_RANK-}" >>"$notes"; fi; }
note begin; "$@" || code=$?; note "$code"'

# Sets `command`, all words from the launcher to the program and its arguments.
build_command() {
    local name
    if [[ $launcher == srun ]]; then
        command=(srun --mpi=pmix --ntasks="$ranks" --kill-on-bad-exit=0 --wait=0)
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
    ((EUID != 0)) || command+=(--allow-run-as-root)
    [[ -z $ranks ]] || command+=(-n "$ranks")
    [[ -z $hosts ]] || command+=(--host "$hosts")
    [[ -z $hostfile ]] || command+=(--hostfile "$hostfile")
    command+=("${binding[@]}")
    for name in $(printf '%s\n' "${!mca[@]}" | sort); do
        command+=(--mca "$name" "${mca[$name]}")
    done
    for name in OMP_WAIT_POLICY OMP_NUM_THREADS OPENBLAS_NUM_THREADS; do
        command+=(-x "$name")
    done
    if [[ -n $out ]]; then
        command+=(--enable-recovery sh -c "$noting" sh "$folder/notes" "$cohort" "${job[@]}")
    else
        command+=(sh -c "$quiet" sh "$cohort" "${job[@]}")
    fi
}

# What tells the exit code file of this run from the one that was there before.
identity() { [[ -z $out ]] || stat --format='%i %y %z %s' "$out/exit_code" 2>/dev/null || true; }

# Whether the job left its exit code.
left_code() {
    local now
    now=$(identity)
    [[ -n $now && $now != "$before" ]]
}

# Processes of the launcher's session.
session_members() {
    local file line fields
    for file in /proc/[0-9]*/stat; do
        { read -r line <"$file"; } 2>/dev/null || continue
        read -ra fields <<<"${line##*) }"
        if [[ ${fields[3]} == "$session" && ${fields[0]} != Z ]]; then
            file=${file%/stat}
            echo "${file##*/}"
        fi
    done
}

# Ends the launcher and all its processes, politely for three seconds.
end_job() {
    local signal=TERM tries members
    [[ -n $session ]] || return 0
    [[ $launcher != srun ]] || signal=INT # twice within a second: srun then ends the step
    for ((tries = 0; tries < 30; tries++)); do
        kill -0 "$session" 2>/dev/null || break
        if ((tries == 0)) || [[ $signal == INT && $tries == 2 ]]; then
            kill "-$signal" "$session" 2>/dev/null || true
        fi
        sleep 0.1
    done
    mapfile -t members < <(session_members)
    if ((${#members[@]} > 0)); then
        kill -KILL "${members[@]}" 2>/dev/null || true
    fi
    session=''
}

# on_signal INT|TERM|USR1: asks for a stop, the second time, unless it is USR1, for the end.
# shellcheck disable=SC2317  # run by trap
on_signal() {
    if [[ $1 == INT && $interrupted == yes ]]; then
        kill_code=130
    elif [[ $1 == TERM && -n $terminated ]] && ((SECONDS - terminated > 1)); then
        kill_code=143
    elif [[ $stopping == no ]]; then
        say "stopping after a checkpoint (Ctrl-C or TERM again ends at once)"
    fi
    stopping=yes
    [[ $1 != INT ]] || interrupted=yes
    [[ $1 != TERM ]] || terminated=${terminated:-$SECONDS}
}

# Whether the job left its exit code or all ranks of this host have ended.
job_over() {
    local ended
    left_code && return
    ended=$(grep -vc begin "$folder/notes")
    ((ended > 0 && ended == $(grep -c begin "$folder/notes")))
}

# Whether a rank of this host failed although the job has not ended: one that never started MPI, so
# that the others wait for it. Ranks that are lost later are the others' business: they have more
# than lost_after_s to leave an exit code.
failed_alone() {
    left_code && return 1
    grep -qv -e begin -e '^0' "$folder/notes"
}

# Waits for the launcher; sets `code`, its exit code. Asks for a stop, again and again, when one is
# wanted: the first USR1 may come before anyone listens. A launcher that does not end after the job,
# as mpirun when a host was lost, is ended after ten seconds, a job that does not end after a rank
# after `patience` seconds.
wait_for_job() {
    local launcher_id=$session ticks=0 over=0 failed=0
    while [[ -z $kill_code ]] && kill -0 "$launcher_id" 2>/dev/null; do
        if [[ $stopping == yes ]] && ((ticks++ % 10 == 0)); then
            kill -USR1 "$launcher_id" 2>/dev/null || true
        fi
        if ((++polls % 5 == 0)); then
            if job_over; then
                ((++over <= 10)) || say "the job has ended, $launcher has not: ending it"
                ((over <= 10)) || end_job
            elif failed_alone && ((++failed > patience)); then
                say "a rank has failed, the others have not ended for $patience s: ending them"
                end_job
            fi
        fi
        read -rt 0.2 -u "$clock" || true
    done
    if [[ -n $kill_code ]]; then
        say "ending at once"
        end_job
        exit "$kill_code"
    fi
    code=0
    wait "$launcher_id" || code=$?
}

# Sets `code` and `reason` from what the job left behind, if it did.
read_exit_code() {
    local first rank
    if left_code; then
        { read -r code && read -r reason; } <"$out/exit_code" || true
        if [[ ! $code =~ ^[0-9]{1,3}$ ]]; then
            reason="$out/exit_code holds '$code', not an exit code"
            code=1
        fi
    elif read -r first rank < <(grep -v -e begin -e '^0' "$folder/notes"); then
        code=$first
        reason="rank $rank ended with it"
        if ((code > 128)); then
            reason="rank $rank was killed by signal $((code - 128))"
        fi
    fi
}

# Runs the job once; sets `code` and `reason`. `lost` says whether it ended because of a rank.
run_once() {
    reason='' lost=no before=$(identity) polls=0
    : >"$folder/notes"
    setsid "${leader[@]}" sh -c "$quiet" sh "${command[@]}" </dev/null &
    session=$!
    wait_for_job
    end_job
    read_exit_code
    if ((code == 4 || (code > 128 && code != 130 && code != 143))); then
        lost=yes
    fi
}

# Changes the job's words so that it goes on from its newest checkpoint.
resume_job() {
    local word kept=()
    for word in "${job[@]}"; do
        [[ $word =~ ^--(overwrite|resume)(=|$) ]] || kept+=("$word")
    done
    job=("${kept[@]}" --resume)
}

read_options "$@"
find_program
choose_launcher
if [[ $resume == yes ]]; then
    resume_job
fi
read_job
choose_binding
folder=${TMPDIR:-/tmp}/cohort-launch-$$
build_command
if [[ $dry_run == yes ]]; then
    printf '%q ' "${command[@]}"
    echo
    exit 0
fi

# If this script is killed, the launcher is asked to stop the ranks in its place.
leader=()
if setpriv --help 2>/dev/null | grep -q pdeathsig; then
    leader=(setpriv --pdeathsig USR1)
fi
session='' stopping=no interrupted=no terminated='' kill_code=''
folder=$(mktemp -d "${TMPDIR:-/tmp}/cohort-launch-XXXXXX")
build_command
trap 'end_job; rm -rf "$folder"' EXIT
mkfifo "$folder/clock"
exec {clock}<>"$folder/clock" # nobody writes into it: reading is waiting
trap 'on_signal INT' INT
trap 'on_signal TERM' TERM
trap 'on_signal USR1' USR1 HUP
run_once
while [[ $lost == yes && $stopping == no ]] && ((restarts > 0)); do
    restarts=$((restarts - 1))
    say "exit code $code${reason:+ ($reason)}: starting again with --resume, $restarts restarts left"
    resume_job
    build_command
    run_once
done
if ((code != 0)); then
    say "exit code $code${reason:+: $reason}"
fi
exit "$code"
