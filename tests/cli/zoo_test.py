#!/usr/bin/env python3
"""STAR's ten networks, small, in every kind of mode: does each learn, and do its accounts add up?

zoo_test.py COHORT MPIRUN [MPIRUN-OPTION...] [-- UNITTEST-OPTION...]

Every network takes three of the modes, and every mode at least three networks. With the variable
COHORT_ZOO_ALL set every network takes every mode.
"""

import math
import os
import pathlib
import sys
import tempfile
import unittest

import cli_support
from cli_support import events, np, run, run_ranks

IMAGE_MODELS = ("alexnet", "resnet20", "resnet56", "vgg13", "vgg16", "densenet121", "googlenet", "mobilenetv2")
TEXT_MODELS = ("lstm", "transformer")
MODES = (("servers", "ssgd"), ("servers", "asgd"), ("servers", "static:2"), ("servers", "dynamic"),
         ("servers", "saps:8"), ("servers", "adaptive"), ("ring", "ring"), ("ring", "ring:2"))
BATCH, SAMPLES = 8, 640


def modes_of(index):
    """A third of all pairs, so that modes and networks meet in another order each time."""
    if "COHORT_ZOO_ALL" in os.environ:
        return MODES
    return [MODES[(index + step) % len(MODES)] for step in (0, 3, 6)]


def images(count, seed):
    """Colour 3x16x16 images in four classes: which channel is bright, or all of them."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 4, count).astype(np.uint8)
    pixels = draw.integers(0, 120, (count, 3, 16, 16))
    for image, label in zip(pixels, labels):
        image[slice(None) if label == 3 else slice(label, label + 1)] += 120
    return pixels.astype(np.uint8), labels


class Zoo(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="cohort-zoo-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        inputs = []
        for group, count in (("train", 640), ("test", 64)):
            for kind, values in zip(("images", "labels"), images(count, len(inputs))):
                inputs += ["--input", cls.folder / f"{group}_{kind}.npy"]
                np.save(inputs[-1], values)
        run("import", *inputs, "--output", cls.folder / "images.h5")
        words = ["red fox runs home", "grey hare sleeps late", "black crow sees all"]
        draw = np.random.default_rng(7)
        (cls.folder / "text").write_text("\n".join(draw.choice(words, 2500)) + "\n")
        run("import", "--format", "text", "--input", cls.folder / "text", "--context", 8, "--test-fraction", 0.1,
            "--output", cls.folder / "text.h5")

    def check(self, model, arch, mode, data):
        out = self.folder / f"{model}.{arch}.{mode.replace(':', '_')}"
        run_ranks(3, "train", "--data", self.folder / data, "--out", out, "--model", model, "--arch", arch,
                  "--mode", mode, "--batch", BATCH, "--samples", SAMPLES, "--threads", 1, "--optimizer", "adamw",
                  "--lr", 0.002, "--checkpoint-every-s", 0, timeout=240)
        summary = events(out)[-1]
        self.assertEqual(summary["samples_outstanding"], 0)
        self.assertEqual(summary["samples_leased"], summary["samples_applied"] + summary["samples_returned"])
        self.assertEqual(summary["samples_applied"], SAMPLES)
        guess = math.log(4 if data == "images.h5" else 10)  # about
        print(f"{model} {arch} {mode}: loss {summary['test_loss']:.3f}, guessing {guess:.3f}, "
              f"{summary['train_s']:.1f} s", file=sys.stderr)
        self.assertLess(summary["test_loss"], 0.7 * guess)

    def test_every_network_learns_and_its_accounts_add_up(self):
        for index, model in enumerate(IMAGE_MODELS + TEXT_MODELS):
            for arch, mode in modes_of(index):
                with self.subTest(model=model, arch=arch, mode=mode):
                    self.check(model, arch, mode, "text.h5" if model in TEXT_MODELS else "images.h5")


if __name__ == "__main__":
    cli_support.main()
