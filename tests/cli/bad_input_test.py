#!/usr/bin/env python3
"""Bad inputs over all commands: the exit code, a message that says the range or what to do next, and nothing
written or destroyed.   bad_input_test.py COHORT"""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

import cli_support
from cli_support import images, left_s, run
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/data"))
from h5py_stores import changed_store, put_values  # noqa: E402

# What a message must have besides what happened: a range, a next step, or where to read more.
NEXT_STEP = ("expected ", "; try ", "--help", "got No such file or directory", "got Permission denied")
NOBODY = 65534

DATA = "--data {data} --model smallcnn --threads 1"
TRAIN = f"train {DATA} --out {{out}}"
SIMULATE = f"simulate {DATA} --time-as resnet50"
NO_TRAIN = "simulate --no-train --model resnet50 --samples 320"
EVAL = "eval --data {data} --model-file {model} --threads 1"
NPY = "import --input {x} --input {y}"
IMPORT = f"{NPY} --test-fraction 0.2 --output {{out}}"
TRACE = "trace make --pattern blip:2 --out {out}"
PREDICTOR = "predictor train {load} --out {out}"
PROFILE = "profile --model smallcnn --input 1x12x12 --batch 8"

# Words of the command (split at blanks; "" is written as EMPTY), exit code, parts of the message.
CASES = [
    # Words.
    ("", 2, "--help"),
    ("trian", 2, "did you mean 'train'?", "train, simulate"),
    ("bench engin", 2, "did you mean 'engine'?", "engine, exchange"),
    ("trace", 2, "--help"), ("trace draw", 2, "make, show"),
    ("train --bogus 1", 2, "got '--bogus'", "cohort train --help"),
    ("train --bacth 1", 2, "did you mean '--batch'?"), ("train --batch 1 twice", 2, "a word too many; got 'twice'"),
    ("train --batch", 2, "--batch"),
    ("train", 2, "--data", "a dataset file"),
    (f"train {DATA}", 2, "--out", "a folder"),
    ("eval", 2, "--data FILE --model-file FILE"), ("import", 2, "--input PATH --output FILE"),
    ("sweep", 2, "FILE --out DIR"),
    ("report", 2, "a sweep's folder"),
    ("info --verify", 2, "--data FILE"),
    ("ctl status", 2, "--out"),
    ("ctl dance --out {folder}", 2, "mode MODE, status, servers or stop"),
    ("predictor train {load}", 2, "--out FILE"),
    ("predictor score", 2, "no recorded run"),
    ("chooser score", 2, "no run is given"),
    ("chooser train {run}", 2, "--out FILE"),
    ("trace make --pattern delay:2", 2, "--out FILE"),
    ("trace show", 2, "--trace FILE"),
    ("trace show {trace} --pattern delay:2", 2, "one of"),
    # Names.
    (f"{TRAIN} --mode asgdd", 2, "unknown mode", "lb-bsp"), (f"{TRAIN} --mode adaptve", 2, "did you mean 'adaptive'?"),
    (f"{NO_TRAIN} --mode statik:3", 2, "'statik:3' (did you mean 'static'?)"),
    (f"{TRAIN} --mode asgd", 2, "does not run on rings", "--arch servers"),
    (f"{TRAIN} --arch star", 2, "servers"),
    (f"{TRAIN} --optimizer sdg", 2, "adamw", "did you mean 'sgd'?"),
    (f"train --data {{data}} --out {{out}} --model lenett", 2, "did you mean 'lenet'?", "lenet,"),
    (f"{TRAIN} --precision f8", 2, "bf16"),
    (f"{TRAIN} --device abacus", 2, "abacus", "cpu"),
    (f"{TRAIN} --device cuda:77", 5, "cuda:77"),
    (f"{TRAIN} --predictor tarot", 2, "ewma"),
    (f"{TRAIN} --lr-schedule steep", 2, "steep", "cosine"),
    (f"{TRAIN} --augment mirror", 2, "mirror", "flip"),
    (f"{TRAIN} --inject rank=0,speed=2", 2, "speed", "cpu"),
    (f"{TRAIN} --inject rank=7,cpu=0.5", 2, "ranks 0 to 0", "got 7"),
    (f"{TRAIN} --compute nap:40ms", 2, "sleep"),
    (f"{TRAIN} --compute sleep:1e300s", 2, "at most 3600s"),
    (f"{TRAIN} --compute sleep:40ms+recorded:nobody", 2, "--compute recorded", "alexnet"),
    (f"{TRAIN} --compute network+recorded:{{load}}", 3, "line 1", "worker0_ms"),
    (f"{TRAIN} --inject rank=0,delay=1e300s", 2, "0 to 1e9"),
    (f"{TRAIN} --inject rank=0,cpu=0", 2, "1e-6 to 1"),
    (f"{TRAIN} --lr-schedule step:1e300@5", 2, "above 0, at most 1000"),
    (f"{TRAIN} --lr-schedule step:0.1@every:0", 2, "below 1"),
    (f"{TRAIN} --mode-schedule ssgd", 2, "SAMPLES:MODE"),
    (f"{NO_TRAIN} --pattern slowly", 2, "persistent"),
    (f"{NO_TRAIN} --pattern delay:0.5", 2, "1 to 1000"),
    (f"{NO_TRAIN} --pattern delay:1e300", 2, "1 to 1000"),
    (f"{NO_TRAIN} --pattern heterogeneous:0.5", 2, "1 to 1000"),
    (f"{NO_TRAIN} --pattern jitter:2:cauchy", 2, "'jitter:2:cauchy'", "lognormal, exponential or pareto"),
    (f"{NO_TRAIN} --pattern jitter:2:pareto:1", 2, "between workers", "0 to below 1"),
    (f"{NO_TRAIN} --pattern jitter:2:pareto:0:-0.1", 2, "over iterations", "0 to below 1"),
    (f"{NO_TRAIN} --workers 8 --pattern jitter:9", 2, "a strength below 3.0"),
    (f"{NO_TRAIN} --pattern recorded:nothing", 2, "alexnet, lstm, resnet20, vgg13"),
    (f"{NO_TRAIN} --pattern recorded:{{torn_times}}", 3, "line 3", "expected 3, got 2"),
    (f"{NO_TRAIN} --trace {{torn_times}}", 3, "line 3", "expected 3, got 2"),
    (f"{NO_TRAIN} --pattern recorded:{{garbled}}", 3, "line 2, worker1_ms", "milliseconds"),
    (f"{NO_TRAIN} --profile 8gpu-10k", 2, "did you mean '8gpu-10g'?"),
    (f"{NO_TRAIN} --time-as alexnett", 2, "alexnett", "resnet50"),
    (f"{NO_TRAIN} --mode static:9", 2, "the 8 workers"),
    (f"{NO_TRAIN} --mode static:0", 2, "1 to the 8 workers"),
    (f"{NO_TRAIN} --mode ssp:99999999999", 2, "S whole, 0 to 1000000"),
    (f"{EVAL} --group validation", 2, "train"),
    (f"{NPY} --output {{out}} --format png", 2, "npy"),
    ("info --model resnet19", 2, "resnet19", "resnet20"),
    ("bench engine --model resnet19", 2, "resnet20"),
    ("bench exchange --op gather", 2, "allreduce, push-pull"),
    (f"{PROFILE} --optimizer adam", 2, "adamw"),
    ("predictor score {load} --predictors last,tarot", 2, "tarot", "ewma"),
    ("trace make --pattern earthquake --out {out}", 2, "persistent"),
    # Numbers out of range, with the range that is true.
    (f"{TRAIN} --batch=0", 2, "a whole number, at least 1, got"),
    (f"{TRAIN} --batch=9223372036854775807", 2, "1 to 1000000"),
    (f"{TRAIN} --batch=99999999999999999999", 2, "1 to 1000000"),
    (f"{TRAIN} --batch=many", 2, "at least 1", "'many'"),
    (f"{TRAIN} --batch=1.5", 2, "a whole number"),
    (f"{TRAIN} --batch=641", 2, "1 to 640", "got 641"),
    (f"{SIMULATE} --batch=641", 2, "1 to 640", "got 641"),
    (f"{TRAIN} --lr=0", 2, "above 0"), (f"{TRAIN} --lr=-1", 2, "above 0"),
    (f"{TRAIN} --lr=nan", 2, "above 0", "'nan'"),
    (f"{TRAIN} --lr=inf", 2, "at most 1e+100"),
    (f"{TRAIN} --momentum=1", 2, "0 to below 1"),
    (f"{TRAIN} --optimizer adamw --momentum 0.5", 2, "--optimizer sgd"),
    (f"{TRAIN} --weight-decay=-0.1", 2, "at least 0"),
    (f"{TRAIN} --samples=-1", 2, "at least 0"),
    (f"{TRAIN} --epochs=2147483648", 2, "0 to 1000000000"),
    (f"{TRAIN} --samples 5 --epochs 5", 2, "one of them"),
    (f"{TRAIN} --threads=1025", 2, "0 to 1024"), (f"{TRAIN} --loader-threads=0", 2, "1 to 1024"),
    (f"{TRAIN} --servers=2", 2, "0 with --arch ring"),
    (f"{TRAIN} --arch servers", 2, "too few ranks", "mpirun -n 3"),
    (f"{TRAIN} --stall-limit-s=0", 2, "above 0"),
    (f"{TRAIN} --lost-after-s=61", 2, "at most the 60 s of --stall-limit-s"),
    (f"{TRAIN} --max-lost=-2", 2, "-1 to 65536"),
    (f"{TRAIN} --bucket-bytes=1000", 2, "at least 1024, or 0"),
    (f"{TRAIN} --chunk-bytes=0", 2, "at least 1024"),
    (f"{TRAIN} --target-accuracy=84", 2, "0 to 1"), (f"{TRAIN} --eval-share=0", 2, "above 0, at most 1"),
    (f"{TRAIN} --keep-checkpoints=0", 2, "at least 1"),
    (f"{TRAIN} --log-every-s=0", 2, "above 0"), (f"{TRAIN} --seed=-1", 2, "at least 0"),
    (f"{TRAIN} --warmup-samples=99999999999999999999", 2, "0 to 1000000000000000"),
    (f"{TRAIN} --noise-scale 5", 2, "--lr-rule adascale"),
    (f"{TRAIN} --augment pad-crop:1000000000", 2, "pad within 0..12"),
    (f"{TRAIN} --resume --overwrite", 2, "one of them"),
    (f"{TRAIN} --mode ring --mode-schedule 0:ring", 2, "one of them"),
    (f"{TRAIN} --deterministic --record-rates", 2, "looks at times"),
    (f"{TRAIN} --all-reduce nccl --device cpu", 2, "another sum"),
    (f"{TRAIN} --wire f16", 2, "bf16"), (f"{TRAIN} --wire bf16 --all-reduce ordered", 2, "ring with"),
    (f"{TRAIN} --clip-norm -1", 2, "at least 0"), (f"{TRAIN} --beta1 1", 2, "0 to below 1"),
    (f"{TRAIN} --beta2 -0.1", 2, "0 to below 1"), (f"{TRAIN} --epsilon 0", 2, "above 0"),
    (f"{NO_TRAIN} --workers=0", 2, "1 to 65536"), (f"{NO_TRAIN} --workers=65537", 2, "1 to 65536"),
    (f"{NO_TRAIN} --workers 65536 --servers 65536", 2, "at most 67108864 pairs"),
    (f"{NO_TRAIN} --workers 4 --nodes 5", 2, "0 to 4"),
    (f"{NO_TRAIN} --workers 9 --nodes 1", 2, "room for 9 workers"),
    (f"{NO_TRAIN} --virtual-limit-s=1e300", 2, "0 to 1000000000000000"),
    (f"{NO_TRAIN} --target-accuracy 0.5", 2, "nothing with --no-train"),
    ("simulate --no-train --time-as resnet50", 2, ">= 1 with --no-train"),
    ("simulate --samples 10", 2, "--data"),
    (f"{NO_TRAIN} --optimizer adamw --momentum 0.5", 2, "--optimizer sgd"),
    (f"{NO_TRAIN} --target-on average", 2, "--eval-average"),
    (f"{NO_TRAIN} --pattern delay:2 --trace {{trace}}", 2, "one of them"),
    (f"{NO_TRAIN} --arch ring --servers 2", 2, "0 with --arch ring"),
    (f"{EVAL} --batch=0", 2, "at least 1"), (f"{EVAL} --threads=-3", 2, "0 to 1024"),
    (f"{IMPORT} --test-fraction=1", 2, "0 to below 1"),
    (f"{IMPORT} --compress-level=10", 2, "0 to 9"),
    (f"{IMPORT} --seed=-1", 2, "at least 0"),
    (f"{IMPORT} --chunk-samples=1000000000", 2, "at most 29826161 samples"),
    (f"{IMPORT} --classes=2147483648", 2, "0 to 2147483647"),
    (f"{IMPORT} --shape 1,0,144", 2, "positive numbers"),
    (f"{IMPORT} --shape 3037000500,3037000500", 3, "[1,12,12]"),
    (f"{IMPORT} --shape 7", 3, "[1,12,12]"),
    (f"{TRACE} --length-s=1e12", 2, "more than 1000000 changes", "at most"),
    (f"{TRACE} --iteration-s=1e-300", 2, "more than 1000000 changes"),
    ("trace show --pattern colocated:1000 --length-s=1e15", 2, "more than 100000 jobs", "at most"),
    (f"{TRACE} --length-s=0", 2, "above 0"),
    (f"{TRACE} --workers=1000000", 2, "1 to 65536"),
    ("trace show --pattern delay:2 --columns 5", 2, "20 to 10000"),
    (f"{PREDICTOR} --held-out=1", 2, "0 to below 1"),
    (f"{PREDICTOR} --epochs=0", 2, "at least 1"),
    (f"{PREDICTOR}", 2, "129 or more"),
    (f"{PROFILE} --repetitions 1", 2, "at least 7"),
    ("profile --model smallcnn --input 1x0x12", 2, "CxHxW"),
    ("profile --model smallcnn --input 100000x10000x10000", 2, "at most 16777216 numbers"),
    ("profile --model smallcnn --input 9999999999x9999999999x9999999999", 2, "CxHxW"),
    ("bench engine --batch=1000000 --model resnet50", 5, "asked for 560.8 GiB"),
    ("bench engine --steps 0", 2, "at least 1"),
    ("bench engine --warmup-steps=-1", 2, "at least 0"),
    ("bench exchange --bytes 3", 2, "at least 4"),
    ("bench exchange --bytes 1099511627776", 5, "TiB"),
    ("ctl status --out {run} --timeout-s=-1", 2, "at least 0"),
    ("ctl stop --out {run} --json", 2, "the request status"), ("top", 2, "--out"),
    ("top --out {folder}/nothing", 3, "no such folder"), ("top --out {folder}", 3, "no training job has written there"),
    ("ctl status --out {run}", 3, "no job listens there", "running"),
    # Files that are not there, not readable, or something else.
    (f"train --data {{folder}}/no.h5 --out {{out}}", 3, "no.h5"),
    ("train --data {folder} --out {out}", 3, "a folder"),
    ("train --data {empty} --out {out}", 3, "not an HDF5 file"),
    ("train --data {text} --out {out}", 3, "not an HDF5 file"),
    ("train --data {noise} --out {out}", 3, "not an HDF5 file"),
    ("train --data {torn} --out {out}", 3, "torn.h5"),
    ("train --data {other} --out {out}", 3, "other.h5"),
    ("train --data {model} --out {out}", 3, "model.h5"),
    ("info --data {secret}", 3, "secret.h5", "ermission"),
    ("train --data {pipe} --out {out}", 3, "a pipe"),
    ("train --data {data} --model smallcnn --out {data}/below", 3, "below"),
    ("train --data {data} --model smallcnn --out /proc/cohort", 3, "/proc/cohort"),
    ("simulate --data {folder}/none.h5 --time-as resnet50", 3, "none.h5"),
    (f"{NO_TRAIN} --out {{data}}/below", 3, "data.h5"),
    (f"train {DATA} --out {{run}}", 2, "--overwrite"),
    (f"train {DATA} --model lenet --out {{run}} --resume", 2, "model"),
    ("info --data {text}", 3, "not an HDF5 file"),
    ("info --data {pipe}", 3, "a pipe"),
    ("eval --data {data} --model-file {data}", 3, "data.h5"),
    ("eval --data {data} --model-file {torn}", 3, "torn.h5", "cohort-store"),
    ("eval --data {data} --model-file {pipe}", 3, "a pipe"),
    ("eval --data {data} --model-file {model_nan}", 6, "not finite"),
    ("eval --data {big} --model-file {model}", 3, "[1,12,12]"),
    ("import --input {folder}/none --output {out}", 3, "none"),
    ("import --input {text} --output {out}", 3, "--format"),
    ("import --input {noise} --format npy --output {out}", 2, "--test-fraction"),
    ("import --input {noise} --format npy --test-fraction 0.5 --output {out}", 3, "noise"),
    ("import --input {empty} --format csv --test-fraction 0.5 --output {out}", 3, "empty"),
    ("import --input {noise} --format cifar10 --test-fraction 0.5 --output {out}", 3, "3073"),
    (f"{NPY} --output {{out}}", 2, "--test-fraction 0.1"),
    (f"{NPY} --test-fraction 0.2 --output {{folder}}", 3, "folder"),
    (f"{NPY} --test-fraction 0.2 --output {{folder}}/none/a.h5", 3, "none"),
    (f"{NO_TRAIN} --trace {{pipe}}", 3, "a pipe"),
    (f"{NO_TRAIN} --trace {{noise}}", 3, "noise"),
    (f"{NO_TRAIN} --trace {{folder}}/none.csv", 3, "none.csv"),
    (f"{NO_TRAIN} --trace {{far}}", 2, "worker:0 to worker:7"),
    ("trace show {farther}", 3, "line 2", "0 to 65535"),
    ("trace show persistent:2", 3, "--pattern persistent:2"),
    ("trace show {secret}", 3, "ermission"),
    (f"{NO_TRAIN} --profile {{pipe}}", 3, "a pipe"),
    (f"{NO_TRAIN} --profile {{data}}", 3, "data.h5, line 1"),
    (f"{NO_TRAIN} --profile {{empty}}", 3, "empty"),
    (f"{NO_TRAIN} --profile {{toml:name = 3}}", 3, "line 1"),
    (f"{SIMULATE} --predictor-file {{pipe}}", 3, "a pipe"),
    (f"{SIMULATE} --predictor-file {{data}}", 3, "data.h5", "not a cohort store"),
    (f"{SIMULATE} --mode star-ml --chooser-file {{empty}}", 3, "cohort chooser train"),
    (f"{SIMULATE} --mode star-ml --chooser-file {{text}}", 3, "text.h5"),
    ("predictor score {big_worker}", 3, "line 2, worker", "0 to 65535"),
    ("predictor score {pipe}", 3, "a pipe"),
    ("predictor score {folder}", 3, "result.h5"),
    ("predictor score {load} --model {text}", 3, "text.h5"),
    ("chooser score {folder}", 3, "metrics.jsonl"),
    ("chooser score {endless}", 3, "metrics.jsonl, line 1", "-1000000 to 1000000"),
    ("chooser score {rates} --model {weights_inf}", 3, "not a number"),
    ("report {folder}/never", 3, "never"),
    ("report {folder}", 3, "no results here"),
    ("report {data}", 3, "data.h5"),
    ("report {pipe}", 3, "a pipe"),
    # Config files and experiments.
    ("train --config {folder}/no.toml", 3, "no.toml"),
    ("train --config {pipe}", 3, "a pipe"),
    ("train --config {folder}", 3, "a folder"),
    ("train --config {data}", 2, "data.h5, line 1"),
    ("train --config {toml:batch = 9223372036854775807}", 2, "line 1, batch]", "1 to 1000000"),
    ("train --config {toml:lr = 0.1;batch = 641;data = \"DATA\";out = \"none\";model = \"smallcnn\"}", 2,
     "line 2, batch]", "1 to 640"),
    ("train --config {toml:lr = 0.1;batchsize = 7}", 2, "line 2, batchsize]", "--help"),
    ("train --config {toml:[simulate];batch = 7}", 2, "line 2, simulate.batch]"),
    ("train --config {toml:workers = 7}", 2, "line 1, workers]"),
    ("train --config {toml:lr = true}", 2, "line 1, lr]", "above 0"),
    ("train --config {toml:nesterov = 1}", 2, "line 1, nesterov]", "true or false"),
    ("train --config {toml:batch = 7;batch = 8}", 2, "line 2"),
    ("train --config {toml:model = \"lenet}", 2, "line 1"),
    ("train --config {toml:model = \"\"}", 2, "line 1, model]"),
    ("train --config {toml:lr = 0.1;mode = \"asgdd\"}", 2, "line 2, mode]", "lb-bsp"),
    ("train --config {toml:dry-run = true}", 2, "line 1, dry-run]"),
    ("sweep {folder}/no.toml --out {out}", 3, "no.toml"),
    ("sweep {pipe} --out {out}", 3, "a pipe"),
    ("sweep {data} --out {out}", 2, "data.h5, line 1"),
    ("sweep {toml:title = \"x\"} --out {out}", 2, "[[mode]]"),
    ("sweep {toml:[job];no-train = 1;[[mode]];mode = \"ssgd\"} --out {out}", 2, "line 2, no-train] not a truth value"),
    ("sweep {toml:[[mode]];mode = \"asgdd\"} --out {out} --set no-train=true --set samples=320", 2, "lb-bsp"),
    ("sweep {toml:[job];batch = 0;[[mode]];mode = \"asgd\"} --out {out}", 2, "line 2, batch]", "at least 1"),
    ("sweep {toml:[job];samples = 1e16;[[mode]];mode = \"asgd\"} --out {out}", 2, "line 2, samples]"),
    ("sweep {toml:seeds = [1, 1];[[mode]];mode = \"asgd\"} --out {out}", 2, "line 1, seeds]"),
    ("sweep {toml:[[mode]];mode = \"asgd\"} --out {out} --set batch", 2, "NAME=VALUE"),
    ("sweep {toml:[[mode]];mode = \"asgd\"} --out {out} --set mode=asgd", 2, "[[mode]]"),
    ("sweep {toml:[[mode]];mode = \"asgd\"} --out {out} --jobs 2000", 2, "0 to 1024"),
    ("sweep {toml:base = \"none.toml\";[[mode]];mode = \"asgd\"} --out {out}", 3, "none.toml"),
]


