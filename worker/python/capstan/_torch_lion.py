"""The optimizer Lion, which torch.optim does not have."""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch

from capstan._errors import InvalidArgument


class Lion(torch.optim.Optimizer):
    """Steps of one size, in the direction of the sign of a mean of gradients: Chen et al.,
    "Symbolic Discovery of Optimization Algorithms", 2023, algorithm 2. Three to ten times less
    learning rate than AdamW, and as many times more weight decay, are usual.

    After ct.attach the servers step it. Before, and after ct.finish, it trains alone.
    """

    def __init__(self, params: Any, lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99),
                 weight_decay: float = 0.0, *, maximize: bool = False) -> None:
        if not (lr >= 0 and weight_decay >= 0 and all(0 <= beta < 1 for beta in betas)):
            raise InvalidArgument(
                "expected lr and weight_decay of 0 or more, and betas from 0 to below 1, got "
                f"lr={lr}, weight_decay={weight_decay}, betas={betas}")
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay,
                                  "maximize": maximize})

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("maximize", False)  # other implementations have none

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for tensor in group["params"]:
                if tensor.grad is not None:
                    self._update(tensor, group)
        return loss

    def _update(self, tensor: torch.Tensor, group: dict[str, Any]) -> None:
        assert tensor.grad is not None
        gradient = -tensor.grad if group["maximize"] else tensor.grad
        state = self.state[tensor]
        if not state:
            state["exp_avg"] = torch.zeros_like(tensor)
        mean = state["exp_avg"]
        beta1, beta2 = group["betas"]
        direction = mean.mul(beta1).add_(gradient, alpha=1 - beta1).sign_()
        tensor.mul_(1 - group["lr"] * group["weight_decay"]).add_(direction, alpha=-group["lr"])
        mean.mul_(beta2).add_(gradient, alpha=1 - beta2)
