#!/usr/bin/env python3
"""Cuts a host with two of six ranks off from the others: the majority goes on.

    cut_test.py COHORT [--cases N] [--first I] [--seed S] [--limits short|default|mixed] [--folder DIR]

Three hosts made of network namespaces (root needed), one output folder for all. Each case draws
architecture, mode, limits, host and time from the seed and its number, so `--first I --cases 1` repeats
one; the link of the host is taken down for 1 to 60 s or for good. Workers sleep instead of computing.
The job must end with code 0, having applied each sample of its budget exactly once; no rank of another
host may be lost; a rank that had ended may not join again; ranks that are healed in time must be back at
the end or have been told that they are out; and soon after the end no process is left on any host.
"""

import collections
import os
import pathlib
import random
import re
import shutil
import sys
import time

import fault_support
from fault_support import Job, Mode

sys.path.insert(0, str(fault_support.ROOT / "tests/support/comm"))
from netns_hosts import Hosts, in_own_process_space, wait_until  # noqa: E402

HOSTS, SLOTS = 3, 2
RANKS = HOSTS * SLOTS
MODES = [Mode("servers", name) for name in ("ssgd", "asgd", "static:3", "ssp:3", "saps:2", "dynamic")]
MODES += [Mode("ring", name) for name in ("ring", "ring:4", "localsgd:4")]
BATCH_S, BATCH = 0.05, 10
CUTS_S = (4, None, 10, 1, 20, 60)  # None: for good
SHORT = {"--lost-after-s": 3, "--stall-limit-s": 10}
DEFAULT = {"--lost-after-s": 15, "--stall-limit-s": 60}

Case = collections.namedtuple("Case", ("number", "mode", "limits", "host", "after_s", "cut_s"))


