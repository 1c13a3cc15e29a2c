#!/usr/bin/env python3
"""The short table at the end of tests/gpu/run.sh, from the JSON lines of its benchmarks.

    table.py FILE...       lines of gpu_bench, peer.py and gpu_accuracy; others are passed over
    table.py --self-test
"""

import json
import statistics
import sys

# model, batch, precision -> least speed against the fastest PyTorch, and against plain PyTorch
TARGETS = {("resnet20", 128, "f32"): (1.3, 3.0), ("resnet50", 256, "bf16"): (1.05, None),
           ("vgg16", 128, "bf16"): (1.0, None)}
LEAST_OF_COPY = 0.85
MOST_OF_PEER_MEMORY = 0.85
MOST_ACCURACY_DIFFERENCE = 0.005


def records(paths):
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.lstrip().startswith("{"):
                    try:
                        yield json.loads(line)
                    except json.JSONDecodeError:
                        pass


def verdict(value, target, at_least=True):
    met = value >= target if at_least else value <= target
    return f"{'met' if met else 'MISSED'} ({'>=' if at_least else '<='} {target:g})"


def peers_of(found, record):
    """Times of PyTorch for the same work: plain, and the fastest of all ways."""
    short = record["precision"] in ("bf16", "f16")
    same = [peer for peer in found if peer["bench"] == "peer" and peer["model"] == record["model"]
            and peer["batch"] == record["batch"] and (peer["bf16"] or not short)]
    plain = [peer for peer in same if not peer["compile"] and not peer["channels_last"]]
    return plain, min(same, key=lambda peer: peer["median_s"], default=None)


def step_rows(found):
    peak = next((record for record in found if record["bench"] == "peak"), {})
    for record in (one for one in found if one["bench"] == "step"):
        text = f"step {record['median_s'] * 1e3:.2f} ms, {record['per_second']:.0f}/s, " \
               f"{record['tflops']:.1f} Tflop/s"
        best_rate = peak.get(record["precision"] + "_tflops")
        if best_rate:
            text += f" ({100 * record['tflops'] / best_rate:.0f} % of the matrix peak)"
        if record.get("product_share") is not None:
            text += f", products {100 * record['product_share']:.0f} % of layers' time"
        name = f"{record['model']} {record['batch']} {record['precision']}"
        yield name, text, ""
        least_best, least_plain = TARGETS.get(
            (record["model"], record["batch"], record["precision"]), (None, None))
        plain, best = peers_of(found, record)
        if plain:
            ratio = plain[0]["median_s"] / record["median_s"]
            yield name, f"{ratio:.2f} x plain PyTorch", \
                verdict(ratio, least_plain) if least_plain else ""
        if best:
            ratio = best["median_s"] / record["median_s"]
            how = " ".join(way for way in ("channels_last", "bf16", "compile") if best[way]) or "plain"
            yield name, f"{ratio:.2f} x the fastest PyTorch ({how})", \
                verdict(ratio, least_best) if least_best else ""
            memory = record["device_bytes"] / best["peer_memory_bytes"]
            goal = record["model"] == "resnet50" and record["batch"] == 256
            yield name, f"{record['device_bytes'] / 2**30:.2f} GiB, {memory:.2f} x PyTorch's memory", \
                verdict(memory, MOST_OF_PEER_MEMORY, False) if goal else ""


def optimizer_rows(found):
    for record in (one for one in found if one["bench"] == "optimizer"):
        yield (f"{record['rule']} over {record['floats']} floats",
               f"{record['gb_per_second']:.0f} GB/s, copies {record['copy_gb_per_second']:.0f} GB/s",
               verdict(record["share_of_copy"], LEAST_OF_COPY))


def accuracy_rows(found):
    groups = {}
    for record in (one for one in found if one["bench"] == "accuracy"):
        device = record["device"].split(":")[0]
        groups.setdefault((device, record["precision"]), []).append(record["accuracy"])
    means = {key: statistics.mean(values) for key, values in groups.items()}
    reference = means.get(("cpu", "f32"))
    for key, mean in means.items():
        difference = abs(mean - reference) if reference is not None else None
        yield ("accuracy " + " ".join(key), f"{100 * mean:.2f} % over {len(groups[key])} seeds",
               verdict(difference, MOST_ACCURACY_DIFFERENCE, False)
               if difference is not None and key != ("cpu", "f32") else "")


def table(found):
    rows = [*step_rows(found), *optimizer_rows(found), *accuracy_rows(found)]
    if any(one["bench"] == "device" and one["device"].startswith("cpu") for one in found):
        rows = [(name, text, "") for name, text, _ in rows]  # targets are a GPU's
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(2)]
    return [f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}".rstrip() for row in rows]


PLANTED = [
    {"bench": "step", "model": "resnet50", "batch": 256, "precision": "bf16", "median_s": 0.1,
     "per_second": 2560, "tflops": 60, "device_bytes": 8 << 30, "product_share": 0.7},
    {"bench": "peak", "bf16_tflops": 600},
    {"bench": "peer", "model": "resnet50", "batch": 256, "bf16": True, "compile": True,
     "channels_last": True, "median_s": 0.11, "peer_memory_bytes": 16 << 30},
    {"bench": "peer", "model": "resnet50", "batch": 256, "bf16": False, "compile": False,
     "channels_last": False, "median_s": 0.01, "peer_memory_bytes": 1},
    {"bench": "optimizer", "rule": "sgd", "floats": 10, "gb_per_second": 80,
     "copy_gb_per_second": 100, "share_of_copy": 0.8},
    {"bench": "accuracy", "device": "cpu", "precision": "f32", "accuracy": 0.9},
    {"bench": "accuracy", "device": "cuda", "precision": "bf16", "accuracy": 0.91},
    {"bench": "accuracy", "device": "cuda", "precision": "bf16", "accuracy": 0.892}]
EXPECTED = ("10 % of the matrix peak", "1.10 x the fastest PyTorch (channels_last bf16 compile)",
            "met (>= 1.05)", "0.50 x PyTorch's memory", "met (<= 0.85)", "MISSED (>= 0.85)",
            "90.10 % over 2 seeds", "met (<= 0.005)")


def self_test():
    text = "\n".join(table(PLANTED))
    missing = [words for words in EXPECTED if words not in text]
    print(text if missing else f"{len(EXPECTED)} facts are in the table")
    print("\n".join(f"not there: {words}" for words in missing))
    return 1 if missing else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    print("\n".join(table([one for one in records(sys.argv[1:]) if "bench" in one])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
