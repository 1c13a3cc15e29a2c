"""The process of a rank among those of the backend "cohort" (cohort.distributed), and the collectives that
it runs on a thread of its own."""

from __future__ import annotations

import atexit
import os
import queue
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import NoReturn

import torch
import torch.distributed as dist

from cohort import _cohort
from cohort.launcher import joined


class Work(dist.Work):
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
            raise RuntimeError(f"[cohort] the collective was not over within {timeout}")
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


class Process:
    """This process among all ranks, from the first init_process_group to its exit."""

    def __init__(self, timeout: timedelta) -> None:
        self.timeout = timeout
        self.core = joined(lambda: _cohort.Collectives(timeout.total_seconds()))
        self.rank: int = self.core.rank
        self.size: int = self.core.size
        self._pid = os.getpid()
        self._works: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="cohort-collectives", daemon=True)
        self._thread.start()
        self._exit: object = None  # what the program gave sys.exit, for _leave
        self._sys_exit, sys.exit = sys.exit, self._note_exit
        atexit.register(self._leave)

    def _serve(self) -> None:
        while (work := self._works.get()) is not None:
            work.run()
            del work  # and its tensors

    def start(self, run: Callable[[], list[torch.Tensor]]) -> Work:
        if os.getpid() != self._pid:
            raise RuntimeError("[cohort] this process was forked after init_process_group; use "
                               "the group in the process that made it (data loader workers must not)")
        if threading.current_thread() is self._thread:
            raise NotImplementedError(
                "[cohort] a collective cannot begin in a callback of another one's future; begin it after "
                'wait(), or leave the hook to a second group, torch.distributed.new_group(backend="gloo")')
        self._exit = None  # the program caught it and goes on
        work = Work(run)
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

    def places(self, own: str) -> list[str]:
        """What every rank says. Collective, before there are works."""
        sent = torch.tensor(list(own.encode()), dtype=torch.uint8).numpy()
        others = [rank for rank in range(self.size) if rank != self.rank]
        received = self.core.exchange("places", [(rank, sent) for rank in others], others)
        all_of_them = [bytes(each).decode() for each in received]
        all_of_them.insert(self.rank, own)
        return all_of_them

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


_process: Process | None = None


def process_of(timeout: timedelta) -> Process:
    """This process among the ranks of MPI, started by the first call. Collective."""
    global _process
    if _process is None:
        _process = Process(timeout)
    if timeout != _process.timeout:
        raise ValueError(f"[init_process_group] timeout {timeout}; the process's first group has "
                         f"{_process.timeout}, and so must all others")
    return _process
