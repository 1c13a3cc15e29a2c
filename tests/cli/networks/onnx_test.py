#!/usr/bin/env python3
"""Networks of PyTorch by way of ONNX: what comes in, is trained and goes out gives PyTorch's numbers.

    onnx_test.py COHORT [-- UNITTEST-OPTION...]

Needs torch, onnx and onnxruntime, of this interpreter or of the one in build/peers
(tests/tools/install_peers.sh); without them the exit code is 77.
"""

import importlib.util
import os
import pathlib
import sys
import tempfile
import unittest
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[3]
PEERS = ROOT / "build" / "peers" / "bin" / "python3"
if not all(importlib.util.find_spec(name) for name in ("torch", "onnx", "onnxruntime", "h5py")):
    if not PEERS.exists() or pathlib.Path(sys.prefix).resolve() == PEERS.parents[1].resolve():
        print("skipped: torch, onnx, onnxruntime or h5py is missing")
        sys.exit(77)
    os.execv(PEERS, [str(PEERS), *sys.argv])

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cli_support  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402
from cli_support import run  # noqa: E402
from torch import nn  # noqa: E402

TOLERANCE = 1e-4
CLASSES = 4
VOCABULARY = 40
POSITIONS = 12


class Residual(nn.Module):
    """Two blocks with shortcuts, one of them a projection."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(16, eps=1e-3)
        self.down = nn.Sequential(nn.Conv2d(8, 16, 1, stride=2, bias=False), nn.BatchNorm2d(16))
        self.fc = nn.Linear(16, CLASSES)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(self.bn2(self.conv2(x)) + self.down(x))
        return self.fc(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))


class Branches(nn.Module):
    """Depthwise convolutions, concatenation, both poolings, dropout, a view."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.pool = nn.MaxPool2d(3, stride=1, padding=1)
        self.mean = nn.AvgPool2d(2)
        self.drop = nn.Dropout(0.3)
        self.hidden = nn.Linear(16 * 3 * 3, 12)
        self.head = nn.Linear(12, CLASSES)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x = self.mean(torch.cat([torch.relu(self.depthwise(x)), self.pool(x)], 1))
        return self.head(self.drop(torch.tanh(self.hidden(x.view(x.size(0), -1)))))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 10)
        self.rnn = nn.LSTM(10, 14, 2, batch_first=True)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(14, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.drop(self.rnn(self.embedding(tokens))[0]))


