#!/usr/bin/env python3
"""Hosts made of network namespaces on this machine: own names, own addresses, one switch.

    netns_hosts.py [--hosts N] [--slots S] [-n RANKS] [--rate RATE] -- PROGRAM [ARGUMENT...]

Runs an MPI program, e.g. cohort, across them with jobs/launch.sh and takes them away again; the
exit code is the program's. RATE limits what each host sends, in tc's notation, e.g. 1gbit. Needs
root, or sudo without a password. As a module: `with Hosts(2) as hosts: subprocess.run(hosts.enter(0) + command)`.
"""

import argparse
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "core"))
from guard import left_s, wait_until  # noqa: E402,F401

LAUNCH = pathlib.Path(__file__).resolve().parents[3] / "jobs/launch.sh"
SUBNET = "10.99.0.0/24"
UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


def bits_per_s(rate):
    """What tc means by RATE, e.g. 1e9 for 1gbit."""
    parts = re.fullmatch(r"([0-9.]+)([kmg]bit)", rate)
    if not parts:
        raise ValueError(f"a rate is a number with kbit, mbit or gbit, e.g. 100mbit; got '{rate}'")
    return float(parts[1]) * UNITS[parts[2]]


class NotRoot(RuntimeError):
    """Nothing here works without root's rights."""


def check_possible():
    """Errors: RuntimeError that says what is missing; NotRoot."""
    if os.geteuid() != 0:
        raise NotRoot("network namespaces need root, or sudo without a password")
    missing = [name for name in ("ip", "tc", "unshare", "nsenter", "setpriv")
               if not shutil.which(name)]
    if missing:
        raise RuntimeError(f"{', '.join(missing)} missing; install iproute2 and util-linux")


def _through_sudo():
    """Starts the script again as root if sudo allows that without asking; else returns."""
    if os.geteuid() == 0 or not shutil.which("sudo"):
        return
    if subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0:
        variables = [f"{name}={value}" for name, value in os.environ.items()]
        os.execvp("sudo", ["sudo", "-n", "env", *variables, sys.executable, *sys.argv])


def in_own_process_space(not_root=1):
    """Starts the script again in a process space of its own, where it returns. However the outer
    process ends, everything that was started inside ends with it. Call it first in a script.
    Who is not root becomes it through sudo; `not_root` is the exit code where that is refused."""
    if os.environ.pop("COHORT_PROCESS_SPACE", None):
        # The first process of a space is not ended by signals that it does not handle.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        return
    _through_sudo()
    try:
        check_possible()
    except RuntimeError as error:
        print(f"{pathlib.Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        sys.exit(not_root if isinstance(error, NotRoot) else 1)
    space = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child=KILL",
         "--mount-proc", sys.executable, *sys.argv],
        env={**os.environ, "COHORT_PROCESS_SPACE": "1"})

    def hand_on(number, _):
        path = pathlib.Path(f"/proc/{space.pid}/task/{space.pid}/children")
        for child in path.read_text(encoding="ascii").split():
            os.kill(int(child), number)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the inner one as well
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, hand_on)
    sys.exit(space.wait())


def _namespace(pid):
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return None


