"""From optimizers of torch.optim to those of the servers. What does not map is refused."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Sequence

import torch

from capstan._errors import InvalidArgument, WrongOrder
from capstan._optimizers import SGD, Adagrad, Adam, AdamW, Lion, Optimizer, RMSprop
from capstan._torch_lion import Lion as TorchLion

# Settings that change the speed at most.
_OF_SPEED = {"foreach", "fused", "capturable"}
# What a program may change while it trains, and what schedulers note there.
_CHANGING = {"params", "lr", "initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum"}
# The only values that servers have.
_REQUIRED: dict[str, object] = {
    "differentiable": False,
    "lr_decay": 0,
    "initial_accumulator_value": 0,
}

Group = Mapping[str, Any]


def _sgd(group: Group, lr: float) -> Optimizer:
    return SGD(lr, group["momentum"], group["nesterov"], group["weight_decay"],
               group["dampening"], _maximizes(group))


def _adagrad(group: Group, lr: float) -> Optimizer:
    return Adagrad(lr, group["eps"], group["weight_decay"], _maximizes(group))


def _adam(group: Group, lr: float) -> Optimizer:
    # Newer torch has AdamW as an Adam with this setting.
    kind = AdamW if group.get("decoupled_weight_decay") else Adam
    return _adam_of(kind, group, lr)


def _adamw(group: Group, lr: float) -> Optimizer:
    return _adam_of(AdamW, group, lr)


def _adam_of(kind: type[Adam], group: Group, lr: float) -> Optimizer:
    return kind(lr, _numbers(group["betas"]), group["eps"], group["weight_decay"],
                group["amsgrad"], _maximizes(group))


def _rmsprop(group: Group, lr: float) -> Optimizer:
    return RMSprop(lr, group["alpha"], group["eps"], group["weight_decay"], group["momentum"],
                   group["centered"], _maximizes(group))


def _lion(group: Group, lr: float) -> Optimizer:
    return Lion(lr, _numbers(group["betas"]), group["weight_decay"], group["maximize"])


def _maximizes(group: Group) -> bool:
    return bool(group.get("maximize"))  # older torch has it in some optimizers alone


_KINDS: dict[type, Callable[[Group, float], Optimizer]] = {
    torch.optim.SGD: _sgd,
    torch.optim.Adagrad: _adagrad,
    torch.optim.Adam: _adam,
    torch.optim.AdamW: _adamw,
    torch.optim.RMSprop: _rmsprop,
    TorchLion: _lion,
}


def server_optimizers(optimizer: torch.optim.Optimizer) -> list[Optimizer]:
    """The servers' optimizer for each parameter group.

    Raises InvalidArgument if servers have none that does the same.
    """
    make = _KINDS.get(type(optimizer))
    if make is None:
        raise InvalidArgument(
            f"the servers have no {type(optimizer).__name__}; use SGD, Adagrad, Adam, AdamW or "
            "RMSprop of torch.optim, or ct.Lion, itself and not a class derived from it")
    return [_server_optimizer(make, group) for group in optimizer.param_groups]


def _server_optimizer(make: Callable[[Group, float], Optimizer], group: Group) -> Optimizer:
    for name, value in _REQUIRED.items():
        if group.get(name, value) != value:
            raise InvalidArgument(f"the servers' optimizers have no {name}={group[name]}; leave "
                                  f"{name} out, which means {value}")
    try:
        # 0, as schedulers with a warm-up begin, is sent with the first gradient.
        return make(group, learning_rate(group) or 1.0)
    except KeyError as error:
        raise InvalidArgument(f"expected {error} in the optimizer's parameter groups; has it loaded "
                              "the state_dict of another optimizer?") from error


def learning_rate(group: Group) -> float:
    """The group's learning rate. Raises InvalidArgument unless it is a number."""
    rate = group["lr"]
    if isinstance(rate, torch.Tensor):
        raise InvalidArgument("expected a number as the learning rate, got a tensor; give "
                              "lr=float(...)")
    return float(rate)


