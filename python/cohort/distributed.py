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

import atexit
import functools
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib import import_module
from typing import Any, NoReturn
from urllib.parse import parse_qsl, urlsplit

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from cohort import _cohort

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
_REFUSED = ("allgather_coalesced", "all_gather_single_coalesced", "all_to_all_single", "alltoall",
            "alltoall_base", "allreduce_coalesced", "allgather_into_tensor_coalesced",
            "gather_single", "merge_remote_group", "monitored_barrier", "new_window", "recv",
            "recv_anysource", "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced",
            "send", "split_group")


class _Work(dist.Work):
    """A collective that was asked for: wait() and get_future() raise what it has raised."""

    def __init__(self, run: Callable[[], list[torch.Tensor]]) -> None:
        super().__init__()
        self._run: Callable[[], list[torch.Tensor]] | None = run
        self._error: BaseException | None = None
        self._over = threading.Event()
        self._ended: torch.futures.Future = torch.futures.Future()
        # Only what a callback raises becomes an error for PyTorch's C++ code.
        self._future = self._ended.then(self._result)

    def _result(self, ended: torch.futures.Future) -> list[torch.Tensor]:
        if self._error is not None:
            raise RuntimeError(str(self._error))
        return ended.value()

    def run(self) -> None:
        tensors: list[torch.Tensor] = []
        try:
            with torch.no_grad():
                tensors = self._run()
        except Exception as error:  # the caller gets it
            self._error = error
        self._run = None
        self._over.set()  # before callbacks, which may wait
        self._ended.set_result(tensors)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """True. A finite timeout is one for this wait alone. Errors: those of the collective."""
        if not self._over.wait(timeout.total_seconds() if timeout > timedelta(0) else None):
            raise RuntimeError(f"[{_NAME}] the collective was not over within {timeout}")
        if self._error is not None:
            raise self._error
        return True

    def get_future(self) -> torch.futures.Future:
        return self._future

    def is_completed(self) -> bool:
        return self._over.is_set()

    def is_success(self) -> bool:
        return self._over.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> list[torch.Tensor]:
        self.wait()
        return self._future.wait()


class _Process:
    """This process among all ranks, from the first init_process_group to its exit."""

    def __init__(self, timeout: timedelta) -> None:
        self.timeout = timeout
        self.core = _cohort.Collectives(timeout.total_seconds())
        self.rank: int = self.core.rank
        self.size: int = self.core.size
        self._pid = os.getpid()
        self._works: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="cohort-collectives", daemon=True)
        self._thread.start()
        self._exit: object = None  # what the program gave sys.exit, for _leave
        self._sys_exit, sys.exit = sys.exit, self._note_exit
        atexit.register(self._leave)

    def _serve(self) -> None:
        while (work := self._works.get()) is not None:
            work.run()
            del work  # and its tensors

    def start(self, run: Callable[[], list[torch.Tensor]]) -> _Work:
        if os.getpid() != self._pid:
            raise RuntimeError(f"[{_NAME}] this process was forked after init_process_group; use "
                               "the group in the process that made it (data loader workers must not)")
        if threading.current_thread() is self._thread:
            raise NotImplementedError(
                f"[{_NAME}] a collective cannot begin in a callback of another one's future; begin it after "
                'wait(), or leave the hook to a second group, torch.distributed.new_group(backend="gloo")')
        self._exit = None  # the program caught it and goes on
        work = _Work(run)
        self._works.put(work)
        return work

    def store(self, timeout: timedelta) -> dist.Store:
        """A store on rank 0 for all ranks. Collective, before there are works."""
        if self.rank > 0:
            place = bytes(self.core.exchange("store", [], [0])[0]).decode()
            host, port = place.rsplit(":", 1)
            return dist.TCPStore(host, int(port), self.size, False, timeout)
        host = self.core.host if self.core.nodes > 1 else "127.0.0.1"
        store = dist.TCPStore(host, 0, self.size, True, timeout, wait_for_workers=False)
        place = torch.tensor(list(f"{host}:{store.port}".encode()), dtype=torch.uint8).numpy()
        self.core.exchange("store", [(rank, place) for rank in range(1, self.size)], [])
        return store

    def _note_exit(self, status: object = None, /) -> NoReturn:
        if threading.current_thread() is threading.main_thread():
            self._exit = status
        self._sys_exit(status)

    def _leave(self) -> None:
        """At the program's exit, with or without destroy_process_group."""
        if os.getpid() != self._pid:
            return
        failure = getattr(sys, "last_value", None)
        if failure is not None and not self.core.lost_any:
            self.core.abort(1, f"the program raised {type(failure).__name__}: {failure}")
        if self._exit and not self.core.lost_any:
            code = self._exit & 0xFF if isinstance(self._exit, int) else 1
            self.core.abort(code or 1, f"the program ended by sys.exit({self._exit!r})")
        self._works.put(None)
        self._thread.join()
        self.core.finish()


