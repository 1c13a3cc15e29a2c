#!/usr/bin/env python3
"""What a GPU's measurements were to reach, what was measured, and whether that is enough.

    table.py FILE...      results.jsonl of tests/gpu/run.sh, from any number of calls and machines;
                          the newest of two records of one thing counts, other lines are passed over
    table.py --self-test
"""

import json
import statistics
import sys

ROWS = [("resnet20", 128, "tf32"), ("resnet20", 128, "bf16")]
LEAST_OF_COPY = {"optimizer": 0.85, "batch norm": 0.80}
MOST_OF_PEER_MEMORY = 0.85
MOST_POINTS = 0.5
ABSENT = ("not measured", "")


def records(paths):
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    record = json.loads(line)
                except json.JSONDecodeError:
                    continue  # the last line of a call that was killed
                if isinstance(record, dict):
                    yield record


class Results:
    def __init__(self, found):
        self.found = list(found)

    def all(self, **wanted):
        return [one for one in self.found if all(one.get(key) == value for key, value in wanted.items())]

    def newest(self, **wanted):
        return next(reversed(self.all(**wanted)), None)

    def own(self, model, batch, precision, on_device=False):
        """Cohort's steps: of gpu_bench, or of a language model by `cohort bench engine`. Those of CPUs, which a
        rehearsal measures, do not count."""
        same = {"model": model, "batch": batch, "precision": precision}
        found = [one for one in self.all(bench="step", **same) + self.all(bench="engine", **same)
                 if one["device"].startswith("cuda") and bool(one.get("on_device")) == on_device]
        return found[-1] if found else None

    def peers(self, model, batch, precision):
        """The newest of every form of PyTorch for the same work in the same precision, on GPUs."""
        forms = {}
        for one in self.all(bench="peer", model=model, batch=batch, precision=precision):
            if one["device"].startswith("cuda"):
                forms[one["compile"], one["channels_last"]] = one
        return forms


def at_least(value, least):
    return "met" if value >= least else "missed"


def against(own, peers, least):
    """(measured, met) of a step beside the fastest of `peers`."""
    if own is None or not peers:
        return ABSENT
    best = min(peers, key=lambda one: one["median_s"])
    ratio = best["median_s"] / own["median_s"]
    form = [word for word in ("compile", "channels_last") if best[word]]
    unrecorded = ", not recorded" if own.get("recorded") is False else ""
    return (f"{ratio:.2f} x ({1e3 * own['median_s']:.2f} ms, PyTorch {1e3 * best['median_s']:.2f} ms, "
            f"{' '.join(form) or 'eager'}{unrecorded})", at_least(ratio, least))


def step_rows(results):
    for model, batch, precision in ROWS:
        own, peers = results.own(model, batch, precision), results.peers(model, batch, precision)
        eager = [one for (compiled, _), one in peers.items() if not compiled]
        compiled = [one for (compiled, _), one in peers.items() if compiled]
        name = f"ResNet-20 b{batch} {precision}"
        yield f"{name}: step against PyTorch eager", ">= 3 x", *against(own, eager, 3)
        yield f"{name}: step against PyTorch compile", ">= 1.3 x", *against(own, compiled, 1.3)
    best = results.peers("resnet50", 256, "bf16").values()
    for words, on_device in (("samples on the device", True), ("samples from the host", False)):
        yield (f"ResNet-50 b256 bf16 against the best PyTorch, {words}", ">= 1.05 x",
               *against(results.own("resnet50", 256, "bf16", on_device), best, 1.05))
    for name, model, batch in (("VGG-16", "vgg16", 128), ("LSTM", "lstm", 20),
                               ("Transformer", "transformer", 20), ("GPT", "gpt", 20)):
        yield (f"{name} b{batch} bf16 against the best PyTorch", ">= 1.0 x",
               *against(results.own(model, batch, "bf16"), results.peers(model, batch, "bf16").values(), 1))


