#!/usr/bin/env python3
"""Damaged files of every kind that the program reads: none may end it by a signal, hang it, make it take all
memory, or be called an internal error.

    fuzz_test.py COHORT [--variants N] [--seed S] [--first N] [--only REGEX] [--jobs J] [--keep DIR]
                        [--no-memory-limit]

Variant I of seed S is the same damage in every run (samples of runs differ by the times that they measured). Files of those
that fail are kept in --keep, with their command.
"""

import argparse
import collections
import concurrent.futures
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import fuzz_mutations as damage
import fuzz_samples
from cli_support import CASE_S, left_s

CPU_S = 20         # of a command; healthy ones take less than one
MEMORY_MIB = 4096  # of addresses
KNOWN_CODES = {0, 2, 3, 4, 5, 6}
# Of numbers that a score or table shows.
NO_NUMBER = re.compile(r"(?<![\w-])-?(inf|nan)(?!\w)", re.IGNORECASE)

Result = collections.namedtuple("Result", "kind index code wrong words said")


def limits(options):
    memory = [] if options.no_memory_limit else [f"--as={MEMORY_MIB << 20}"]
    return ["prlimit", f"--cpu={CPU_S}", "--core=0", *memory, "--"]


def wrong_with(kind, code, said):
    if code == "time":
        return "did not end"
    if code not in KNOWN_CODES:
        return f"exit code {code}"
    if "internal error" in said or "terminate called" in said or "HDF5-DIAG" in said:
        return "says what it should not"
    if code == 0 and kind.numbers and NO_NUMBER.search(said):
        return "shows numbers that are none, with exit code 0"
    if code in (2, 3) and not said.strip():
        return "says nothing"
    return ""


def run_variant(options, kinds, index):
    """Damages a file of one kind and runs a command that reads it."""
    kind = kinds[index % len(kinds)]
    rng = random.Random(f"{options.seed}/{kind.name}/{index}")
    folder = options.work / str(index)
    folder.mkdir()
    files = kind.place(folder)
    victim = rng.choice(files)
    victim.write_bytes(kind.damage(rng, victim.read_bytes()))
    words = [str(word) for word in rng.choice(kind.commands)(folder)]
    try:
        done = subprocess.run([*limits(options), str(options.cohort), *words], capture_output=True, text=True,
                              errors="replace", timeout=left_s(CASE_S), check=False, cwd=folder)
        code, said = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as ended:
        code, said = "time", (ended.stderr or b"").decode(errors="replace")
    wrong = wrong_with(kind, code, said)
    if wrong and options.keep:
        kept = options.keep / f"{kind.name}-{options.seed}-{index}"
        shutil.copytree(folder, kept, dirs_exist_ok=True)
        (kept / "command").write_text(shlex.join(words) + f"\n{wrong}\n{said}")
    shutil.rmtree(folder)
    return Result(kind.name, index, code, wrong, words, said)


def print_table(counts):
    codes = sorted({code for count in counts.values() for code in count}, key=str)
    print(f"{'file':<24}" + "".join(f"{code!s:>7}" for code in codes) + "   <- exit code")
    for kind, count in sorted(counts.items()):
        print(f"{kind:<24}" + "".join(f"{count[code] or '':>7}" for code in codes))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cohort", type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument("--variants", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first variant")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="of these variants those of kinds whose name has this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument("--no-memory-limit", action="store_true", help="for sanitizers, which reserve all addresses")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cohort-fuzz-") as root:
        samples = pathlib.Path(root) / "samples"
        options.work = pathlib.Path(root) / "work"
        samples.mkdir()
        options.work.mkdir()
        kinds = fuzz_samples.kinds(options.cohort, samples)
        for kind in kinds:
            if re.search(options.only, kind.name):
                check_healthy(options, kind)
        indices = [index for index in range(options.first, options.first + options.variants)
                   if re.search(options.only, kinds[index % len(kinds)].name)]
        start = time.monotonic()
        counts = collections.defaultdict(collections.Counter)
        failed = []
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for result in pool.map(lambda index: run_variant(options, kinds, index), indices):
                counts[result.kind][result.code] += 1
                if result.wrong:
                    failed.append(result)
                    print(f"{result.kind} {result.index}: {result.wrong}: {shlex.join(result.words)}\n"
                          f"{result.said[-800:]}\n", flush=True)
    print_table(counts)
    print(f"{len(indices)} variants of {len(counts)} kinds of files, seed {options.seed}, "
          f"{time.monotonic() - start:.0f} s: {len(failed)} failed")
    return 1 if failed else 0


def check_healthy(options, kind):
    """Undamaged, each of its commands ends well."""
    for number, command in enumerate(kind.commands):
        folder = options.work / f"{kind.name}-{number}"
        folder.mkdir()
        kind.place(folder)
        done = subprocess.run([*limits(options), str(options.cohort), *map(str, command(folder))],
                              capture_output=True, text=True, timeout=left_s(CASE_S), check=False, cwd=folder)
        if done.returncode not in kind.healthy:
            sys.exit(f"{kind.name}: {command(folder)} ends with {done.returncode}:\n{done.stdout}{done.stderr}")
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
