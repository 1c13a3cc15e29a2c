"""Text for the language models: Debian's King James Bible, else made up."""

import shutil
import subprocess

import numpy
import torch


def windows(length):
    """(training windows, test windows), tokens [N, length + 1] as bytes; the last tenth is the test's."""
    if shutil.which("bible"):
        text = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], capture_output=True, check=True).stdout
    else:
        draw = numpy.random.default_rng(1)
        words = [bytes(draw.integers(97, 123, size).tolist()) for size in draw.integers(2, 9, 400)]
        text = b" ".join(words[i] for i in (draw.zipf(1.3, 400_000) - 1) % len(words))
    tokens = torch.from_numpy(numpy.frombuffer(text, numpy.uint8).copy())
    tokens = tokens[:len(tokens) // (length + 1) * (length + 1)].view(-1, length + 1)
    cut = len(tokens) * 9 // 10
    return tokens[:cut], tokens[cut:]
