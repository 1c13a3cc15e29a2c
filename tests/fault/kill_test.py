#!/usr/bin/env python3
"""Kills a random rank, or freezes and thaws a random worker, at a random time: the job goes on, or starts again.

    kill_test.py COHORT [--cases N] [--first I] [--seed S] [--freeze] [--at-least SHARE] [--only REGEX]
                        [--victim RANK] [--folder DIR]

Each case draws architecture, mode, one server or two, transport (shared memory or --tcp-only), rank and time
from the seed and its number, so `--first I --cases 1` repeats one. Time counts from the beginning of training; one case
in twenty is disturbed while the ranks still find each other, where nobody can go on. The job runs under jobs/launch.sh --restarts 1 with
checkpoints. It must end with code 0, having applied each sample of its budget exactly once: with all
survivors ("went on"), with those of them who form another world and go on from a checkpoint, when rank 0 or a
server was lost ("taken over"), or from a checkpoint with all ranks ("restarted"). "too late": the rank had finished
before.
The exit code is 1 when a case failed or when fewer than SHARE of those in time went on or were taken over. --only takes
modes whose name, e.g. ring/star-h, contains a match. --victim kills one rank in all cases. --folder keeps what failed.
"""

import collections
import os
import random
import re
import shutil
import signal
import sys
import time

import fault_support
from fault_support import Job

LOST_AFTER_S = 3
SAMPLES = 40000  # five seconds or more
LATEST_S = 6
EARLY_S = 0.5

Case = collections.namedtuple("Case", ("number", "mode", "servers", "tcp", "victim", "early", "after_s",
                                       "frozen_s"))


def draw(number, arguments, modes):
    """The case of a number; a frozen server or rank 0 is no victim."""
    chance = random.Random(f"{arguments.seed}/{number}")
    arch = chance.choice(sorted({mode.arch for mode in modes}, reverse=True))
    mode = chance.choice([mode for mode in modes if mode.arch == arch])
    early = number % 20 == 19
    servers = chance.choice((1, 2)) if arch == "servers" else 0
    victim = chance.randrange(max(1, servers) if arguments.freeze else 0, fault_support.RANKS)
    if arguments.victim is not None:
        victim = arguments.victim
    return Case(number, mode, servers, chance.random() < 0.5, victim, early,
                chance.uniform(0, EARLY_S if early else LATEST_S),
                chance.uniform(0.3, 3 * LOST_AFTER_S))


def disturb(job, case, freeze):
    """Kills or freezes the worker when its time has come; whether it was still there."""
    job.wait_until(lambda: len(job.ranks()) == fault_support.RANKS)
    if not case.early:
        job.wait_until(lambda: job.events("start"))
    job.last(case.after_s)
    pid = job.ranks().get(case.victim)
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGSTOP if freeze else signal.SIGKILL)
    except ProcessLookupError:
        return False
    if freeze:
        job.last(case.frozen_s)
        if fault_support.process_state(pid):
            os.kill(pid, signal.SIGCONT)
    return True


def run_case(arguments, data, folder, case):
    """Returns (what became of it, problems or reasons, job)."""
    job = Job(arguments.cohort, data, folder, case.mode, SAMPLES,
              launch=["--restarts", 1, *(["--tcp-only"] if case.tcp else [])],
              train=["--inject", fault_support.throttle(case.servers), "--servers", case.servers,
                     "--lost-after-s", LOST_AFTER_S, "--stall-limit-s", 20,
                     "--checkpoint-every-samples", 4000])
    try:
        in_time = disturb(job, case, arguments.freeze)
        problems = job.problems(job.finish())
    finally:
        job.end()
    if problems:
        return "failed", problems, job
    again = re.search(r"launch: (.*): starting again", job.log())
    if again:
        return "restarted", [again[1]], job
    if any(record.get("after_loss") for record in job.events()):
        return "taken over", [], job
    lost = {record.get("rank") for record in job.events("lost")}
    if lost - {case.victim}:
        return "failed", [f"ranks {sorted(lost)} were lost, not just {case.victim}"], job
    return ("went on" if in_time else "too late"), [], job


def describe(case, freeze):
    what = f"frozen for {case.frozen_s:.1f} s" if freeze else "killed"
    servers = f" of {case.servers}" if case.servers else ""
    return (f"{case.number:4} {case.mode.arch}{servers} {case.mode.name}{' tcp' if case.tcp else ''}, rank "
            f"{case.victim} {what} after {case.after_s:.1f} s{' of starting' if case.early else ''}")


def main():
    parser = fault_support.parser(__doc__, cases=100)
    parser.add_argument("--freeze", action="store_true")
    parser.add_argument("--at-least", type=float, default=0, metavar="SHARE")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--victim", type=int, metavar="RANK")
    arguments = parser.parse_args()
    counts = collections.Counter()
    started = time.monotonic()
    with fault_support.work_folder(arguments) as folder:
        data = fault_support.make_data(arguments.cohort, folder)
        modes = [mode for mode in fault_support.modes(arguments.cohort)
                 if re.search(arguments.only, f"{mode.arch}/{mode.name}")]
        for number in range(arguments.first, arguments.first + arguments.cases):
            case = draw(number, arguments, modes)
            place = folder / f"case-{number}"
            outcome, why, job = run_case(arguments, data, place, case)
            counts[outcome] += 1
            print(f"{describe(case, arguments.freeze)}: {'; '.join([outcome, *why])} "
                  f"({job.seconds:.1f} s)", flush=True)
            if outcome == "failed":
                print(job.last_lines(), flush=True)
            else:
                shutil.rmtree(place)
    in_time = arguments.cases - counts["too late"]
    print(f"{arguments.cases} cases in {time.monotonic() - started:.0f} s: "
          + ", ".join(f"{counts[name]} {name}"
                      for name in ("went on", "taken over", "restarted", "too late", "failed")))
    whole = counts["went on"] + counts["taken over"]
    return 1 if counts["failed"] or whole < arguments.at_least * in_time else 0


if __name__ == "__main__":
    sys.exit(main())
