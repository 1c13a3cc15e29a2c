"""The backend "cohort" of torch.distributed.

    import cohort.distributed
    torch.distributed.init_process_group("cohort")     # under mpirun -n 4, or srun --mpi=pmix

Importing this registers the backend; a script for DistributedDataParallel runs as it is. Rank and world
size are those of MPI, which init_process_group starts. Every process has one thread that runs its
collectives in the order in which they were asked for, beside the backward pass; who waits sleeps.

Sums of float32 go through Cohort's ring, in one host through shared memory; the other collectives send
each rank what it needs and combine it there, in the order of ranks, whatever the type of numbers.
A lost rank is a RuntimeError that names it in every collective from then on. The loss of rank 0 ends the
other processes, exit code 4; so does a rank that does not come within the `timeout` of the first group.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from cohort import _cohort
from cohort.collectives import Process, Work, process_of
from cohort.launcher import joined

__all__ = ["ProcessGroup"]

_NAME = "cohort"

# Of parts [ranks, ...], one per rank; sums of integers keep their type.
_REDUCTIONS: list[tuple[Any, Callable[[torch.Tensor], torch.Tensor]]] = [
    (ReduceOp.SUM, lambda parts: parts.sum(0, dtype=parts.dtype)),
    (ReduceOp.AVG, lambda parts: parts.sum(0, dtype=parts.dtype) / len(parts)),
    (ReduceOp.PRODUCT, lambda parts: parts.prod(0, dtype=parts.dtype)),
    (ReduceOp.MIN, lambda parts: parts.amin(0)),
    (ReduceOp.MAX, lambda parts: parts.amax(0)),
    (ReduceOp.BAND, lambda parts: functools.reduce(torch.bitwise_and, parts)),
    (ReduceOp.BOR, lambda parts: functools.reduce(torch.bitwise_or, parts)),
    (ReduceOp.BXOR, lambda parts: functools.reduce(torch.bitwise_xor, parts)),
]

# Collectives of torch.distributed that this backend leaves to others.
_REFUSED = ("allgather_coalesced", "gather_single", "merge_remote_group", "monitored_barrier",
            "new_window", "recv", "recv_anysource", "send", "split_group")


class ProcessGroup(dist.ProcessGroup):
    """All ranks, as torch.distributed calls them. Tensors are on the CPU and dense."""

    def __init__(self, process: Process) -> None:
        super().__init__(process.rank, process.size)
        self._process = process
        self._name = self._description = ""
        self._others = [rank for rank in range(process.size) if rank != process.rank]

    def getBackendName(self) -> str:
        return _NAME

    def name(self) -> str:
        return _NAME

    # What device meshes, functional collectives and DTensor know the group by.

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupDesc(self) -> str:
        return self._description

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    def shutdown(self) -> None:
        """Waits for the collectives that were asked for. MPI ends with the process, so that a new group can be
        made."""
        self._process.start(list).wait()

    def abort(self) -> None:
        """See shutdown."""

    # What a tensor is on its way.

    def _values(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """[n], contiguous; the tensor's own memory where that is so already."""
        if tensor.device.type != "cpu" or tensor.layout != torch.strided:
            raise NotImplementedError(
                f"[{name}] the backend cohort takes dense tensors on the CPU, got "
                f"{tensor.layout} on {tensor.device}; try tensor.cpu(), Embedding(sparse=False), or "
                "another backend")
        return tensor.detach().contiguous().view(-1)

    def _bytes(self, name: str, tensor: torch.Tensor) -> Any:
        return self._values(name, tensor).view(torch.uint8).numpy()

    def _tensor(self, name: str, rank: int, received: Any, like: torch.Tensor) -> torch.Tensor:
        """What `rank` has sent, as a tensor."""
        expected = like.numel() * like.element_size()
        if len(received) != expected:
            raise ValueError(f"[{name}] rank {rank} has sent {len(received)} bytes; expected "
                             f"{expected}; all ranks must call it with the same shapes and types")
        if expected == 0:
            return torch.empty_like(like)
        return torch.from_numpy(received).view(like.dtype).view(like.shape)

    # One call each of a collective, on the thread of the process.

    def _swap(self, name: str, parts: dict[int, torch.Tensor], sources: list[int],
              like: torch.Tensor) -> list[torch.Tensor]:
        """Sends parts[rank] to each rank and gives what `sources` have sent, shaped as `like`."""
        outgoing = [(rank, self._bytes(name, part)) for rank, part in parts.items()]
        received = self._process.core.exchange(name, outgoing, sources)
        return [self._tensor(name, rank, each, like) for rank, each in zip(sources, received)]

    def _from_all(self, name: str, parts: dict[int, torch.Tensor],
                  own: torch.Tensor) -> list[torch.Tensor]:
        """By rank: what each has sent, and `own`."""
        tensors = self._swap(name, parts, self._others, own)
        tensors.insert(self.rank(), own)
        return tensors

    def _all_gather(self, name: str, tensor: torch.Tensor) -> list[torch.Tensor]:
        return self._from_all(name, dict.fromkeys(self._others, tensor), tensor)

    def _all_reduce(self, tensor: torch.Tensor, op: Any) -> None:
        summed = op == ReduceOp.SUM or op == ReduceOp.AVG  # not `in`: the words never equal an `op`
        if tensor.dtype != torch.float32 or not summed:
            tensor.copy_(_reduced("all_reduce", self._all_gather("all_reduce", tensor), op))
            return
        values = self._values("all_reduce", tensor)
        self._process.core.sum(values.numpy())
        if op == ReduceOp.AVG:
            values /= self.size()
        if values.data_ptr() != tensor.data_ptr():
            tensor.copy_(values.view(tensor.shape))

    # The collectives, as PyTorch names them.

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> Work:
        op = opts.reduceOp if opts is not None else ReduceOp.SUM

        def run() -> list[torch.Tensor]:
            for tensor in tensors:
                self._all_reduce(tensor, op)
            return tensors
        return self._process.start(run)

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> Work:
        root = opts.rootRank

        def run() -> list[torch.Tensor]:
            for tensor in tensors:
                if self.rank() == root:
                    self._swap("broadcast", dict.fromkeys(self._others, tensor), [], tensor)
                else:
                    tensor.copy_(self._swap("broadcast", {}, [root], tensor)[0])
            return tensors
        return self._process.start(run)

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor],
                  opts: Any = None) -> Work:
        del opts

        def run() -> list[torch.Tensor]:
            for into, tensor in zip(outputs, inputs):
                for output, part in zip(into, self._all_gather("all_gather", tensor)):
                    output.copy_(part)
            return [output for into in outputs for output in into]
        return self._process.start(run)

    def all_gather_single(self, output: torch.Tensor, tensor: torch.Tensor,
                          opts: Any = None) -> Work:
        return self.allgather([_parts(output, self.size(), tensor)], [tensor], opts)

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> Work:
        root, op = opts.rootRank, opts.reduceOp

        def run() -> list[torch.Tensor]:
            for tensor in tensors:
                if self.rank() == root:
                    tensor.copy_(_reduced("reduce", self._from_all("reduce", {}, tensor), op))
                else:
                    self._swap("reduce", {root: tensor}, [], tensor)
            return tensors
        return self._process.start(run)

    def reduce_scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]],
                       opts: Any = None) -> Work:
        op = opts.reduceOp if opts is not None else ReduceOp.SUM

        def run() -> list[torch.Tensor]:
            for output, parts in zip(outputs, inputs):
                sent = {rank: parts[rank] for rank in self._others}
                output.copy_(_reduced("reduce_scatter", self._from_all(
                    "reduce_scatter", sent, parts[self.rank()]), op))
            return outputs
        return self._process.start(run)

    def reduce_scatter_single(self, output: torch.Tensor, tensor: torch.Tensor,
                              opts: Any = None) -> Work:
        return self.reduce_scatter([output], [_parts(tensor, self.size(), output)], opts)

    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor],
               opts: Any) -> Work:
        root = opts.rootRank

        def run() -> list[torch.Tensor]:
            for i, tensor in enumerate(inputs):
                if self.rank() != root:
                    self._swap("gather", {root: tensor}, [], tensor)
                    continue
                for output, part in zip(outputs[i], self._from_all("gather", {}, tensor)):
                    output.copy_(part)
            return [output for into in outputs for output in into]
        return self._process.start(run)

    def scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]],
                opts: Any) -> Work:
        root = opts.rootRank

        def run() -> list[torch.Tensor]:
            for i, output in enumerate(outputs):
                if self.rank() == root:
                    self._swap("scatter", {rank: inputs[i][rank] for rank in self._others}, [], output)
                    output.copy_(inputs[i][root])
                else:
                    output.copy_(self._swap("scatter", {}, [root], output)[0])
            return outputs
        return self._process.start(run)

    def alltoall(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor],
                 opts: Any = None) -> Work:
        del opts

        def run() -> list[torch.Tensor]:
            sent = [(rank, self._bytes("all_to_all", inputs[rank])) for rank in self._others]
            received = self._process.core.exchange("all_to_all", sent, self._others)
            for rank, each in zip(self._others, received):
                outputs[rank].copy_(self._tensor("all_to_all", rank, each, outputs[rank]))
            outputs[self.rank()].copy_(inputs[self.rank()])
            return outputs
        return self._process.start(run)

    def all_to_all_single(self, output: torch.Tensor, tensor: torch.Tensor,
                          output_rows: list[int], rows: list[int], opts: Any = None) -> Work:
        """rows: for each rank, of the first axis; none: the same for all"""
        return self.alltoall(_rows(output, output_rows, self.size()),
                             _rows(tensor, rows, self.size()), opts)

    def barrier(self, opts: Any = None) -> Work:
        del opts
        return self.allreduce([torch.zeros(1)])

    # Of several tensors at once: what functional collectives, and DTensor with them, call.

    allreduce_coalesced = allreduce

    def all_gather_single_coalesced(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor],
                                    opts: Any = None) -> Work:
        return self.allgather([_parts(output, self.size(), tensor)
                               for output, tensor in zip(outputs, inputs)], inputs, opts)

    def reduce_scatter_single_coalesced(self, outputs: list[torch.Tensor],
                                        inputs: list[torch.Tensor], opts: Any = None) -> Work:
        return self.reduce_scatter(outputs, [_parts(tensor, self.size(), output)
                                             for output, tensor in zip(outputs, inputs)], opts)

    # Names of earlier PyTorch.
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    alltoall_base = all_to_all_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(*_arguments: Any, **_options: Any) -> Any:
        raise NotImplementedError(
            f"[{name}] is not among the collectives of the backend cohort: all_reduce, broadcast, "
            "reduce, all_gather, gather, scatter, reduce_scatter, all_to_all and barrier, over all "
            'ranks; try a second group for it, torch.distributed.new_group(backend="gloo")')
    return refuse


