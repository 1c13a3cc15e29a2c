#!/usr/bin/env python3
"""Seconds that `cohort report` takes for a run of many lines.

    tests/bench/report_speed.py COHORT [--lines 1000000] [--workers 4]

Writes such a metrics.jsonl into a temporary folder (1.7 GB for the defaults) and makes its page.
"""
import argparse
import json
import os
import pathlib
import random
import resource
import subprocess
import tempfile
import time

COLUMNS = ("tau_s input_s compute_s push_s pull_s wait_s cpu_share host_busy host_steal rx_bytes_s tx_bytes_s "
           "host_rx_bytes_s host_tx_bytes_s").split()


def write_run(path, lines, workers):
    draw = random.Random(1)
    # Some windows with all their digits, used again and again.
    loads = []
    for _ in range(200):
        columns = {name: [draw.random() for _ in range(workers)] for name in COLUMNS}
        loads.append(json.dumps({"lag": [draw.random() for _ in range(workers)],
                                 "own_s": [draw.random() for _ in range(workers)], "loss": draw.random(),
                                 "accuracy": draw.random(), "noise_scale": None, **columns,
                                 "slow": [None] * workers, "telemetry_share": draw.random()},
                                separators=(",", ":"))[1:])
    with open(path, "w", encoding="utf-8") as file:
        start = {"event": "start", "version": "0.2.0", "revision": "none", "model": "mlp", "arch": "servers",
                 "mode": "ssgd", "workers": workers, "servers": 1, "batch": 32, "samples_applied": 0,
                 "budget_samples": 64 * lines, "deterministic": False, "device": "cpu"}
        file.write(json.dumps(start) + "\n")
        for i in range(1, lines + 1):
            file.write(f'{{"event":"train","samples_applied":{64 * i},"updates":{i},"train_s":{0.25 * i},"lr":0.1,'
                       f'"gradient_norm":1.5,"samples_per_s":256.0,"mode":"ssgd","live":{workers},"pending":0,'
                       f'{loads[i % len(loads)]}\n')
            if i % 1000 == 0:
                file.write(f'{{"event":"evaluation","samples_applied":{64 * i},"updates":{i},"train_s":{0.25 * i},'
                           f'"test_accuracy":{i / lines},"test_loss":0.5,"test_samples":1000,"pause_s":0.5}}\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cohort")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cohort-report-") as folder:
        metrics = pathlib.Path(folder) / "metrics.jsonl"
        write_run(metrics, options.lines, options.workers)
        begin = time.monotonic()
        subprocess.run([options.cohort, "report", folder], check=True)
        wall_s = time.monotonic() - begin
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        page = os.path.getsize(pathlib.Path(folder) / "report.html")
        print(f"{options.lines} lines, {metrics.stat().st_size / 1e6:.0f} MB: {wall_s:.2f} s, of the processor "
              f"{usage.ru_utime + usage.ru_stime:.2f} s, {usage.ru_maxrss / 1024:.0f} MiB of memory, page "
              f"{page / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
