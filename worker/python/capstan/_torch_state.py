"""The state of the servers' optimizers in torch's form: out by state_dict, in by load_state_dict."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Callable, Mapping, Optional, Protocol, Sequence

import torch

from capstan._errors import InvalidArgument, WrongOrder
from capstan._optimizers import SGD, Adagrad, Adam, Lion, Optimizer, RMSprop
from capstan._table import Table
from capstan._torch_optimizers import expect_unchanged, fixed_settings, replace_methods

# Means and sums of squares, whose roots divide.
_SQUARES = {"exp_avg_sq", "max_exp_avg_sq", "sum", "square_avg"}


class Named(Protocol):
    """A parameter with its name."""

    @property
    def name(self) -> str: ...

    @property
    def tensor(self) -> torch.Tensor: ...


class Trained(Named, Protocol):
    """A parameter, its table and the index of its parameter group."""

    group: int
    table: Table


def state_names(optimizer: Optimizer) -> list[str]:
    """torch's names of the arrays that the servers' optimizer keeps, in the order of the servers."""
    if isinstance(optimizer, SGD):
        return ["momentum_buffer"] if optimizer.momentum else []
    if isinstance(optimizer, Adagrad):
        return ["sum"]
    if isinstance(optimizer, Adam):
        return ["exp_avg", "exp_avg_sq"] + ["max_exp_avg_sq"] * optimizer.amsgrad
    if isinstance(optimizer, RMSprop):
        return (["square_avg"] + ["grad_avg"] * optimizer.centered
                + ["momentum_buffer"] * (optimizer.momentum > 0))
    assert isinstance(optimizer, Lion)
    return ["exp_avg"]


def counts_steps(optimizer: Optimizer) -> bool:
    return not isinstance(optimizer, (SGD, Lion))


class OptimizerState:
    """The state of an attached optimizer. It stays on the servers until a program asks for it.

    After take_over the optimizer's state_dict and load_state_dict go here, until `release`.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, optimizers: list[Optimizer],
                 trained: Sequence[Trained]) -> None:
        self.settings = [fixed_settings(group) for group in optimizer.param_groups]
        self._optimizer = optimizer
        self._optimizers = optimizers  # of the servers, by parameter group
        self._trained = trained
        self._may_load = True
        self._is_over = False  # all steps are done
        self._is_own = False  # the program has loaded another since
        self._lock = threading.RLock()  # of the optimizer's state
        self._release: Optional[Callable[[], None]] = None

    def load(self) -> None:
        """Lets the servers begin with the optimizer's state. What has none begins anew.

        Raises InvalidArgument if it is not what the servers' optimizer keeps.
        """
        states = [self._optimizer.state.get(one.tensor) or {} for one in self._trained]
        kinds = [self._optimizers[one.group] for one in self._trained]
        present = [(one, kind, state) for one, kind, state in zip(self._trained, kinds, states)
                   if _has_history(state, kind)]
        _load(present)

    def end_loading(self) -> None:
        """A gradient leaves."""
        self._may_load = False

    def take_over(self) -> None:
        """The servers have the state. That of frozen parameters stays here."""
        for one in self._trained:
            self._optimizer.state.pop(one.tensor, None)
        self._replace({"state_dict": OptimizerState.state_dict,
                       "load_state_dict": OptimizerState.load_state_dict})

    def end(self, can_read: bool) -> None:
        """All steps are done. The worker that evaluates can still read the state."""
        self.release()
        self._is_over = True
        if can_read:
            self._replace({"state_dict": OptimizerState.state_dict,
                           "load_state_dict": OptimizerState._load_own})

    def _replace(self, methods: dict[str, Callable[..., Any]]) -> None:
        weak = weakref.ref(self)

        def bound(method: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                state = _alive(weak)
                with state._lock:
                    return method(state, *args, **kwargs)
            return call

        self._release = replace_methods(
            self._optimizer, {name: bound(method) for name, method in methods.items()})

    def release(self) -> None:
        """The optimizer is the program's alone again, as if it were made anew."""
        if self._release is None:
            return
        self._release()
        self._release = None
        if not self._is_over and isinstance(self._optimizer, torch.optim.Adagrad):
            for one in self._trained:  # it makes its state when it is made
                self._optimizer.state[one.tensor] = {"step": torch.tensor(0.0),
                                                     "sum": torch.zeros_like(one.tensor)}

    def state_dict(self) -> dict[str, Any]:
        """As the optimizer's own, with the servers' state as float32 in the CPU's memory."""
        optimizer = self._optimizer
        before = dict(optimizer.state)
        has_trained_alone = self._is_over and any(
            _has_history(before.get(one.tensor) or {}, self._optimizers[one.group])
            for one in self._trained)
        if self._is_own or has_trained_alone:
            return type(optimizer).state_dict(optimizer)
        try:
            for one in self._trained:
                state = _pull_one(one, self._optimizers[one.group])
                optimizer.state.pop(one.tensor, None)
                if state:
                    optimizer.state[one.tensor] = state
            return type(optimizer).state_dict(optimizer)
        finally:
            optimizer.state.clear()
            optimizer.state.update(before)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads settings and state, as of a DDP run. The servers take rank 0's state. If it raises,
        nothing is loaded."""
        if not self._may_load:
            raise WrongOrder("expected optimizer.load_state_dict() before the first gradient; load "
                             "it before ct.attach, or right after")
        optimizer = self._optimizer
        sizes = [len(group["params"]) for group in optimizer.param_groups]
        groups = state_dict["param_groups"]
        if [len(group["params"]) for group in groups] != sizes:
            raise InvalidArgument(f"expected parameter groups of {sizes} parameters, got "
                                  f"{[len(group['params']) for group in groups]}; load the "
                                  "state_dict of an optimizer with the same groups")
        # Another version of torch may lack settings.
        groups = [{**settings, **group} for group, settings in zip(groups, self.settings)]
        for group, settings in zip(groups, self.settings):
            expect_unchanged(group, settings)
        index_of = {id(tensor): index
                    for saved, group in zip(groups, optimizer.param_groups)
                    for index, tensor in zip(saved["params"], group["params"])}
        states = dict(state_dict["state"])
        taken = []
        for one in self._trained:
            kind = self._optimizers[one.group]
            state = states.pop(index_of[id(one.tensor)], None) or {}
            taken.append((one, kind, state if _has_history(state, kind) else _fresh(one, kind)))
        # The arrays go to the servers as they are. torch would bring them to the parameters' type.
        _load(taken)
        type(optimizer).load_state_dict(
            optimizer, {**state_dict, "state": states, "param_groups": groups})

    def _load_own(self, state_dict: dict[str, Any]) -> None:
        """After the last step."""
        type(self._optimizer).load_state_dict(self._optimizer, state_dict)
        self._is_own = True


def _alive(weak: weakref.ref[OptimizerState]) -> OptimizerState:
    state = weak()
    if state is None:
        raise WrongOrder("the trainer of this optimizer is gone, and with it the servers' state")
    return state


def _pull_one(one: Trained, optimizer: Optimizer) -> dict[str, torch.Tensor]:
    """Empty: the optimizer keeps none, or has made no step."""
    arrays: dict[str, torch.Tensor] = {}
    steps = 0
    for number, name in enumerate(state_names(optimizer)):
        arrays[name] = array = torch.empty(one.tensor.shape, dtype=torch.float32)
        steps = one.table.read_optimizer_state(number, array)
    if not steps and not isinstance(optimizer, Adagrad):
        return {}
    count = {"step": torch.tensor(float(steps))} if counts_steps(optimizer) else {}
    return {**count, **arrays}


def _load(taken: list[tuple[Trained, Optimizer, Mapping[str, Any]]]) -> None:
    """Loads all of them, or raises InvalidArgument."""
    for one, optimizer, state in taken:
        expect_state(one, optimizer, state)
    for one, optimizer, state in taken:
        # torch counts no steps of some optimizers. It matters whether there was one.
        steps = int(state.get("step", 1))
        for number, name in enumerate(state_names(optimizer)):
            array = state[name].detach().to("cpu", torch.float32).contiguous()
            one.table.load_optimizer_state(number, array, steps)


def expect_state(one: Named, optimizer: Optimizer, state: Mapping[str, Any]) -> None:
    names = state_names(optimizer)
    expected = {*names, *(["step"] if counts_steps(optimizer) else [])}
    if not expected <= set(state):
        raise InvalidArgument(
            f"{one.name}: expected the optimizer's state as {', '.join(sorted(expected))}, got "
            f"{', '.join(sorted(state))}; load that of a {type(optimizer).__name__} with the same "
            "settings")
    if not 0 <= float(state.get("step", 1)) < 2**31:
        raise InvalidArgument(f"{one.name}: expected a number of steps, got {state['step']}")
    for name in names:
        array = state[name].detach()
        if array.shape != one.tensor.shape:
            raise InvalidArgument(f"{one.name}: expected {name} of shape "
                                  f"{tuple(one.tensor.shape)}, got {tuple(array.shape)}")
        if not bool(torch.isfinite(array).all()) or (name in _SQUARES and bool((array < 0).any())):
            raise InvalidArgument(f"{one.name}: expected finite numbers in {name}"
                                  f"{', 0 or more' if name in _SQUARES else ''}, got others")


def _has_history(state: Mapping[str, Any], optimizer: Optimizer) -> bool:
    """Whether the optimizer has made a step with it. torch notes None for a momentum without one."""
    if counts_steps(optimizer):
        return bool(state.get("step", any(value is not None for value in state.values())))
    return any(value is not None for value in state.values())


def _fresh(one: Trained, optimizer: Optimizer) -> dict[str, Any]:
    """The state before the first step."""
    zeros = {name: torch.zeros(one.tensor.shape) for name in state_names(optimizer)}
    return {**zeros, "step": 0}
