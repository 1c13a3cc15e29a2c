#!/usr/bin/env python3
"""A language model of two LSTM layers, byte by byte, on Debian's King James Bible or made-up text.

    mpirun -n 5 python3 train.py
"""

import argparse
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional

import cohort

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import text_data  # noqa: E402


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)
        self.output = nn.Linear(width, 256)

    def forward(self, tokens):
        return self.output(self.lstm(self.embedding(tokens))[0])


def loss_of(net, windows):
    tokens = windows.long()
    return functional.cross_entropy(net(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", default="runs/lstm")
    parser.add_argument("--mode", default="adaptive")
    parser.add_argument("--samples", type=int, default=30_000)
    options = parser.parse_args()
    train, test = text_data.windows(64)
    torch.manual_seed(1)
    with cohort.join(arch="servers", servers=1, mode=options.mode, out=options.out, overwrite=True,
                     train_samples=len(train), samples=options.samples, batch=16, clip_norm=1) as job:
        net = cohort.torch.attach(Model(128), job, cohort.AdamW(lr=2e-3),
                                  lambda net, ids: (loss_of(net, test[ids]), 0), 1024)
        for lease in job:
            loss = loss_of(net, train[lease.ids])
            loss.backward()
            lease.done(loss)
    if job.rank == 0:
        print("test loss in nats per byte", job.summary["test_loss"])


if __name__ == "__main__":
    main()
