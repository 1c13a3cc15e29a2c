#!/usr/bin/env python3
"""Rates of kernels from Nsight Compute's table, one JSON object per kernel.

    kernels.py FILE...     output of ncu --csv --page raw --print-units base with the metrics
                           dram__bytes.sum and gpu__time_duration.sum; other lines are passed over
    kernels.py --self-test

Short launches do not fill the memory's pipes and are counted, but left out of the rate.
"""

import csv
import json
import re
import sys

SHORT_NS = 20_000
NAME, BYTES, NANOSECONDS = "Kernel Name", "dram__bytes.sum", "gpu__time_duration.sum"


def base_name(kernel):
    """`sums_kernel` of "void cohort::sums_kernel<float, 4>(cohort::BnProblem)"."""
    found = re.search(r"(\w+)[<(]", kernel.replace("(anonymous namespace)::", ""))
    if found is None:
        raise ValueError(kernel)
    return found[1]


def rows_of(lines):
    table = [line for line in lines if line.startswith('"')]
    for row in csv.DictReader(table):
        try:
            yield base_name(row[NAME]), float(row[BYTES].replace(",", "")), \
                float(row[NANOSECONDS].replace(",", ""))
        except (KeyError, TypeError, ValueError):
            pass  # the row of units


def records(lines):
    kernels = {}
    for name, size, nanoseconds in rows_of(lines):
        one = kernels.setdefault(name, {"launches": 0, "long": 0, "bytes": 0.0, "ns": 0.0})
        one["launches"] += 1
        if nanoseconds >= SHORT_NS:
            one["long"] += 1
            one["bytes"] += size
            one["ns"] += nanoseconds
    for name, one in sorted(kernels.items()):
        yield {"bench": "kernel", "kernel": name, "launches": one["launches"], "long": one["long"],
               "long_s": one["ns"] * 1e-9,
               "gb_per_second": round(one["bytes"] / one["ns"], 1) if one["ns"] else None}


PLANTED = """==PROF== Connected to process 7
{"bench": "step"}
"ID","Process ID","Kernel Name","dram__bytes.sum","gpu__time_duration.sum"
"","","","byte","ns"
"0","7","void cohort::apply_kernel<float, 4>(cohort::BnProblem, const float *)","200,000,000","100,000"
"1","7","void cohort::apply_kernel<float, 4>(cohort::BnProblem, const float *)","100000000","50000"
"2","7","void cohort::apply_kernel<float, 4>(cohort::BnProblem, const float *)","1000","2000"
"3","7","void cohort::(anonymous namespace)::statistics_kernel(cohort::BnProblem)","500","1500"
"""


def self_test():
    found = {record["kernel"]: record for record in records(PLANTED.splitlines())}
    assert found["apply_kernel"]["gb_per_second"] == 2000.0, found
    assert (found["apply_kernel"]["launches"], found["apply_kernel"]["long"]) == (3, 2), found
    assert found["statistics_kernel"]["gb_per_second"] is None, found
    print("rates of 2 kernels are right")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8", errors="replace") as file:
            for record in records(file):
                print(json.dumps(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
