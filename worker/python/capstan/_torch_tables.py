"""The tables of a model in its job."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence, Union

import torch

from capstan._job import Job
from capstan._optimizers import SGD, Optimizer
from capstan._table import Table
from capstan._torch_carriers import values_of
from capstan._torch_embedding_bag import EmbeddingBag
from capstan._torch_parameter import Parameter
from capstan._torch_plan import BUFFERS, Plan
from capstan._torch_ranks import LateTable, RanksJob
from capstan._torch_rows import Rows


class Tables(NamedTuple):
    rows: list[Rows]
    parameters: list[Parameter]
    buffers: Buffers


def add_tables(job: Job, plan: Plan, suffix: str) -> Tables:
    """From the input on: first what all wait for, then the parameters, then buffers.

    suffix: the end of the name of the table of buffers.
    """
    rows = add_rows(job, plan.bags)
    parameters = [
        Parameter(one, job.table(one.name, one.initial(),
                                 optimizer=plan.server_optimizers[one.group]))
        for one in plan.parameters]
    return Tables(rows, parameters, Buffers(job, plan, suffix))


def add_rows(job: Job, bags: Sequence[tuple[EmbeddingBag, Optimizer]]) -> list[Rows]:
    """The rows of bags with these optimizers."""
    return [Rows(bag.name, job.sparse_table(bag.name, bag.dim, optimizer=optimizer,
                                            stddev=bag.initial_stddev(), **bag.limits),
                 -1 if bag.optimizer else 0, bag.padding_idx) for bag, optimizer in bags]


class Buffers:
    """The table with what all workers begin with as rank 0 has it. Made before the job's start.

    suffix: the end of its name.
    """

    def __init__(self, job: Union[Job, RanksJob], plan: Plan, suffix: str = "") -> None:
        self._state = plan.shared_state
        self._ranks = job.ranks if isinstance(job, RanksJob) else None
        self._late: Union[Table, LateTable, None] = None
        if not self._state.is_empty:
            self._late = job.table(BUFFERS + suffix, self._state.floats(), optimizer=SGD(1.0))

    def take(self) -> None:
        """After the job's start: as SharedState.take."""
        if self._state.is_empty:
            return
        if self._ranks is None:
            self._state.take(self._values())
            return
        floats = self._state.floats()
        self._ranks.in_first(lambda: floats.copy_(self._values()))
        self._ranks.spread(floats)
        self._state.take(floats)

    def _values(self) -> torch.Tensor:
        table = self._late.table if isinstance(self._late, LateTable) else self._late
        assert table is not None
        table.wait()
        return values_of(table)
