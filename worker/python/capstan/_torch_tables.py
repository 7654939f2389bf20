"""The tables of a model in its job."""

from __future__ import annotations

from typing import NamedTuple, Optional

from capstan._job import Job
from capstan._optimizers import SGD
from capstan._table import Table
from capstan._torch_parameter import Parameter
from capstan._torch_plan import BUFFERS, Plan
from capstan._torch_rows import Rows


class Tables(NamedTuple):
    rows: list[Rows]
    parameters: list[Parameter]
    buffers: Optional[Table]


def add_tables(job: Job, plan: Plan, suffix: str) -> Tables:
    """From the input on: first what all wait for, then the parameters, then buffers.

    suffix: the end of the name of the table of buffers.
    """
    rows = [
        Rows(bag.name, job.sparse_table(bag.name, bag.dim, optimizer=optimizer,
                                        stddev=bag.initial_stddev(), **bag.limits),
             -1 if bag.optimizer else 0) for bag, optimizer in plan.bags]
    parameters = [
        Parameter(one, job.table(one.name, one.initial(),
                                 optimizer=plan.server_optimizers[one.group]))
        for one in plan.parameters]
    buffers: Optional[Table] = None
    if not plan.shared_state.is_empty:
        buffers = job.table(BUFFERS + suffix, plan.shared_state.floats(), optimizer=SGD(1.0))
    return Tables(rows, parameters, buffers)
