#!/usr/bin/env python3
"""Every mode on eight ranks under four conditions: does it end, with the right code and accounts?

    mode_matrix.py COHORT [--short] [--only REGEX] [--folder DIR]

Conditions: healthy; slow: one worker at a fifth of the others' speed; frozen: one worker is stopped
for longer than --lost-after-s, then continued; switch: to another mode of the architecture and back in
mid-run. The modes are those that the help of `cohort train --mode` lists. A line per case and a table
at the end; the exit code is 1 when a case failed. --short runs a handful of pairs. --only takes those
whose name, e.g. servers/ssp:3/frozen, contains a match. --folder keeps what failed.
"""

import os
import re
import shutil
import signal
import sys

import fault_support
from fault_support import Job

CONDITIONS = ("healthy", "slow", "frozen", "switch")
SHORT = {"servers/ssgd/frozen", "servers/asgd/slow", "servers/static:4/switch",
         "servers/saps:2/slow", "servers/ksync:5/frozen", "servers/localsgd:4/switch",
         "ring/ring/frozen", "ring/ring:6/slow", "ring/ring/switch"}
VICTIM = fault_support.RANKS - 2  # a worker in both architectures
LOST_AFTER_S = 2
BACK_WITHIN = 10000  # samples that are trained after it goes on


def options_of(case, condition, others):
    """Samples and options for a condition."""
    if condition == "healthy":
        return 6000, ["--stall-limit-s", 30]
    if condition == "slow":
        return 4000, ["--inject", fault_support.throttle(case.arch == "servers", VICTIM, 0.2)]
    if condition == "frozen":
        return 20000, ["--inject", fault_support.throttle(case.arch == "servers"), "--lost-after-s", LOST_AFTER_S]
    other = others[(others.index(case) + 1) % len(others)].name
    return 6000, ["--inject", fault_support.throttle(case.arch == "servers"),
                  "--mode-schedule", f"0:{case.name},2000:{other},4000:{case.name}"]


def freeze_and_thaw(job):
    """Stops a worker in mid-run for longer than the others bear. Returns what went wrong, and how many
    samples had been trained when it went on."""
    if not job.wait_until(lambda: job.events("train")):
        return ["training did not begin"], 0
    pid = job.ranks().get(VICTIM)
    if pid is None:
        return [f"rank {VICTIM} was gone before it could be stopped"], 0
    os.kill(pid, signal.SIGSTOP)
    noticed = job.wait_until(lambda: job.events("lost"))
    job.last(1)
    if fault_support.process_state(pid):
        os.kill(pid, signal.SIGCONT)
    trained = job.events("train")[-1]["samples_applied"]
    return ([] if noticed else ["nobody noticed that a worker was frozen"]), trained


def run_case(arguments, data, folder, case, condition, others):
    """Returns (seconds, problems, job)."""
    samples, options = options_of(case, condition, others)
    job = Job(arguments.cohort, data, folder, case, samples, train=options)
    try:
        problems, trained = freeze_and_thaw(job) if condition == "frozen" else ([], 0)
        problems += job.problems(job.finish())
    finally:
        job.end()
    switches = [record for record in job.events("switch") if "to" in record]
    if condition == "switch" and not problems and len(switches) < 2:
        problems.append(f"{len(switches)} switches instead of two")
    if condition == "frozen" and not problems and not job.events("joined") and samples - trained > BACK_WITHIN:
        problems.append(f"{samples - trained} samples were trained without the worker that came back")
    return job.seconds, problems, job


def show_table(rows, results):
    print(f"\n{'':24}" + "".join(f"{condition:>12}" for condition in CONDITIONS))
    for case in rows:
        cells = (results.get((case, condition)) for condition in CONDITIONS)
        print(f"{case.arch + ' ' + case.name:24}"
              + "".join(f"{cell or '-':>12}" for cell in cells))


def main():
    parser = fault_support.parser(__doc__)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", default="", metavar="REGEX")
    arguments = parser.parse_args()
    with fault_support.work_folder(arguments) as folder:
        data = fault_support.make_data(arguments.cohort, folder)
        rows = fault_support.modes(arguments.cohort)
        results, failed = {}, 0
        for case in rows:
            others = [row for row in rows if row.arch == case.arch]
            for condition in CONDITIONS:
                name = f"{case.arch}/{case.name}/{condition}"
                if (arguments.short and name not in SHORT) or not re.search(arguments.only, name):
                    continue
                place = folder / re.sub(r"[^\w.-]", "_", name)
                seconds, problems, job = run_case(arguments, data, place, case, condition, others)
                failed += bool(problems)
                results[case, condition] = f"{'FAIL' if problems else 'ok'} {seconds:.0f} s"
                print(f"{name:36} {'; '.join(problems) or 'ok'} ({seconds:.1f} s)", flush=True)
                if problems:
                    print(job.last_lines(), flush=True)
                else:
                    shutil.rmtree(place)
    show_table(rows, results)
    print(f"\n{len(results)} cases, {failed} failed")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
