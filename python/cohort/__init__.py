"""Data-parallel training that tolerates slow workers, from Python.

simulate, sweep   what each mode would do on a virtual cluster
load_result       their results, and those of real runs, as numpy tables
load_model        the tensors of a trained network
join              trains your own network on the ranks that mpirun started (docs/pytorch.md)
distributed       to be imported: the backend "cohort" of torch.distributed

Importing the package starts neither MPI nor threads.
"""

from cohort import _cohort
from cohort.job import SGD, AdamW, Job, JobError, Lease, join
from cohort.results import Result, load_model, load_result
from cohort.simulation import simulate, sweep

__version__: str = _cohort.version
__all__ = ["SGD", "AdamW", "Job", "JobError", "Lease", "Result", "join", "load_model", "load_result",
           "simulate", "sweep"]


def __getattr__(name: str):
    """`cohort.torch`, once somebody asks for it: it needs PyTorch."""
    if name == "torch":
        import importlib
        return importlib.import_module("cohort.torch")
    raise AttributeError(f"module 'cohort' has no attribute '{name}'")
