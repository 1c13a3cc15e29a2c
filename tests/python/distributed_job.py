#!/usr/bin/env python3
"""The ranks of distributed_test.py.   distributed_job.py CASE FOLDER

A case is a function below; what it returns goes to FOLDER/RANK.json.
"""

import json
import os
import pathlib
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import cohort.distributed  # noqa: F401  # registers the backend

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support/core"))
from guard import wait_until  # noqa: E402

FOLDER = pathlib.Path()
PIECE = 1 << 20  # floats that are summed at once


def wait_for(file):
    wait_until((FOLDER / file).exists, file)


def error_of(call):
    try:
        call()
    except (RuntimeError, ValueError, NotImplementedError) as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def collectives():
    """Every collective against gloo's, on the same numbers."""
    dist.init_process_group("cohort")
    gloo = dist.new_group(backend="gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    draw = torch.Generator().manual_seed(rank)
    errors = []

    def compare(name, got, expected, exact=True):
        for one, other in zip(got, expected):
            apart = (one.double() - other.double()).norm()
            if apart > (0 if exact else 1e-6 * other.double().norm()):
                errors.append(f"{name} {tuple(one.shape)} {one.dtype}")

    def numbers(shape, dtype=torch.float32):
        return (10 * torch.randn(shape, generator=draw)).to(dtype)

    def check(name, call, tensor, exact=True):
        mine, other = tensor.clone(), tensor.clone()
        compare(name, [call(mine, None)], [call(other, gloo)], exact)

    def into(call):
        def run(tensor, group):
            call(tensor, group)
            return tensor
        return run

    def gathered(tensor, group):
        parts = [torch.empty_like(tensor) for _ in range(size)]
        dist.all_gather(parts, tensor, group=group)
        return torch.stack(parts)

    def gathered_whole(tensor, group):
        whole = torch.empty((size * len(tensor), *tensor.shape[1:]), dtype=tensor.dtype)
        dist.all_gather_into_tensor(whole, tensor, group=group)
        return whole

    def scattered(tensor, group):
        part = torch.empty_like(tensor)
        dist.scatter(part, [tensor + i for i in range(size)] if rank == 1 else None, 1, group=group)
        return part

    def gathered_by_one(tensor, group):
        parts = [torch.empty_like(tensor) for _ in range(size)] if rank == 1 else None
        dist.gather(tensor, parts, 1, group=group)
        return torch.stack(parts) if rank == 1 else tensor

    def sum_scattered(tensor, group):
        part = torch.empty_like(tensor)
        dist.reduce_scatter(part, [tensor * (i + 1) for i in range(size)], group=group)
        return part

    def reduced(tensor, group):
        dist.reduce(tensor, 2 % size, group=group)
        return tensor if rank == 2 % size else torch.zeros(1)  # others' values are undefined

    def exchanged(tensor, group):
        received = [torch.empty(size, dtype=tensor.dtype) for _ in range(size)]
        dist.all_to_all(received, list(tensor), group=group)
        return torch.stack(received)

    def exchanged_rows(tensor, group):  # rank i gets i + 1 rows of each
        whole = torch.empty((size * (rank + 1), *tensor.shape[1:]), dtype=tensor.dtype)
        dist.all_to_all_single(whole, tensor[:size * (size + 1) // 2], size * [rank + 1],
                               [i + 1 for i in range(size)], group=group)
        return whole

    for shape in ((), (1,), (3, 5), (257,), (2 * PIECE + 77,)):
        check("sum", into(lambda t, g: dist.all_reduce(t, group=g)), numbers(shape), exact=False)
    check("transposed", into(lambda t, g: dist.all_reduce(t, group=g)), numbers((4, 3)).t(), exact=False)
    for dtype in (torch.int64, torch.int32, torch.uint8, torch.float64, torch.float32):
        for op in (dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT):
            check(f"{op}", into(lambda t, g, op=op: dist.all_reduce(t, op, group=g)),
                  numbers((7, 3), dtype), exact=not dtype.is_floating_point)
        for name, call in (("broadcast", into(lambda t, g: dist.broadcast(t, size - 1, group=g))),
                           ("all_gather", gathered), ("all_gather_into_tensor", gathered_whole),
                           ("scatter", scattered), ("gather", gathered_by_one)):
            check(name, call, numbers((5, 2), dtype))
        check("all_to_all", exchanged, numbers((size, size), dtype))
        check("all_to_all_single", exchanged_rows, numbers((size * size, 3), dtype))
        check("reduce_scatter", sum_scattered, numbers((5, 2), dtype), not dtype.is_floating_point)
        check("reduce", reduced, numbers((5, 2), dtype), not dtype.is_floating_point)
    mean = torch.full((3,), float(rank))
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    compare("mean", [mean], [torch.full((3,), (size - 1) / 2)])
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "words": "x" * rank})
    if objects != [{"rank": i, "words": "x" * i} for i in range(size)]:
        errors.append(f"all_gather_object {objects}")
    words = ["from", rank] if rank == 1 else [None, None]
    dist.broadcast_object_list(words, 1)
    if words != ["from", 1]:
        errors.append(f"broadcast_object_list {words}")
    dist.barrier()
    environment = [os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")]
    if environment != [str(rank), str(size), str(rank)]:
        errors.append(f"environment {environment}")
    dist.destroy_process_group()
    return errors


def sharded():
    """What device meshes build on: functional collectives, DTensor and FSDP2, against one process."""
    from torch.distributed import _functional_collectives as functional
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    dist.init_process_group("cohort")
    rank, size = dist.get_rank(), dist.get_world_size()
    whole = torch.arange(6.0 * size * size).view(2 * size, 3 * size)
    mine = whole + rank
    sums = size * whole + size * (size - 1) / 2
    world, errors = dist.group.WORLD, []

    def check(name, got, expected):
        if not torch.equal(got.clone(), expected):
            errors.append(f"{name}: {got} {expected}")

    check("sum", functional.all_reduce(mine, "sum", world), sums)
    check("sums", functional.all_reduce_coalesced([mine, mine[:1]], "sum", world)[1], sums[:1])
    gather = getattr(functional, "all_gather_single", None) or functional.all_gather_tensor
    check("gather", gather(mine, 0, world), torch.cat([whole + i for i in range(size)]))
    scatter = getattr(functional, "reduce_scatter_single", None) or functional.reduce_scatter_tensor
    check("scatter", scatter(mine, "sum", 0, world), sums[2 * rank:2 * rank + 2])
    check("broadcast", functional.broadcast(mine, 1, world), whole + 1)
    check("exchange", functional.all_to_all_single(mine, None, None, world),
          torch.cat([whole[2 * rank:2 * rank + 2] + i for i in range(size)]))

    mesh = init_device_mesh("cpu", (size,))
    rows, columns = distribute_tensor(whole, mesh, [Shard(0)]), distribute_tensor(whole, mesh, [Shard(1)])
    check("full", rows.full_tensor(), whole)
    check("again", rows.redistribute(mesh, [Shard(1)]).to_local(), columns.to_local())
    check("product", (columns @ distribute_tensor(whole.t().contiguous(), mesh, [Shard(0)])).redistribute(
        mesh, [Replicate()]).to_local(), whole @ whole.t())

    torch.manual_seed(11)
    data, labels = torch.randn(4 * size, 12), torch.randint(0, 4, (4 * size,))
    net, alone = Network().used, Network().used.double()
    del net[1], alone[1]  # batch norm: of each rank's own samples
    for layer in (*net, net):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    reference = torch.optim.SGD(alone.parameters(), lr=0.1, momentum=0.9)
    for _ in range(5):
        own = slice(4 * rank, 4 * rank + 4)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(data[own]), labels[own]).backward()
        optimizer.step()
        reference.zero_grad()
        torch.nn.functional.cross_entropy(alone(data.double()), labels).backward()
        reference.step()
    for one, other in zip(net.parameters(), alone.parameters()):
        if (one.full_tensor().double() - other).norm() > 1e-6 * other.norm():
            errors.append(f"fully_shard {tuple(other.shape)}")
    dist.destroy_process_group()
    return errors


