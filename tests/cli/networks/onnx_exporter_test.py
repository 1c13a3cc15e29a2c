#!/usr/bin/env python3
"""Networks from PyTorch's current exporter (dynamo, the default since 2.9), which optimizes for inference unless told
not to: the same parameters come in, or the message has the line that exports them.

    onnx_exporter_test.py COHORT [-- UNITTEST-OPTION...]

Needs torch, onnx, onnxruntime and onnxscript, of this interpreter or of the one in build/peers
(tests/tools/install_peers.sh); without them the exit code is 77.
"""

import importlib.util
import pathlib
import re
import sys
import tempfile
import unittest

import onnx_test  # goes on in build/peers where this interpreter lacks the packages
import cli_support
import numpy as np
import torch
from cli_support import run
from onnx_test import CLASSES, POSITIONS, VOCABULARY, Gpt, Residual, images, onnx_outputs, read_safetensors, tokens
from torch import nn


class Plain(nn.Module):
    """What starts as zeros and ones: two norms with equal tensors, a bias of zeros; layers without a bias."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, bias=False)
        self.wide = nn.Conv2d(6, 6, 3, groups=3)
        self.first = nn.Linear(6 * 8 * 8, 32)
        self.norm1 = nn.LayerNorm(32)
        self.second = nn.Linear(32, 32, bias=False)
        self.norm2 = nn.LayerNorm(32)
        self.head = nn.Linear(32, CLASSES)
        for layer in (self.wide, self.head):
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        x = torch.relu(self.first(torch.flatten(torch.relu(self.wide(torch.relu(self.conv(x)))), 1)))
        return self.head(self.norm2(torch.relu(self.second(self.norm1(x)))))


class Attention(nn.Module):
    """Three products, no mask."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.queries, self.keys, self.values = (nn.Linear(width, width) for _ in range(3))
        self.project = nn.Linear(width, width)
        self.head = nn.Linear(POSITIONS * width, CLASSES)

    def forward(self, x):
        count, positions, width = x.shape
        split = [layer(x).view(count, positions, self.heads, width // self.heads).transpose(1, 2)
                 for layer in (self.queries, self.keys, self.values)]
        seen = nn.functional.scaled_dot_product_attention(*split).transpose(1, 2).reshape(count, positions, width)
        return self.head(torch.flatten(self.project(seen), 1))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 12)
        self.norm = nn.LayerNorm(12)
        self.head = nn.Linear(12, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(self.norm(self.embedding(x)))


class Vectors(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(12, 16)
        self.norm = nn.BatchNorm1d(16)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.first(x))))


class ExporterTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="cohort-exporter-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        torch.manual_seed(3)

    def export(self, network, sample, **options):
        path = self.folder / f"{type(network).__name__}.onnx"
        torch.onnx.export(network, (sample,), path, dynamic_shapes=({0: "batch"},), verbose=False, **options)
        return path

    def expect_whole(self, path, network, samples):
        """The module's parameters by number and name, and its outputs."""
        said = run("info", "--model", path).stdout
        wanted = sum(parameter.numel() for parameter in network.parameters())
        self.assertRegex(re.sub(r",", "", said), rf"total +{wanted} ")
        weights, again = self.folder / "weights.safetensors", self.folder / "again.onnx"
        run("export", "--model-file", path, "--to", "safetensors", "--out", weights, "--overwrite")
        state = read_safetensors(weights)
        self.assertEqual(set(state), {name for name, _ in network.named_parameters()}
                         | {name for name, _ in network.named_buffers() if "num_batches" not in name})
        run("export", "--model-file", path, "--to", "onnx", "--out", again, "--overwrite")
        with torch.no_grad():
            expected = network.eval()(samples).numpy()
        found = onnx_outputs(again, samples)
        self.assertLess(np.abs(found - expected).max(), onnx_test.TOLERANCE * max(1, np.abs(expected).max()))

    def test_batch_norms_that_were_multiplied_away_are_noticed(self):
        vectors = torch.randn(5, 12, generator=torch.Generator().manual_seed(1))
        for network, samples in ((Residual(), images(5, 12)), (Vectors(), vectors)):
            for training in (True, False):
                with self.subTest(type(network).__name__, training=training):
                    said = run("info", "--model", self.export(network.train(training), samples), code=3).stderr
                    self.assertIn("multiplied batch norms into the weights", said)
                    self.assertIn("optimize=False", said)
                    self.expect_whole(self.export(network, samples, optimize=False), network, samples)
                    network.train(training)

    def test_what_starts_as_zeros_and_ones_is_whole(self):
        for optimize in (True, False):
            with self.subTest(optimize=optimize):
                network = Plain()
                self.expect_whole(self.export(network, images(5, 12), optimize=optimize), network, images(5, 12))

    def test_attention_comes_in(self):
        vectors = torch.randn(5, POSITIONS, 32, generator=torch.Generator().manual_seed(1))
        network = Attention()
        self.expect_whole(self.export(network, vectors), network, vectors)

    def test_language_models_come_in(self):
        for optimize in (True, False):
            with self.subTest(optimize=optimize):
                path = self.export(Gpt(), tokens(5), optimize=optimize)
                network = Gpt()
                said = run("info", "--model", path).stdout
                # Of the table of positions the rows that are used.
                wanted = sum(p.numel() for p in network.parameters()) - 4 * network.positions.weight.shape[1]
                self.assertRegex(re.sub(r",", "", said), rf"total +{wanted} ")

    def test_ties_are_kept_and_only_they(self):
        for optimize in (True, False):
            with self.subTest(optimize=optimize):
                network = Tied()
                said = run("info", "--model", self.export(network, tokens(5), optimize=optimize)).stdout
                wanted = sum(parameter.numel() for parameter in network.parameters())
                self.assertRegex(re.sub(r",", "", said), rf"total +{wanted} ")
        shared = nn.Sequential(nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, CLASSES))
        shared[1].weight = shared[0].weight
        said = run("info", "--model", self.export(shared, torch.randn(5, 12), optimize=False), code=3).stderr
        self.assertIn("two layers share the weights", said)


if __name__ == "__main__":
    if not importlib.util.find_spec("onnxscript"):
        print("skipped: onnxscript is missing")
        sys.exit(77)
    cli_support.main()
