"""Results of virtual and of real runs as tables."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from typing import Any

import numpy

from cohort import _cohort

Table = dict[str, numpy.ndarray]


@dataclasses.dataclass(frozen=True)
class Result:
    """What a run or a sweep came to.

    summary   its numbers, by name
    options   the options in force, as texts
    tables    by name: dicts of columns, [rows] each; what a row does not have is NaN or None.
              `pandas.DataFrame(result["workers"])` takes one.
    """

    summary: dict[str, Any]
    options: dict[str, str]
    tables: dict[str, Table]

    def __getitem__(self, table: str) -> Table:
        return self.tables[table]


def load_result(path: str | os.PathLike) -> Result:
    """Reads the result of `simulate` (result.h5), `sweep` (results.h5) or a training run
    (metrics.jsonl).

    path: the file, or the folder that holds it. Errors: OSError when there is none or it cannot be
    read; the message names the file.
    """
    place = pathlib.Path(path)
    names = [_cohort.RESULT_FILE, _cohort.SWEEP_FILE, "metrics.jsonl"]
    if place.is_dir():
        found = next((place / name for name in names if (place / name).exists()), None)
        if found is None:
            raise OSError(f"[{place}] holds no result; expected one of {', '.join(names)}")
        place = found
    if place.name == "metrics.jsonl":
        return _run_of_metrics(place)
    if place.name == _cohort.SWEEP_FILE:
        return Result(**_cohort.read_sweep(str(place.parent)))
    return Result(**_cohort.read_result(str(place)))


def load_model(file: str | os.PathLike) -> dict[str, numpy.ndarray]:
    """The tensors of a model.h5 by name, parameters and state. Errors: OSError."""
    return _cohort.load_model(os.fspath(file))


def _run_of_metrics(file: pathlib.Path) -> Result:
    """A table per kind of line; the last line that ends the run is the summary."""
    kinds: dict[str, list[dict]] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise OSError(f"[{file}:{number}] is not JSON; got {error}") from error
        kinds.setdefault(row.pop("event", "other"), []).append(row)
    summary = (kinds.pop("summary", None) or [{}])[-1]
    start = (kinds.pop("start", None) or [{}])[0]
    options = {name: str(value) for name, value in start.get("options", start).items()}
    return Result(summary, options, {kind: _table(rows) for kind, rows in kinds.items()})


def _table(rows: list[dict]) -> Table:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: _column([row.get(name) for row in rows]) for name in names}


def _column(values: list) -> numpy.ndarray:
    """Numbers where all values are numbers or missing."""
    if all(value is None or isinstance(value, (int, float)) for value in values):
        if any(value is None for value in values):
            return numpy.array([numpy.nan if value is None else value for value in values], float)
        return numpy.array(values)
    column = numpy.empty(len(values), object)
    column[:] = values
    return column
