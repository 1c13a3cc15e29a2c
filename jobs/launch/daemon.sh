# Part of ../launch.sh, run on a host by agent.sh: waits until the host's daemon (orted, with Open MPI 5
# prted) has reached mpirun.
# $1, $2: mpirun's addresses and the daemon's number, both on its command line; $3: at most so many seconds;
# $4, $5: the process that starts the daemon, if that goes on, and the file with what both say, which is
# shown if the daemon has not reached mpirun.
# Ends with 0; 97: there is no such daemon any more; 98: the time is up, the daemon is ended.
# shellcheck shell=sh
trap '' HUP TERM
uri=$1 number=$2 ports='' pause=0.1
end=$(($(date +%s) + $3))
# shellcheck disable=SC2154  # code: of this trap
[ ! -f "${5-}" ] || trap 'code=$?; [ "$code" = 0 ] || cat "$5" >&2; rm -f "$5"' EXIT
for port in $(printf '%s\n' "$uri" | tr ';' '\n' | sed -nE 's#^tcp6?://(\[[^]]*\]|[^:]*):([0-9]+).*#\2#p'); do
    ports="$ports${ports:+|}$(printf %04X "$port")"
done

# Whether a connection to mpirun stands.
connected() { cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -qE " [0-9A-F]+:($ports) 01 "; }

find_daemon() {
    for file in /proc/[0-9]*/comm; do
        read -r name <"$file" || continue
        case $name in orted | prted) ;; *) continue ;; esac
        case $(tr '\0' ' ' <"${file%comm}cmdline") in
            *" ess_base_vpid $number "*"$uri"*)
                file=${file%/comm}
                echo "${file#/proc/}"
                ;;
        esac
    done 2>/dev/null
}

# Whether one of these processes runs; one that has ended and was not collected has no command line.
runs() {
    for pid; do
        [ -z "$(tr -d '\0' <"/proc/$pid/cmdline")" ] || return 0
    done 2>/dev/null
    return 1
}

while
    daemon=$(find_daemon) # prted is two processes
    [ -z "$daemon" ]
do
    runs ${4:+"$4"} || exit 97
    [ "$(date +%s)" -le "$end" ] || exit 98
    sleep "$pause"
done
while ! connected; do
    # shellcheck disable=SC2086  # several
    runs $daemon || exit 97
    if [ "$(date +%s)" -gt "$end" ]; then
        # shellcheck disable=SC2086
        {
            kill $daemon
            sleep 3
            kill -KILL $daemon
        } 2>/dev/null
        exit 98
    fi
    sleep "$pause"
    pause=0.3
done
