#!/usr/bin/env python3
"""Whether `cohort` still does what it did: digests of virtual runs, parameters of deterministic
real ones, the fields of metrics.jsonl, compared with those in tests/golden.

golden.py COHORT --record | --check [--only TEXT] [--quick] [-j N] [-- MPIRUN [MPIRUN-OPTION...]]

A run's name in those files is its command line without what all runs of the file share. Digests of
parameters are compared only on the kind of processor, and with the oneDNN, that they come from.
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "cli"))
import cli_support  # noqa: E402

GOLDEN = TESTS / "golden"
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--enable-recovery",
          "--mca", "pml", "ob1", "--mca", "btl_tcp_if_include", "lo", "--mca",
          "oob_tcp_if_include", "lo", "--mca", "btl", "self,vader,tcp"]

SERVER_MODES = [
    "ssgd", "static:3", "quorum:6", "ksync:5", "backup:2", "lgc:2", "kbatch-sync:6",
    "kbatch-async:4", "softsync:2", "localsgd:4", "hier:4:2", "asgd", "asgd@0.5", "ssp:2",
    "dynsgd", "adadelay:1,0.5", "dcasgd", "saps", "saps:1:drop", "saps:1:discount", "saps:auto",
    "zeno++", "dynamic", "cutoff", "lb-bsp", "lb-bsp:32", "sync-switch:0.4", "flexrr:2",
    "ssgd-or-asgd", "star-h", "star-h-exact", "star-ml", "adaptive"]
RING_MODES = ["ring", "ring:6", "ssgd", "localsgd:4", "hier:4:2", "lb-bsp", "lb-bsp:32", "star-h",
              "star-ml", "adaptive"]
CHOOSERS = {"servers": ["star-h", "star-h-exact", "star-ml", "adaptive", "dynamic"],
            "ring": ["star-h", "star-ml", "adaptive"]}
MODES = {"servers": SERVER_MODES, "ring": RING_MODES}
BOTH = ("servers", "ring")

# Nobody slow; one worker slow; any worker slow for a while; every iteration another time.
PATTERNS = ["healthy", "persistent:3", "transient:3", "recorded:resnet20"]
OTHER_PATTERNS = [
    "delay:2", "half:2", "blip:5", "onoff:2", "clustered:3", "heterogeneous:3", "bandwidth:5",
    "colocated:3", "server-hot:3", "storm:3", "jitter:1.5", "jitter:2:pareto:0.3:0.5"]
# What else decides the course of a run, with whatever mode it shows in.
TIMED_VARIANTS = [
    "--arch servers --servers 3 --mode static:3", "--arch servers --nodes 2 --mode ssgd",
    "--arch servers --nodes 2 --server-nodes own --mode quorum:6",
    "--arch servers --nodes 4 --node-staging off --mode ssgd",
    "--arch servers --nodes 4 --servers 2 --mode adaptive",
    "--arch servers --mode star-h --predictor oracle", "--arch ring --mode adaptive --nodes 2",
    "--arch servers --mode adaptive --predictor lstm", "--arch ring --mode star-h --predictor ewma",
    "--arch servers --mode adaptive --predictor episodes",
    "--arch servers --mode star-ml --chooser-file none", "--arch ring --mode ssgd --record-load",
    "--arch servers --mode asgd --record-rates", "--arch servers --mode asgd --optimizer adamw",
    "--arch servers --mode-schedule 0:ssgd,20000:static:6,40000:asgd@0.5,60000:adaptive",
    "--arch ring --mode-schedule 0:ring,30000:ring:6,60000:localsgd:2",
    "--arch servers --mode adaptive --profile 8gpu-100g", "--arch ring --mode star-h --workers 3",
    "--arch servers --mode asgd --profile laptop --time-as mlp",
    "--arch servers --mode adaptive --workers 3", "--arch servers --mode ssgd --workers 1",
    "--arch servers --mode ksync:20 --workers 64", "--arch ring --mode ssgd --workers 64",
    "--arch servers --mode quorum:7 --pattern-seed 2 --virtual-limit-s 20"]
TRAINED_VARIANTS = [
    "--arch servers --mode ssgd --model smallcnn", "--arch ring --mode ssgd --model smallcnn",
    "--arch servers --mode asgd --model smallcnn --optimizer adamw --lr 0.002",
    "--arch servers --mode asgd --lr-rule published", "--arch servers --mode asgd --lr-rule adascale",
    "--arch servers --mode asgd --stale-momentum keep", "--arch servers --mode ssgd --nodes 2",
    "--arch servers --servers 3 --mode static:3", "--arch ring --mode ring --lr-rule adascale",
    "--arch servers --mode-schedule 0:ssgd,1600:localsgd:2,3200:asgd@0.5",
    "--arch ring --mode-schedule 0:ring,1600:localsgd:2,3200:ring:6",
    "--arch servers --mode adaptive --measure-gradients --eval-average 20",
    "--arch servers --mode quorum:6 --lr-schedule cosine:0.01 --weight-decay 0.001",
    "--arch servers --mode ssgd --target-accuracy 0.6 --eval-every-samples 160"]
# Ranks, then the command; all with --deterministic, and so the same bits each time.
REAL = [
    "1 --arch ring --mode ssgd", "3 --arch ring --mode ssgd", "4 --arch ring --mode ring",
    "3 --arch ring --mode localsgd:3", "4 --arch ring --mode hier:2:2",
    "3 --arch ring --mode ssgd --model smallcnn --optimizer adamw --lr 0.003",
    "3 --arch ring --mode ssgd --all-reduce ring --bucket-bytes 4096",
    "3 --arch ring --mode-schedule 0:ring,400:localsgd:2,800:ssgd@0.5",
    "4 --arch servers --mode ssgd", "5 --arch servers --servers 2 --mode ssgd --chunk-bytes 4096",
    "4 --arch servers --mode static:3", "4 --arch servers --mode localsgd:3",
    "5 --arch servers --mode hier:2:2", "4 --arch servers --mode ksync:3",
    "4 --arch servers --mode quorum:3", "4 --arch servers --mode backup:0",
    "4 --arch servers --mode ssgd --node-staging on",
    "4 --arch servers --mode ssgd --model smallcnn --optimizer adamw --lr 0.003",
    "4 --arch servers --mode-schedule 0:ssgd,400:static:3@0.5,800:quorum:3"]
# Real runs that time decides about: only the names of what they tell are compared, by event.
FIELDS = [
    "4 --arch servers --mode-schedule 0:ssgd,600:static:2 --inject rank=3,delay=20ms",
    "3 --arch ring --mode-schedule 0:ring,600:ring:2 --inject rank=2,delay=20ms",
    "4 --arch servers --mode adaptive --record-rates --inject rank=3,delay=20ms",
    "3 --arch ring --mode star-h --inject rank=2,delay=20ms",
    "4 --arch servers --mode asgd --compute sleep:10ms --inject rank=3,kill=0.2s"]

SHARED = {
    "timed": "--no-train --time-as resnet50 --samples 102400",
    "trained": "--model mlp --time-as resnet50 --batch 20 --samples 4800 --lr 0.05 "
               "--eval-every-samples 1600",
    "real": "--model mlp --batch 20 --samples 1300 --lr 0.05 --weight-decay 0.001 --seed 3 "
            "--deterministic --checkpoint-every-s 0",
    "fields": "--model mlp --batch 10 --samples 2400 --log-every-s 0.1 --checkpoint-every-samples "
              "800"}
# Of a summary: what tells how the program got there, or repeats the command, or is a sentence.
VOLATILE = ("wall_s", "events_per_s", "threads", "engine_core_s", "engine_share", "peak_bytes",
            "buffer_bytes", "samples_computed", "command", "reason")
# What may be compared on another kind of processor, on which sums are rounded in another way.
COUNTS = ("applied", "pushes", "updates", "events", "fields")


def cases():
    """File -> the names of its runs; the quick ones first."""
    def on(pattern, modes):
        return [f"--arch {arch} --mode {mode} --pattern {pattern}"
                for arch in BOTH for mode in modes[arch]]
    plain = {"servers": ["ssgd", "asgd", "adaptive"], "ring": ["ring", "adaptive"]}
    timed = [case for pattern in PATTERNS for case in on(pattern, MODES)]
    timed += [case for pattern in OTHER_PATTERNS for case in on(pattern, plain)]
    timed += [case + " --pattern transient:3" for case in TIMED_VARIANTS]
    trained = on("persistent:3", MODES) + on("jitter:1.5", CHOOSERS)
    trained += [case + " --pattern half:2" for case in TRAINED_VARIANTS]
    return {"timed": timed, "trained": trained, "real": REAL, "fields": FIELDS}


def short(value):
    """A digest of a JSON value, its numbers to nine digits."""
    def rounded(item):
        if isinstance(item, float):
            return f"{item:.9g}"
        if isinstance(item, list):
            return [rounded(one) for one in item]
        if isinstance(item, dict):
            return {name: rounded(one) for name, one in item.items() if name not in VOLATILE}
        return item
    text = json.dumps(rounded(value), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def field_names(item, prefix=""):
    """Names of an object's fields, those of objects within after a dot."""
    found = set()
    for name, value in item.items():
        found.add(prefix + name)
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                found |= field_names(one, f"{prefix}{name}.")
    return found


