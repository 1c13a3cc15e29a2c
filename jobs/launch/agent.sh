#!/usr/bin/env bash
# Part of ../launch.sh, in place of ssh for mpirun: agent.sh [OPTION...] HOST COMMAND..., the options
# those of plm_rsh_args. The command's first word begins with a blank (Open MPI 4's orted) or sets
# PRTE_PREFIX (Open MPI 5's prted).
# Starts mpirun's daemon on a host and stays until it has reached mpirun, which itself would wait
# for ever. A host where that fails is noted, with the reason, in the file $COHORT_UNREACHABLE.
# $COHORT_AGENT: the words of the real agent. Nothing here waits longer than 30 seconds.
set -u
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
read -ra agent <<<"$COHORT_AGENT"
while (($# > 2)) && [[ $2 != ' '* && $2 != PRTE_PREFIX=* && $2 != */prted ]]; do
    agent+=("$1")
    shift
done
host=$1
shift
mpirun=$PPID
# value NAME: that of a parameter among the command's words.
value() { sed -nE "s/.* ($1) \"?([^\" ]+).*/\2/p" <<<"$words"; }

# Of this agent a host's daemon, which could start others itself, must not hear.
words=$(sed -E 's/ --?(prte)?mca plm_(rsh|ssh)_agent "?agent\.sh"?//g' <<<"$*")
uri=$(value 'orte_hnp_uri|prte_hnp_uri')
if [[ -z $uri || $words != *--daemonize* ]]; then # a daemon that stays on the connection
    exec "${agent[@]}" "$host" "$@"
fi
check="sh -s '$uri' '$(value ess_base_vpid)' 20"
daemon=orted
if [[ $words != *prte_hnp_uri* ]]; then
    words="$words && $check"
else # its first process stays for as long as the daemon, which it has made
    daemon=prted
    words="said=\$(mktemp) || said=/dev/null; { $words; } </dev/null >\"\$said\" 2>&1 & $check \$! \"\$said\""
fi
code=0
timeout --kill-after=1 30 "${agent[@]}" "$host" "$words" <"$here/daemon.sh" || code=$?
case $code in
    0) exit 0 ;;
    124 | 137) reason="${agent[0]} has not done its part within 30 s" ;;
    97) reason="its $daemon has ended without having reached mpirun (${uri#*;})" ;;
    98) reason="its $daemon cannot reach mpirun (${uri#*;})" ;;
    *) reason="${agent[0]} has ended with code $code" ;;
esac
# A job that is over, or that ends because of another host, ends its daemons as well.
for ((tries = 0; code == 97 && tries < 20; tries++)); do
    kill -0 "$mpirun" 2>/dev/null || exit 0
    sleep 0.1
done
if kill -0 "$mpirun" 2>/dev/null && [[ -d ${COHORT_UNREACHABLE%/*} ]]; then
    echo "$host $reason" >>"$COHORT_UNREACHABLE"
    sleep 1 # for others, before mpirun ends
fi
exit "$code"
