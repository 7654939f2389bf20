"""Capstan: train a model on parameter servers, from any Python program.

    job = capstan.connect()
    w = job.table("w", numpy.zeros(8), optimizer=capstan.Adam(lr=0.01))
    job.start()
    for step in range(job.step, steps):
        gradient = ...          # of w.values
        w.push_pull(gradient)   # on its way while the program goes on
        job.end_step(loss, samples)
    if job.finish():
        job.report(test_accuracy=...)

Job.sparse_table adds a table from 64-bit keys to rows, of which each step touches few.

`python -m capstan run --worker_command="python train.py"` starts a whole job on this machine.
capstan.torch is for programs with PyTorch.
"""

from typing import TYPE_CHECKING

from capstan import _library
from capstan._connect import connect
from capstan._errors import (Error, Forked, InvalidArgument, JobFailed, LeftJob, OutOfMemory,
                             WrongOrder)
from capstan._job import Job
from capstan._optimizers import (FTRL, SGD, Adagrad, Adam, AdamW, Lion, Optimizer, RMSprop,
                                 RowAdagrad)
from capstan._sparse_table import SparseTable
from capstan._table import Table

__all__ = [
    "FTRL",
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "Error",
    "Forked",
    "InvalidArgument",
    "Job",
    "JobFailed",
    "LeftJob",
    "Lion",
    "Optimizer",
    "OutOfMemory",
    "RMSprop",
    "RowAdagrad",
    "SparseTable",
    "Table",
    "WrongOrder",
    "__version__",
    "connect",
]

if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name):
        """__version__, which is the library's. That is not loaded before it is needed."""
        if name == "__version__":
            return _library.load().capstan_version().decode()
        raise AttributeError(f"module capstan has no {name}")
