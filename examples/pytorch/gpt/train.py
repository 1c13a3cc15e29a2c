#!/usr/bin/env python3
"""A small GPT, byte by byte, on Debian's King James Bible or made-up text; on a ring, without servers.

    mpirun -n 4 python3 train.py
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


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        split = self.attention(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, width=128, depth=4, heads=4, length=64):
        super().__init__()
        self.tokens = nn.Embedding(256, width)
        self.positions = nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, 256, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.output.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions[:tokens.shape[1]]
        return self.output(self.norm(self.blocks(x)))


def loss_of(net, windows):
    tokens = windows.long()
    return functional.cross_entropy(net(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", default="runs/gpt")
    parser.add_argument("--mode", default="adaptive")
    parser.add_argument("--samples", type=int, default=30_000)
    options = parser.parse_args()
    train, test = text_data.windows(64)
    torch.manual_seed(1)
    with cohort.join(arch="ring", mode=options.mode, out=options.out, overwrite=True,
                     train_samples=len(train), samples=options.samples, batch=16, clip_norm=1) as job:
        net = cohort.torch.attach(GPT(), job, cohort.AdamW(lr=1e-3),
                                  lambda net, ids: (loss_of(net, test[ids]), 0), 1024)
        for lease in job:
            loss = loss_of(net, train[lease.ids])
            loss.backward()
            lease.done(loss)
    if job.rank == 0:
        print("test loss in nats per byte", job.summary["test_loss"])


if __name__ == "__main__":
    main()
