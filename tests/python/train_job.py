#!/usr/bin/env python3
"""A small job for torch_test.py.   train_job.py OPTIONS [--out FOLDER] [--resume]
(OPTIONS: JSON, those of cohort.join; "trouble"; "notes", a folder. jobs/launch.sh looks for the others.)
"copies": the module computes in memory of its own, as on a GPU; PyTorch's stand-ins for streams and events do nothing.

Every worker writes the ids of its leases, and the loss of each, to NOTES/RANK.json; every rank its process to
NOTES/RANK.pid, and the module's tensors, as they are behind the loop, to NOTES/RANK.npz.
"""

import argparse
import json
import os
import pathlib
import sys
import time

import numpy
import torch

import cohort

SAMPLES = 512


def data():
    draw = numpy.random.default_rng(5)
    x = draw.standard_normal((SAMPLES, 12)).astype(numpy.float32)
    y = (x[:, :3] @ draw.standard_normal((3, 4))).argmax(1)
    return torch.from_numpy(x), torch.from_numpy(y)


def network(seed):
    """One parameter is never used, one is used twice, buffers are of both kinds."""
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(12, 40), torch.nn.Tanh(), torch.nn.Linear(40, 40),
                              torch.nn.BatchNorm1d(40), torch.nn.Tanh(), torch.nn.Linear(40, 4))
    net.unused = torch.nn.Linear(3, 5)
    return net


def forward(net, x):
    x = net[1](net[0](x))
    return net[5](net[4](net[3](net[2](net[2](x)))))


def loss_of(net, x, y):
    return torch.nn.functional.cross_entropy(forward(net, x), y)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("options", type=json.loads)
    parser.add_argument("--out", default=argparse.SUPPRESS)
    parser.add_argument("--resume", action="store_true", default=argparse.SUPPRESS)
    options = vars(parser.parse_args())
    options.update(options.pop("options"))
    trouble = options.pop("trouble", None)
    notes = options.pop("notes", None)
    pause = options.pop("pause", 0)
    if options.pop("copies", False):
        cohort.torch._has_own_memory = lambda device: True
    x, y = data()

    def evaluate(net, ids):
        if trouble == "slow evaluation":
            (pathlib.Path(notes) / "evaluating").touch()
            time.sleep(1)
        outputs = forward(net, x[ids])
        loss = torch.nn.functional.cross_entropy(outputs, y[ids])
        return loss, (outputs.argmax(1) == y[ids]).sum()

    def keep(net):
        if notes:
            tensors = {name: tensor.numpy() for name, tensor in net.state_dict().items()}
            numpy.savez(pathlib.Path(notes) / f"{job.rank}.npz", **tensors)

    leases = []
    with cohort.join(train_samples=SAMPLES, **options) as job:
        if notes:
            (pathlib.Path(notes) / f"{job.rank}.pid").write_text(str(os.getpid()), encoding="utf-8")
        net = cohort.torch.attach(network(1 + job.rank), job, cohort.SGD(lr=0.05, momentum=0.9),
                                  evaluate, 200)
        for lease in job:
            leases.append(lease.ids.tolist())
            time.sleep(pause)
            if trouble == "parameters":
                net.more = torch.nn.Linear(2, 2)
            ids = lease.ids if len(lease.ids) > 1 else lease.ids.repeat(2)  # BatchNorm1d refuses one
            loss = loss_of(net, x[ids], y[ids])
            if trouble == "error" and job.rank == job.size - 1:
                raise KeyError("a mistake")
            loss.backward()
            if trouble == "twice":
                loss_of(net, x[lease.ids], y[lease.ids]).backward()
            if trouble == "break" and len(leases) == 3:
                break
            if trouble != "forgotten":
                lease.done(torch.ones(3) if trouble == "vector" else loss)
            if trouble == "fork" and os.fork() == 0:
                try:
                    job.stop()
                except cohort.JobError as error:
                    print(error, file=sys.stderr, flush=True)
                    os._exit(0)
        keep(net)
    if trouble == "break":  # the job ends behind the block
        keep(net)
    if notes:
        record = {"leases": leases, "summary": job.summary}
        (pathlib.Path(notes) / f"{job.rank}.json").write_text(json.dumps(record), encoding="utf-8")


if __name__ == "__main__":
    main()
