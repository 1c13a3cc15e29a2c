#!/usr/bin/env python3
"""How the virtual cluster, and each mode on it, does with 64, 512 and 4096 workers.

    sim_scale.py --cohort build/release/jobs/cohort [--jobs 2] [--out folder] [--svg docs/scale.svg]

Eight workers per node, a server on every second node, time only. One run per mode, pattern and number of workers; each
ends after a number of iterations per worker. Prints two tables (samples/s; events per core second of the program and its memory);
--svg draws the first, --out keeps each run's summary as JSON and does not run again what is there.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

# workers -> iterations of each
SIZES = {64: 200, 512: 100, 4096: 12}
PATTERNS = ("healthy", "transient", "clustered")
# name in tables -> architecture and mode for n workers
MODES = {
    "ssgd": ("servers", lambda n: "ssgd"),
    "static:N/2": ("servers", lambda n: f"static:{n // 2}"),
    "backup:N/16": ("servers", lambda n: f"backup:{n // 16}"),
    "lgc:N/16": ("servers", lambda n: f"lgc:{n // 16}"),
    "dynamic": ("servers", lambda n: "dynamic"),
    "lb-bsp": ("servers", lambda n: "lb-bsp"),
    "localsgd:4": ("servers", lambda n: "localsgd:4"),
    "ssp:3": ("servers", lambda n: "ssp:3"),
    "asgd": ("servers", lambda n: "asgd"),
    "ring": ("ring", lambda n: "ring"),
    "ring:15N/16": ("ring", lambda n: f"ring:{n - n // 16}"),
}
# In the picture; the others' curves lie on or between these.
DRAWN = {"localsgd:4": "#9467bd", "ring": "#2ca02c", "ring:15N/16": "#8c564b", "asgd": "#d62728",
         "static:N/2": "#ff7f0e", "lb-bsp": "#17becf", "ssgd": "#1f77b4"}


def command(arguments, name, pattern, workers):
    architecture, mode = MODES[name]
    words = ["simulate", "--no-train", "--profile", arguments.profile, "--time-as",
             arguments.workload, "--batch", arguments.batch, "--workers", workers,
             "--nodes", workers // 8, "--arch", architecture, "--mode", mode(workers),
             "--pattern", pattern, "--samples", SIZES[workers] * workers * arguments.batch]
    if architecture == "servers":
        words += ["--servers", workers // 16]
    return [str(word) for word in words]


def run(arguments, case):
    """@return the summary of a run, from the folder if it is there"""
    kept = None
    if arguments.out:
        kept = arguments.out / ("-".join(map(str, case)).replace("/", "_") + ".json")
        if kept.exists():
            return json.loads(kept.read_text())
    words = command(arguments, *case)
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen([arguments.cohort, *words, "--json"], stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"cohort {' '.join(words)} failed")
        output.seek(0)
        summary = json.loads(output.read().splitlines()[-1])
    summary = {key: summary[key] for key in (
        "samples_per_s", "healthy_iteration_s", "events", "peak_bytes")}
    summary["core_s"] = usage.ru_utime + usage.ru_stime
    if kept:
        kept.write_text(json.dumps(summary))
    return summary


def share(arguments, found, case):
    """Samples/s over those of as many workers each of whom had the servers to itself."""
    summary = found[case]
    ideal = case[2] * arguments.batch / found[("ssgd", case[1], case[2])]["healthy_iteration_s"]
    return summary["samples_per_s"] / ideal


def print_pace(arguments, found):
    print("| mode | " + " | ".join(f"{pattern} {n}" for pattern in PATTERNS for n in SIZES) + " |")
    print("|---|" + "---|" * len(PATTERNS) * len(SIZES))
    for name in MODES:
        cells = []
        for pattern in PATTERNS:
            for workers in SIZES:
                case = (name, pattern, workers)
                pace = found[case]["samples_per_s"] / 1000
                cells.append(f"{pace:.1f} ({100 * share(arguments, found, case):.0f} %)")
        print(f"| `{name}` | " + " | ".join(cells) + " |")


def print_speed(found):
    print("| mode | " + " | ".join(
        f"{n}: thousand events per core second | {n}: core s | {n}: MiB" for n in SIZES) + " |")
    print("|---|" + "---|" * 3 * len(SIZES))
    for name in MODES:
        cells = []
        for workers in SIZES:
            summary = found[(name, "transient", workers)]
            cells.append(f"{summary['events'] / summary['core_s'] / 1000:.0f} "
                         f"| {summary['core_s']:.2f} "
                         f"| {summary['peak_bytes'] / 2**20:.0f}")
        print(f"| `{name}` | " + " | ".join(cells) + " |")


def spread(labels, least):
    """Heights of labels, moved apart to `least`."""
    order = sorted(labels, key=lambda label: labels[label])
    placed = {}
    last = None
    for label in order:
        last = labels[label] if last is None else max(labels[label], last + least)
        placed[label] = last
    return placed


def draw(arguments, found):
    """One panel per pattern: share of the ideal pace over workers."""
    width, height, left, top, gap = 190, 240, 46, 44, 98
    sizes = list(SIZES)
    total = left + len(PATTERNS) * (width + gap) + 8
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height + top + 52}" '
           'font-family="system-ui, sans-serif" font-size="12" role="img">',
           "<title>Samples per second by mode and number of workers, as a share of the ideal"
           "</title>",
           "<style>text{fill:#222}.a{stroke:#888;stroke-width:1;fill:none}"
           ".g{stroke:#8884;stroke-width:1}"
           "@media(prefers-color-scheme:dark){text{fill:#ddd}}"
           "polyline{fill:none;stroke-width:2}</style>"]
    for panel, pattern in enumerate(PATTERNS):
        x0 = left + panel * (width + gap)

        def x_of(index, x0=x0):
            return x0 + index * width / (len(sizes) - 1)

        def y_of(value):
            return top + height * (1 - value)

        out.append(f'<text x="{x0}" y="{top - 24}" font-size="14">{pattern}</text>')
        for percent in range(0, 101, 20):
            y = y_of(percent / 100)
            out.append(f'<line class="g" x1="{x0}" y1="{y:.1f}" x2="{x0 + width}" y2="{y:.1f}"/>')
            if panel == 0:
                out.append(f'<text x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>')
        for index, workers in enumerate(sizes):
            out.append(f'<text x="{x_of(index):.1f}" y="{top + height + 18}" '
                       f'text-anchor="middle">{workers}</text>')
        ends = {}
        for name, colour in DRAWN.items():
            shares = [share(arguments, found, (name, pattern, workers)) for workers in sizes]
            points = " ".join(f"{x_of(i):.1f},{y_of(min(s, 1)):.1f}" for i, s in enumerate(shares))
            out.append(f'<polyline stroke="{colour}" points="{points}"/>')
            ends[name] = y_of(min(shares[-1], 1)) + 4
        for name, y in spread(ends, 13).items():
            out.append(f'<text x="{x0 + width + 5}" y="{y:.1f}" style="fill:{DRAWN[name]}">'
                       f"{name}</text>")
        out.append(f'<text x="{x0 + width / 2:.1f}" y="{top + height + 38}" '
                   'text-anchor="middle">workers</text>')
    out.append("</svg>")
    arguments.svg.write_text("\n".join(out) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohort", required=True, help="the program")
    parser.add_argument("--profile", default="8gpu-100g")
    parser.add_argument("--workload", default="resnet50")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--out", type=pathlib.Path, help="folder for the runs' summaries")
    parser.add_argument("--svg", type=pathlib.Path, help="picture of the first table")
    arguments = parser.parse_args()
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
    cases = [(name, pattern, workers)
             for workers in SIZES for pattern in PATTERNS for name in MODES]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        found = dict(zip(cases, pool.map(lambda case: run(arguments, case), cases)))
    print_pace(arguments, found)
    print()
    print_speed(found)
    if arguments.svg:
        draw(arguments, found)


if __name__ == "__main__":
    main()