for _method in _REFUSED:
    setattr(ProcessGroup, _method, _refusal(_method))


def _parts(whole: torch.Tensor, ranks: int, part: torch.Tensor) -> list[torch.Tensor]:
    """Views of `whole`, one per rank, each shaped as `part`."""
    if whole.numel() != ranks * part.numel() or not whole.is_contiguous():
        raise ValueError(f"a contiguous tensor of {ranks} times {tuple(part.shape)} is needed, got "
                         f"{tuple(whole.shape)}")
    return [piece.view(part.shape) for piece in whole.view(-1).split(part.numel())] \
        if part.numel() else [whole.view(part.shape)] * ranks


def _rows(whole: torch.Tensor, rows: list[int], ranks: int) -> list[torch.Tensor]:
    """Views of `whole`, one per rank, cut along the first axis."""
    if not rows and len(whole) % ranks != 0:
        raise ValueError(f"[all_to_all] {len(whole)} rows cannot be divided among {ranks} ranks")
    return list(whole.split(rows or len(whole) // ranks)) if len(whole) else [whole] * ranks


def _reduced(name: str, parts: list[torch.Tensor], op: Any) -> torch.Tensor:
    for known, reduce in _REDUCTIONS:
        if op == known:
            return reduce(torch.stack(parts))
    raise NotImplementedError(f"[{name}] the backend cohort cannot combine by {op}; expected SUM, "
                              "AVG, PRODUCT, MIN, MAX, BAND, BOR or BXOR")


# By scheme; PyTorch refuses to register env:// anew.
_rendezvous = import_module("torch.distributed.rendezvous")._rendezvous_handlers
_pytorchs_environment = _rendezvous["env"]


def _check_places(rank: int, size: int) -> None:
    launch = _cohort.launch_environment()
    if (rank, size) != (launch["rank"], launch["size"]):
        raise ValueError(
            f"[init_process_group] this process is told to be rank {rank} of {size} (RANK and "
            f"WORLD_SIZE, or arguments), but the MPI launcher ({launch['launcher']}) made it rank "
            f"{launch['rank']} of {launch['size']}; start the ranks with mpirun or srun "
            "--mpi=pmix, and leave RANK and WORLD_SIZE unset")


def _environment(url: str, timeout: timedelta = dist.default_pg_timeout,
                 **more: Any) -> Iterator[tuple[dist.Store, int, int]]:
    """What env:// means: MASTER_ADDR and MASTER_PORT where all ranks have the same, else the ranks of
    MPI, which need neither. Frameworks that know nothing of the launcher draw a port in each process."""
    launch = _cohort.launch_environment()
    if launch["launcher"] == "none":
        yield from _pytorchs_environment(url, timeout=timeout, **more)
        return
    told = {"rank": os.environ["RANK"], "world_size": os.environ["WORLD_SIZE"],
            **dict(parse_qsl(urlsplit(url).query))}
    _check_places(int(told["rank"]), int(told["world_size"]))
    process = process_of(timeout)
    places = process.places(":".join(filter(None, map(os.environ.get, ("MASTER_ADDR", "MASTER_PORT")))))
    other = next((rank for rank, place in enumerate(places) if place != places[0]), None)
    if places[0] and other is None:
        yield from _pytorchs_environment(url, timeout=timeout, **more)
        return
    if other is not None and process.rank == 0:
        print(f"[init_process_group] MASTER_ADDR and MASTER_PORT are {places[0] or 'not set'} on rank 0, "
              f"{places[other] or 'not set'} on rank {other}: MPI, which started the ranks, brings them "
              "together instead", file=sys.stderr, flush=True)
    yield process.store(timeout), process.rank, process.size


def _create(_store: dist.Store, rank: int, size: int, timeout: timedelta) -> ProcessGroup:
    joined(_cohort.check_one_world)
    if dist.is_initialized():
        raise NotImplementedError(
            "[new_group] the backend cohort has one group, of all ranks; try "
            'torch.distributed.new_group(ranks, backend="gloo")')
    _check_places(rank, size)
    return ProcessGroup(process_of(timeout))


def _register() -> None:
    launch = _cohort.launch_environment()
    if launch["launcher"] != "none":  # what scripts for torchrun look for
        for name, value in (("RANK", launch["rank"]), ("WORLD_SIZE", launch["size"]),
                            ("LOCAL_RANK", launch["local_rank"])):
            os.environ.setdefault(name, str(value))
    _rendezvous["env"] = _environment
    dist.Backend.register_backend(_NAME, _create, devices=["cpu"])


_register()
