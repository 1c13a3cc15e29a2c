#!/usr/bin/env python3
"""A real Slurm on this machine: slurmctld, munged and one slurmd per virtual node.

    slurm_cluster.py [--nodes N] [--cpus C] -- COMMAND [ARGUMENT...]

Boots it in a temporary folder, runs the command on node h0 with Slurm's tools usable, takes
everything down and ends with the command's exit code. Nodes are network namespaces. Needs root
and Debian's packages slurm-wlm and munge. As a module: `with SlurmCluster(2) as slurm:`.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/comm"))
from netns_hosts import Hosts, check_possible, in_own_process_space, wait_until  # noqa: E402

CONFIGURATION = """\
ClusterName=cohort
SlurmctldHost=h0({control})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool/%n
StateSaveLocation={folder}/state
TmpFS={folder}/tmp/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=pmix
KillWait=5
SlurmdTimeout=6
SlurmctldTimeout=6
SchedulerParameters=sched_interval=2,bf_interval=2,sched_min_interval=100000,batch_sched_delay=0
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP
"""


class SlurmCluster:
    """Nodes h0, h1, ... with `cpus` each; the controller runs beside h0's slurmd."""

    def __init__(self, nodes=2, cpus=2):
        check_possible()
        missing = [name for name in ("munged", "slurmctld", "slurmd", "sbatch")
                   if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")]
        if missing:
            raise RuntimeError(f"{', '.join(missing)} missing; install Debian's packages "
                               "slurm-wlm and munge (jobs/install_deps.sh --dev)")
        self.nodes = nodes
        self._temporary = tempfile.TemporaryDirectory(prefix="cohort-slurm-")
        self.folder = pathlib.Path(self._temporary.name)
        self._daemons = {}
        self.hosts = None
        try:
            self.hosts = Hosts(nodes)
            self._configure(cpus)
            self._start_all()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def environment(self):
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def run(self, *command, **options):
        """Runs a command on h0, as subprocess.run does."""
        return subprocess.run([*self.hosts.enter(0), *map(str, command)],
                              env={**os.environ, **self.environment, **options.pop("env", {})},
                              check=False, **options)

    def output(self, *command):
        """What a tool of Slurm prints. Errors: AssertionError with its messages."""
        done = self.run(*command, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}{self.logs()}"
        return done.stdout

    def job(self, number):
        """The properties of a job, as `scontrol show job` names them."""
        text = self.output("scontrol", "--oneliner", "show", "job", number)
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def wait_for_job(self, number, states):
        """Waits until a job is in one of the states; returns its properties."""
        return wait_until(lambda: (found := self.job(number))["JobState"] in states and found,
                          lambda: f"job {number} is {' or '.join(states)}: {self.job(number)}{self.logs()}")

    def logs(self):
        """The ends of the daemons' logs, to be shown when something failed."""
        parts = []
        for path in sorted(self.folder.glob("*.log")):
            lines = path.read_text(errors="replace").splitlines()[-15:]
            parts.append(f"\n== {path.name}\n" + "\n".join(lines))
        return "".join(parts)

    def close(self):
        """Ends the daemons, then whatever still runs on the nodes."""
        for daemon in reversed(self._daemons.values()):
            daemon.terminate()
        for daemon in self._daemons.values():
            try:
                daemon.wait(timeout=5)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._daemons = {}
        if self.hosts:
            self.hosts.close()
            self.hosts = None
        self._temporary.cleanup()

    def _configure(self, cpus):
        for name in self.hosts.names:
            (self.folder / "spool" / name).mkdir(parents=True)
            (self.folder / "tmp" / name).mkdir(parents=True)
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        nodes = "\n".join(
            f"NodeName={name} NodeAddr={self.hosts.address(host)} CPUs={cpus} RealMemory=1000"
            for host, name in enumerate(self.hosts.names))
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            folder=self.folder, control=self.hosts.address(0), nodes=nodes))

    def _start_all(self):
        folder = self.folder
        self._start("munged", 0, "munged", "--force", "--foreground",
                    f"--key-file={folder}/munge.key", f"--socket={folder}/munge.socket",
                    f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.messages",
                    f"--seed-file={folder}/munge.seed")
        self._wait("munged listens", (folder / "munge.socket").exists)
        self._start("slurmctld", 0, "slurmctld", "-D", "-c")
        for host, name in enumerate(self.hosts.names):
            self._start(f"slurmd.{name}", host, "slurmd", "-D", "-N", name)
        self._wait("all nodes are idle", self._all_idle)

    def _start(self, name, host, *command):
        with (self.folder / f"{name}.log").open("w") as log:
            self._daemons[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.hosts.enter(host), *command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **self.environment,
                     "PATH": f"{os.environ['PATH']}:/usr/sbin"})

    def _all_idle(self):
        done = self.run("sinfo", "--noheader", "--Node", "--format=%T", capture_output=True,
                        text=True)
        return done.stdout.split() == ["idle"] * self.nodes

    def _wait(self, what, condition):
        def ended():
            return [name for name, daemon in self._daemons.items() if daemon.poll() is not None]
        wait_until(condition, lambda: f"{what}; ended: {ended()}{self.logs()}", lambda: not ended())


def main():
    in_own_process_space()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--cpus", type=int, default=2, help="of each node")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    options = parser.parse_args()
    try:
        with SlurmCluster(options.nodes, options.cpus) as slurm:
            return slurm.run(*options.command).returncode
    except (RuntimeError, subprocess.CalledProcessError) as error:
        print(f"slurm_cluster: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
