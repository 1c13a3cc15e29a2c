#!/usr/bin/env bash
# A newcomer's machine: a fresh root of a Debian release, made by debootstrap, with a clone of this tree's
# last commit in it, where the README's two commands run one after the other. Ends with the code of the first that fails.
#
#   tests/cli/install/fresh_debian.sh [--release NAME] [--root FOLDER] [-- COMMAND [ARGUMENT...]]
#
#   --release NAME  default: trixie (Debian 13)
#   --root FOLDER   make the root there and keep it, or use the root that is there already; default: a
#                   temporary folder, removed at the end. It takes 7 GB
#   COMMAND         runs in the clone in place of the two commands, e.g. ctest --test-dir build/ci -R fuzz
#
# The root sees this machine's kernel, processors and network, but has processes, mounts and shared
# memory of its own; whatever runs in it ends with the script. Needs root, or sudo without a password,
# debootstrap, and a mirror among this machine's sources of packages. Exit code 77 when one of them is missing.
set -euo pipefail
source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../..")

say() { echo "fresh_debian.sh: $*"; }
skip() {
    say "skipped: $*"
    exit 77
}

if ((EUID != 0)) && sudo -n true 2>/dev/null; then
    exec sudo -n "$0" "$@"
fi
release=trixie root=
while (($# > 0)); do
    case $1 in
        --release) release=${2:?} && shift 2 ;;
        --root) root=${2:?} && shift 2 ;;
        --) shift && break ;;
        *) sed -n '2,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 2 ;;
    esac
done
command=("$@")

((EUID == 0)) || skip "neither root nor sudo without a password"
unshare --mount --pid --fork true 2>/dev/null || skip "no mounts and process spaces can be made here"
if [[ -n $root ]]; then
    root=$(realpath --canonicalize-missing "$root")
else
    root=$(mktemp -d "${TMPDIR:-/tmp}/cohort-fresh-XXXXXX")
    trap 'rm -rf --one-file-system "$root"' EXIT
fi

# The mirror that this machine's own packages come from.
mirror() {
    # shellcheck disable=SC2016  # for apt-get
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' 'Component: main' | sed -n 1p
}

if [[ ! -e $root/root/cohort ]]; then
    command -v debootstrap >/dev/null || skip "there is no debootstrap"
    from=$(mirror)
    [[ -n $from ]] || skip "no mirror of Debian among this machine's sources of packages"
    say "making a root of $release in $root"
    output=$(debootstrap --variant=minbase --include=ca-certificates,git "$release" "$root" "$from" 2>&1) || {
        tail -n 20 <<<"$output"
        exit 1
    }
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    printf '[safe]\n\tdirectory = *\n' >"$root/owners.gitconfig" # the tree may be another user's
    GIT_CONFIG_GLOBAL=$root/owners.gitconfig git clone --quiet --no-hardlinks "$source" "$root/root/cohort"
fi
GIT_CONFIG_GLOBAL=$root/owners.gitconfig git -C "$root/root/cohort" fetch --quiet "$source" HEAD
git -C "$root/root/cohort" reset --quiet --hard FETCH_HEAD

# inside COMMAND...: runs it in the clone.
inside() {
    # shellcheck disable=SC2016  # expanded inside
    setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child=KILL bash -c '
        set -e
        root=$1
        shift
        mount --bind "$root" "$root" # a mount of its own: programs inside may change how it spreads
        mount -t proc proc "$root/proc"
        mount --rbind /sys "$root/sys"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs tmpfs "$root/dev/shm"
        mount -t tmpfs tmpfs "$root/run"
        mapfile -t proxies < <(env | grep -iE "^(https?|no)_proxy=")
        env -i "${proxies[@]}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM="${TERM:-dumb}" \
            chroot "$root" sh -c "cd /root/cohort && exec \"\$@\"" sh "$@"' bash "$root" "$@"
}

if ((${#command[@]} > 0)); then
    inside "${command[@]}"
    exit
fi
for readme in ./jobs/quickstart.sh ./tests/run.sh; do
    begin=$SECONDS
    say "$readme"
    inside "$readme"
    say "$readme: 0 after $((SECONDS - begin)) s"
done
