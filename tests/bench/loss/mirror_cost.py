#!/usr/bin/env python3
"""What mirrors, the copies of a run's state in other ranks' memory, cost: samples/s with and without them.

    mirror_cost.py --cohort build/release/jobs/cohort --data fashion-mnist.h5 [--runs 7] [--only REGEX] [--gbit RATE]

Four workers and two servers, or a ring of four, on this host, or, with --gbit (root needed), on two hosts made of
network namespaces whose links carry RATE Gbit/s. Jobs with --mirror-every-s 0, with the default, and with an interval
that is given in the row take turns. A row: the median samples/s without mirrors, and the medians of the ratios of
neighbouring runs, with the lowest and the highest.
"""

import collections
import pathlib
import re
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "fault"))
import fault_support  # noqa: E402
from loss_time import bench_parser  # noqa: E402

Case = collections.namedtuple("Case", ("arch", "mode", "servers", "model", "compute", "samples"))
CASES = [Case("servers", "ssgd", 2, "smallcnn", "network", 120000), Case("servers", "asgd", 2, "smallcnn", "network", 120000),
         Case("ring", "ring", 0, "smallcnn", "network", 120000),
         Case("servers", "ssgd", 2, "vgg16", "sleep:150ms", 2000), Case("ring", "ring", 0, "vgg16", "sleep:150ms", 2000)]
WORKERS = 4
SETTINGS = {"none": 0, "default": -1, "every 1 s": 1}


def rate(arguments, case, every_s, hosts, folder):
    """Samples/s of one job."""
    ranks = WORKERS + case.servers
    job = fault_support.Job(arguments.cohort, arguments.data, folder, fault_support.Mode(case.arch, case.mode),
                            case.samples, start=hosts.launch(slots=ranks // 2) if hosts else None,
                            train=["--compute", case.compute, "--servers", case.servers, "--mirror-every-s", every_s,
                                   "--checkpoint-every-s", 0], ranks=ranks, model=case.model)
    try:
        problems = [one for one in job.problems(job.finish()) if not one.startswith("test accuracy")]
        if problems:
            sys.exit(f"{case}: {problems}\n{job.last_lines()}")
        return job.events("summary")[-1]["samples_per_s"]
    finally:
        job.end()


def rows(arguments, hosts):
    print("| job | samples/s without | default | every 1 s |\n|---|---|---|---|", flush=True)
    for case in CASES:
        name = f"{case.arch}/{case.mode} {case.model}"
        if not re.search(arguments.only, name):
            continue
        rates = collections.defaultdict(list)
        with tempfile.TemporaryDirectory(prefix="cohort-mirror-") as folder:
            for _ in range(arguments.runs):
                for setting, every_s in SETTINGS.items():
                    rates[setting].append(rate(arguments, case, every_s, hosts, pathlib.Path(folder) / "run"))
        columns = []
        for setting in ("default", "every 1 s"):
            ratios = [one / other for one, other in zip(rates[setting], rates["none"])]
            columns.append(f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
        print(f"| {name} | {statistics.median(rates['none']):.0f} | {' | '.join(columns)} |", flush=True)


def main():
    parser = bench_parser(__doc__, 7)
    parser.add_argument("--gbit", type=float)
    arguments = parser.parse_args()
    if not arguments.gbit:
        rows(arguments, None)
        return
    sys.path.insert(0, str(fault_support.ROOT / "tests/support/comm"))
    from netns_hosts import Hosts, in_own_process_space
    in_own_process_space()
    with Hosts(2, f"{arguments.gbit}gbit", both=True) as hosts:
        rows(arguments, hosts)


if __name__ == "__main__":
    main()