class Gpt(nn.Module):
    """A block of masked attention and a feed-forward part."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(POSITIONS + 4, width)
        self.before = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.between = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(POSITIONS))
        count, positions, width = x.shape
        parts = self.qkv(self.before(x)).split(width, dim=2)
        split = [part.view(count, positions, self.heads, width // self.heads).transpose(1, 2) for part in parts]
        seen = nn.functional.scaled_dot_product_attention(*split, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(count, positions, width))
        return self.head(x + self.narrow(nn.functional.gelu(self.widen(self.between(x)))))


def torchvision_networks():
    """Well-known networks, small."""
    if not importlib.util.find_spec("torchvision"):
        return {}
    from torchvision import models  # pylint: disable=import-outside-toplevel
    return {
        "resnet18": models.resnet18(num_classes=CLASSES),
        "mobilenet_v2": models.mobilenet_v2(num_classes=CLASSES),
        "densenet121": models.densenet121(num_classes=CLASSES),
        "googlenet": models.googlenet(num_classes=CLASSES, aux_logits=False, init_weights=False),
    }


def images(count, size, seed=1):
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(seed))


def tokens(count, seed=1):
    return torch.randint(0, VOCABULARY, (count, POSITIONS), generator=torch.Generator().manual_seed(seed))


def read_safetensors(path):
    with open(path, "rb") as file:
        header = cli_support.json.loads(file.read(int.from_bytes(file.read(8), "little")))
        numbers = np.frombuffer(file.read(), np.float32)
    return {name: torch.tensor(numbers[entry["data_offsets"][0] // 4:entry["data_offsets"][1] // 4].copy()
                               .reshape(entry["shape"]))
            for name, entry in header.items() if name != "__metadata__"}


def onnx_outputs(path, samples):
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: samples.numpy()})[0]


class OnnxTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="cohort-onnx-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        torch.manual_seed(3)
        warnings.simplefilter("ignore")

    def export(self, network, sample, **options):
        """As the documentation says, with weights and statistics that are not those of the start."""
        for parameter in network.parameters():
            parameter.data += 0.02 * torch.randn_like(parameter)
        for name, buffer in network.named_buffers():
            if "running" in name:
                buffer += 0.2 * torch.rand_like(buffer)
        path = self.folder / "network.onnx"
        options = {"dynamo": False, "do_constant_folding": False, "training": torch.onnx.TrainingMode.TRAINING,
                   **options}
        # Tracing in training mode moves running statistics, in the module as in the file.
        torch.onnx.export(network, (sample,), path, input_names=["x"], dynamic_axes={"x": {0: "batch"}}, **options)
        return path

    def through(self, path):
        """In and out again."""
        out = self.folder / "again.onnx"
        run("export", "--model-file", path, "--to", "onnx", "--out", out, "--overwrite")
        return out

    def expect_same(self, network, samples):
        again = self.through(self.export(network, samples[:2]))
        with torch.no_grad():
            expected = network.eval()(samples).numpy()
        found = onnx_outputs(again, samples)
        self.assertLess(np.abs(found - expected).max(), TOLERANCE * max(1, np.abs(expected).max()))

    def test_networks_come_in_with_the_same_outputs(self):
        for network in (Residual(), Branches()):
            with self.subTest(type(network).__name__):
                self.expect_same(network, images(5, 12))
        for network in (Words(), Gpt()):
            with self.subTest(type(network).__name__):
                self.expect_same(network, tokens(5))
        for name, network in torchvision_networks().items():
            with self.subTest(name):
                # GoogLeNet's poolings round up: a size at which that changes nothing.
                self.expect_same(network, images(3, 45 if name == "googlenet" else 64))

    def test_training_goes_out_with_the_same_outputs(self):
        network = Residual()
        path = self.export(network, images(2, 12))
        data = self.colour_data()
        out = self.folder / "run"
        run("train", "--data", data, "--model", path, "--out", out, "--batch", 20, "--samples", 600, "--lr", 0.05,
            "--threads", 1, "--device", "cpu")
        model = out / "model.h5"
        trained = self.folder / "trained.onnx"
        weights = self.folder / "trained.safetensors"
        run("export", "--model-file", model, "--to", "onnx", "--out", trained)
        run("export", "--model-file", model, "--to", "safetensors", "--out", weights)

        samples, labels = self.normalised(data, trained)
        logits = torch.tensor(onnx_outputs(trained, samples))
        report = cli_support.json.loads(run("eval", "--data", data, "--model-file", model, "--json").stdout)
        self.assertAlmostEqual(report["loss"], nn.functional.cross_entropy(logits, labels).item(), delta=TOLERANCE)
        self.assertAlmostEqual(report["accuracy"], (logits.argmax(1) == labels).float().mean().item(), delta=1e-6)
        same = cli_support.json.loads(run("eval", "--data", data, "--model-file", trained, "--json").stdout)
        self.assertAlmostEqual(same["loss"], report["loss"], delta=TOLERANCE)

        state = read_safetensors(weights)
        names = {name for name in network.state_dict() if "num_batches" not in name}
        self.assertEqual(set(state), names)
        network.load_state_dict(state, strict=False)
        with torch.no_grad():
            self.assertLess((network.eval()(samples) - logits).abs().max().item(), TOLERANCE)
        self.assertGreater(report["accuracy"], 0.5, "it has learned")

    @unittest.skipUnless(importlib.util.find_spec("torchvision"), "torchvision is missing")
    def test_relu6_is_trained(self):
        network = torchvision_networks()["mobilenet_v2"]
        path = self.export(network, images(2, 12))
        data, out, trained = self.colour_data(), self.folder / "run", self.folder / "trained.onnx"
        run("train", "--data", data, "--model", path, "--out", out, "--batch", 20, "--samples", 200, "--lr", 0.02,
            "--threads", 1, "--device", "cpu")
        self.assertIn('"relu6"', self.network_text(out / "model.h5"))
        run("export", "--model-file", out / "model.h5", "--to", "onnx", "--out", trained)
        run("export", "--model-file", out / "model.h5", "--to", "safetensors", "--out", self.folder / "trained.st")
        before = torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
        network.load_state_dict(read_safetensors(self.folder / "trained.st"), strict=False)
        moved = torch.cat([parameter.detach().flatten() for parameter in network.parameters()]) - before
        self.assertGreater(moved.abs().max().item(), 1e-3)
        samples, _ = self.normalised(data, trained)
        with torch.no_grad():
            expected = network.eval()(samples).numpy()
        self.assertLess(np.abs(onnx_outputs(trained, samples) - expected).max(),
                        TOLERANCE * max(1, np.abs(expected).max()))

    def test_recurrent_weights_have_the_modules_names(self):
        network = Words()
        weights = self.folder / "words.safetensors"
        run("export", "--model-file", self.export(network, tokens(2)), "--to", "safetensors", "--out", weights)
        with torch.no_grad():
            expected = network.eval()(tokens(5))
            network.load_state_dict(read_safetensors(weights))
            self.assertLess((network(tokens(5)) - expected).abs().max().item(), TOLERANCE)

    def test_networks_are_described_and_profiled(self):
        path = self.export(Residual(), images(2, 12))
        said = run("info", "--model", path).stdout
        self.assertIn("down.0", said)
        run("train", "--data", self.colour_data(), "--model", path, "--out", self.folder / "dry", "--dry-run")

    def test_exports_for_inference_are_refused(self):
        network = Residual().eval()
        path = self.export(network, images(2, 12), training=torch.onnx.TrainingMode.EVAL, do_constant_folding=True)
        said = run("info", "--model", path, code=3).stderr
        self.assertIn("TrainingMode.TRAINING", said)

    def test_all_unsupported_nodes_are_named(self):
        network = nn.Sequential(nn.Conv2d(3, 4, (1, 3)), nn.LeakyReLU(), nn.Flatten(), nn.Linear(4 * 12 * 10, CLASSES),
                                nn.Softmax(1))
        said = run("info", "--model", self.export(network, images(2, 12)), code=3).stderr
        for words in ("3 of ", "kernel 1x3", "a ReLU, GELU, sigmoid or tanh in its place", "the loss includes the softmax"):
            self.assertIn(words, said)

    def colour_data(self):
        """Small colour images in four classes: one quarter is brighter."""
        inputs = []
        for group, count in (("train", 600), ("test", 200)):
            grey, labels = cli_support.images(count, len(inputs))
            for kind, values in (("images", np.repeat(grey, 3, axis=1)), ("labels", labels)):
                inputs += ["--input", self.folder / f"{group}_{kind}.npy"]
                np.save(inputs[-1], values)
        run("import", *inputs, "--output", self.folder / "data.h5")
        return self.folder / "data.h5"

    @staticmethod
    def network_text(model):
        with cli_support.h5py.File(model) as file:
            return bytes(file["network"][()]).decode()

    @staticmethod
    def normalised(data, trained):
        """The test samples as the network sees them, by what the exported file says, and their labels."""
        entries = {entry.key: entry.value for entry in onnx.load(trained).metadata_props}
        mean, std = (np.array([float(word) for word in entries[f"cohort.{name}"].split()], np.float32)
                     .reshape(1, -1, 1, 1) for name in ("mean", "std"))
        with cli_support.h5py.File(data) as file:
            samples, labels = file["test/samples"][()], file["test/labels"][()]
        return torch.tensor((samples.astype(np.float32) - mean) / std), torch.tensor(labels.astype(np.int64))


if __name__ == "__main__":
    cli_support.main()
