#!/usr/bin/env python3
"""ResNet-18 for 28x28 or 32x32 images, on Debian's Fashion-MNIST or, without it, on made-up images.

    mpirun -n 5 python3 train.py                       a server and four workers
    mpirun -n 5 python3 train.py --inject rank=4,cpu=0.25    one of the workers at a quarter of its speed
"""

import argparse
import gzip
import pathlib

import numpy
import torch
from torch import nn
from torch.nn import functional

import cohort

FOLDER = pathlib.Path("/usr/share/datasets/fashion-mnist")


def images(group):
    """(images [N,1,28,28], labels [N])."""
    if not FOLDER.exists():
        draw = torch.Generator().manual_seed(len(group))
        labels = torch.randint(0, 10, (4096,), generator=draw)
        pixels = torch.randn(4096, 1, 28, 28, generator=draw)
        pixels[torch.arange(4096), 0, 2 * labels + 2] += 2  # a brighter row per class
        return pixels, labels
    def read(kind, offset):
        return numpy.frombuffer(gzip.open(FOLDER / f"{group}-{kind}-ubyte.gz").read(), numpy.uint8,
                                offset=offset)
    pixels = torch.from_numpy(read("images-idx3", 16).copy()).view(-1, 1, 28, 28)
    return (pixels.float() - 73) / 90, torch.from_numpy(read("labels-idx1", 8).copy()).long()


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut (He et al. 2015)."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def resnet18(channels=1, classes=10, width=64):
    """width: channels of the first stage, 64 in the paper."""
    layers = [nn.Conv2d(channels, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    inputs = width
    for stage in range(4):
        outputs = width << stage
        layers += [Block(inputs, outputs, 1 if stage == 0 else 2), Block(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", default="runs/resnet18")
    parser.add_argument("--mode", default="adaptive")
    parser.add_argument("--samples", type=int, default=60_000)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--inject")
    options = parser.parse_args()
    x, y = images("train")
    test_x, test_y = images("t10k")

    def evaluate(net, ids):
        outputs = net(test_x[ids])
        loss = functional.cross_entropy(outputs, test_y[ids])
        return loss, (outputs.argmax(1) == test_y[ids]).sum()

    torch.manual_seed(1)
    with cohort.join(arch="servers", servers=1, mode=options.mode, out=options.out, overwrite=True,
                     train_samples=len(x), samples=options.samples, batch=64,
                     inject=options.inject) as job:
        net = cohort.torch.attach(resnet18(width=options.width), job, cohort.SGD(lr=0.1, momentum=0.9),
                                  evaluate, len(test_x))
        for lease in job:
            outputs = net(x[lease.ids])
            loss = functional.cross_entropy(outputs, y[lease.ids])
            loss.backward()
            lease.done(loss, (outputs.argmax(1) == y[lease.ids]).sum())
    if job.rank == 0:
        print("test accuracy", job.summary["test_accuracy"])


if __name__ == "__main__":
    main()
