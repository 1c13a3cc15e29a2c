"""Training jobs whose steps a Python program computes."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy

from cohort import _cohort
from cohort.launcher import joined, mpi_is_over
from cohort.options import arguments


class JobError(RuntimeError):
    """The job cannot go on as it is used; the message says what to do."""


@dataclasses.dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent, run by the servers or by the members of a ring; weight decay as
    torch.optim.SGD has it, on all parameters."""

    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 0.0
    nesterov: bool = False

    def options(self) -> dict[str, Any]:
        return {"optimizer": "sgd", **dataclasses.asdict(self)}


@dataclasses.dataclass(frozen=True)
class AdamW:
    """AdamW (Loshchilov & Hutter 2019), on all parameters."""

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.01

    def options(self) -> dict[str, Any]:
        return {"optimizer": "adamw", **dataclasses.asdict(self)}


class Network(Protocol):
    """What a framework tells the job of a network, and does for it (cohort.torch)."""

    name: str
    parameters: list[tuple[str, numpy.ndarray]]
    state: list[tuple[str, numpy.ndarray]]
    fixed: str  # checksum of values that do not travel: the same on all ranks
    test_samples: int

    def begin(self, model: Any) -> None:
        """A step begins, with the parameters of `model`."""

    def end(self, loss: float) -> None:
        """It is over: what has not been announced is final."""

    def evaluate(self, model: Any, ids: numpy.ndarray) -> tuple[float, float]:
        """(sum of losses, correct ones) of test samples."""

    def detach(self) -> None:
        """The memory of the job goes away."""

    def trained(self, tensors: list[numpy.ndarray]) -> None:
        """The job is over: its final parameters, then its state, each [n]; on every rank."""


class Lease:
    """A mini-batch that this worker is to compute: `ids` [n], samples of the training set; `epoch`,
    how often the set was dealt out before."""

    def __init__(self, job: Job, ids: numpy.ndarray, epoch: int) -> None:
        self._job = job
        self.ids = ids
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.ids)

    def done(self, loss: Any, correct: float = 0) -> None:
        """Backward is over: gives the gradient back.

        loss: mean over the lease, a number or a tensor of one element. One that is not finite gives
        the samples back. correct: how many of them were right, for the accuracy in the logs.
        Errors: ValueError for a loss that is no single number; JobError when called twice.
        """
        self._job.finish_lease(self, _number_of(loss), float(correct))


def _number_of(loss: Any) -> float:
    try:
        return float(loss.detach()) if hasattr(loss, "detach") else float(loss)
    except (TypeError, ValueError, RuntimeError) as error:
        shape = tuple(getattr(loss, "shape", ()))
        raise ValueError(f"[lease.done] the loss is not a scalar; expected the mean over the lease, "
                         f"one number, got {type(loss).__name__} of shape {shape}; "
                         f"try loss.mean()") from error


