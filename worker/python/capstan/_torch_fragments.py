"""The parameters of a model with local steps: what leaves, and how new values come in."""

from __future__ import annotations

import math
from typing import Optional, Sequence, Union

import torch

from capstan._table import Table
from capstan._torch_carriers import gradient_of, values_of
from capstan._torch_plan import Planned
from capstan._torch_ranks import LateTable, Ranks, own_part


class LocalParameter:
    """A parameter that the program changes between two exchanges.

    The library's values are those that the worker had last taken in, as long as no exchange of the
    table is open.

    ranks: those that are one worker. Each has the table of its shard; or else the first one has that
    of the whole, and the others have none.
    """

    def __init__(self, planned: Planned, table: Union[Table, LateTable],
                 ranks: Optional[Ranks]) -> None:
        self.name = planned.name
        self.tensor = planned.tensor
        self._late = table
        self._table: Optional[Table] = None
        self.is_shared = ranks is not None and ranks.shards_of(planned.tensor) is None
        self._ranks = ranks
        self._values: Optional[torch.Tensor] = None  # the library's
        self._pushed: Optional[torch.Tensor] = None  # the values when it was pushed

    def begin(self) -> None:
        """The job has started."""
        self._table = self._late.table if isinstance(self._late, LateTable) else self._late
        if self._table is not None:
            self._values = values_of(self._table)
            self._gradient = gradient_of(self._table)

    def push(self, keeps: bool) -> tuple[float, float]:
        """Sends values - local. Returns the squares of the norms of both.

        keeps: what is done until the new values are there will count.
        """
        if keeps:
            self._pushed = own_part(self.tensor.detach()).clone()
        if self._ranks is None or not self.is_shared:
            # A shard may be empty.
            return (0.0, 0.0) if self._table is None else self._push(own_part(self.tensor.detach()))
        whole = self._ranks.whole(self.tensor)
        return self._ranks.in_first(lambda: self._push(whole)) or (0.0, 0.0)

    def _push(self, local: torch.Tensor) -> tuple[float, float]:
        assert self._table is not None and self._values is not None
        with torch.no_grad():
            difference = self._gradient.copy_(local)
            torch.sub(self._rounded(self._values), difference, out=difference)
        squares = _square(difference), _square(self._values)
        self._table._layer.push()
        return squares

    def wait(self) -> None:
        """For the new values, in a rank that has the table."""
        if self._table is not None:
            self._table.wait()

    # The new values are there.

    def replace(self) -> None:
        """They take the place of the local ones."""
        with torch.no_grad():
            own_part(self.tensor).copy_(self._new())

    def keep(self) -> None:
        """They count, and what was done since the push."""
        assert self._pushed is not None
        with torch.no_grad():
            own = own_part(self.tensor)
            done = own.float() - self._pushed.float()
            own.copy_(done.add_(self._new().to(done.device)))
        self._pushed = None

    def blend(self, alpha: float) -> None:
        """alpha of the local values, and 1 - alpha of the new ones."""
        with torch.no_grad():
            own = own_part(self.tensor)
            local = own.float()
            own.copy_(torch.lerp(self._new().to(local.device), local, alpha))

    def _new(self) -> torch.Tensor:
        """This rank's part."""
        if self._ranks is not None and self.is_shared:
            return self._ranks.part(self.tensor, self._values)
        if self._values is None:  # of an empty shard
            return own_part(self.tensor.detach())
        return self._values

    def _rounded(self, values: torch.Tensor) -> torch.Tensor:
        """The servers' values as the parameter had taken them."""
        if self.tensor.dtype == torch.float32:
            return values
        return values.to(self.tensor.dtype).float()


class Fragment:
    """A part of the layers, pushed at a moment of its own."""

    def __init__(self, parameters: Sequence[LocalParameter]) -> None:
        self.parameters = parameters
        self.due: Optional[int] = None  # the local step after which it takes the new values, if open

    @property
    def is_open(self) -> bool:
        return self.due is not None


def split(planned: Sequence[Planned], fragments: int) -> list[range]:
    """The parameters of each fragment: neighbours, with about as many elements in each."""
    total = sum(one.tensor.numel() for one in planned)
    bounds, done = [0], 0
    for index, one in enumerate(planned):
        # A parameter belongs to the fragment in which its middle lies, and each one has some.
        wanted = math.floor((done + one.tensor.numel() / 2) * fragments / total)
        rest = len(planned) - index
        while len(bounds) <= wanted and len(bounds) < fragments and bounds[-1] < index:
            bounds.append(index)
        if rest == fragments - len(bounds) and bounds[-1] < index:
            bounds.append(index)
        done += one.tensor.numel()
    return [range(begin, end) for begin, end in zip(bounds, [*bounds[1:], len(planned)])]


def _square(tensor: torch.Tensor) -> float:
    norm: torch.Tensor = torch.linalg.vector_norm(tensor, dtype=torch.float64)
    return float(norm)**2
