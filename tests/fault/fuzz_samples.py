"""A healthy file of every kind that the program reads, and the commands that read it."""

import dataclasses
import gzip
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import typing
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/cli"))
import cli_support  # noqa: E402
import fuzz_mutations as damage  # noqa: E402
from cli_support import h5py, np, run  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHORT = ["--time-as", "resnet50", "--workers", 4, "--samples", 320, "--batch", 20, "--threads", 1]
NET = ["--model", "smallcnn", "--batch", 20, "--threads", 1]


@dataclasses.dataclass
class Kind:
    """Files that lie in `source`, which stays as it is, and are damaged one at a time in a copy."""

    name: str
    source: pathlib.Path
    victims: list  # names in it, of those that are damaged
    damage: typing.Callable
    commands: list  # functions of the copy's folder
    healthy: tuple = (0,)  # exit codes of the undamaged files
    numbers: bool = False  # what it prints are numbers: never inf or nan

    def place(self, folder):
        shutil.copytree(self.source, folder, dirs_exist_ok=True)
        return [folder / name for name in self.victims]


def write_dataset(path, samples, labels, **how):
    """As h5py writes it by default: structures without checksums, the worst case for a reader."""
    half = len(labels) * 3 // 4
    with h5py.File(path, "w") as file:
        file.attrs.update(format="cohort-dataset", version=1, classes=4, mean=float(samples.mean()),
                          std=float(samples.std()))
        for group, part in (("train", slice(half)), ("test", slice(half, None))):
            file.create_dataset(f"{group}/samples", data=samples[part], **how)
            file.create_dataset(f"{group}/labels", data=labels[part])


