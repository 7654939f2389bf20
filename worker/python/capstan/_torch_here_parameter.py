"""A parameter whose optimizer the program runs: its gradient leaves, and the mean comes back."""

from __future__ import annotations

from typing import Optional, Union

import torch

from capstan._table import Table
from capstan._torch_carriers import gradient_of, plain, values_of
from capstan._torch_plan import Planned
from capstan._torch_ranks import LateTable, Ranks, own_part


class HereParameter:
    """A parameter, whose table replies the mean of its gradients."""

    def __init__(self, planned: Planned, ranks: Optional[Ranks]) -> None:
        self.planned = planned
        self.name = planned.name
        self.tensor = planned.tensor
        self.ranks = ranks  # those that are this worker, if they are several
        # They exchange it by the first of them, and not each one its shard.
        self.is_shared = ranks is not None and ranks.shards_of(planned.tensor) is None
        self.late: Union[Table, LateTable, None] = None
        self.table: Optional[Table] = None  # none without a job, or where it is another rank's
        self.is_sent = False  # in this step

    def begin(self) -> None:
        """The job has begun: takes its values."""
        self.table = self.late.table if isinstance(self.late, LateTable) else self.late
        if self.ranks is not None and self.is_shared:
            self.ranks.in_first(self._begin)
        elif self.table is not None:
            self._begin()
        with torch.no_grad():
            own_part(self.tensor).copy_(self._values())

    def _begin(self) -> None:
        assert self.table is not None
        self.table.wait()
        self._updates = self.table.updates

    def _values(self) -> torch.Tensor:
        """The library's; of several ranks this one's part."""
        values = None if self.table is None else values_of(self.table)
        if self.ranks is not None and self.is_shared:
            return self.ranks.part(self.tensor, values)
        if values is None:  # of an empty shard
            return own_part(self.tensor.detach())
        return values

    def send(self) -> None:
        self.is_sent = True
        gradient = self.tensor.grad
        if gradient is not None:
            gradient = plain(self.tensor, gradient)
        if self.table is None:
            self.tensor.grad = gradient
        else:
            self._push(gradient)

    def send_of_ranks(self, has_gradient: bool) -> None:
        """All ranks call it. has_gradient: one of them has one."""
        assert self.ranks is not None
        self.is_sent = True
        gradient = self.tensor.grad
        if not self.is_shared:
            if self.table is not None:
                self._push(None if gradient is None else own_part(plain(self.tensor, gradient)))
            return
        if not has_gradient:
            self.ranks.in_first(lambda: self._push(None))
            return
        own = torch.zeros_like(self.tensor) if gradient is None else plain(self.tensor, gradient)
        whole = self.ranks.whole(own)
        self.ranks.in_first(lambda: self._push(whole))

    def _push(self, gradient: Optional[torch.Tensor]) -> None:
        assert self.table is not None
        if gradient is None:
            self.table._layer.push_nothing()
        else:
            gradient_of(self.table).copy_(gradient)
            self.table._layer.push()

    def has_new_mean(self) -> bool:
        """Waits for it. No: no worker has a gradient, or there is no job."""
        if self.table is None:
            return False
        before, self._updates = self._updates, self.table.updates
        return before != self._updates

    def take_mean(self, is_new: bool) -> None:
        """None, as with one process, unless there is one."""
        if self.table is None and self.ranks is None:
            return
        if not is_new:
            self.tensor.grad = None
            return
        with torch.no_grad():
            self.tensor.grad = torch.empty_like(self.tensor, requires_grad=False)
            own_part(self.tensor.grad).copy_(self._values())
