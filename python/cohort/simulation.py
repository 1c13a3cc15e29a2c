"""Virtual clusters."""

from __future__ import annotations

import os
import sys
from typing import Any

from cohort import _cohort
from cohort.options import arguments
from cohort.results import Result


def simulate(**options: Any) -> Result:
    """Trains on a virtual cluster, as `cohort simulate` does: the same numbers, the same digest.

    options: those of the command (docs/options.md), with underscores for dashes: mode="adaptive",
    workers=8, pattern="cpu-one:2", no_train=True, out="runs/a" ...
    Errors: ValueError with the program's text for a wrong option, OSError for a file.
    Ctrl-C ends it with KeyboardInterrupt; nothing is written then.
    """
    return Result(**_cohort.simulate(arguments(options)))


def sweep(experiment: str | os.PathLike, out: str | os.PathLike, jobs: int = 0,
          **options: Any) -> Result:
    """Simulates the runs of an experiment (TOML, docs/sweeps.md) that `out` does not hold yet.

    jobs: runs at a time, each a process on one core; 0: one per core
    options: of `cohort simulate`, in place of those in [job]
    Errors: as simulate; RuntimeError with the last lines of a run that failed. Ctrl-C ends the runs;
    the same call goes on with the rest.
    """
    def text(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    overrides = [f"{name.replace('_', '-')}={text(value)}" for name, value in options.items()]
    program = [sys.executable, "-m", "cohort"]
    return Result(**_cohort.sweep(os.fspath(experiment), os.fspath(out), jobs, overrides, program))
