#!/usr/bin/env python3
"""What seeing, predicting and choosing cost on real ranks.

    chooser_overhead.py --cohort build/release/jobs/cohort --data fashion-mnist.h5 [--rounds 3]

Eight workers and a server whose mini-batches are sleeps; one worker is slower by --slow for a while, again and
again, so that there is something to decide. Runs of ssgd and of the chooser alternate with nobody slow, too.

telemetry: time that finding out about its load costs a worker, of its iteration (metrics: telemetry_share).
decision: seconds that a decision took (metrics: decision, decide_s); updates go on meanwhile.
pace: samples/s of the chooser with nobody slow, where it keeps ssgd, relative to ssgd's.
refiner: processor time of the thread that refines the predictor, of one core (summary: refiner_cpu_s).

The exit code is 1 when telemetry takes more than --most-telemetry, the refiner more than --most-refiner, or a
decision more than --most-decide-ms.

A round is three runs of --seconds and a little more, of which the one with a slow worker is the longest: 37 s with
--seconds 10, so the three rounds of the default take about ten minutes. Every run that is over is told on stderr.
"""

import statistics
import sys

import training_runs
from training_runs import of_kind

WORKERS = 8
SLOW = 6  # world rank


def words_of(arguments, mode):
    return ["--data", arguments.data, "--arch", "servers", "--mode", mode, "--model", arguments.model,
            "--batch", arguments.batch, "--compute", f"sleep:{arguments.sleep_ms:g}ms", "--lr", 0.001,
            "--samples", int(arguments.seconds / arguments.sleep_ms * 1e3) * WORKERS * arguments.batch,
            "--log-every-s", 0.5, "--node-staging", "off"]


def episodes(arguments):
    """--inject: slow for a sixth of the run, well for a sixth, and so on."""
    length = arguments.seconds / 6
    return ";".join(f"rank={SLOW},cpu={1 / arguments.slow:g},from={start * length:g}s,"
                    f"to={(start + 1) * length:g}s" for start in (1, 3, 5))


def wanted(record, name):
    if name not in record:
        sys.exit(f"the program's metrics have no '{name}' in '{record['event']}'")
    return record[name]


def measure(arguments, mode, inject):
    words = words_of(arguments, mode)
    if inject:
        words += ["--inject", inject]
    records = training_runs.run(arguments.cohort, 1 + WORKERS, words)
    print(f"{mode}, {'slow at times' if inject else 'nobody slow'}: {records[-1]['samples_per_s']:.0f} samples/s, "
          f"{records[-1]['wall_s']:.0f} s", file=sys.stderr)
    return records


def main():
    parser = training_runs.parser_of(__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--mode", default="adaptive")
    parser.add_argument("--model", default="smallcnn")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--sleep-ms", type=float, default=40)
    parser.add_argument("--seconds", type=float, default=60, help="about, of each run")
    parser.add_argument("--slow", type=float, default=3, help="times slower")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most-telemetry", type=float, default=0.002)
    parser.add_argument("--most-refiner", type=float, default=0.02)
    parser.add_argument("--most-decide-ms", type=float, default=1)
    arguments = parser.parse_args()

    shares, decisions, refiner, rates = [], [], [], {"ssgd": [], arguments.mode: []}
    for _ in range(arguments.rounds):
        for mode, found in rates.items():
            found.append(measure(arguments, mode, "")[-1]["samples_per_s"])
        records = measure(arguments, arguments.mode, episodes(arguments))
        shares += [wanted(record, "telemetry_share") for record in of_kind(records, "train")[1:]]
        decisions += [wanted(record, "decide_s") for record in of_kind(records, "decision")]
        summary = records[-1]
        refiner.append(wanted(summary, "refiner_cpu_s") / summary["train_s"])
    pace = [one / other for one, other in zip(rates[arguments.mode], rates["ssgd"])]
    telemetry = statistics.median(shares)
    print("| what | median | largest |\n|---|---:|---:|")
    print(f"| telemetry, of a worker's iteration | {100 * telemetry:.3f} % | {100 * max(shares):.3f} % |")
    if decisions:
        print(f"| a decision ({len(decisions)}) | {1e3 * statistics.median(decisions):.3f} ms "
              f"| {1e3 * max(decisions):.3f} ms |")
    print(f"| refiner, of one core | {100 * statistics.median(refiner):.2f} % "
          f"| {100 * max(refiner):.2f} % |")
    print(f"| pace with nobody slow, ssgd = 1 | {statistics.median(pace):.3f} "
          f"| {max(pace):.3f} (least {min(pace):.3f}) |")
    good = (telemetry <= arguments.most_telemetry and max(refiner) <= arguments.most_refiner
            and bool(decisions) and statistics.median(decisions) <= 1e-3 * arguments.most_decide_ms)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