def course(summary):
    """What a golden file keeps of a run's summary."""
    kept = {"applied": summary["samples_applied"], "pushes": summary["pushes_applied"],
            "updates": summary["updates"], "refused": sum(summary["pushes_refused"].values()),
            "lag_mean": round(summary["lag_mean"], 6), "switches": summary["switches"],
            "regroupings": summary["regroupings"], "accuracy": summary["test_accuracy"],
            "loss": summary["test_loss"]}
    return {name: value for name, value in kept.items() if value not in (None, 0)}


class Runs:
    """Carries out the runs of one program in a folder of its own."""

    def __init__(self, folder, data, mpirun):
        self.folder, self.data, self.mpirun = folder, data, mpirun

    def virtual(self, kind, name):
        data = ["--data", self.data] if kind == "trained" else []
        words = [*SHARED[kind].split(), *name.split()]
        summary = json.loads(cli_support.run("simulate", "--json", "--threads", 1,
                                             *last_ones(words), *data).stdout)
        return {"digest": summary["digest"], "events": summary["events"], **course(summary),
                "virtual_s": round(summary["virtual_s"], 6),
                "decisions": short(summary["decisions"]), "rest": short(summary)}

    def real(self, kind, name):
        ranks, *words = name.split()
        out = self.folder / hashlib.sha256((kind + name).encode()).hexdigest()[:12]
        cli_support.call([*self.mpirun, "-n", ranks, cli_support.PROGRAM, "train", "--data", self.data,
                          "--out", out, "--threads", 1, *last_ones([*SHARED[kind].split(), *words])])
        if kind == "fields":
            return self.fields(out)
        model = hashlib.sha256()
        for tensor, value in sorted(cli_support.tensors(out).items()):
            model.update(tensor.encode() + value)
        return {"model": model.hexdigest()[:16], **course(cli_support.events(out, "summary")[-1])}

    @staticmethod
    def fields(out):
        found = {}
        for record in cli_support.events(out):
            found.setdefault(record["event"], set()).update(field_names(record))
        return found

    def run(self, kind, name):
        try:
            return (self.virtual if kind in ("timed", "trained") else self.real)(kind, name)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            return {"failed": str(error)}


