#!/usr/bin/env python3
"""The ranks of frameworks_test.py.   frameworks_job.py FRAMEWORK FOLDER

Each framework trains a network on the backend "cohort"; what rank 0 has afterwards is compared with what
PyTorch makes in float64 on one process: the largest relative difference goes to FOLDER/RANK.json.
"""

import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, SequentialSampler, TensorDataset

import cohort.distributed  # noqa: F401  # registers the backend

BATCH = 4  # of each rank
STEPS = 5
RATE = 0.1


def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(12, 40), torch.nn.Tanh(), torch.nn.Linear(40, 4))


def samples(ranks):
    draw = torch.Generator().manual_seed(5)
    count = BATCH * STEPS * ranks
    return torch.randn(count, 12, generator=draw), torch.randint(0, 4, (count,), generator=draw)


def loss_of(net, x, y):
    return torch.nn.functional.cross_entropy(net(x), y)


def apart(net, batches):
    """batches: what all ranks have computed on in each step."""
    alone = network().double()
    optimizer = torch.optim.SGD(alone.parameters(), lr=RATE)
    for x, y in batches:
        optimizer.zero_grad()
        loss_of(alone, x.double(), y).backward()
        optimizer.step()
    return max(((mine.double() - expected).norm() / expected.norm()).item()
               for mine, expected in zip(net.parameters(), alone.parameters()))


def backend():
    return dist.get_backend(), dist.get_world_size()


def lightning():
    """Finds the ranks without mpi4py: its environment for one host."""
    import lightning as pl
    from lightning.pytorch.strategies import DDPStrategy

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = network()
            self.seen = []

        def training_step(self, batch, _index):
            self.seen.append(self.all_gather(batch))
            return loss_of(self.net, *batch)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=RATE)

    ranks = int(os.environ["WORLD_SIZE"])
    module = Module()
    trainer = pl.Trainer(
        accelerator="cpu", devices=ranks, strategy=DDPStrategy(process_group_backend="cohort"), max_epochs=1,
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        default_root_dir=FOLDER)
    trainer.fit(module, DataLoader(TensorDataset(*samples(ranks)), BATCH, shuffle=True))
    batches = [(x.reshape(-1, 12), y.reshape(-1)) for x, y in module.seen]
    assert len(batches) == STEPS and len(batches[0][1]) == BATCH * ranks
    assert len({tuple(row.tolist()) for x, _ in batches for row in x}) == STEPS * BATCH * ranks
    return [*backend(), apart(module.net, batches)]


def accelerate():
    """Takes the group that is there."""
    from accelerate import Accelerator
    dist.init_process_group("cohort")
    accelerator = Accelerator(cpu=True)
    ranks = accelerator.num_processes
    x, y = samples(ranks)
    net = network()
    net, optimizer, loader = accelerator.prepare(
        net, torch.optim.SGD(net.parameters(), lr=RATE), DataLoader(TensorDataset(x, y), BATCH))
    for x_own, y_own in loader:
        optimizer.zero_grad()
        accelerator.backward(loss_of(net, x_own, y_own))
        optimizer.step()
    # Rank r computes on every batch whose number is r modulo the ranks: together those of a row.
    whole = zip(x.split(BATCH * ranks), y.split(BATCH * ranks))
    return [*backend(), apart(accelerator.unwrap_model(net), whole)]


def transformers():
    """Its Trainer takes the group that is there, too."""
    from transformers import Trainer, TrainingArguments
    dist.init_process_group("cohort")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network()

        def forward(self, x, labels):
            return {"loss": loss_of(self.net, x, labels)}

    class InOrder(Trainer):
        def _get_train_sampler(self, *_arguments):
            return SequentialSampler(self.train_dataset)

    ranks = dist.get_world_size()
    x, y = samples(ranks)
    model = Model()
    arguments = TrainingArguments(
        output_dir=str(FOLDER), use_cpu=True, per_device_train_batch_size=BATCH, num_train_epochs=1,
        learning_rate=RATE, lr_scheduler_type="constant", max_grad_norm=0, report_to=[], save_strategy="no",
        logging_strategy="no", disable_tqdm=True, optim="sgd")
    InOrder(model, arguments,
            train_dataset=[{"x": one, "labels": label} for one, label in zip(x, y)]).train()
    whole = zip(x.split(BATCH * ranks), y.split(BATCH * ranks))
    return [*backend(), apart(model.net, whole)]


if __name__ == "__main__":
    FOLDER = pathlib.Path(sys.argv[2])
    RESULT = {"lightning": lightning, "accelerate": accelerate, "transformers": transformers}[sys.argv[1]]()
    (FOLDER / f"{os.environ['RANK']}.json").write_text(json.dumps(RESULT), encoding="utf-8")
