"""A torch.amp.GradScaler with which all workers skip the same steps."""

from __future__ import annotations

from typing import Any

import torch

from capstan._errors import InvalidArgument
from capstan._job import Job
from capstan._optimizers import SGD
from capstan._torch_carriers import values_of

_FOUND_INF = "capstan.found_inf"


class Scaler:
    """The program's scaler, and the table in which the workers count gradients that are not finite.
    """

    def __init__(self, job: Job, scaler: Any) -> None:
        # SGD with learning rate 1 counts: each worker with inf adds 1 / workers.
        self._table = job.table(_FOUND_INF, _number(0.0), optimizer=SGD(1.0))
        self._scaler = scaler
        self._infs = 0.0  # so far

    def take_values(self) -> None:
        """The job has started."""
        self._table.wait()
        self._infs = float(values_of(self._table)[0])

    def may_send(self, optimizer: torch.optim.Optimizer, sums: list[torch.Tensor],
                 has_gradients: bool) -> bool:
        """Unscales the gradients of the optimizer's parameters and of `sums`, and agrees with the
        other workers whether all are finite."""
        found: list[torch.Tensor] = []
        if sums or has_gradients:
            optimizer.param_groups.append({"params": sums})  # the scaler looks no further
            try:
                self._scaler.unscale_(optimizer)
            finally:
                optimizer.param_groups.pop()
            found = list(self._scaler._found_inf_per_device(optimizer).values())
        has_inf = any(float(one) > 0 for one in found)
        self._table.push_pull(_number(-float(has_inf)))
        before = self._infs
        self.take_values()
        for one in found:
            one.fill_(float(has_inf or self._infs != before))
        if found:
            self._scaler.update()
        return not has_inf and self._infs == before


def _number(value: float) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.float32, device="cpu")


def expect_scaler(grad_scaler: object) -> None:
    if not (grad_scaler is None or hasattr(grad_scaler, "unscale_")):
        raise InvalidArgument(f"grad_scaler: expected a torch.amp.GradScaler, got {grad_scaler!r}")