def last_ones(words):
    """Options with the last of their values, as the program refuses those given twice."""
    options = {}
    for word in words:
        if word.startswith("--"):
            values = options[word] = []
        else:
            values.append(word)
    return [word for option, values in options.items() for word in (option, *values)]


def origin():
    """What decides how products are rounded: the processor's features and the kernels' version."""
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    flags = next(line for line in text.splitlines() if line.startswith(("flags", "Features")))
    wanted = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16")
    info = cli_support.run("info")
    versions = re.search(r"oneDNN [\d.]+", info.stdout + info.stderr)
    return " ".join([*(flag for flag in wanted if flag in flags.split()),
                     versions[0] if versions else "unknown oneDNN"])


def write(kind, runs):
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(result)}" for name, result in runs.items())
    head = {"origin": origin(), "options of all": SHARED[kind]}
    (GOLDEN / f"{kind}.json").write_text(
        "{\n" + "".join(f"{json.dumps(name)}: {json.dumps(value)},\n" for name, value in head.items())
        + '"runs": {\n' + lines + "\n}}\n", encoding="utf-8")


def differences(expected, found, comparable):
    lines = []
    for name in {**expected, **found}:
        left, right = expected.get(name), found.get(name)
        if left == right or not (comparable or name in COUNTS):
            continue
        if name == "fields" and left and right:
            left, right = (" ".join(sorted(set(one.split()) - set(other.split()))) or "no other"
                           for one, other in ((left, right), (right, left)))
        lines.append(f"    {name}: expected {left}, got {right}")
    return lines