def no_numbers(store):
    """NaN as every parameter of a model."""
    for array in store["parameters"].values():
        put_values(array, np.full_like(array[()], np.nan))


class BadInput(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="cohort-bad-")
        cls.addClassCleanup(temporary.cleanup)
        cls.root = pathlib.Path(temporary.name)
        cls.root.chmod(0o755)
        cls.folder = cls.root / "folder"
        cls.folder.mkdir()
        cls.out = cls.root / "out"
        cls.names = {"folder": cls.folder, "out": cls.out}
        cls.make_files()

    @classmethod
    def file(cls, key, name, content):
        path = cls.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        cls.names[key] = path
        return path

    @classmethod
    def make_files(cls):
        for key, name, values in zip("xy", ("x_train.npy", "y_train.npy"), images(640, 1)):
            cls.names[key] = cls.folder / name
            np.save(cls.names[key], values)
        cls.names["data"] = data = cls.folder / "data.h5"
        run("import", "--input", cls.names["x"], "--input", cls.names["y"], "--test-fraction", 0.0625,
            "--output", data)
        cls.cut_to_640(data)
        cls.names["run"] = cls.folder / "run"
        cls.names["model"] = cls.names["run"] / "model.h5"
        cls.names["load"] = cls.folder / "load.csv"
        cls.names["trace"] = cls.folder / "trace.csv"
        run("train", "--data", data, "--out", cls.names["run"], "--model", "smallcnn", "--batch", 20,
            "--threads", 1, "--samples", 60, "--record-load", cls.names["load"],
            "--record-trace", cls.names["trace"], "--record-rates")
        whole = data.read_bytes()
        cls.file("empty", "empty.h5", b"")
        cls.file("text", "text.h5", "this is not HDF5\n")
        cls.file("noise", "noise.npy", np.random.default_rng(1).bytes(5000))
        cls.file("torn", "torn.h5", whole[:len(whole) // 2])
        cls.file("secret", "secret.h5", whole).chmod(0)
        cls.names["other"] = cls.folder / "other.h5"
        with h5py.File(cls.names["other"], "w") as other:
            other["numbers"] = np.arange(5)
        cls.names["big"] = cls.folder / "big.h5"
        with h5py.File(cls.names["big"], "w") as big:
            big.attrs.update(format="cohort-dataset", version=1, classes=4, mean=1.0, std=1.0)
            for group in ("train", "test"):
                big[f"{group}/samples"] = np.zeros((8, 3, 32, 32), np.float32)
                big[f"{group}/labels"] = np.zeros(8, np.int32)
        cls.names["pipe"] = cls.folder / "pipe"
        os.mkfifo(cls.names["pipe"])
        head, row = cls.names["load"].read_text().splitlines()[:2]
        fields = row.split(",")
        fields[1] = "3000000000"
        cls.file("big_worker", "big_worker.csv", f"{head}\n{','.join(fields)}\n")
        cls.file("far", "far.csv", "time_s,target,cpu_share\n0,worker:8,0.5\n")
        cls.file("torn_times", "torn.csv", "iteration,worker0_ms,worker1_ms\n0,1,2\n1,3\n")
        cls.file("garbled", "garbled.csv", "iteration,worker0_ms,worker1_ms\n0,1,2ms\n")
        cls.file("farther", "farther.csv", "time_s,target,cpu_share\n0,worker:2147483647,0.5\n")
        cls.file("weights_inf", "weights_inf.toml", "[weights]\nspread = inf\n")
        cls.file("model_nan", "model_nan.h5", changed_store(cls.names["model"].read_bytes(), no_numbers))
        cls.make_rates("rates", 0.1)
        cls.make_rates("endless", 1e308)

    @classmethod
    def cut_to_640(cls, data):
        """A train group of 640 samples exactly."""
        samples, labels = images(840, 2)
        with h5py.File(data, "w") as file:
            file.attrs.update(format="cohort-dataset", version=1, classes=4,
                              mean=float(samples.mean()), std=float(samples.std()))
            for group, part in (("train", slice(640)), ("test", slice(640, 840))):
                file[f"{group}/samples"] = samples[part]
                file[f"{group}/labels"] = labels[part]

    @classmethod
    def make_rates(cls, name, log_rate):
        """The metrics of a run that measured one rate."""
        features = dict.fromkeys(cls.feature_names(), 0.0)
        line = {"event": "rate", "train_s": 1, "samples_applied": 1, "plan": "ring",
                "features": features, "log_rate": log_rate}
        cls.names[name] = cls.file(name, f"{name}/metrics.jsonl", json.dumps(line) + "\n").parent

    @staticmethod
    def feature_names():
        source = pathlib.Path(__file__).resolve().parents[2] / "data/choosers/default.toml"
        lines = source.read_text().split("[weights]")[1].splitlines()
        return [line.split("=")[0].strip() for line in lines if "=" in line]

    def toml(self, text):
        path = self.root / "job.toml"
        path.write_text(text.replace(";", "\n").replace("DATA", str(self.names["data"])) + "\n")
        return str(path)

    def words(self, command):
        if "{toml:" in command:
            start = command.index("{toml:")
            end = command.index("}", start)
            path = self.toml(command[start + 6:end])
            command = command[:start] + path + command[end + 1:]
        return [word.format(**self.names) for word in command.split()]

    def state(self):
        found = {}
        for path in sorted(self.root.rglob("*")):
            if path.name == "job.toml":
                continue
            content = path.read_bytes() if path.is_file() else b""
            found[str(path)] = hashlib.sha256(content).hexdigest()
        return found

    def run_case(self, words):
        if os.geteuid() == 0 and any("secret" in word for word in words):
            words = ["setpriv", f"--reuid={NOBODY}", "--clear-groups", str(cli_support.PROGRAM), *words]
        else:
            words = [str(cli_support.PROGRAM), *words]
        return subprocess.run(words, capture_output=True, text=True, timeout=left_s(), check=False,
                              errors="replace", cwd=self.root)

    def test_every_case(self):
        self.assertGreaterEqual(len(CASES), 100)
        before = self.state()
        for command, code, *parts in CASES:
            with self.subTest(command):
                try:
                    self.check_case(self.run_case(self.words(command)), code, parts)
                    self.assertEqual(self.state(), before)
                finally:
                    if self.out.exists():
                        shutil.rmtree(self.out) if self.out.is_dir() else self.out.unlink()

    def check_case(self, done, code, parts):
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, said[-1000:])
        last = done.stderr.rstrip().split("\n")[-3:]
        for part in parts:
            self.assertIn(part, said if code == 2 else "\n".join(last))
        self.assertTrue(any(step in line for step in NEXT_STEP for line in last), "\n".join(last))
        self.assertNotIn("internal error", said)


if __name__ == "__main__":
    cli_support.main()
