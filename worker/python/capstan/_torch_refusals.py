"""What a trainer refuses, with a job and alone."""

from __future__ import annotations

from typing import Any, Sequence

import torch

from capstan._errors import InvalidArgument, WrongOrder

ADVICE_ON_GRADIENTS = (
    "Try a smaller lr of the optimizer, or ct.attach(..., max_norm_per_worker=1.0), and look at the "
    "data; under autocast take torch.bfloat16, or for float16 ct.attach(..., grad_scaler=scaler)")


def expect_max_norm(per_worker: object, of_mean: object = None) -> None:
    """of_mean: an argument of attach that says no more than max_norm, so that it would be taken for
    what clip_grad_norm_ does with DDP."""
    if of_mean is not None:
        raise InvalidArgument(
            "max_norm: say which norm; max_norm_per_worker= clips each worker's own gradient "
            "before it is pushed. To clip the mean over all workers, as with DDP, give "
            "optimizer_runs=\"here\", and call torch.nn.utils.clip_grad_norm_")
    is_norm = isinstance(per_worker, (int, float)) and 0 < per_worker < float("inf")
    if not (per_worker is None or is_norm):
        raise InvalidArgument(
            f"max_norm_per_worker: expected a number above 0, got {per_worker!r}")


def expect_replaceable(model: torch.nn.Module, optimizer_runs: str = "servers",
                       grad_scaler: object = None, is_of_group: object = False) -> None:
    """Refuses what another process would not have, if it does a step of this one again."""
    has_scaler = grad_scaler is not None and getattr(grad_scaler, "is_enabled", lambda: True)()
    if optimizer_runs == "here" or has_scaler or is_of_group:
        raise InvalidArgument("replaceable: leave it out with optimizer_runs=\"here\", with a "
                              "grad_scaler and in attach_together: another process would not have "
                              "their state")
    for name, module in model.named_modules():
        if getattr(module, "running_mean", None) is not None:
            raise InvalidArgument(
                f"replaceable: leave it out for {name or 'the model'}, a "
                f"{type(module).__name__}, whose running statistics another process would not have")


def expect_one_loss(loss: Any) -> None:
    if isinstance(loss, torch.Tensor) and loss.numel() != 1:
        raise InvalidArgument(f"loss: expected one number, got shape {tuple(loss.shape)}; give "
                              "its mean")


def group_sizes(optimizer: torch.optim.Optimizer) -> list[int]:
    return [len(group["params"]) for group in optimizer.param_groups]


def expect_group_sizes(optimizer: torch.optim.Optimizer, sizes: Sequence[int]) -> None:
    if group_sizes(optimizer) != sizes:
        raise InvalidArgument("the optimizer has got parameters or groups after ct.attach, "
                              "which no server trains; add them before")


def step_after_end() -> WrongOrder:
    return WrongOrder("there is no further step, as the job is over for this model; call "
                      "ct.step() before ct.finish(), and optimizer.step() to train alone")


def operation_between_steps() -> WrongOrder:
    return WrongOrder(
        "with replaceable=True, operations of all workers (all_reduce, broadcast, barrier, stop) are "
        "between the forward pass and ct.step(), or behind the loop over all --steps: a process "
        "that takes this one's place begins with a step, and knows of nothing between two")


def second_gradient(name: str) -> WrongOrder:
    return WrongOrder(
        f"a second gradient of {name} in one step; call ct.step() after each "
        "backward, or all but the last of a step within `with ct.no_sync():`")


def changed_parameter(name: str) -> WrongOrder:
    return WrongOrder(
        f"the program has changed {name}, but the servers hold its values; keep weights "
        "in bounds in forward, and do what else changes or moves parameters "
        "(load_state_dict, to, init) before ct.attach")


def changed_gradient(name: str) -> WrongOrder:
    return WrongOrder(
        f"the gradient of {name} was changed after it had left; instead of "
        "clip_grad_norm_ give ct.attach(..., max_norm_per_worker=), and for other changes "
        "call backward within `with ct.no_sync():`, so that ct.step() sends what they make")