def write_idx(path, values):
    head = struct.pack(">HBB", 0, 8, values.ndim) + struct.pack(f">{values.ndim}I", *values.shape)
    content = head + values.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def write_png(path, pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width = pixels.shape
    rows = b"".join(b"\0" + row.astype(np.uint8).tobytes() for row in pixels)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Maker:
    def __init__(self, cohort, folder):
        cli_support.PROGRAM = cohort
        self.folder = folder
        self.samples, self.labels = cli_support.images(96, 3)
        self.data = folder / "data.h5"
        write_dataset(self.data, self.samples, self.labels)
        self.kinds = []

    def new(self, name):
        folder = self.folder / name
        folder.mkdir()
        return folder

    def add(self, name, source, victims, how, *commands, **more):
        self.kinds.append(Kind(name, source, victims, how, list(commands), **more))

    def train(self, folder, *more):
        return ["train", "--data", self.data, *NET, "--out", folder / "out", *more]

    def simulate(self, *more):
        return ["simulate", "--no-train", *SHORT, *more]

    def datasets(self):
        layouts = {"hdf5-contiguous": {}, "hdf5-chunked": {"chunks": (16, 1, 12, 12)},
                   "hdf5-deflate": {"chunks": (16, 1, 12, 12), "compression": "gzip", "shuffle": True,
                                    "fletcher32": True}}
        def info(folder):
            return ["info", "--data", folder / "a.h5", "--verify"]
        def learn(folder):
            return ["simulate", "--data", folder / "a.h5", "--model", "softmax", *SHORT[:-4], "--batch", 16]
        for name, how in layouts.items():
            folder = self.new(name)
            write_dataset(folder / "a.h5", self.samples, self.labels, **how)
            self.add(name, folder, ["a.h5"], damage.damage_hdf5, info, info, info, learn)
        folder = self.new("hdf5-imported")
        np.save(folder / "x.npy", self.samples)
        np.save(folder / "y.npy", self.labels)
        run("import", "--input", folder / "x.npy", "--input", folder / "y.npy", "--test-fraction", 0.25,
            "--output", folder / "a.h5")
        self.add("hdf5-imported", folder, ["a.h5"], damage.damage_hdf5, info, info, learn)
        folder = self.new("hdf5-targets")
        write_dataset(folder / "a.h5", self.samples, self.labels)
        with h5py.File(folder / "a.h5", "r+") as file:
            file.attrs.update(version=2, target_mean=[1.0, 2.0], target_std=[1.0, 3.0])
            for group in "train", "test":
                labels = file.pop(f"{group}/labels")[:][:, None]
                file[f"{group}/targets"] = np.hstack([labels, labels ** 2]).astype(np.float32)
        self.add("hdf5-targets", folder, ["a.h5"], damage.damage_hdf5, info, info, learn)

    def imports(self):
        def take(*names):
            inputs = lambda folder: [word for name in names for word in ("--input", folder / name)]  # noqa: E731
            return lambda folder: ["import", *inputs(folder), "--test-fraction", 0.3, "--output", folder / "out.h5"]
        folder = self.new("npy")
        np.save(folder / "x.npy", self.samples)
        np.save(folder / "y.npy", self.labels)
        self.add("npy", folder, ["x.npy", "y.npy"], damage.damage_bytes, take("x.npy", "y.npy"))
        for name, save in ("npz", np.savez), ("npz-deflated", np.savez_compressed):
            folder = self.new(name)
            save(folder / "a.npz", x=self.samples, y=self.labels)
            self.add(name, folder, ["a.npz"], damage.damage_bytes, take("a.npz"))
        folder = self.new("images")
        for index in range(24):
            write_png(folder / f"all/class{index % 2}/{index}.png", self.samples[index, 0])
        self.add("images", folder, ["all/class0/0.png", "all/class1/1.png"], damage.damage_bytes,
                 lambda f: ["import", "--format", "folder", "--input", f / "all", "--test-fraction", 0.3, "--output",
                            f / "out.h5"])
        for ending in ("", ".gz"):
            folder = self.new(f"idx{ending}")
            names = [f"images-idx3-ubyte{ending}", f"labels-idx1-ubyte{ending}"]
            write_idx(folder / names[0], self.samples[:, 0])
            write_idx(folder / names[1], self.labels)
            self.add(f"idx{ending}", folder, names, damage.damage_bytes, take(*names))
        folder = self.new("csv")
        rows = [f"label,a,b,c", *(f"{label},{pixels[0]},{pixels[1] / 7:.4f},{pixels[2]}" for label, pixels in
                                  zip(self.labels, self.samples.reshape(96, -1)))]
        (folder / "points.csv").write_text("\n".join(rows) + "\n")
        self.add("csv", folder, ["points.csv"], damage.damage_text, take("points.csv"))
        def take_targets(folder):
            return [*take("points.csv")(folder), "--target-columns", "b,label"]
        self.add("csv-targets", folder, ["points.csv"], damage.damage_text, take_targets)
        folder = self.new("npy-targets")
        np.save(folder / "x.npy", self.samples)
        np.save(folder / "y.npy", np.stack([self.labels, self.labels / 3], axis=1))
        self.add("npy-targets", folder, ["x.npy", "y.npy"], damage.damage_bytes, take("x.npy", "y.npy"))
        folder = self.new("cifar10")
        draw = np.random.default_rng(5)
        records = draw.integers(0, 256, (20, 3073)).astype(np.uint8)
        records[:, 0] %= 10
        (folder / "data_batch_1.bin").write_bytes(records.tobytes())
        self.add("cifar10", folder, ["data_batch_1.bin"], damage.damage_bytes, take("data_batch_1.bin"))

    def language(self):
        """Text, the data set made of it, a tokenizer.json and a model."""
        words = "the sea saw a ship, and the ship saw land: \u00e9t\u00e9. It's 12 o'clock\n".split(" ")
        draw = np.random.default_rng(7)
        text = " ".join(words[i] for i in draw.integers(0, len(words), 600))
        def take(*more):
            return lambda f: ["import", "--format", "text", "--input", f / "a.txt", "--test-fraction", 0.25, "--context",
                              6, "--output", f / "out.h5", *(f / word if word == "t.json" else word for word in more)]
        folder = self.new("text")
        (folder / "a.txt").write_text(text)
        self.add("text", folder, ["a.txt"], damage.damage_text, take(), take("--tokens", "bytes"))
        folder = self.new("tokenizer")
        (folder / "a.txt").write_text(text)
        letters = [chr(byte) if 0x21 <= byte <= 0x7e or (0xa1 <= byte and byte != 0xad) else None for byte in range(256)]
        free = iter(range(256, 512))
        letters = [letter or chr(next(free)) for letter in letters]
        vocab = {letter: number for number, letter in enumerate([*letters, "sh", "shi", "\u0120s"])}
        (folder / "t.json").write_text(json.dumps({
            "added_tokens": [{"id": 259, "content": "<end>"}], "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
            "model": {"type": "BPE", "vocab": vocab, "merges": ["s h", "sh i", "\u0120 s"]}}))
        self.add("tokenizer.json", folder, ["t.json"], damage.damage_text, take("--tokens", "t.json"))
        folder = self.new("tokens")
        run(*take()(self.folder / "text")[:-1], folder / "a.h5")
        self.add("hdf5-tokens", folder, ["a.h5"], damage.damage_hdf5,
                 lambda f: ["info", "--data", f / "a.h5", "--verify"],
                 lambda f: ["train", "--data", f / "a.h5", "--model", "gpt:8,1,1", "--batch", 8, "--threads", 1,
                            "--samples", 16, "--out", f / "out"])
        model = self.new("text-model")
        run("train", "--data", folder / "a.h5", "--model", "gpt:8,1,1", "--batch", 8, "--threads", 1, "--samples", 16,
            "--out", model / "out")
        shutil.copy(model / "out/model.h5", model)
        shutil.rmtree(model / "out")
        self.add("text model.h5", model, ["model.h5"], damage.damage_store,
                 lambda f: ["generate", "--model-file", f / "model.h5", "--prompt", "the sea", "--tokens", 5,
                            "--threads", 1])

    def texts(self):
        folder = self.new("config")
        text = run("train", "--data", self.data, *NET, "--out", "out", "--samples", 40, "--dump-config").stdout
        (folder / "job.toml").write_text(text)
        self.add("config", folder, ["job.toml"], damage.damage_text,
                 lambda f: ["train", "--config", f / "job.toml", "--dry-run"],
                 lambda f: ["train", "--config", f / "job.toml", "--dump-config"])
        folder = self.new("sweep")
        (folder / "e.toml").write_text(
            'title = "two modes"\nseeds = [1, 2]\npatterns = ["healthy", "delay:2"]\n[job]\nno-train = true\n'
            'time-as = "resnet50"\nsamples = 320\nworkers = 4\n[tuning]\nlr = [0.1, 0.01]\n'
            '[[mode]]\nmode = "ssgd"\nreference = true\n[[mode]]\nmode = "static:2"\nlr = 0.1\nrole = "ours"\n'
            '[[pattern]]\nname = "odd"\npattern = "blip:3"\n')
        self.add("sweep", folder, ["e.toml"], damage.damage_text,
                 lambda f: ["sweep", f / "e.toml", "--out", f / "out", "--dry-run"])
        folder = self.new("profile")
        shutil.copy(ROOT / "data/profiles/8gpu-10g.toml", folder / "p.toml")
        self.add("profile", folder, ["p.toml"], damage.damage_text, lambda f: self.simulate("--profile", f / "p.toml"),
                 numbers=True)
        folder = self.new("trace")
        run("trace", "make", "--pattern", "storm:3", "--workers", 4, "--servers", 1, "--length-s", 60,
            "--out", folder / "t.csv")
        self.add("trace", folder, ["t.csv"], damage.damage_text,
                 lambda f: ["trace", "show", f / "t.csv", "--svg", f / "t.svg"],
                 lambda f: self.simulate("--trace", f / "t.csv"), numbers=True)

    def runs(self):
        """What a training run leaves behind."""
        folder = self.new("run")
        run(*self.train(folder, "--samples", 216, "--checkpoint-every-samples", 72, "--record-load",
                        folder / "load.csv", "--record-rates"))
        out = folder / "out"
        model = self.new("model")
        shutil.copy(out / "model.h5", model)
        self.add("model.h5", model, ["model.h5"], damage.damage_store,
                 lambda f: ["eval", "--data", self.data, "--model-file", f / "model.h5", "--threads", 1], numbers=True)
        metrics = self.new("metrics")
        terms = dict.fromkeys(re.findall(r"^(\w+) = -?[\d.]", (ROOT / "data/choosers/default.toml").read_text(), re.M),
                              0.25)
        rates = [json.dumps({"event": "rate", "train_s": i, "samples_applied": 72 * i, "plan": "ring",
                             "features": terms, "log_rate": -0.1 * i}) + "\n" for i in range(1, 12)]
        (metrics / "metrics.jsonl").write_text((out / "metrics.jsonl").read_text() + "".join(rates))
        self.add("metrics.jsonl", metrics, ["metrics.jsonl"], damage.damage_text,
                 lambda f: ["chooser", "score", f], lambda f: ["chooser", "train", f, "--out", f / "w.toml"],
                 numbers=True)
        load = self.new("load")
        shutil.copy(folder / "load.csv", load)
        self.add("recorded-load", load, ["load.csv"], damage.damage_text,
                 lambda f: ["predictor", "score", f / "load.csv"],
                 lambda f: ["predictor", "score", f / "load.csv", "--predictors", "last,ewma,episodes"], numbers=True)
        names = [str(path.relative_to(folder)) for path in sorted(out.rglob("*")) if path.is_file()]
        kept = [name for name in names if "checkpoints/" in name]
        self.add("checkpoint", folder, [name for name in kept if name.endswith(".h5")], damage.damage_store,
                 lambda f: self.train(f, "--resume", "--samples", 240))
        self.add("run-folder", folder, [name for name in names if "checkpoints/" not in name and "model" not in name],
                 damage.damage_text, lambda f: self.train(f, "--resume", "--samples", 240))

    def models(self):
        """What choosers and predictors begin with."""
        load = self.folder / "load" / "load.csv"
        folder = self.new("predictor-file")
        shutil.copy(ROOT / "data/predictors/default.h5", folder / "m.h5")
        self.add("predictor-file", folder, ["m.h5"], damage.damage_store,
                 lambda f: ["predictor", "score", load, "--model", f / "m.h5", "--predictors", "lstm"], numbers=True)
        folder = self.new("chooser-file")
        shutil.copy(ROOT / "data/choosers/default.toml", folder / "m.toml")
        self.add("chooser-file", folder, ["m.toml"], damage.damage_text,
                 lambda f: self.simulate("--mode", "star-ml", "--chooser-file", f / "m.toml"),
                 lambda f: ["chooser", "score", self.folder / "metrics", "--model", f / "m.toml"], numbers=True)

    def results(self):
        folder = self.new("result")
        run("simulate", "--no-train", *SHORT, "--mode", "star-ml", "--pattern", "delay:3", "--record-load",
            "--record-rates", "--out", folder)
        self.add("result.h5", folder, ["result.h5"], damage.damage_store,
                 lambda f: ["report", f, "--markdown"], lambda f: ["report", f, "--out", f / "page.html"],
                 lambda f: ["predictor", "score", f, "--predictors", "last,oracle"], numbers=False)
        folder = self.new("sweep-results")
        experiment = self.folder / "small.toml"
        experiment.write_text('patterns = ["healthy"]\n[job]\ntime-as = "resnet50"\nmodel = "softmax"\nworkers = 2\n'
                              'samples = 360\nbatch = 12\nlr = 0.01\neval-every-samples = 72\n'
                              'measure-gradients = true\n[[mode]]\nmode = "ssgd"\n[[mode]]\nmode = "asgd"\n')
        run("sweep", experiment, "--out", folder / "out", "--set", f"data={self.data}", "--jobs", 1)
        names = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*.h5"))]
        self.add("sweep-results", folder, names, damage.damage_store,
                 lambda f: ["report", f / "out", "--markdown"])

    def control(self):
        """Nobody listens there: what the program asks waits for nobody."""
        folder = self.new("control")
        (folder / "out").mkdir()
        (folder / "out/ctl").mkdir(mode=0o700)
        (folder / "out/ctl/run").write_text("0123456789abcdef0123456789abcdef\n")
        self.add("control", folder, ["out/ctl/run"], damage.damage_text,
                 lambda f: ["ctl", "--out", f / "out", "--timeout-s", 0.05, "status"], healthy=(4,))


def kinds(cohort, folder):
    maker = Maker(cohort, folder)
    for make in (maker.datasets, maker.imports, maker.language, maker.texts, maker.runs, maker.models, maker.results, maker.control):
        make()
    return maker.kinds