def check(kind, runs, complete):
    golden = json.loads((GOLDEN / f"{kind}.json").read_text(encoding="utf-8"))
    comparable = golden["origin"] == origin() or kind in ("timed", "fields")
    if not comparable:
        print(f"{kind}: ONLY COUNTS ARE COMPARED, digests would differ here: they were recorded "
              f"with '{golden['origin']}', this is '{origin()}'")
    if complete and golden["runs"].keys() != runs.keys():
        print(f"{kind}: other runs are recorded than golden.py has now:",
              *sorted(golden["runs"].keys() ^ runs.keys()), sep="\n    ")
        return 1
    wrong = 0
    for name, found in runs.items():
        lines = differences(golden["runs"].get(name, {}), found, comparable or "failed" in found)
        if lines:
            wrong += 1
            print(f"{kind}: {name}", *lines, sep="\n")
    print(f"{kind}: {len(runs)} compared, {wrong} differ")
    return wrong


def results(jobs, kind, names, width):
    """Name -> what came of the run; of kind `fields`: event -> its fields in any of the runs."""
    with concurrent.futures.ThreadPoolExecutor(width) as pool:
        runs = dict(zip(names, pool.map(lambda name: jobs.run(kind, name), names)))
    if kind != "fields":
        return runs
    by_event = {name: result for name, result in runs.items() if "failed" in result}
    for found in runs.values():
        for event, fields in found.items():
            if event != "failed":
                by_event.setdefault(event, {"fields": set()})["fields"] |= fields
    return {event: {name: " ".join(sorted(fields)) if name == "fields" else fields
                    for name, fields in result.items()}
            for event, result in sorted(by_event.items())}


def main():
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--record", action="store_true", help="write tests/golden anew")
    parser.add_argument("--check", action="store_true", help="compare with tests/golden")
    parser.add_argument("--only", default="", help="runs whose file and name contain this text")
    parser.add_argument("--quick", action="store_true", help="every sixth run, and all fields")
    parser.add_argument("-j", type=int, default=1, help="virtual runs at a time")
    options = parser.parse_args(sys.argv[1:split])
    if options.record == options.check or options.record and (options.only or options.quick):
        parser.error("either --record, of everything, or --check")
    cli_support.PROGRAM = options.program.resolve()

    wrong = 0
    with tempfile.TemporaryDirectory(prefix="cohort-golden-") as name:
        folder = pathlib.Path(name)
        jobs = Runs(folder, cli_support.make_data(folder), sys.argv[split + 1:] or MPIRUN)
        for kind, names in cases().items():
            whole = kind == "fields"
            chosen = [one for one in names[::6 if options.quick and not whole else 1]
                      if options.only in f"{kind}: " + ("" if whole else one)]
            if not chosen:
                continue
            # A real run is many processes already.
            runs = results(jobs, kind, chosen, options.j if kind in ("timed", "trained") else 1)
            if options.check:
                wrong += check(kind, runs, complete=chosen == names)
                continue
            for one, result in runs.items():
                if "failed" in result:
                    print(f"{kind}: {one}: {result['failed']}")
                    wrong += 1
            write(kind, runs)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