class Network(torch.nn.Module):
    """One part is never used."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.used = torch.nn.Sequential(torch.nn.Linear(12, 40), torch.nn.BatchNorm1d(40), torch.nn.Tanh(),
                                        torch.nn.Linear(40, 4))
        self.unused = torch.nn.Linear(3, 5)

    def forward(self, x):
        return self.used(x)


def ddp():
    """Largest relative difference of parameters, after some updates by DistributedDataParallel, from
    float64 on one process."""
    dist.init_process_group("cohort")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(11)
    data = TensorDataset(torch.randn(60, 12), torch.randint(0, 4, (60,)))
    alone = Network().double()
    net = Network()
    if rank > 0:
        with torch.no_grad():
            net.used[0].weight.zero_()  # rank 0's values count
    net = DistributedDataParallel(net, find_unused_parameters=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    reference = torch.optim.SGD(alone.parameters(), lr=0.1, momentum=0.9)
    samplers = [DistributedSampler(data, size, one, seed=5) for one in range(size)]
    for epoch in range(3):
        for sampler in samplers:
            sampler.set_epoch(epoch)
        loaders = [DataLoader(data, batch_size=5, sampler=sampler) for sampler in samplers]
        for batches in zip(*loaders):
            optimizer.zero_grad()
            x, y = batches[rank]
            torch.nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
            reference.zero_grad()
            for each_x, each_y in batches:
                (torch.nn.functional.cross_entropy(alone(each_x.double()), each_y) / size).backward()
            reference.step()
    worst = 0.0
    for mine, expected in zip(net.module.parameters(), alone.parameters()):
        worst = max(worst, ((mine.double() - expected).norm() / expected.norm()).item())
    dist.destroy_process_group()
    return worst


def overlap():
    """An all_reduce is asked for, and is over once the last rank has come: who waits does not hold
    its thread, and takes no processor time."""
    dist.init_process_group("cohort")
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    if dist.get_rank() > 0:
        wait_for("asked")
        time.sleep(1)
        dist.all_reduce(tensor)
        dist.destroy_process_group()
        return None
    work = dist.all_reduce(tensor, async_op=True)
    facts = {"begun": work.is_completed()}
    seen = []
    work.get_future().then(lambda future: seen.append(future.value()[0][0].item()))
    work.get_future().then(lambda _: seen.append(work.wait()))
    nested = work.get_future().then(lambda _: dist.all_reduce(torch.ones(3)))
    (FOLDER / "asked").touch()
    begin = time.monotonic(), time.process_time()
    work.wait()
    facts["busy"] = (time.process_time() - begin[1]) / (time.monotonic() - begin[0])
    facts["nested"] = error_of(nested.wait)
    dist.destroy_process_group()
    return {**facts, "over": work.is_completed(), "sum": tensor[0].item(), "seen": seen}


def refused():
    """What each misuse says; afterwards all goes on."""
    dist.init_process_group("cohort")
    rank = dist.get_rank()
    embedding = torch.nn.Embedding(4, 2, sparse=True)
    embedding(torch.tensor([1])).sum().backward()
    notes = {
        "send": error_of(lambda: dist.send(torch.ones(3), (rank + 1) % dist.get_world_size())),
        "group": error_of(lambda: dist.new_group([0])) if rank == 0 else "",
        "sparse": error_of(lambda: dist.all_reduce(embedding.weight.grad)),
        "sizes": error_of(lambda: dist.all_reduce(torch.ones(100 + rank))),
        "shapes": error_of(lambda: dist.all_reduce(torch.ones(3 + rank, dtype=torch.int64))),
        "names": error_of(lambda: dist.all_reduce(torch.ones(3, dtype=torch.int64)) if rank == 0
                          else dist.all_gather_object([None] * 3, 1)),
    }
    child = os.fork()
    if child == 0:
        text = error_of(lambda: dist.all_reduce(torch.ones(3)))
        (FOLDER / f"forked{rank}").write_text(text, encoding="utf-8")
        sys.exit(0)
    os.waitpid(child, 0)
    notes["forked"] = (FOLDER / f"forked{rank}").read_text(encoding="utf-8")
    dist.destroy_process_group()
    return notes


def healthy():
    """Cases that end nothing, one group after the other."""
    return {case.__name__: case() for case in (collectives, ddp, sharded, overlap, refused)}


def killed():
    """Rank 2 dies while the others sum; each of them gets an error."""
    dist.init_process_group("cohort")
    rank = dist.get_rank()
    net = DistributedDataParallel(torch.nn.Linear(4, 4))

    def step():
        net(torch.ones(2, 4)).sum().backward()
    step()
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    notes = [error_of(lambda: [step() for _ in range(3)])]
    notes.append(error_of(lambda: dist.all_reduce(torch.ones(3))))
    notes.append(error_of(lambda: dist.all_gather_object([None] * 3, rank)))
    return notes


def killed_in_an_exchange():
    dist.init_process_group("cohort")
    dist.barrier()
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return [error_of(lambda: dist.broadcast(torch.ones(3), 1))]


def killed_in_anothers_broadcast():
    """The root lives, and is not rank 0."""
    dist.init_process_group("cohort")
    rank = dist.get_rank()
    dist.barrier()
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return [error_of(lambda: [dist.broadcast(torch.ones(3), 1) for _ in iter(int, 1)])]


def rank_0_is_killed():
    dist.init_process_group("cohort")
    dist.barrier()
    if dist.get_rank() == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(3))
    return "went on"


def late():
    """Rank 1 does not come."""
    dist.init_process_group("cohort", timeout=timedelta(seconds=4))
    dist.barrier()
    if dist.get_rank() == 1:
        time.sleep(60)
    dist.all_reduce(torch.ones(3))
    return "went on"


def raises():
    dist.init_process_group("cohort")
    dist.barrier()
    if dist.get_rank() == 1:
        raise KeyError("a mistake")
    dist.all_reduce(torch.ones(3))
    return "went on"


def exits():
    dist.init_process_group("cohort")
    dist.barrier()
    if dist.get_rank() == 1:
        sys.exit(3)
    dist.all_reduce(torch.ones(3))
    return "went on"


def exits_that_are_caught():
    dist.init_process_group("cohort")
    if dist.get_rank() == 1:
        try:
            sys.exit(3)
        except SystemExit:
            pass
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    return tensor[0].item()


def other_sizes():
    """Sums so different that their buffers differ."""
    dist.init_process_group("cohort", timeout=timedelta(seconds=4))
    for elements in (100, 5000):
        dist.all_reduce(torch.ones(elements))
    dist.all_reduce(torch.ones(100 if dist.get_rank() == 0 else 5000))
    return "went on"


def other_timeout():
    dist.init_process_group("cohort", timeout=timedelta(seconds=40))
    dist.destroy_process_group()
    dist.init_process_group("cohort", timeout=timedelta(seconds=40))
    dist.destroy_process_group()
    return error_of(lambda: dist.init_process_group("cohort"))


def other_places():
    os.environ["RANK"] = "7"
    return error_of(lambda: dist.init_process_group("cohort"))


def main():
    global FOLDER
    FOLDER = pathlib.Path(sys.argv[2])
    notes = globals()[sys.argv[1]]()
    rank = os.environ["OMPI_COMM_WORLD_RANK"]
    (FOLDER / f"{rank}.json").write_text(json.dumps(notes), encoding="utf-8")


if __name__ == "__main__":
    main()
