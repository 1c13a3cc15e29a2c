"""Data-parallel training that tolerates slow workers, from Python.

simulate, sweep   what each mode would do on a virtual cluster
load_result       their results, and those of real runs, as numpy tables

Importing the package starts neither MPI nor threads.
"""

from cohort import _cohort
from cohort.results import Result, load_result
from cohort.simulation import simulate, sweep

__version__: str = _cohort.version
__all__ = ["Result", "load_result", "simulate", "sweep"]
