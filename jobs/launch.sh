#!/usr/bin/env bash
# shellcheck disable=SC2034,SC2154  # variables are shared with the parts in launch/
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
#   --restarts K         when the job ended because of a lost rank, start again with --resume, on the
#                        hosts that are left, at most K times
#   --resume             go on from the newest checkpoint, whatever the job's own words say
#   --dry-run            print the command that would be run and stop
#
# Ctrl-C, TERM, HUP and USR1 stop the job after a checkpoint, exit code 75; a second Ctrl-C or TERM
# ends it at once. docs/launch.md has all exit codes. COHORT=FILE names another program.
set -euo pipefail
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")

say() { echo "launch: $*" >&2; }

usage_error() { # ends with code 2
    say "$*; $0 --help tells more"
    exit 2
}

declare -A mca=(
    [pml]=ob1 [btl]='self,vader,tcp' [btl_tcp_flags]=0x201 [osc]='^rdma,ucx'
    [mpi_yield_when_idle]=1 [plm_rsh_no_tree_spawn]=1
)
ranks='' interfaces='' hosts='' hostfile='' bind=auto launcher='' restarts=0 dry_run=no resume=no patience=25

# Sets the options above and `job`, the words after --.
read_options() {
    while (($# > 0)); do
        case $1 in
            -h | --help)
                sed -n '3,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" | sed "s|jobs/launch\.sh|$0|"
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
        --interfaces) interfaces=$2 mca[btl_tcp_if_include]=$2 mca[oob_tcp_if_include]=$2 ;;
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

# Changes the job's words so that it goes on from its newest checkpoint.
resume_job() {
    local word kept=()
    for word in "${job[@]}"; do
        [[ $word =~ ^--(overwrite|resume)(=|$) ]] || kept+=("$word")
    done
    job=("${kept[@]}" --resume)
}

given_words=("$@")
for part in command hosts watch; do
    # shellcheck source=/dev/null
    source "$here/launch/$part.sh"
done
read_options "$@"
find_program
choose_launcher
if [[ $resume == yes ]]; then
    resume_job
fi
read_job
choose_binding
read_hosts
check_open_files
choose_networks
folder=${TMPDIR:-/tmp}/cohort-launch-$$
build_command
if [[ $dry_run == yes ]]; then
    printf '%q ' "${command[@]}"
    echo
    exit 0
fi

# If this script is killed, the launcher is asked to stop the ranks in its place.
leader=()
if [[ $(setpriv --help 2>/dev/null) == *pdeathsig* ]]; then
    leader=(setpriv --pdeathsig USR1)
fi
session='' stopping=no stopping_since='' start_limit=120 interrupted=no terminated='' kill_code=''
declare -A before
folder=$(mktemp -d "${TMPDIR:-/tmp}/cohort-launch-XXXXXX")
# Removes the folder when this script has ended, however: then nobody can write into the pipe.
# shellcheck disable=SC2016  # expanded by sh
exec {alive}> >(exec setsid sh -c 'cat >/dev/null; rm -rf "$1"' sh "$folder" >/dev/null 2>&1)
remover=$!
build_command
trap 'end_job; exec {alive}>&-; wait "$remover" || true' EXIT
mkfifo "$folder/clock"
exec {clock}<>"$folder/clock" # nobody writes into it: reading is waiting
trap 'on_signal INT' INT
trap 'on_signal TERM' TERM
trap 'on_signal USR1' USR1 HUP
run_once
while [[ $lost == yes && $stopping == no ]] && ((restarts > 0)); do
    restarts=$((restarts - 1))
    say "exit code $code${reason:+ ($reason)}: starting again with --resume, $restarts restarts left"
    run_again
done
if ((code != 0)); then
    say "exit code $code${reason:+: $reason}"
    say_how_to_continue
fi
exit "$code"
