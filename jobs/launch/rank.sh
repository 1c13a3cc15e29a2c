# Part of ../launch.sh: what a rank of a training job runs, sh -c TEXT sh NOTES PROGRAM ARGUMENT...
# It notes how the ranks of this host ended. mpirun is always told 0: with recovery its own code is 0
# in any case, and it does not end after ranks of other hosts that ended with another one.
# shellcheck shell=sh disable=SC2013  # words are wanted
trap "" USR1
notes=$1 code=0
shift
note() {
    if [ -d "${notes%/*}" ]; then echo "$1 ${OMPI_COMM_WORLD_RANK-}" >>"$notes"; fi
}

# daemon_line PATTERN: whether a connection of this host to mpirun looks like that; the part after
# the state in /proc/net/tcp, that is SENT:RECEIVED TIMER:WHEN RESENT USER PROBES. What could not leave
# at all, since the link is down, is not sent again but probed for.
daemon_line() {
    cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -qE " [0-9A-F]+:($ports) 01 $1"
}

# Whether the program of another rank still runs under the same daemon.
has_others() {
    [ -r "/proc/$PPID/task/$PPID/children" ] || return 0
    for rank in $(cat "/proc/$PPID"/task/*/children); do
        for program in $(cat "/proc/$rank"/task/*/children); do
            case $rank.$(cat "/proc/$program/comm") in
                "$$".* | *.sleep | *.sh | *.cat | *.grep) ;;
                *) return 0 ;;
            esac
        done
    done 2>/dev/null
    return 1
}

# Ends the daemon (orted, prted) of a host that is cut off from mpirun, once its last rank has gone: by itself it
# stays for as long as TCP tries to deliver what mpirun has not confirmed, a quarter of an hour.
# Cut off: for five seconds and three attempts nothing was confirmed.
end_cut_off_daemon() {
    case $(cat "/proc/$PPID/comm" 2>/dev/null) in orted | prted) ;; *) return 0 ;; esac
    ports='' seconds=0 signal=TERM
    for port in $(tr '\0' '\n' <"/proc/$PPID/cmdline" | sed -nE '/^(orte|prte)_hnp_uri$/{n;p;}' |
        tr -d '"' | tr ';' '\n' | sed -nE 's#^tcp6?://(\[[^]]*\]|[^:]*):([0-9]+).*#\2#p'); do
        ports="$ports${ports:+|}$(printf %04X "$port")"
    done
    while [ -n "$ports" ] && daemon_line '0*[1-9A-F]'; do
        sleep 1
        seconds=$((seconds + 1))
        if [ "$seconds" -ge 5 ] && ! has_others &&
            daemon_line '[^ ]+ [^ ]+ (0*([3-9A-F]|[1-9A-F][0-9A-F]+) |0+ +[0-9]+ +([3-9]|[1-9][0-9]+) )'; then
            kill "-$signal" "$PPID"
            signal=KILL seconds=2
        fi
    done
}

note begin
"$@" || code=$?
note "$code"
[ "$code" = 0 ] || end_cut_off_daemon
exit 0