class Hosts:
    """`count` hosts named h0, h1, ... at 10.99.0.10, .11, ...; gone when the `with` block or the
    process ends, together with every process that runs in them."""

    def __init__(self, count, rate=None, both=False):
        """@param rate  that each host may send at  @param both  and be sent at"""
        check_possible()
        self.count = count
        self._switch = None
        self._holders = []
        self._namespaces = []
        self._folder = tempfile.TemporaryDirectory(prefix="cohort-hosts-")
        self.folder = pathlib.Path(self._folder.name)
        try:
            self._build()
            if rate:
                for host in range(count):
                    self.limit(host, rate)
                    if both:
                        self.limit_received(host, rate)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @staticmethod
    def address(host):
        return f"10.99.0.{10 + host}"

    @property
    def names(self):
        return [f"h{host}" for host in range(self.count)]

    def enter(self, host):
        """Words that run the command after them on a host."""
        return ["nsenter", f"--target={self._holders[host].pid}", "--net", "--uts", "--ipc", "--"]

    def run(self, host, *command):
        subprocess.run([*self.enter(host), *command], check=True)

    def limit(self, host, rate):
        """Limits what a host sends from now on; None: no limit."""
        self.run(host, *self._limit("eth0", rate))

    def limit_received(self, host, rate):
        """The same for what a host is sent."""
        subprocess.run([*self._at_switch(), *self._limit(f"port{host}", rate)], check=True)

    @staticmethod
    def _limit(device, rate):
        words = ["tc", "qdisc", "del" if rate is None else "replace", "dev", device, "root"]
        if rate is not None:
            burst = int(max(64 * 1024, bits_per_s(rate) / 8 / 1000))
            words += ["tbf", "rate", rate, "burst", str(burst), "latency", "20ms"]
        return words

    def _at_switch(self):
        return ["nsenter", f"--target={self._switch.pid}", "--net", "--"]

    def link(self, host, up):
        """Unplugs a host, or plugs it in again."""
        self.run(host, "ip", "link", "set", "eth0", "up" if up else "down")

    def swallow(self, host):
        """From now on what a host sends or is sent vanishes without an error, for good."""
        for one in range(self.count):
            shown = subprocess.run([*self.enter(one), "ip", "-brief", "link", "show", "eth0"],
                                   capture_output=True, text=True, check=True).stdout.split()
            for other in set(range(self.count)) - {one}:
                self.run(other, "ip", "neigh", "replace", self.address(one), "lladdr", shown[2],
                         "dev", "eth0", "nud", "permanent")
        subprocess.run([*self._at_switch(), "ip", "link", "set", f"port{host}", "nomaster"], check=True)

    def agent_fails(self, host, how):
        """From now on the agent cannot start anything on a host: how "gone", it fails, or "mute",
        it waits; None: it can again."""
        for name in (self.address(host), self.names[host]):
            for fault in ("gone", "mute"):
                path = self.folder / f"{fault}.{name}"
                path.touch() if fault == how else path.unlink(missing_ok=True)

    def hostfile(self, slots=1):
        """The same number of ranks on every host, or a list of numbers."""
        each = [slots] * self.count if isinstance(slots, int) else slots
        path = self.folder / "hostfile"
        path.write_text("".join(f"{self.address(host)} slots={number}\n"
                                for host, number in enumerate(each)))
        return path

    def agent(self):
        """A program in place of ssh for mpirun. Of mpirun's environment a host sees as little as
        through ssh, which gives it a home (without one Open MPI 5's daemon ends by a signal)."""
        cases = "".join(f"{self.address(host)}|h{host}) set -- {self._holders[host].pid} \"$@\" ;;\n"
                        for host in range(self.count))
        path = self.folder / "agent"
        path.write_text('#!/bin/sh\nhost=$1\nshift\n'
                        f'[ ! -e "{self.folder}/gone.$host" ] || exit 255\n'
                        f'[ ! -e "{self.folder}/mute.$host" ] || exec sleep infinity\n'
                        f'case $host in\n{cases}*) exit 255 ;;\nesac\n'
                        'pid=$1\nshift\n'
                        'exec nsenter --target="$pid" --net --uts --ipc -- '
                        f'env -i PATH={shlex.quote(os.environ["PATH"])} HOME={shlex.quote(os.path.expanduser("~"))} '
                        '/bin/sh -c "$*"\n')
        path.chmod(0o755)
        return path

    def launch(self, *options, slots=1):
        """jobs/launch.sh on host 0 with the options that reach all hosts; a job may follow."""
        return [*self.enter(0), str(LAUNCH), "--hostfile", str(self.hostfile(slots)),
                "--interfaces", SUBNET, "--mca", "plm_rsh_agent", str(self.agent()),
                # Hosts of one name share /tmp here: a job that ends would remove a folder in which
                # another one's daemon is about to make its own.
                "--mca", "orte_tmpdir_base", str(self.folder),
                "--mca", "prte_tmpdir_base", str(self.folder), *options]

    def received_bytes(self, host):
        """What the host's link has carried towards it so far."""
        return self._carried(host)[0]

    def sent_bytes(self, host):
        return self._carried(host)[1]

    def _carried(self, host):
        done = subprocess.run([*self.enter(host), "cat", "/proc/net/dev"], capture_output=True,
                              text=True, check=True)
        return [int(word) for word in re.search(r"eth0:\s*(\d+)" + r"\s+\d+" * 7 + r"\s+(\d+)", done.stdout).groups()]

    def processes(self, host=None):
        """Process ids that run on a host or on any, without the one that keeps it."""
        wanted = self._namespaces if host is None else [self._namespaces[host]]
        holders = {holder.pid for holder in self._holders}
        pids = (int(path.name) for path in pathlib.Path("/proc").glob("[0-9]*"))
        return [pid for pid in pids if pid not in holders and _namespace(pid) in wanted]

    def kill(self, host):
        """Ends all processes of a host without warning, as a loss of power would; nothing can be
        started there by the agent any more."""
        self.agent_fails(host, "gone")
        self._end_processes(host)

    def close(self):
        if self._namespaces:
            self._end_processes()
        for holder in [*self._holders, self._switch]:
            if holder:
                holder.kill()
                holder.wait()
                holder.stdout.close()
        self._holders, self._switch, self._namespaces = [], None, []
        self._folder.cleanup()

    def _end_processes(self, host=None):
        def ended():
            pids = self.processes(host)
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            return not pids
        wait_until(ended, lambda: f"processes {self.processes(host)} of host {host} end")

    def _build(self):
        self._switch = self._hold("switch")
        self._holders = [self._hold(name) for name in self.names]
        self._namespaces = [_namespace(holder.pid) for holder in self._holders]
        switch = [*self._at_switch(), "ip"]
        commands = [[*switch, "link", "add", "br0", "type", "bridge"],
                    [*switch, "link", "set", "br0", "up"]]
        for host, holder in enumerate(self._holders):
            ip = [*self.enter(host), "ip"]
            port = f"port{host}"
            commands += [
                [*switch, "link", "add", port, "type", "veth", "peer", "name", "eth0",
                 "netns", str(holder.pid)],
                [*switch, "link", "set", port, "master", "br0", "up"],
                [*ip, "addr", "add", f"{self.address(host)}/24", "dev", "eth0"],
                [*ip, "link", "set", "eth0", "up"], [*ip, "link", "set", "lo", "up"]]
        for command in commands:
            subprocess.run(command, check=True)

    @staticmethod
    def _hold(name):
        """A process that keeps a host's namespaces for as long as this one lives."""
        holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--uts", "--ipc", "sh", "-c",
             'hostname "$0" && echo ready && exec sleep infinity', name],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        if holder.stdout.readline() != "ready\n":
            holder.wait()
            holder.stdout.close()
            raise RuntimeError(f"namespaces of {name} cannot be made, see above")
        return holder


def main():
    in_own_process_space()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--slots", type=int, default=1, help="ranks per host")
    parser.add_argument("-n", "--ranks", type=int, help="default: hosts x slots")
    parser.add_argument("--rate", help="that each host may send at, e.g. 1gbit; default: any")
    parser.add_argument("command", nargs="+", metavar="PROGRAM")
    options = parser.parse_args()
    ranks = options.ranks or options.hosts * options.slots
    program = shutil.which(options.command[0])
    if not program:
        parser.error(f"there is no program {options.command[0]}")
    try:
        with Hosts(options.hosts, options.rate) as hosts:
            job = subprocess.Popen(
                [*hosts.launch("-n", str(ranks), slots=options.slots), "--", *options.command[1:]],
                env={**os.environ, "COHORT": os.path.realpath(program)})
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
                # Ctrl-C reaches the launcher by itself, the others are handed on.
                signal.signal(number, lambda caught, _: caught != signal.SIGINT
                              and job.send_signal(caught))
            return job.wait()
    except (RuntimeError, ValueError, subprocess.CalledProcessError) as error:
        print(f"netns_hosts: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
