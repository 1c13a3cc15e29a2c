#!/usr/bin/env python3
"""Damages the data file while `cohort train` or `cohort eval` reads it: never code 0 with another result.

    data_damage_test.py COHORT [--cases N] [--first I] [--seed S] [--folder DIR]

Each case draws command, storage, kind of damage and time from the seed and its number, so
`--first I --cases 1` repeats one. The process is stopped while the file is damaged. It must end with code 3
and a message that names file, data set and samples ("refused"), or with code 0 and, bit for bit, the
result of an undisturbed run ("same"): it had read all it needs. Every twelfth case is a job of three ranks
under jobs/launch.sh. A file that is only deleted changes nothing. Flipped bytes come with the old time
of change, so that only checksums can find them.
"""

import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import fault_support  # finds cli_support, too
import cli_support
import h5py
import numpy as np
from guard import left_s

# More than 64 MiB, so that chunks leave the cache and are read again in the next epoch.
FEATURES, TRAIN, TEST = 12288, 6000, 1000
SAMPLES = 2 * TRAIN
CHUNK = 85

STORAGES = ("imported", "imported gzip", "plain", "contiguous", "gzip", "shuffle", "fletcher32")
DAMAGES = ("truncate", "overwrite", "replace", "delete", "flip")
# Without checksums, bytes that were flipped before their first read are not found.
UNVERIFIED = ("plain", "contiguous")

Case = collections.namedtuple("Case", ("number", "command", "storage", "damage", "share"))


def draw(number, seed):
    """The case of a number; all pairs of storage and damage come before one comes again."""
    pairs = [(storage, damage) for storage in STORAGES for damage in DAMAGES]
    random.Random(seed).shuffle(pairs)
    storage, damage = pairs[number % len(pairs)]
    chance = random.Random(f"{seed}/{number}")
    command = "job" if number % 12 == 11 else chance.choice(("train", "eval"))
    return Case(number, command, storage, damage, chance.uniform(0.05, 0.7))