def momentum(group: Group) -> Optional[float]:
    """The group's momentum, or the first of its betas. None: its optimizer has neither.

    Raises InvalidArgument unless it is a number from 0 to below 1.
    """
    value = _numbers(group["betas"])[0] if "betas" in group else group.get("momentum")
    if value is None or 0 <= value < 1:
        return None if value is None else float(value)
    name = "the first of betas" if "betas" in group else "momentum"
    raise InvalidArgument(f"expected {name} from 0 to below 1, got {value}")


def set_momentum(group: dict[str, Any], value: float) -> None:
    """Sets what `momentum` gives."""
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def _numbers(betas: tuple[Any, Any]) -> tuple[float, float]:
    if any(isinstance(beta, torch.Tensor) for beta in betas):
        raise InvalidArgument("expected numbers as betas, got a tensor; give betas=(0.9, 0.999)")
    return float(betas[0]), float(betas[1])


def give_to_servers(optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    """The optimizer refuses what servers do in its place, until the result is called."""
    def refuse_step(*unused: object, **also_unused: object) -> None:
        raise WrongOrder("the servers step this optimizer; call ct.step() instead of "
                         "optimizer.step(), and ct.attach(..., grad_scaler=scaler) with a "
                         "GradScaler")

    # Learning rate schedulers look for these, and warn if they are not there, or if no step came
    # before theirs.
    refuse_step._with_counter = True  # type: ignore[attr-defined]
    refuse_step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer._opt_called = True  # type: ignore[attr-defined]
    return replace_methods(optimizer, {"step": refuse_step})


def replace_methods(optimizer: torch.optim.Optimizer,
                    methods: Mapping[str, Callable[..., Any]]) -> Callable[[], None]:
    """The optimizer has these methods until the result is called."""
    # A scheduler has wrapped the optimizer's own step.
    before = {name: vars(optimizer)[name] for name in methods if name in vars(optimizer)}
    vars(optimizer).update(methods)

    def release() -> None:
        for name in methods:
            vars(optimizer).pop(name, None)
        vars(optimizer).update(before)

    return release


def replace_step(optimizer: torch.optim.Optimizer,
                 step: Callable[..., Any]) -> Callable[[], None]:
    """As replace_methods. `step` calls the optimizer's own step."""
    # Learning rate schedulers look for these.
    step._with_counter = True  # type: ignore[attr-defined]
    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer._opt_called = True  # type: ignore[attr-defined]
    return replace_methods(optimizer, {"step": step})


def restore_groups(optimizers: Sequence[torch.optim.Optimizer],
                   restored: Sequence[Sequence[Group]]) -> None:
    """Gives the parameter groups their settings of a checkpoint again: a scheduler that was made anew
    has set others."""
    for optimizer, groups in zip(optimizers, restored):
        for group, before in zip(optimizer.param_groups, groups):
            group.update({name: one for name, one in before.items() if name != "params"})


def fixed_settings(group: Group) -> dict[str, object]:
    """What stays as it is while the job runs, as far as expect_unchanged looks at it."""
    return {name: value for name, value in group.items()
            if name not in _CHANGING and name not in _OF_SPEED}


def expect_unchanged(group: Group, settings: Mapping[str, object]) -> None:
    """Raises InvalidArgument if a setting is not as in `settings`, other than those that may change:
    the learning rate, the first of betas, and a momentum that is above 0."""
    for name, value in settings.items():
        if _fixed_part(name, group[name]) != _fixed_part(name, value):
            raise InvalidArgument(
                f"{name} of a parameter group has changed from {value} to {group[name]}, but the "
                "servers' stays; only lr, the first of betas and a momentum above 0 may change. A "
                "scheduler of an optimizer with momentum=0 is made before ct.attach, or with "
                "cycle_momentum=False")


def _fixed_part(name: str, value: Any) -> object:
    if name == "momentum":
        return value != 0  # with one there is a state
    if name == "betas":
        return tuple(value)[1:]
    return tuple(value) if isinstance(value, list) else value