class ProcessGroup(dist.ProcessGroup):
    """All ranks, as torch.distributed calls them. Tensors are on the CPU and dense."""

    def __init__(self, process: _Process) -> None:
        super().__init__(process.rank, process.size)
        self._process = process
        self._others = [rank for rank in range(process.size) if rank != process.rank]

    def getBackendName(self) -> str:
        return _NAME

    def name(self) -> str:
        return _NAME

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

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> _Work:
        op = opts.reduceOp if opts is not None else ReduceOp.SUM

        def run() -> list[torch.Tensor]:
            for tensor in tensors:
                self._all_reduce(tensor, op)
            return tensors
        return self._process.start(run)

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> _Work:
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
                  opts: Any = None) -> _Work:
        del opts

        def run() -> list[torch.Tensor]:
            for into, tensor in zip(outputs, inputs):
                for output, part in zip(into, self._all_gather("all_gather", tensor)):
                    output.copy_(part)
            return [output for into in outputs for output in into]
        return self._process.start(run)

    def all_gather_single(self, output: torch.Tensor, tensor: torch.Tensor,
                          opts: Any = None) -> _Work:
        return self.allgather([_parts(output, self.size(), tensor)], [tensor], opts)

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> _Work:
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
                       opts: Any = None) -> _Work:
        op = opts.reduceOp if opts is not None else ReduceOp.SUM

        def run() -> list[torch.Tensor]:
            for output, parts in zip(outputs, inputs):
                sent = {rank: parts[rank] for rank in self._others}
                output.copy_(_reduced("reduce_scatter", self._from_all(
                    "reduce_scatter", sent, parts[self.rank()]), op))
            return outputs
        return self._process.start(run)

    def reduce_scatter_single(self, output: torch.Tensor, tensor: torch.Tensor,
                              opts: Any = None) -> _Work:
        return self.reduce_scatter([output], [_parts(tensor, self.size(), output)], opts)

    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor],
               opts: Any) -> _Work:
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
                opts: Any) -> _Work:
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

    def barrier(self, opts: Any = None) -> _Work:
        del opts
        return self.allreduce([torch.zeros(1)])

    # Names of earlier PyTorch.
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(*_arguments: Any, **_options: Any) -> Any:
        raise NotImplementedError(
            f"[{name}] is not among the collectives of the backend cohort: all_reduce, broadcast, "
            "reduce, all_gather, gather, scatter, reduce_scatter and barrier, over all ranks; try a "
            'second group for it, torch.distributed.new_group(backend="gloo")')
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


def _reduced(name: str, parts: list[torch.Tensor], op: Any) -> torch.Tensor:
    for known, reduce in _REDUCTIONS:
        if op == known:
            return reduce(torch.stack(parts))
    raise NotImplementedError(f"[{name}] the backend cohort cannot combine by {op}; expected SUM, "
                              "AVG, PRODUCT, MIN, MAX, BAND, BOR or BXOR")


_process: _Process | None = None
# By scheme; PyTorch refuses to register env:// anew.
_rendezvous = import_module("torch.distributed.rendezvous")._rendezvous_handlers
_pytorchs_environment = _rendezvous["env"]


def _joined(timeout: timedelta) -> _Process:
    """This process among the ranks of MPI, started by the first call. Collective."""
    global _process
    if _process is None:
        _process = _Process(timeout)
    if timeout != _process.timeout:
        raise ValueError(f"[init_process_group] timeout {timeout}; the process's first group has "
                         f"{_process.timeout}, and so must all others")
    return _process


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
    """What env:// means: MASTER_ADDR and MASTER_PORT where they are set, else the ranks of MPI, which
    need neither."""
    launch = _cohort.launch_environment()
    if launch["launcher"] == "none" or "MASTER_ADDR" in os.environ:
        yield from _pytorchs_environment(url, timeout=timeout, **more)
        return
    told = {"rank": os.environ["RANK"], "world_size": os.environ["WORLD_SIZE"],
            **dict(parse_qsl(urlsplit(url).query))}
    _check_places(int(told["rank"]), int(told["world_size"]))
    process = _joined(timeout)
    yield process.store(timeout), process.rank, process.size


def _create(_store: dist.Store, rank: int, size: int, timeout: timedelta) -> ProcessGroup:
    if dist.is_initialized():
        raise NotImplementedError(
            "[new_group] the backend cohort has one group, of all ranks; try "
            'torch.distributed.new_group(ranks, backend="gloo")')
    _check_places(rank, size)
    return ProcessGroup(_joined(timeout))


def _register() -> None:
    launch = _cohort.launch_environment()
    if launch["launcher"] != "none":  # what scripts for torchrun look for
        for name, value in (("RANK", launch["rank"]), ("WORLD_SIZE", launch["size"]),
                            ("LOCAL_RANK", launch["local_rank"])):
            os.environ.setdefault(name, str(value))
    _rendezvous["env"] = _environment
    dist.Backend.register_backend(_NAME, _create, devices=["cpu"])


_register()