def draw(number, seed, limits):
    """The case of a number. Durations and architectures alternate, so that few cases see all."""
    chance = random.Random(f"{seed}/{number}")
    arch = ("servers", "ring")[number % 2]
    short = limits == "short" or (limits == "mixed" and chance.random() < 0.5)
    return Case(number, chance.choice([mode for mode in MODES if mode.arch == arch]),
                SHORT if short else DEFAULT, chance.randrange(1, HOSTS), chance.uniform(0.5, 3),
                CUTS_S[number // 2 % len(CUTS_S)])


def seconds_to_train(case):
    """Long enough to see the cut, the loss and, after a silence of TCP as long as the cut, the return."""
    lost_after = case.limits["--lost-after-s"]
    cut = case.cut_s if case.cut_s else lost_after
    return case.after_s + (2 * cut if cut >= lost_after else cut) + 6


def return_problems(case, job):
    """What is wrong with how ranks were lost and came back."""
    victims = {SLOTS * case.host + place for place in range(SLOTS)}
    lost = collections.Counter(record["rank"] for record in job.events("lost"))
    joined = collections.Counter(record["rank"] for record in job.events("joined"))
    found = []
    if set(lost) - victims:
        found.append(f"ranks {sorted(lost)} were lost, not just {sorted(victims)}")
    for rank in victims:
        if joined[rank] > lost[rank] or (case.cut_s is None and joined[rank]):
            found.append(f"rank {rank} joined {joined[rank]} times, was lost {lost[rank]} times")
        if lost[rank] > 1 + (case.cut_s is not None and joined[rank] > 1):
            found.append(f"rank {rank} was lost {lost[rank]} times: it joined when it had ended")
        out = re.search(rf"rank {rank}: .*(this rank leaves|excluded)", job.log())
        # After a cut TCP may stay silent for as long again; by then a rank has left by itself.
        waits_s = case.limits["--lost-after-s"] + 2 * case.limits["--stall-limit-s"]
        may_have_left = case.cut_s is None or 2 * case.cut_s >= waits_s
        if lost[rank] and not joined[rank] and not out and not may_have_left:
            found.append(f"rank {rank} was healed, and is neither back nor told that it is out")
    if case.cut_s is None and set(lost) != victims:
        found.append(f"ranks {sorted(victims)} were cut off, {sorted(lost)} were lost")
    return found, (f"{sum(lost.values())} lost, {sum(joined.values())} joined")


def run_case(arguments, data, folder, case):
    """Returns (problems, a few words, job)."""
    workers = RANKS - (case.mode.arch == "servers")
    samples = int(0.7 * seconds_to_train(case) * workers / BATCH_S) * BATCH  # two workers are away
    with Hosts(HOSTS) as hosts:
        job = Job(arguments.cohort, data, folder, case.mode, samples, start=hosts.launch(slots=SLOTS),
                  ranks=RANKS,
                  train=["--compute", f"sleep:{BATCH_S * 1000:.0f}ms",
                         *(word for option in case.limits.items() for word in option)])
        try:
            job.wait_until(lambda: job.events("train"))
            job.last(case.after_s)
            hosts.link(case.host, up=False)
            cut_at = time.monotonic()
            if case.cut_s is not None:
                job.last(case.cut_s)
                hosts.link(case.host, up=True)
            problems = job.problems(job.finish())
            more, words = return_problems(case, job)
            try:  # one that is cut off leaves once it has waited for twice the stall limit
                wait_until(lambda: not hosts.processes(), lambda: " ".join(sorted(
                    pathlib.Path(f"/proc/{pid}/comm").read_text().strip() for pid in hosts.processes())))
            except AssertionError as error:
                more.append(f"processes were left: {error}")
            if case.cut_s is None:
                words += f", all processes gone {time.monotonic() - cut_at:.0f} s after the cut"
            problems += more
        finally:
            job.end()
    return problems, words, job


def death_of_rank_0(arguments, data, folder, silently):
    """Rank 0 alone on a host that dies with its daemon, the launcher on one without ranks. The others see the host's
    kernel close its connections, and go on. When it dies silently, as by a loss of power, no other rank can know; the
    launcher can."""
    with Hosts(HOSTS) as hosts:
        start = hosts.launch()
        at = start.index("--hostfile")
        start[at:at + 2] = ["--hosts", f"{hosts.address(1)}:1,{hosts.address(2)}:2"]
        job = Job(arguments.cohort, data, folder, Mode("servers", "asgd"), 6000, start=start, ranks=3,
                  train=["--compute", "sleep:50ms"])
        try:
            job.wait_until(lambda: job.events("train"))
            job.last(6)  # the launcher looks every five seconds
            if silently:
                hosts.link(1, up=False)
            hosts.kill(1)
            killed_at = time.monotonic()
            if not silently:
                job.wait_until(lambda: job.events("resume") or not job.running())
                seconds = time.monotonic() - killed_at
            code = job.finish()
            if silently:
                seconds = time.monotonic() - killed_at
            problems = [] if silently else job.problems(code)
        finally:
            job.end()
        if silently and (code != 4 or "rank 0 has died" not in job.log() or hosts.processes()):
            problems = [f"exit code {code}, processes {hosts.processes()}"]
    print(f"rank 0 lost with its host{', silently: ended with code 4' if silently else ': the others go on'} "
          f"after {seconds:.1f} s")
    return problems, job


def describe(case):
    cut = "for good" if case.cut_s is None else f"for {case.cut_s} s"
    limits = "short" if case.limits is SHORT else "default"
    return (f"{case.number:3} {case.mode.arch} {case.mode.name}, {limits} limits, h{case.host} cut "
            f"{cut} after {case.after_s:.1f} s")


def main():
    parser = fault_support.parser(__doc__, cases=40)
    parser.add_argument("--limits", choices=("short", "default", "mixed"), default="mixed")
    arguments = parser.parse_args()
    failed = 0
    started = time.monotonic()
    with fault_support.work_folder(arguments) as folder:
        data = fault_support.make_data(arguments.cohort, folder)
        for number in range(arguments.first, arguments.first + arguments.cases):
            case = draw(number, arguments.seed, arguments.limits)
            place = folder / f"case-{number}"
            problems, words, job = run_case(arguments, data, place, case)
            failed += bool(problems)
            print(f"{describe(case)}: {'; '.join(['failed', *problems] if problems else ['ok'])} "
                  f"({words}; {job.seconds:.1f} s)", flush=True)
            if problems:
                print(job.last_lines(), flush=True)
            elif not arguments.folder:
                shutil.rmtree(place)
        for silently in (False, True):
            problems, job = death_of_rank_0(arguments, data, folder / "rank-0", silently)
            if problems:
                failed += 1
                print("rank 0 lost with its host: failed;", *problems, job.last_lines(), sep="\n")
    print(f"{arguments.cases} cases in {time.monotonic() - started:.0f} s: {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    in_own_process_space(not_root=77)  # skipped
    os.environ.pop("COHORT_PROCESS_SPACE", None)
    sys.exit(main())
