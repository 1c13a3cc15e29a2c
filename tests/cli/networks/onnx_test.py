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


class Factorised(nn.Module):
    """As in Inception: a 7x7 as 1x7 and 7x1, a mean that counts the padding; a grouped, dilated rectangle."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=(1, 2), padding=(0, 1))
        self.wide = nn.Conv2d(8, 8, (1, 7), padding=(0, 3), bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.high = nn.Conv2d(8, 8, (7, 1), padding=(3, 0))
        self.grouped = nn.Conv2d(8, 8, (3, 2), padding=(2, 1), dilation=(2, 2), groups=4)
        self.project = nn.Conv2d(8, 4, 1)
        self.head = nn.Linear(20, CLASSES)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        deep = torch.relu(self.high(torch.relu(self.norm(self.wide(x)))))
        mean = self.project(nn.functional.avg_pool2d(x, 3, stride=1, padding=1))
        x = torch.cat([deep, self.grouped(x), mean], 1)
        x = nn.functional.max_pool2d(x, (3, 2), stride=(2, 1), ceil_mode=True)
        x = nn.functional.avg_pool2d(x, (2, 3), stride=2, ceil_mode=True)
        return self.head(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))


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
        "inception_v3": models.inception_v3(num_classes=CLASSES, aux_logits=False, init_weights=False),
    }


def file_of(folder, nodes, weights, shape, operators=20):
    """An ONNX file of these nodes, from x [batch, shape] to y, without an exporter."""
    value = onnx.helper.make_tensor_value_info
    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = onnx.helper.make_graph(nodes, "network", [value("x", 1, ["batch", *shape])],
                                   [value("y", 1, ["batch", CLASSES])], initializers)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", operators)], ir_version=10)
    path = folder / "network.onnx"
    onnx.save(model, path)
    return path


def drawn(*shape):
    return (np.random.default_rng(sum(shape)).normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def padded_network(folder):
    """As TensorFlow pads: more after the image than before it, by auto_pad and by numbers."""
    node = onnx.helper.make_node
    return file_of(folder, [
        node("Conv", ["x", "c1.weight"], ["c1"], "c1", auto_pad="SAME_UPPER", strides=[2, 2]),
        node("Relu", ["c1"], ["r1"]),
        node("MaxPool", ["r1"], ["p1"], kernel_shape=[3, 2], strides=[1, 1], auto_pad="SAME_LOWER"),
        node("Conv", ["p1", "c2.weight", "c2.bias"], ["c2"], "c2", pads=[0, 0, 2, 1], group=2, dilations=[1, 2]),
        node("AveragePool", ["c2"], ["p2"], kernel_shape=[2, 3], pads=[0, 0, 1, 1], count_include_pad=1),
        node("AveragePool", ["p2"], ["p3"], kernel_shape=[3, 2], pads=[0, 1, 0, 0]),
        node("MaxPool", ["p3"], ["p4"], kernel_shape=[2, 2], dilations=[2, 1]),
        node("GlobalAveragePool", ["p4"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "fc.weight", "fc.bias"], ["y"], transB=1),
    ], {"c1.weight": drawn(8, 3, 3, 3), "c2.weight": drawn(12, 4, 3, 2), "c2.bias": drawn(12),
        "fc.weight": drawn(CLASSES, 12), "fc.bias": drawn(CLASSES)}, [3, 12, 12])


def attention_network(folder, split, **attributes):
    """The operator Attention of three products, or of one that is split and has its heads as an axis."""
    node = onnx.helper.make_node
    width, heads = 12, 3
    if split:
        nodes = [node("MatMul", ["x", "qkv"], ["all"], "qkv"), node("Split", ["all"], ["a0", "a1", "a2"], axis=2, num_outputs=3)]
        for part in range(3):
            nodes += [node("Reshape", [f"a{part}", "by_head"], [f"b{part}"]),
                      node("Transpose", [f"b{part}"], [f"p{part}"], perm=[0, 2, 1, 3])]
        nodes += [node("Attention", ["p0", "p1", "p2"], ["seen"], is_causal=1),
                  node("Transpose", ["seen"], ["by_position"], perm=[0, 2, 1, 3]),
                  node("Reshape", ["by_position", "joined"], ["z"])]
        weights = {"qkv": drawn(width, 3 * width), "by_head": np.array([0, POSITIONS, heads, width // heads]),
                   "joined": np.array([0, POSITIONS, width])}
    else:
        nodes = [node("MatMul", ["x", f"w{part}"], [f"p{part}"], f"w{part}") for part in range(3)]
        attributes = {"q_num_heads": heads, "kv_num_heads": heads, **attributes}
        nodes.append(node("Attention", ["p0", "p1", "p2"], ["z"], "seen", **attributes))
        weights = {f"w{part}": drawn(width, width + part)[:, :width].copy() for part in range(3)}
    nodes += [node("Flatten", ["z"], ["f"]), node("Gemm", ["f", "fc.weight"], ["y"], transB=1)]
    return file_of(folder, nodes, {**weights, "fc.weight": drawn(CLASSES, POSITIONS * width)}, [POSITIONS, width],
                   operators=23)


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
        for network in (Residual(), Branches(), Factorised()):
            with self.subTest(type(network).__name__):
                self.expect_same(network, images(5, 12))
        for network in (Words(), Gpt()):
            with self.subTest(type(network).__name__):
                self.expect_same(network, tokens(5))
        for name, network in torchvision_networks().items():
            with self.subTest(name):
                self.expect_same(network, images(2, 75) if name == "inception_v3" else images(3, 64))

    def expect_same_file(self, path, samples):
        expected = onnx_outputs(path, samples)
        found = onnx_outputs(self.through(path), samples)
        self.assertLess(np.abs(found - expected).max(), TOLERANCE * max(1, np.abs(expected).max()))
        self.assertGreater(np.abs(expected).max(), 0.01)

    def test_padding_of_one_side(self):
        self.expect_same_file(padded_network(self.folder), images(5, 12))

    def test_the_operator_attention(self):
        samples = torch.randn(5, POSITIONS, 12, generator=torch.Generator().manual_seed(1))
        for split, attributes in ((False, {"is_causal": 1}), (False, {"scale": 0.5}), (True, {})):
            with self.subTest(split=split, **attributes):
                self.expect_same_file(attention_network(self.folder, split, **attributes), samples)
        for attributes, words in (({"q_num_heads": 6}, "other heads of keys and values than of queries"),
                                  ({"softcap": 2.0}, "bounded scores"), ({"scale": 0.1}, "the root of a head's features")):
            with self.subTest(**attributes):
                path = attention_network(self.folder, False, **attributes)
                said = run("info", "--model", path, code=3).stderr
                self.assertIn("Attention seen: an attention with", said)
                self.assertIn(words, said)

    def test_rectangles_are_trained(self):
        data, out, trained = self.colour_data(), self.folder / "run", self.folder / "trained.onnx"
        for name in ("torch", "nodes"):
            with self.subTest(name):
                path = self.export(Factorised(), images(2, 12)) if name == "torch" else padded_network(self.folder)
                run("train", "--data", data, "--model", path, "--out", out / name, "--batch", 20, "--samples", 400,
                    "--lr", 0.05, "--threads", 1, "--device", "cpu")
                model = out / name / "model.h5"
                self.assertIn("[1.0,7.0]" if name == "torch" else "[0.0,0.0,2.0,1.0]", self.network_text(model))
                run("export", "--model-file", model, "--to", "onnx", "--out", trained, "--overwrite")
                samples, labels = self.normalised(data, trained)
                logits = torch.tensor(onnx_outputs(trained, samples))
                report = cli_support.json.loads(run("eval", "--data", data, "--model-file", model, "--json").stdout)
                self.assertAlmostEqual(report["loss"], nn.functional.cross_entropy(logits, labels).item(), delta=TOLERANCE)
                before = onnx_outputs(self.through(path), samples)
                self.assertGreater(np.abs(logits.numpy() - before).max(), 1e-3, "it has learned")

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
        network = nn.Sequential(nn.Conv2d(3, 4, (1, 3)), nn.ELU(), nn.LeakyReLU(), nn.Flatten(),
                                nn.Linear(4 * 12 * 10, CLASSES), nn.Softmax(1))
        said = run("info", "--model", self.export(network, images(2, 12)), code=3).stderr
        for words in ("3 of ", "Elu", "a ReLU, GELU, sigmoid or tanh in its place", "the loss includes the softmax"):
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
