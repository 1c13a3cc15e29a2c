# Part of ../launch.sh: runs the job once, hands signals on, ends what does not end.
# shellcheck shell=bash disable=SC2034,SC2154  # variables are shared with ../launch.sh

# What tells a file of the output folder from the one that was there before this run.
identity() { [[ -z $out ]] || stat --format='%i %y %z %s' "$out/$1" 2>/dev/null || true; }

# has_new FILE: whether this run has written a file of the output folder.
has_new() {
    local now
    now=$(identity "$1")
    [[ -n $now && $now != "${before[$1]}" ]]
}

# Whether the job left its exit code.
left_code() { has_new exit_code; }

# Whether training has begun: from then on the job deals with the ranks that it loses. Of a Python program without
# --out only the ranks of this host are known: one that was killed is one that the job has lost, one that ended with
# a code of its own never joined the others.
has_begun() {
    if [[ -z $out ]]; then
        grep -q begin "$folder/notes" && ! grep -qE '^([1-9]|[1-9][0-9]|1[01][0-9]|12[0-8]) ' "$folder/notes"
    else
        has_new metrics.jsonl || has_new fleet.json
    fi
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

# Whether a program of the job, here, is ready for USR1: it handles it or waits for it.
listens() {
    local member comm line
    for member in $(session_members); do
        { read -r comm <"/proc/$member/comm"; } 2>/dev/null || continue
        case $comm in mpirun | orterun | prterun | orted | prted | srun) continue ;; esac
        while read -r line; do
            case $line in
                SigBlk:* | SigCgt:*) (((0x${line##*[[:space:]]} & 0x200) == 0)) || return 0 ;;
            esac
        done 2>/dev/null <"/proc/$member/status"
    done
    return 1
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
    stopping=yes stopping_since=${stopping_since:-$SECONDS}
    [[ $1 != INT ]] || interrupted=yes
    [[ $1 != TERM ]] || terminated=${terminated:-$SECONDS}
}

# noted PATTERN: how many lines of the notes match.
noted() { grep -c -e "$1" "$folder/notes" || true; }

# lock_is_free: 0 when nobody holds the lock of the output folder, 9 when somebody does, else another code.
lock_is_free() {
    # shellcheck disable=SC2016  # expanded by sh, which makes no file and does not wait for a pipe
    timeout 5 sh -c 'exec 8<"$1" && flock --shared --nonblock --conflict-exit-code 9 8' sh "$out/run.lock" 2>/dev/null
}

# Whether ranks go on although the rank 0 that held the lock of the output folder has died: another one holds it, or,
# where locks cannot be seen, the records of the run grow.
goes_on() {
    local status=0
    [[ -n $out && -f $out/run.lock ]] || return 1
    lock_is_free || status=$?
    ((status == 9)) || [[ -n $(find "$out/metrics.jsonl" -newermt "-$patience seconds" 2>/dev/null) ]]
}

# Whether the job left its exit code or all ranks of this host have ended; not when those that were
# lost here leave others behind on other hosts, who go on.
job_over() {
    local ended
    left_code && return
    ended=$(grep -vc begin "$folder/notes" || true)
    ((ended > 0 && ended == $(noted begin))) || return 1
    has_begun || return 0
    (($(noted '^0 ') > 0 || $(noted '^begin 0$') > 0)) && ! goes_on
}

# Whether a rank of this host failed, although the job has not ended, in a way that the job cannot
# deal with: it never started MPI, so that the others wait for it, or it was rank 0, and no other one is.
failed_alone() {
    left_code && return 1
    if has_begun; then
        grep -qv -e begin -e '^0' "$folder/notes" && grep -q '^[1-9][0-9]* 0$' "$folder/notes" && ! goes_on
    else
        grep -qv -e begin -e '^0' "$folder/notes"
    fi
}

# Whether rank 0 has died, on whatever host, and no other rank takes its place: from the beginning to
# the end of training it holds the lock of the output folder, and the system takes that back. What other ranks say is not asked for: to a
# rank whose link is down rank 0 is as silent as a dead one. Where the lock was never seen to be held
# (a file system without locks, or with those of each host alone) nothing follows from its being free.
# It must be free three times in a row, which gives a network file system time to show an exit code.
rank_0_is_gone() {
    local file=$out/run.lock status=0 name
    has_begun && [[ -f $file && ! -L $file ]] || return 1
    name=$(stat --format=%d:%i "$file" 2>/dev/null) || return 1
    lock_is_free || status=$?
    ((status != 9)) || lock_seen=$name
    [[ $status == 0 && $lock_seen == "$name" ]] || free_looks=-1
    ls "$out" >/dev/null 2>&1 || true # what has been written on another host is seen from here on
    ((++free_looks > 2)) && ! left_code && (($(noted '^[0-9][0-9]* 0$') == 0)) && ! goes_on
}

# Waits for the launcher; sets `code`, its exit code. Asks for a stop, again and again, when one is
# wanted: the first USR1 may come before anyone listens. Python programs that do not listen after five
# seconds, as scripts of torch.distributed, are ended. A launcher that does not end after the job,
# as mpirun when a host was lost, is ended after ten seconds, a job that does not end after a rank
# after `patience` seconds, a job without any rank 0 after fifteen seconds, or later while its records are new.
wait_for_job() {
    local launcher_id=$session ticks=0 over=0 failed=0 started=$SECONDS listened=no
    while [[ -z $kill_code ]] && kill -0 "$launcher_id" 2>/dev/null; do
        if [[ $stopping == yes ]] && ((ticks++ % 10 == 0)); then
            kill -USR1 "$launcher_id" 2>/dev/null || true
        fi
        if [[ $stopping == yes && $listened == no && ${job[0]:-} == *.py ]] && ((ticks % 5 == 1)); then
            ! listens || listened=yes # one that ends does not listen any more
        fi
        if [[ $stopping == yes && $listened == no && ${job[0]:-} == *.py ]] && ((SECONDS - stopping_since >= 5)); then
            say "the program does not handle USR1, by which jobs are asked to stop"
            kill_code=$([[ -n $terminated ]] && echo 143 || echo 130)
            continue
        fi
        if ((++polls % 5 == 0)); then
            if job_over || { [[ $survives == yes ]] && start_failed; }; then
                ((++over <= 10)) || say "the job has ended, $launcher has not: ending it"
                ((over <= 10)) || end_job
            elif failed_alone && ((++failed > patience)); then
                say "a rank has failed, the others have not ended for $patience s: ending them"
                end_job
            elif [[ $survives == yes && -z $hosts$hostfile && ! -s $folder/notes ]] &&
                ((SECONDS - started > start_limit)); then
                say "$launcher has started no rank for $start_limit s: ending it"
                started_none=yes
                end_job
            elif [[ -n $out ]] && ((polls % 25 == 0)) && rank_0_is_gone; then
                say "rank 0 has died and cannot say how the job ended: ending the others"
                rank_0_died=yes
                end_job
            fi
        fi
        read -rt 0.2 -u "$clock" || true
    done
    if [[ -n $kill_code ]]; then
        say "ending at once"
        end_job
        code=$kill_code
        say_how_to_continue
        exit "$code"
    fi
    code=0
    { wait "$launcher_id" || code=$?; } 2>/dev/null # the shell would say that it was killed
}

# Sets `code` and `reason` from what the job left behind, if it did.
read_exit_code() {
    local first rank
    [[ -z $out ]] || ls "$out" >/dev/null 2>&1 || true # what has been written on another host is seen from here on
    if left_code; then
        { read -r code && read -r reason; } <"$out/exit_code" || true
        if [[ ! $code =~ ^[0-9]{1,3}$ ]]; then
            reason="$out/exit_code holds '$code', not an exit code"
            code=1
        fi
    elif [[ $started_none == yes ]]; then
        code=4
        reason="$launcher has started no rank within $start_limit s"
    elif [[ $rank_0_died == yes ]]; then
        code=4
        reason="rank 0 has died on its host"
    elif [[ -z $out ]] && has_begun && (($(noted '^0 0$') > 0)); then
        : # rank 0 knows how a job ended that has lost others
    elif read -r first rank < <(grep -v -e begin -e '^0' "$folder/notes"); then
        code=$first
        reason="rank $rank ended with it"
        if ((code > 128)); then
            reason="rank $rank was killed by signal $((code - 128))"
        fi
    elif [[ -n $out ]] && ((code == 0)) && has_begun; then
        code=4 # mpirun of Open MPI 5 ends all ranks when it has lost the daemon of a host, and ends with 0
        reason="$launcher has ended the job in its middle"
    fi
}

# Copies what mpirun and the ranks say, but for mpirun's page about a rank that ended with an exit code:
# the rank has said why.
# shellcheck disable=SC2317  # run below
without_banner() {
    trap '' INT TERM HUP USR1
    exec sed -uE '/^-{74}$/{:block;N;/\n-{74}$/!b block;/Primary job +terminated|exited with non-zero status/d}'
}

# Says how a run that left a checkpoint is continued (jobs/cli/resume_command.hpp: of one that mpirun started).
say_how_to_continue() {
    local words=''
    ((code != 2)) && [[ -n $out ]] && compgen -G "$out/checkpoints/step-*.h5" >/dev/null || return 0
    if [[ -n ${SLURM_JOB_ID:-} ]]; then # the command would want the allocation that is about to end
        [[ " ${given_words[*]} " != *' --overwrite '* ]] || words=' in place of --overwrite'
        say "to continue from the newest checkpoint, submit again with --resume after the file's name$words"
        return
    fi
    printf -v words ' %q' "$0" --resume "${given_words[@]}"
    say "to continue from the newest checkpoint:${COHORT:+ COHORT=$(printf %q "$COHORT")}$words"
}

# Runs the job once; sets `code` and `reason`. `lost` says whether it ended because of a rank.
run_once() {
    local errors filter='' tries
    reason='' lost=no polls=0 lock_seen='' free_looks=0 rank_0_died=no started_none=no
    before=([exit_code]=$(identity exit_code) [metrics.jsonl]=$(identity metrics.jsonl)
        [fleet.json]=$(identity fleet.json))
    : >"$folder/notes"
    : >"$folder/unreachable"
    if [[ $survives == no ]]; then
        exec {errors}> >(without_banner >&2 {alive}>&-)
        filter=$!
    else # mpirun is told 0 then, and is silent
        exec {errors}>&2
    fi
    setsid "${leader[@]}" sh -c "$quiet" sh "${command[@]}" </dev/null 2>&"$errors" {errors}>&- {alive}>&- &
    session=$!
    exec {errors}>&-
    wait_for_job
    end_job
    for ((tries = 0; tries < 20; tries++)); do # its last lines come before those of this script
        kill -0 "$filter" 2>/dev/null || break
        sleep 0.05
    done
    read_exit_code
    if ((code != 0)) && start_failed; then
        code=4 reason="cannot reach $(sed 's/ /: /' "$folder/unreachable" | sort -u | paste -sd ';')"
    elif [[ $started_none == no ]] && ((code == 4 || (code > 128 && code != 130 && code != 143))); then
        lost=yes
    fi
}
