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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cli_support  # noqa: E402
from cli_support import events, np, run, run_ranks  # noqa: E402

LARGE_MODELS = ("alexnet", "vgg13", "vgg16")  # their smallest images have 16 x 16 pixels
SMALL_MODELS = ("resnet20", "resnet56", "densenet121", "googlenet", "mobilenetv2")
TEXT_MODELS = ("lstm", "transformer")
MODES = (("servers", "ssgd"), ("servers", "asgd"), ("servers", "static:2"), ("servers", "dynamic"),
         ("servers", "saps:8"), ("servers", "adaptive"), ("ring", "ring"), ("ring", "ring:2"))
BATCH, SAMPLES = 8, 640


def modes_of(index):
    """A third of all pairs, so that modes and networks meet in another order each time."""
    if "COHORT_ZOO_ALL" in os.environ:
        return MODES
    return [MODES[(index + step) % len(MODES)] for step in (0, 3, 6)]


def images(pixels, count, seed):
    """Colour images in four classes: which channel is bright, or all of them."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 4, count).astype(np.uint8)
    values = draw.integers(0, 120, (count, 3, pixels, pixels))
    for image, label in zip(values, labels):
        image[slice(None) if label == 3 else slice(label, label + 1)] += 120
    return values.astype(np.uint8), labels


class Zoo(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="cohort-zoo-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        for name, pixels in (("large", 16), ("small", 8)):
            inputs = []
            for group, count in (("train", 640), ("test", 64)):
                for kind, values in zip(("images", "labels"), images(pixels, count, len(inputs))):
                    inputs += ["--input", cls.folder / f"{name}_{group}_{kind}.npy"]
                    np.save(inputs[-1], values)
            run("import", *inputs, "--output", cls.folder / f"{name}.h5")
        words = ["red fox runs home", "grey hare sleeps late", "black crow sees all"]
        draw = np.random.default_rng(7)
        (cls.folder / "text").write_text("\n".join(draw.choice(words, 2500)) + "\n")
        run("import", "--format", "text", "--input", cls.folder / "text", "--context", 8, "--test-fraction", 0.1,
            "--output", cls.folder / "text.h5")

    def check(self, model, arch, mode, data):
        out = self.folder / f"{model}.{arch}.{mode.replace(':', '_')}"
        run_ranks(3, "train", "--data", self.folder / data, "--out", out, "--model", model, "--arch", arch,
                  "--mode", mode, "--batch", BATCH, "--samples", SAMPLES, "--threads", 1, "--optimizer", "adamw",
                  "--lr", 0.004 if model in TEXT_MODELS else 0.001, "--checkpoint-every-s", 0, "--log-every-s", 0.1)
        summary = events(out)[-1]
        self.assertEqual(summary["samples_outstanding"], 0)
        self.assertEqual(summary["samples_leased"], summary["samples_applied"] + summary["samples_returned"])
        self.assertEqual(summary["samples_applied"], SAMPLES)
        # In training, or of the test set: after so few updates some mini-batches are still bad, and
        # the statistics of batch norms, which the test uses, are young.
        losses = [record["loss"] for record in events(out, "train")]
        loss = min(float(np.mean(losses[-max(1, len(losses) // 4):])), summary["test_loss"])
        guess = math.log(10 if model in TEXT_MODELS else 4)  # about
        print(f"{model} {arch} {mode}: loss {loss:.3f}, guessing {guess:.3f}, {summary['train_s']:.1f} s",
              file=sys.stderr)
        self.assertLess(loss, 0.8 * max(guess, losses[0]), losses)

    def test_every_network_learns_and_its_accounts_add_up(self):
        data = {**dict.fromkeys(LARGE_MODELS, "large.h5"), **dict.fromkeys(SMALL_MODELS, "small.h5"),
                **dict.fromkeys(TEXT_MODELS, "text.h5")}
        for index, model in enumerate(data):
            for arch, mode in modes_of(index):
                with self.subTest(model=model, arch=arch, mode=mode):
                    self.check(model, arch, mode, data[model])


if __name__ == "__main__":
    cli_support.main()
