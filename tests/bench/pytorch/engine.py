#!/usr/bin/env python3
"""Speed of training steps in PyTorch, on the networks and shapes of `cohort bench engine`.

  engine.py --model resnet20 --batch 128 --threads 1 [--channels-last] [--bf16] [--compile]

Prints one JSON object: `per_second` is images (text: tokens) per second of the median timed step. A
step is the gradients to zero, forward, cross entropy, backward, and SGD with momentum 0.9 and weight
decay 5e-4. `--parameters` prints the number of parameters instead, which `cohort info --model NAME`
must agree with: it is how to see that both programs train the same network.
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

WORDS, WIDTH, WINDOW = 28782, 200, 35


def conv_norm(before, channels, kernel, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(before, channels, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels))


class Residual(nn.Module):
    """body(x) + shortcut(x), with a ReLU behind it if `active`."""

    def __init__(self, body, shortcut=None, active=True):
        super().__init__()
        self.body, self.shortcut, self.active = body, shortcut, active

    def forward(self, x):
        y = self.body(x) + (x if self.shortcut is None else self.shortcut(x))
        return F.relu(y) if self.active else y


def head(features, classes):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(features, classes)]


def resnet20():
    layers, before = [conv_norm(3, 16, 3), nn.ReLU()], 16
    for channels in (16, 32, 64):
        for block in range(3):
            stride = 2 if block == 0 and channels > 16 else 1
            body = nn.Sequential(conv_norm(before, channels, 3, stride), nn.ReLU(),
                                 conv_norm(channels, channels, 3))
            around = None if before == channels else conv_norm(before, channels, 1, stride)
            layers.append(Residual(body, around))
            before = channels
    return nn.Sequential(*layers, *head(64, 10))


def resnet50():
    layers = [conv_norm(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    before = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        middle = 64 << stage
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 0 else 1
            body = nn.Sequential(conv_norm(before, middle, 1), nn.ReLU(),
                                 conv_norm(middle, middle, 3, stride), nn.ReLU(),
                                 conv_norm(middle, 4 * middle, 1))
            around = conv_norm(before, 4 * middle, 1, stride) if block == 0 else None
            layers.append(Residual(body, around))
            before = 4 * middle
    return nn.Sequential(*layers, *head(before, 1000))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 5, 1, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(50 * 5 * 5, 500), nn.ReLU(), nn.Linear(500, 10))


def alexnet():
    layers = [nn.Conv2d(3, 64, 11, 4, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 192, 5, 1, 2), nn.ReLU(),
              nn.MaxPool2d(2)]
    for before, channels in ((192, 384), (384, 256), (256, 256)):
        layers += [nn.Conv2d(before, channels, 3, 1, 1), nn.ReLU()]
    return nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10))


def vgg(*depths):
    layers, before = [], 3
    for channels, convolutions in zip((64, 128, 256, 512, 512), depths):
        for _ in range(convolutions):
            layers += [nn.Conv2d(before, channels, 3, 1, 1), nn.BatchNorm2d(channels), nn.ReLU()]
            before = channels
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


def vgg13():
    return vgg(2, 2, 2, 2, 2)


def vgg16():
    return vgg(2, 2, 3, 3, 3)


def biased(before, channels, kernel):
    return nn.Sequential(nn.Conv2d(before, channels, kernel, 1, kernel // 2), nn.BatchNorm2d(channels), nn.ReLU())


class Inception(nn.Module):
    """A module of GoogLeNet: four ways side by side, two 3x3 convolutions in place of a 5x5."""

    def __init__(self, before, single, before_triple, triple, before_double, twice, pooled):
        super().__init__()
        self.ways = nn.ModuleList((
            biased(before, single, 1),
            nn.Sequential(biased(before, before_triple, 1), biased(before_triple, triple, 3)),
            nn.Sequential(biased(before, before_double, 1), biased(before_double, twice, 3), biased(twice, twice, 3)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1), biased(before, pooled, 1))))

    def forward(self, x):
        return torch.cat([way(x) for way in self.ways], 1)


def googlenet():
    stages = (((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
              ((192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
               (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128)),
              ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)))
    layers, before = [biased(3, 192, 3)], 192
    for number, stage in enumerate(stages):
        layers += [nn.MaxPool2d(3, 2, 1)] if number else []
        for module in stage:
            layers.append(Inception(before, *module))
            before = module[0] + module[2] + module[4] + module[5]
    return nn.Sequential(*layers, *head(before, 10))


def mobilenetv2():
    layers, before = [conv_norm(3, 32, 3), nn.ReLU()], 32
    stages = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
              (6, 160, 3, 2), (6, 320, 1, 1))
    for expansion, channels, blocks, first_stride in stages:
        for block in range(blocks):
            stride, wide = (first_stride if block == 0 else 1), expansion * before
            body = nn.Sequential(conv_norm(before, wide, 1), nn.ReLU(),
                                 conv_norm(wide, wide, 3, stride, wide), nn.ReLU(),
                                 conv_norm(wide, channels, 1))
            around = None if before == channels else conv_norm(before, channels, 1)
            layers.append(body if stride > 1 else Residual(body, around, active=False))
            before = channels
    return nn.Sequential(*layers, conv_norm(before, 1280, 1), nn.ReLU(), *head(1280, 10))


class Joined(nn.Module):
    """A layer of DenseNet: its input and the 32 channels that it makes of it."""

    def __init__(self, before):
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm2d(before), nn.ReLU(), nn.Conv2d(before, 128, 1, bias=False),
                                  nn.BatchNorm2d(128), nn.ReLU(), nn.Conv2d(128, 32, 3, 1, 1, bias=False))

    def forward(self, x):
        return torch.cat([x, self.body(x)], 1)


def densenet121():
    layers, before = [nn.Conv2d(3, 64, 3, 1, 1, bias=False)], 64
    for stage, blocks in enumerate((6, 12, 24, 16)):
        if stage > 0:
            layers += [nn.BatchNorm2d(before), nn.ReLU(), nn.Conv2d(before, before // 2, 1, bias=False),
                       nn.AvgPool2d(2)]
            before //= 2
        for _ in range(blocks):
            layers.append(Joined(before))
            before += 32
    return nn.Sequential(*layers, nn.BatchNorm2d(before), nn.ReLU(), *head(before, 10))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.body = nn.Embedding(WORDS, WIDTH), nn.LSTM(WIDTH, WIDTH, 2)
        self.end = nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        return self.end(self.body(self.embedding(x))[0]).flatten(0, 1)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 8, WIDTH, dropout=0.0)
        self.embedding, self.body = nn.Embedding(WORDS, WIDTH), nn.TransformerEncoder(layer, 2)
        self.end = nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        mask = torch.triu(torch.full((len(x), len(x)), float("-inf")), 1)
        return self.end(self.body(self.embedding(x), mask)).flatten(0, 1)


MODELS = {"lenet": lenet, "resnet20": resnet20, "resnet50": resnet50, "alexnet": alexnet, "vgg13": vgg13,
          "vgg16": vgg16, "googlenet": googlenet, "mobilenetv2": mobilenetv2, "densenet121": densenet121,
          "lstm": Lstm, "transformer": Transformer}
IMAGES = {"lenet": (1, 28, 28), "resnet50": (3, 224, 224)}  # of the others: 3x32x32


def synthetic(model, batch):
    """Input and classes: normal pixels, or words of windows that lie side by side."""
    if model in ("lstm", "transformer"):
        return torch.randint(WORDS, (WINDOW, batch)), torch.randint(WORDS, (WINDOW * batch,))
    classes = 1000 if model == "resnet50" else 10
    return torch.randn(batch, *IMAGES.get(model, (3, 32, 32))), torch.randint(classes, (batch,))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, choices=sorted(MODELS))
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--bf16", action="store_true", help="autocast")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--parameters", action="store_true")
    options = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    net = MODELS[options.model]()
    if options.parameters:
        print(json.dumps({"parameters": sum(p.numel() for p in net.parameters())}))
        return
    x, y = synthetic(options.model, options.batch)
    if options.channels_last and x.dim() == 4:
        net, x = (part.to(memory_format=torch.channels_last) for part in (net, x))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    stepped = torch.compile(net) if options.compile else net
    seconds = []
    for _ in range(3 + options.steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.bf16):
            loss = F.cross_entropy(stepped(x), y)
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    step = statistics.median(seconds[3:])
    units = options.batch * (WINDOW if x.dim() == 2 else 1)
    print(json.dumps({"model": options.model, "torch": torch.__version__, "step_s": step,
                      "per_second": units / step}))


if __name__ == "__main__":
    main()