class Job:
    """This rank's part of a training job; see join. Iterating gives the leases of a worker; on
    servers the loop's body never runs.

    rank, size     of this process, among all
    is_worker      else a server
    workers        of the job
    local_rank     among the workers, or the servers, of this host: the number of its GPU
    threads        with which this rank is to compute
    After the loop, on rank 0: summary, the numbers of the run as the last line of metrics.jsonl has
    them; stopped, somebody has asked for its end.
    """

    def __init__(self, train_samples: int, options: dict[str, Any]) -> None:
        if train_samples < 1:
            raise ValueError(f"[join] train_samples must be at least 1; got {train_samples}")
        for name in options:
            if (instead := _INSTEAD.get(name.replace("-", "_"))) is not None:
                raise ValueError(f"[join] {name} is no option of a job that a program computes; "
                                 f"expected {instead}")
        self._train_samples = train_samples
        self._process = os.getpid()
        self._network: Network | None = None
        self._more: dict[str, Any] = {}
        self._lease: Lease | None = None
        self._state = "new"
        self._handlers: dict[int, Any] = {}
        self.summary: dict[str, Any] = {}
        self.stopped = False
        self._signalled = False
        self._core = _raised_in_order(lambda: joined(lambda: _cohort.Job(arguments(options))))
        self.rank: int = self._core.rank
        self.size: int = self._core.size
        self.is_worker: bool = self._core.is_worker
        self.workers: int = self._core.workers
        self.local_rank: int = self._core.local_rank
        self.threads: int = self._core.threads

    @property
    def core(self) -> Any:
        """The module's part. Errors: JobError in a process that was forked since."""
        if os.getpid() != self._process:
            raise JobError("[job] this process was forked after the job had started MPI; use the "
                           "job in the process that joined it (data loader workers must not)")
        return self._core

    def train(self, network: Network, optimizer: SGD | AdamW) -> None:
        """What the job trains. Once, before the loop. Errors: JobError."""
        if self._state != "new" or self._network is not None:
            raise JobError("[attach] the job trains one network, attached before its loop")
        self._network = network
        self._more = optimizer.options()

    def __enter__(self) -> Job:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            try:
                self._handlers[number] = signal.signal(number, self._stop)
            except ValueError:  # not the main thread, which alone gets signals
                break
        return self

    def _stop(self, number: int, _frame: Any) -> None:
        """The first request ends the job with a checkpoint, a second Ctrl-C the process. Forked
        processes (of a data loader) end as the program does, but for TERM, by which they are ended."""
        if os.getpid() != self._process:
            if number == signal.SIGTERM:
                signal.signal(number, self._handlers[number] or signal.SIG_DFL)
                os.kill(os.getpid(), number)
            return
        if self._signalled and number == signal.SIGINT:
            os._exit(130)
        self._signalled = True
        self._core.request_stop()

    def stop(self) -> None:
        """Ends the job with a checkpoint: it can be resumed."""
        self.core.request_stop()

    def __iter__(self) -> Iterator[Lease]:
        core = self.core
        if self._network is None:
            raise JobError("[job] nothing to train; try cohort.torch.attach(net, job, "
                           "cohort.SGD(...)) before the loop")
        if self._state != "new":
            raise JobError("[job] its loop runs once")
        network = self._network
        self._state = "over"
        _raised_in_order(lambda: core.start(network.name, network.parameters, network.state,
                                            network.fixed, self._train_samples,
                                            network.test_samples, arguments(self._more)))
        self._state = "running"
        while (step := core.next()) is not None:
            model, trains, ids, epoch = step
            if not trains:
                core.finish_step(*network.evaluate(model, ids))
                continue
            network.begin(model)
            self._lease = Lease(self, ids, epoch)
            yield self._lease
            if self._lease is not None:
                raise JobError("[job] lease.done(loss) was not called in the loop's body; call it "
                               "after backward, with float('nan') to give the samples back")
        self._finish()

    def finish_lease(self, lease: Lease, loss: float, correct: float) -> None:
        if lease is not self._lease:
            raise JobError("[lease.done] this lease is over; call it once, in the loop's body")
        self._network.end(loss)
        self._lease = None
        self.core.finish_step(loss * len(lease), correct)

    def _finish(self) -> None:
        self._state = "over"
        if self._network is not None:
            self._network.detach()
        text = _raised_in_order(self._core.finish)
        mpi_is_over()
        if self._network is not None and (tensors := self._core.final_tensors()):
            self._network.trained(tensors)
        self.summary = json.loads(text) if text else {}
        self.stopped = self._signalled or self._core.stopped
        if not self.summary.get("outputs_saved", True):
            raise OSError("[job] some results could not be saved, see the log above; expected an "
                          "out folder with room that can be written")

    def __exit__(self, kind: Any, failure: BaseException | None, _trace: Any) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if os.getpid() != self._process:
            return
        if self._state != "over" and failure is not None:
            traceback.print_exception(failure)
            sys.stderr.flush()
            self._core.abort(f"the program raised {kind.__name__}: {failure}")
        if self._state == "new":
            left = "left without training; try: for lease in job, on every rank, servers too"
            if self.size > 1:
                self._core.abort(left)
            self._finish()
            raise JobError(f"[job] {left}")
        if self._state == "running":  # the program has left its loop
            self._core.request_stop()
            self._core.leave()
            self._finish()
        if self._signalled and failure is None:
            sys.exit(75)


_OPTIMIZER = "cohort.SGD(...) or cohort.AdamW(...), handed to cohort.torch.attach"
# Options of `cohort train` that a job does not take, and what to use in their place.
_INSTEAD = {
    **dict.fromkeys(("lr", "optimizer", "momentum", "nesterov", "weight_decay", "beta1", "beta2",
                     "epsilon"), _OPTIMIZER),
    "data": "train_samples, and the samples of lease.ids in the loop",
    "model": "a module, handed to cohort.torch.attach",
    "init": "a module with these values, for instance of cohort.torch.load(net, file)",
    "precision": "float32, or torch.autocast in the loop's body",
    "augment": "samples that the loop's body has transformed",
    "dry_run": "none: the program starts the training",
    "dump_config": "none: out holds the options of a run",
}


def _raised_in_order(call: Callable[[], Any]) -> Any:
    """All ranks fail together, and one of them knows why: the others leave silently."""
    try:
        return call()
    except (RuntimeError, ValueError, OSError) as error:
        if str(error):
            raise
        sys.exit(1)


def join(*, train_samples: int, **options: Any) -> Job:
    """Joins the job of the ranks that mpirun (or srun) started: all of them call this, with the same
    arguments. Without a launcher, a job of one worker.

        with cohort.join(arch="servers", servers=1, mode="adaptive", out="runs/mine",
                         train_samples=60_000, epochs=10, batch=64) as job:
            net = cohort.torch.attach(net, job, cohort.SGD(lr=0.1, momentum=0.9))
            for lease in job:
                x, y = data[lease.ids]
                loss = loss_fn(net(x), y)
                loss.backward()
                lease.done(loss)

    train_samples: size of the training set; leases hold ids from 0 to it
    options: those of `cohort train` (docs/options.md) with underscores for dashes: arch, servers,
             mode, out, samples or epochs, batch, resume, inject, target_accuracy ... but for those
             of the network, its data and its optimizer, which the program gives
    Errors: ValueError for a wrong option, RuntimeError when MPI or a rank fails; an exception in the
    loop ends the job on all ranks. Processes that MPI does not join, each of which would take itself
    for the whole job, end with exit code 2. Ctrl-C and TERM write a checkpoint and end the program with exit
    code 75: resume=True goes on. MPI that mpi4py has started is used, if it allows threads.
    """
    return Job(train_samples, options)
