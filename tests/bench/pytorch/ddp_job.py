#!/usr/bin/env python3
"""One training for ddp.py.   ddp_job.py ddp|cohort OPTIONS    (JSON, see ddp.py)

Both train the same network from the same values on the same samples, with SGD of the same learning rate,
momentum and batch per worker. What a mini-batch computes takes milliseconds; sleeping makes it take as long
as on a device of its own: sleep_s per full batch, `slow` times as long on the last worker. The last line
of rank 0 says when the test loss was first at most `target`, in seconds from the first mini-batch on,
evaluations included, and the samples per second until then.
"""

import json
import os
import pathlib
import sys
import tempfile
import time

import torch
from torch.nn import functional

TRAIN, TEST = 16384, 1024


def samples():
    """Classes of points by a network that nobody has seen: inputs, labels of training, then of the test."""
    draw = torch.Generator().manual_seed(7)
    teacher = [torch.randn(32, 64, generator=draw) / 32 ** 0.5, torch.randn(64, 10, generator=draw) / 8]
    x = torch.randn(TRAIN + TEST, 32, generator=draw)
    y = (4 * torch.tanh(2 * x @ teacher[0]) @ teacher[1]).argmax(1)
    return x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:]


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256),
                               torch.nn.ReLU(), torch.nn.Linear(256, 10))


def compute(net, x, y, options, is_last):
    """The loss of a mini-batch, after as long as a device would take."""
    factor = options["slow"] if is_last else 1
    time.sleep(options["sleep_s"] * factor * len(x) / options["batch"])
    loss = functional.cross_entropy(net(x), y)
    loss.backward()
    return loss


def ddp(options):
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    import cohort.distributed  # noqa: F401  # RANK and WORLD_SIZE from MPI
    if options["backend"] == "gloo":
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options["port"]))
    torch.set_num_threads(1)
    dist.init_process_group(options["backend"])
    x, y, test_x, test_y = samples()
    net = DistributedDataParallel(network())
    optimizer = torch.optim.SGD(net.parameters(), lr=options["lr"], momentum=0.9)
    data = TensorDataset(x, y)
    sampler = DistributedSampler(data, seed=options["seed"])
    loader = DataLoader(data, batch_size=options["batch"], sampler=sampler, drop_last=True)
    is_last = dist.get_rank() == dist.get_world_size() - 1
    dist.barrier()
    begin = time.monotonic()
    step, over = 0, torch.zeros(1)
    while not over:
        sampler.set_epoch(step)
        for batch_x, batch_y in loader:
            optimizer.zero_grad()
            compute(net, batch_x, batch_y, options, is_last)
            optimizer.step()
            step += 1
            if step % options["evaluate_steps"] == 0:
                if dist.get_rank() == 0:
                    with torch.no_grad():
                        loss = functional.cross_entropy(net.module(test_x), test_y).item()
                    over.fill_(loss <= options["target"] or step >= options["most_steps"])
                dist.broadcast(over, 0)
                if over:
                    break
    seconds = time.monotonic() - begin
    applied = step * options["batch"] * dist.get_world_size()
    if dist.get_rank() == 0:
        print(json.dumps({"seconds": seconds if loss <= options["target"] else None,
                          "samples_per_s": applied / seconds, "loss": loss}), flush=True)
    dist.destroy_process_group()


def to_target(folder, target):
    """(seconds, samples) at the first evaluation that has reached the target, pauses included."""
    pauses = 0.0
    with open(pathlib.Path(folder) / "metrics.jsonl", encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            if record["event"] == "evaluation":
                pauses += record["pause_s"] or 0
                if record["test_loss"] <= target:
                    return record["train_s"] + pauses, record["samples_applied"]
    return None, None


def leased(options, folder):
    import cohort
    x, y, test_x, test_y = samples()

    def evaluate(net, ids):
        outputs = net(test_x[ids])
        loss = functional.cross_entropy(outputs, test_y[ids])
        return loss, (outputs.argmax(1) == test_y[ids]).sum()

    update = options["batch"] * options["workers"]
    with cohort.join(arch="servers", servers=1, mode=options["mode"], out=folder, overwrite=True,
                     train_samples=len(x), samples=options["most_steps"] * update,
                     batch=options["batch"], threads=1, seed=options["seed"],
                     target_loss=options["target"], eval_share=1, checkpoint_every_s=0,
                     eval_every_samples=options["evaluate_steps"] * update) as job:
        net = cohort.torch.attach(network(), job, cohort.SGD(lr=options["lr"], momentum=0.9),
                                  evaluate, len(test_x))
        is_last = job.rank == job.size - 1
        for lease in job:
            lease.done(compute(net, x[lease.ids], y[lease.ids], options, is_last))
    if job.rank == 0:
        seconds, applied = to_target(folder, options["target"])
        print(json.dumps({"seconds": seconds, "loss": job.summary["test_loss"],
                          "samples_per_s": applied / seconds if seconds else None}), flush=True)


def main():
    options = json.loads(sys.argv[2])
    if sys.argv[1] == "ddp":
        ddp(options)
        return
    with tempfile.TemporaryDirectory(prefix="cohort-ddp-") as folder:
        leased(options, options["out"] or folder)


if __name__ == "__main__":
    main()