def memory_row(results):
    own, peers = results.own("resnet50", 256, "bf16"), results.peers("resnet50", 256, "bf16").values()
    measured = ABSENT
    if own and peers:
        best = min(peers, key=lambda one: one["median_s"])
        share = own["device_bytes"] / best["peer_memory_bytes"]
        measured = (f"{share:.2f} x ({own['device_bytes'] / 2**30:.2f} GiB, PyTorch "
                    f"{best['peer_memory_bytes'] / 2**30:.2f} GiB)",
                    "met" if share <= MOST_OF_PEER_MEMORY else "missed")
    yield "memory, ResNet-50 b256", "<= 0.85 x", *measured


def bandwidth_rows(results):
    on_gpu = [one for one in results.all(bench="optimizer") if one["device"].startswith("cuda")]
    newest = {one["rule"]: one for one in on_gpu}
    least = LEAST_OF_COPY["optimizer"]
    measured = ABSENT
    if newest:
        text = ", ".join(f"{rule} {100 * one['share_of_copy']:.0f} %" for rule, one in sorted(newest.items()))
        measured = (text, at_least(min(one["share_of_copy"] for one in newest.values()), least))
    yield "optimizer over the flat buffer, of copy bandwidth", ">= 85 %", *measured
    kernels = {one["kernel"]: one for one in results.all(bench="kernel") if one["gb_per_second"]}
    measured = ABSENT
    if kernels and on_gpu:
        copy = on_gpu[-1]["copy_gb_per_second"]
        seconds = sum(one["long_s"] for one in kernels.values())
        rate = sum(one["gb_per_second"] * one["long_s"] for one in kernels.values()) / seconds
        text = ", ".join(f"{name.removesuffix('_kernel')} {100 * one['gb_per_second'] / copy:.0f}"
                         for name, one in sorted(kernels.items()))
        measured = (f"{100 * rate / copy:.0f} % ({text})", at_least(rate / copy, LEAST_OF_COPY["batch norm"]))
    yield "batch norm kernels, of copy bandwidth", ">= 80 %", *measured


def accuracy_rows(results):
    groups = {}
    for one in results.all(bench="accuracy"):
        groups.setdefault((one["device"].split(":")[0], one["precision"]), {})[one["seed"]] = one["accuracy"]
    means = {key: 100 * statistics.mean(seeds.values()) for key, seeds in groups.items() if len(seeds) >= 3}
    reference = means.get(("cpu", "f32"))
    for precision in ("tf32", "bf16"):
        mean = means.get(("cuda", precision))
        measured = ABSENT
        if mean is not None and reference is not None:
            measured = (f"{mean - reference:+.2f} points ({mean:.2f} %, CPU {reference:.2f} %)",
                        "met" if abs(mean - reference) <= MOST_POINTS else "missed")
        yield f"final accuracy, GPU {precision} against CPU f32, 3 seeds", "within 0.5 points", *measured


def sanitizer_rows(results):
    for tool in ("memcheck", "racecheck"):
        newest = {one["name"]: one["status"] for one in results.all(record="stage")
                  if one["name"].split(" ")[0] == tool and one["status"] != "skipped"}
        measured = ABSENT
        if newest:
            clean = sum(status == "passed" for status in newest.values())
            measured = (f"{clean} of {len(newest)} clean", "met" if clean == len(newest) else "missed")
        yield f"compute-sanitizer {tool}", "clean", *measured


def table(found):
    results = Results(found)
    rows = [("what", "target", "measured", "")]
    for part in (step_rows, memory_row, bandwidth_rows, accuracy_rows, sanitizer_rows):
        rows += part(results)
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths)), row[3]]).rstrip()
             for row in rows]
    tests = {one["name"]: one["status"] for one in results.all(record="test")}
    if tests:
        passed = sum(status == "passed" for status in tests.values())
        lines += ["", f"tests: {passed} of {len(tests)} entries passed"]
    stages = {one["name"]: one["status"] for one in results.all(record="stage")}
    for name, status in [*tests.items(), *stages.items()]:
        if status not in ("passed", "skipped"):
            lines.append(f"{status}: {name}")
    return lines


