#!/usr/bin/env python3
"""Puts the tables of sweeps into a page, between its marks, and their CSV files beside it.

    fill_results.py docs/results.md --cohort build/release/jobs/cohort --sweep headline=sweep-headline

Marks are comments; what stands between one and the next `<!-- end -->` is replaced:

    <!-- table SWEEP: TITLE -->       the table of `cohort report --markdown` whose title begins so
    <!-- demands SWEEP: A / B -->     of workers and servers, per second: mode A's relative to mode B's
    <!-- rates SWEEP -->              learning rates that were tried, and the one that was chosen
    <!-- effort SWEEP -->             how many runs, and how long they took
    <!-- verdict SWEEP -->            the sentences that `cohort report --markdown` begins with
    <!-- accuracies SWEEP: A -->      medians at the end of the runs, in points above mode A's

Marks of sweeps that are not given stay as they are. With --csv FOLDER results.csv and tuning.csv of each sweep
are copied to FOLDER/SWEEP/; the data set's path in their commands becomes its name in the documentation.
"""

import argparse
import csv
import pathlib
import re
import statistics
import subprocess
import sys

DATA = "fashion-mnist.h5"
MARK = re.compile(r"<!-- (table|demands|rates|effort|verdict|accuracies) ([\w-]+)(?:: (.+?))? -->\n(.*?)<!-- end -->",
                  re.DOTALL)
DEMANDS = [("samples", "samples_per_s"), ("worker: CPU", "worker_cpu_per_s"),
           ("worker: bytes", "worker_bytes_per_s"), ("server: CPU", "server_cpu_per_s"),
           ("server: bytes in", "server_rx_bytes_per_s"),
           ("server: bytes out", "server_tx_bytes_per_s")]


def read(folder, name):
    with open(folder / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Sweep:
    """A sweep's folder, read as far as the marks ask for it."""

    def __init__(self, cohort, folder):
        self.cohort = cohort
        self.folder = folder
        self.report = None

    def markdown(self):
        if self.report is None:
            self.report = subprocess.run([self.cohort, "report", self.folder, "--markdown"],
                                         capture_output=True, text=True, check=True).stdout
        return self.report

    def table(self, title):
        parts = self.markdown().split("\n\n")
        for head, body in zip(parts, parts[1:]):
            if head.startswith("**" + title):
                return body + "\n"
        sys.exit(f"{self.folder}: no table '{title}'")

    def demands(self, modes):
        """Medians of one mode relative to another's, a row per pattern."""
        first, second = (mode.strip() for mode in modes.split(" / "))
        rows = read(self.folder, "results.csv")
        text = f"| {first} against {second} | " + " | ".join(name for name, _ in DEMANDS) + " |\n"
        text += "|---" + "|---:" * len(DEMANDS) + "|\n"
        for pattern in dict.fromkeys(row["pattern"] for row in rows):
            cells = []
            for _, column in DEMANDS:
                one, other = (statistics.median(float(row[column]) for row in rows
                                                if (row["mode"], row["pattern"]) == (mode, pattern))
                              for mode in (first, second))
                cells.append(f"{100 * (one / other - 1):+.0f} %" if other else "-")
            text += f"| {pattern} | " + " | ".join(cells) + " |\n"
        return text

    def rates(self, _):
        tried = {}
        for row in read(self.folder, "tuning.csv"):
            mode = tried.setdefault(row["mode"], {})
            times = mode.setdefault(row["lr"], {"chosen": row["chosen"] == "1", "times": []})
            times["times"].append(f"{float(row['tta_virtual_s']):.0f}" if row["tta_virtual_s"]
                                  else "never")
        text = "| mode | rates: virtual seconds to the target with each seed of the search |\n"
        text += "|---|---|\n"
        for mode, rates in tried.items():
            cells = [f"{'**' + lr + '**' if found['chosen'] else lr}: {', '.join(found['times'])}"
                     for lr, found in rates.items()]
            text += f"| {mode} | " + "; ".join(cells) + " |\n"
        return text

    def effort(self, _):
        rows = read(self.folder, "results.csv")
        search = len(read(self.folder, "tuning.csv"))
        hours = sum(float(row["wall_s"]) for row in rows) / 3600
        return (f"{len(rows)} runs of the table took {hours:.1f} core hours; {search} runs of the "
                "search come before.\n")

    def verdict(self, _):
        """What stands before the first table."""
        return self.markdown().split("\n\n**", 1)[0] + "\n"

    def accuracies(self, reference):
        rows = read(self.folder, "results.csv")
        patterns = list(dict.fromkeys(row["pattern"] for row in rows))

        def middle(mode, pattern):
            return statistics.median(float(row["accuracy"]) for row in rows
                                     if (row["mode"], row["pattern"]) == (mode, pattern))

        text = "| mode | " + " | ".join(patterns) + " |\n|---" + "|---:" * len(patterns) + "|\n"
        for mode in dict.fromkeys(row["mode"] for row in rows):
            cells = []
            for pattern in patterns:
                points = round(100 * (middle(mode, pattern) - middle(reference, pattern)), 1)
                cells.append(f"{100 * middle(mode, pattern):.1f} % ({points + 0.0:+.1f})")
            text += f"| {mode} | " + " | ".join(cells) + " |\n"
        return text


def copy_csv(sweep, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("results.csv", "tuning.csv"):
        text = (sweep.folder / name).read_text(encoding="utf-8")
        text = re.sub(r"--data (?:'[^']*'|\S+)", f"--data {DATA}", text)
        (folder / name).write_text(text, encoding="utf-8")


def filled(page, sweeps):
    """The page with the tables of these sweeps."""
    def table(mark):
        kind, name, what = mark.group(1, 2, 3)
        if name not in sweeps:
            return mark.group(0)
        head = mark.group(0).split("\n", 1)[0]
        return f"{head}\n{getattr(sweeps[name], kind)(what)}<!-- end -->"

    return MARK.sub(table, page)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--cohort", default="build/release/jobs/cohort")
    parser.add_argument("--sweep", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--csv", type=pathlib.Path, metavar="FOLDER")
    arguments = parser.parse_args()
    sweeps = {}
    for given in arguments.sweep:
        name, _, folder = given.partition("=")
        sweeps[name] = Sweep(arguments.cohort, pathlib.Path(folder))
    page = arguments.page.read_text(encoding="utf-8")
    arguments.page.write_text(filled(page, sweeps), encoding="utf-8")
    for name, sweep in sweeps.items():
        if arguments.csv:
            copy_csv(sweep, arguments.csv / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