def samples(count, seed):
    """Bytes in four classes: one quarter of the features is brighter."""
    draws = np.random.default_rng(seed)
    labels = draws.integers(0, 4, count).astype(np.uint8)
    values = draws.integers(0, 100, (count, FEATURES), dtype=np.uint8)
    for label in range(4):
        values[labels == label, label * FEATURES // 4:(label + 1) * FEATURES // 4] += 1
    return values, labels


def import_files(folder, seed, output, *more):
    inputs = []
    for group, count in (("train", TRAIN), ("test", TEST)):
        for kind, values in zip(("images", "labels"), samples(count, seed + len(inputs))):
            inputs += ["--input", folder / f"{group}_{kind}.npy"]
            np.save(inputs[-1], values)
    cli_support.run("import", *inputs, "--output", output, *more)
    for path in inputs[1::2]:
        path.unlink()


def convert(source, output, **storage):
    """The same data as h5py users write it: without checksums of this program."""
    with h5py.File(source) as old, h5py.File(output, "w") as new:
        for name in ("format", "version", "classes", "mean", "std"):
            new.attrs[name] = old.attrs[name]
        for group in ("train", "test"):
            values = old[f"{group}/samples"][()]
            new.create_dataset(f"{group}/samples", data=values, **storage)
            new[f"{group}/labels"] = old[f"{group}/labels"][()]


def make_storage(folder, name):
    """A file of that kind, made once."""
    path = folder / f"{name.replace(' ', '_')}.h5"
    if not path.exists():
        chunks = {"chunks": (CHUNK, FEATURES)}
        if name == "imported":
            import_files(folder, 1, path)
        elif name == "imported gzip":
            import_files(folder, 1, path, "--compress-level", 1)
        else:
            how = {"plain": chunks, "contiguous": {},
                   "gzip": {**chunks, "compression": "gzip", "compression_opts": 1},
                   "shuffle": {**chunks, "compression": "gzip", "compression_opts": 1, "shuffle": True},
                   "fletcher32": {**chunks, "fletcher32": True}}[name]
            convert(make_storage(folder, "imported"), path, **how)
    return path


def chunk_places(path, group):
    """Offset and length in the file of each chunk, or of the whole."""
    with h5py.File(path) as file:
        data = file[f"{group}/samples"]
        if data.chunks is None:
            return [(data.id.get_offset(), data.size)]
        found = (data.id.get_chunk_info(i) for i in range(data.id.get_num_chunks()))
        return [(one.byte_offset, one.size) for one in found]


def damage_file(case, data, other, places):
    """Does to `data` what the case says; `other` is a whole file of the same shape."""
    before = data.stat()
    chance = random.Random(case.number)
    if case.damage == "truncate":
        os.truncate(data, chance.randrange(before.st_size // 4))
    elif case.damage == "overwrite":
        with open(other, "rb") as source, open(data, "r+b") as target:
            shutil.copyfileobj(source, target)
    elif case.damage == "replace":
        copy = data.with_suffix(".new")
        shutil.copyfile(other, copy)
        os.replace(copy, data)
    elif case.damage == "delete":
        data.unlink()
    else:
        with open(data, "r+b") as target:
            for offset, size in places:
                at = offset + chance.randrange(size)
                target.seek(at)
                byte = target.read(1)[0]
                target.seek(at)
                target.write(bytes([byte ^ 1 << chance.randrange(8)]))
        os.utime(data, ns=(before.st_atime_ns, before.st_mtime_ns))


class Process:
    """`cohort train` or `cohort eval` on one file."""

    def __init__(self, command, data, folder, model=None):
        self.out = folder / "out"
        if command == "eval":
            words = ["eval", "--data", data, "--model-file", model, "--group", "train", "--threads", 1,
                     "--batch", 100, "--json"]
        else:
            words = ["train", "--data", data, "--out", self.out, "--model", "softmax", "--batch", 100,
                     "--threads", 1, "--lr", 0.001, "--samples", SAMPLES, "--deterministic",
                     "--eval-every-samples", TRAIN]
        self._command, self._data = command, data
        self._started = time.monotonic()
        self.process = subprocess.Popen([str(cli_support.PROGRAM), *map(str, words)], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def reading(self):
        """Whether the file is open and, in training, the first batch may be computed."""
        if self._command == "train":
            return (self.out / "metrics.jsonl").exists()
        try:
            return any(os.path.samefile(self._data, path)
                       for path in pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir()
                       if path.exists())
        except FileNotFoundError:
            return False

    def disturb(self, after_s, damage):
        while self.process.poll() is None and not self.reading():
            time.sleep(0.002)
        time.sleep(after_s)
        os.kill(self.process.pid, signal.SIGSTOP)
        damage()
        os.kill(self.process.pid, signal.SIGCONT)

    def finish(self):
        """Exit code, seconds, what was printed, and the result: tensors or accuracy and loss."""
        printed, log = self.process.communicate(timeout=left_s())
        code = self.process.returncode
        result = None
        if code == 0 and self._command == "eval":
            line = json.loads(printed)
            result = (line["samples"], line["accuracy"], line["loss"])
        elif code == 0:
            tests = cli_support.events(self.out, "evaluation")
            result = (cli_support.tensors(self.out), [(one["test_accuracy"], one["test_loss"]) for one in tests])
        return code, time.monotonic() - self._started, printed + log, result


class Bench:
    """The files and what undisturbed runs come to."""

    def __init__(self, folder):
        self.folder = folder
        self.other = folder / "other.h5"
        import_files(folder, 7, self.other)
        self.original = make_storage(folder, "imported")
        self.model = folder / "reference/out/model.h5"
        self.expected, self.seconds = {}, {}
        for command in ("train", "eval"):
            place = folder / "reference"
            place.mkdir(exist_ok=True)
            run = Process(command, self.original, place, self.model)
            code, self.seconds[command], log, self.expected[command] = run.finish()
            assert code == 0, log

    def run(self, case):
        """What became of the case, and what is wrong with it."""
        place = self.folder / f"case-{case.number}"
        place.mkdir()
        data = place / "data.h5"
        whole = make_storage(self.folder, case.storage)
        shutil.copyfile(whole, data)
        places = chunk_places(data, "train")
        damage = lambda: damage_file(case, data, self.other, places)
        if case.command == "job":
            return self._job(case, data, place, damage)
        run = Process(case.command, data, place, self.model)
        try:
            run.disturb(case.share * self.seconds[case.command], damage)
            code, _, log, result = run.finish()
        finally:
            run.process.kill()
        return self._verdict(case, data, code, log, result == self.expected[case.command])

    def _job(self, case, data, place, damage):
        """Three workers of a ring; the cache of each holds a window, so the file is read all along."""
        words = ["-n", 3, "--interfaces", "lo", "--bind", "none", "--", "train", "--data", data, "--out",
                 place / "out", "--arch", "ring", "--model", "softmax", "--batch", 50, "--threads", 1,
                 "--lr", 0.001, "--samples", 2 * SAMPLES, "--stall-limit-s", 20]
        outside = {name: value for name, value in os.environ.items()
                   if not re.match("SLURM|OMPI_|PMIX_", name)}
        with subprocess.Popen([str(fault_support.ROOT / "jobs/launch.sh"), *map(str, words)], text=True,
                              env={**outside, "COHORT": str(cli_support.PROGRAM)},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as job:
            while job.poll() is None and not (place / "out/metrics.jsonl").exists():
                time.sleep(0.01)
            time.sleep(0.2)
            damage()
            log, _ = job.communicate(timeout=left_s())
        return self._verdict(case, data, job.returncode, log, case.damage == "delete")

    def _verdict(self, case, data, code, log, same):
        named = re.search(rf"\[{re.escape(str(data))}:/(train|test)/\w+\].*samples? \d+", log)
        if code == 3 and named and case.damage != "delete":
            return "refused", ""
        if code == 0 and same:
            return "same", ""
        if case.damage == "flip" and case.storage in UNVERIFIED and code == 0:
            return "unverified", ""
        return "failed", f"exit code {code}, {'named' if named else 'not named'}\n{log[-1500:]}"


def main():
    parser = fault_support.parser(__doc__, cases=70)
    arguments = parser.parse_args()
    cli_support.PROGRAM = pathlib.Path(arguments.cohort).resolve()
    started = time.monotonic()
    counts = collections.Counter()
    with fault_support.work_folder(arguments) as folder:
        bench = Bench(folder)
        for number in range(arguments.first, arguments.first + arguments.cases):
            case = draw(number, arguments.seed)
            outcome, why = bench.run(case)
            counts[outcome] += 1
            print(f"{number:4} {case.command} {case.storage}: {case.damage} after {case.share:.2f} of the "
                  f"time: {outcome} {why}", flush=True)
            if outcome != "failed":
                shutil.rmtree(folder / f"case-{number}")
    print(f"{arguments.cases} cases in {time.monotonic() - started:.0f} s: "
          + ", ".join(f"{counts[name]} {name}" for name in ("refused", "same", "unverified", "failed")))
    return 1 if counts["failed"] or not counts["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