def peer(model, batch, precision, seconds, compiled=False, channels_last=False):
    return {"bench": "peer", "model": model, "batch": batch, "precision": precision, "device": "cuda",
            "compile": compiled, "channels_last": channels_last, "median_s": seconds,
            "peer_memory_bytes": 16 << 30}


def step(model, batch, precision, seconds, **more):
    return {"bench": "step", "device": "cuda:0", "model": model, "batch": batch, "precision": precision,
            "median_s": seconds, "device_bytes": 8 << 30, **more}


PLANTED = [
    step("resnet50", 256, "bf16", 9), step("resnet50", 256, "bf16", 0.1),  # the newest counts
    step("resnet50", 256, "bf16", 0.08, on_device=True),
    peer("resnet50", 256, "bf16", 0.12, channels_last=True),
    peer("resnet50", 256, "bf16", 0.102, compiled=True, channels_last=True),
    peer("resnet50", 256, "f32", 0.01),  # another precision
    step("resnet20", 128, "tf32", 0.002, recorded=False), peer("resnet20", 128, "tf32", 0.008),
    step("vgg16", 128, "bf16", 0.002, device="cpu"), peer("vgg16", 128, "bf16", 0.008),
    {"bench": "engine", "device": "cuda:0", "model": "lstm", "batch": 20, "precision": "bf16", "median_s": 0.01},
    peer("lstm", 20, "bf16", 0.011),
    {"bench": "optimizer", "device": "cuda:0", "rule": "sgd", "copy_gb_per_second": 1000, "share_of_copy": 0.8},
    {"bench": "optimizer", "device": "cpu", "rule": "adamw", "copy_gb_per_second": 1, "share_of_copy": 0.1},
    {"bench": "kernel", "kernel": "apply_kernel", "long_s": 3, "gb_per_second": 900.0},
    {"bench": "kernel", "kernel": "reduce_kernel", "long_s": 1, "gb_per_second": 700.0},
    *({"bench": "accuracy", "device": device, "precision": precision, "seed": seed, "accuracy": mean + 0.001 * seed}
      for device, precision, mean in (("cpu", "f32", 0.9), ("cuda:0", "bf16", 0.904)) for seed in (0, 1, 2)),
    {"record": "stage", "name": "memcheck gpu_exact_test x", "status": "failed"},
    {"record": "stage", "name": "memcheck gpu_exact_test x", "status": "passed"},
    {"record": "stage", "name": "memcheck gpu_optim_test y", "status": "timed out"},
    {"record": "stage", "name": "racecheck", "status": "skipped"},
    {"record": "test", "name": "gpu_exact_test_cuda_f32", "status": "passed"},
]
EXPECTED = (  # words that one row has
    ("ResNet-50", "samples from the host", "1.02 x", "compile channels_last", "missed"),
    ("ResNet-50", "samples on the device", "1.27 x", "met"),
    ("ResNet-20 b128 tf32: step against PyTorch eager", "4.00 x", "not recorded", "met"),
    ("ResNet-20 b128 tf32: step against PyTorch compile", "not measured"),
    ("VGG-16", "not measured"), ("LSTM", "1.10 x", "met"), ("GPT", "not measured"),
    ("memory", "0.50 x", "met"), ("optimizer", "sgd 80 %", "missed"),
    ("batch norm", "85 % (apply 90, reduce 70)", "met"),
    ("GPU bf16", "+0.40 points (90.50 %", "met"), ("GPU tf32", "not measured"),
    ("memcheck", "1 of 2 clean", "missed"), ("racecheck", "not measured"),
    ("tests: 1 of 1",), ("timed out: memcheck gpu_optim_test y",))


def self_test():
    lines = table(PLANTED)
    absent = [words for words in EXPECTED if not any(all(word in line for word in words) for line in lines)]
    print("\n".join(lines) if absent else f"{len(EXPECTED)} facts are in the table")
    print("\n".join(f"no row has: {words}" for words in absent))
    return 1 if absent else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    print("\n".join(table(records(sys.argv[1:]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
