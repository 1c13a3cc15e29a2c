"""How this process was started."""

from __future__ import annotations

import importlib.abc
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from cohort import _cohort


def joined(start: Callable[[], Any]) -> Any:
    """What `start`, which starts MPI, returns. Processes that MPI does not join are each the whole
    world to themselves: they end with exit code 2, as the program's do."""
    try:
        return start()
    except _cohort.SeparateTasksError as error:
        if _cohort.launch_environment()["local_rank"] == 0:  # one of a host speaks
            print(error, file=sys.stderr, flush=True)
        else:
            time.sleep(1)  # the launcher ends all when the first one leaves
        sys.exit(2)


class _NoMpi(importlib.abc.MetaPathFinder):
    """mpi4py would abort the program in its first call."""

    def find_spec(self, name: str, _path: Any, _target: Any = None) -> NoReturn | None:
        if name == "mpi4py.MPI":
            raise ImportError("[mpi4py.MPI] the job has ended MPI in this process, and MPI cannot be started "
                              "again; import mpi4py.MPI before cohort.join: the job then uses MPI and leaves "
                              "it as it is", name=name)
        return None


def mpi_is_over() -> None:
    """A job has ended: where it has ended MPI, too, mpi4py says so when it is imported."""
    if _cohort.mpi_ended() and "mpi4py.MPI" not in sys.modules:
        sys.meta_path.insert(0, _NoMpi())
