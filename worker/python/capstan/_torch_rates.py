"""What a scheduler changes, on its way to the servers."""

from __future__ import annotations

from typing import Sequence

import torch

from capstan._errors import InvalidArgument
from capstan._optimizers import Optimizer
from capstan._torch_optimizers import learning_rate, momentum
from capstan._torch_parameter import Parameter
from capstan._torch_rows import Rows


class SentRates:
    """The learning rates and momenta of the optimizer's parameter groups that the servers have."""

    def __init__(self, optimizer: torch.optim.Optimizer, optimizers: Sequence[Optimizer]) -> None:
        self._optimizer = optimizer
        self._rates = [one.lr for one in optimizers]
        self._momenta = [momentum(group) for group in optimizer.param_groups]

    def send(self, parameters: Sequence[Parameter], rows: Sequence[Rows]) -> None:
        """Those that have changed travel with the next pushes."""
        for i, group in enumerate(self._optimizer.param_groups):
            tables = [one.table for one in parameters if one.group == i]
            bags = [one for one in rows if one.group == i]
            rate = learning_rate(group)
            if rate != self._rates[i]:
                self._rates[i] = rate
                for table in tables:
                    table.learning_rate = rate
                for bag in bags:
                    bag.table.learning_rate = rate
            now = momentum(group)
            if now is not None and now != self._momenta[i]:
                if bags:
                    raise _momentum_of_rows(bags[0].name)
                self._momenta[i] = now
                for table in tables:
                    table.momentum = now


def _momentum_of_rows(name: str) -> InvalidArgument:
    return InvalidArgument(
        f"EmbeddingBag {name} has the optimizer of the first parameter group, of which a scheduler "
        "has changed the first of betas; rows have a fixed one. Give the scheduler "
        "cycle_momentum=False, or the bag an optimizer of its own")
