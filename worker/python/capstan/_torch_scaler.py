"""A torch.amp.GradScaler with which all workers skip the same steps."""

from __future__ import annotations

from typing import Any

import torch

from capstan._collectives import Collectives
from capstan._errors import InvalidArgument, WrongOrder


class Scaler:
    """The program's scaler. Under BSP the workers agree in each step whether all gradients are
    finite."""

    def __init__(self, job: Collectives, scaler: Any) -> None:
        self._job = job
        self.scaler = scaler

    def may_send(self, optimizer: torch.optim.Optimizer, sums: list[torch.Tensor],
                 has_gradients: bool) -> bool:
        """Unscales the gradients of the optimizer's parameters and of `sums`, and agrees with the
        other workers whether all are finite."""
        found: list[torch.Tensor] = []
        if sums or has_gradients:
            optimizer.param_groups.append({"params": sums})  # the scaler looks no further
            try:
                self.scaler.unscale_(optimizer)
            finally:
                optimizer.param_groups.pop()
            found = list(self.scaler._found_inf_per_device(optimizer).values())
        has_inf = self._any_worker(any(float(one) > 0 for one in found))
        for one in found:
            one.fill_(float(has_inf))
        if found:
            self.scaler.update()
        return not has_inf

    def _any_worker(self, has_inf: bool) -> bool:
        try:
            return bool(self._job.all_reduce(has_inf, "max"))
        except WrongOrder as error:
            if "need --consistency=bsp" in str(error):
                return has_inf  # under SSP and async the workers are at different steps
            raise


def expect_scaler(grad_scaler: object) -> None:
    if not (grad_scaler is None or hasattr(grad_scaler, "unscale_")):
        raise InvalidArgument(f"grad_scaler: expected a torch.amp.GradScaler, got {grad_scaler!r}")
