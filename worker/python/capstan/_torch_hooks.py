"""The hooks of an attached model's modules. A copy of a module has hooks that do nothing."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Mapping, NoReturn, Optional, Protocol

import torch

from capstan._errors import LeftJob, WrongOrder
from capstan._torch_parameter import Parameter

_is_compiling: Any = getattr(getattr(torch, "compiler", None), "is_compiling", bool)


class ForwardOwner(Protocol):
    """The trainer, as far as hooks of modules call it."""

    def _before_forward(self, module: torch.nn.Module, own: list[Parameter]) -> None: ...


class HookOwner(Protocol):
    """The trainer, as far as hooks of gradients call it."""

    _syncs: bool
    _defers: bool

    def _send(self, parameter: Parameter) -> None: ...


class Hook:
    """Calls `_run` with the trainer and what torch gives it.

    own: the parameters that the module holds itself, by their names in it.
    """

    def __init__(self, trainer: Optional[ForwardOwner], own: Mapping[str, Parameter]) -> None:
        self._trainer = trainer
        self._names = list(own)
        self._parameters = list(own.values())

    def __deepcopy__(self, memo: object) -> Hook:
        return type(self)(None, {})

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise WrongOrder("an attached model belongs to its job and cannot be saved as a whole; "
                         "save model.state_dict(), which is complete whenever it is called")

    def __call__(self, *arguments: Any) -> None:
        if self._trainer is not None:
            self._run(self._trainer, *arguments)

    def _run(self, trainer: ForwardOwner, *arguments: Any) -> None:
        raise NotImplementedError


class BeforeForward(Hook):
    # Not by _run, as this is called for each module and step.
    def __call__(self, module: Any, *unused: Any) -> None:
        # torch.compile leaves it out: a compiled program waits in ct.step().
        if self._trainer is not None and not _is_compiling():
            self._trainer._before_forward(module, self._parameters)


class BeforeLoad(Hook):
    def _run(self, trainer: ForwardOwner, *arguments: Any) -> None:
        state, prefix = arguments[:2]
        for name, parameter in zip(self._names, self._parameters):
            if prefix + name in state:
                raise WrongOrder(f"the servers hold {parameter.name}; call load_state_dict before "
                                 "ct.attach")


def hook_modules(trainer: ForwardOwner, model: torch.nn.Module,
                 by_tensor: Mapping[int, Parameter]) -> list[Any]:
    """Hooks of the modules that hold parameters. `by_tensor`: these, by the id of their tensors."""
    added: list[Any] = []
    module: Any
    for module in model.modules():
        if not any(id(tensor) in by_tensor for tensor in module.parameters()):
            continue
        own = {name: by_tensor[id(tensor)] for name, tensor in module._parameters.items()
               if id(tensor) in by_tensor}
        added += [_hook_forward(trainer, module, own),
                  module._register_load_state_dict_pre_hook(BeforeLoad(trainer, own))]
    return added


def hook_forwards(trainer: ForwardOwner, model: torch.nn.Module) -> list[Any]:
    """The trainer hears of each module's forward."""
    return [_hook_forward(trainer, module, {}) for module in model.modules()]


def _hook_forward(trainer: ForwardOwner, module: torch.nn.Module,
                  own: Mapping[str, Parameter]) -> Any:
    hook = module.register_forward_pre_hook(BeforeForward(trainer, own))
    # Before hooks that compute with parameters, as those of weight_norm.
    hooks: Any = module._forward_pre_hooks
    hooks.move_to_end(hook.id, last=False)
    return hook


def on_gradient(trainer: HookOwner, parameter: Parameter) -> tuple[Any, object]:
    """Sends the parameter's gradient whenever backward has made it. Returns what after_gradient
    does."""
    reference = weakref.ref(trainer)

    def send(*unused: object) -> None:
        alive = reference()
        if alive is None:
            return
        if not parameter.is_current and parameter.sent is None:
            raise WrongOrder(
                f"{parameter.name} was used in a forward before the last ct.step(), or past "
                "torch's functions, as by a transform of torch.func, so its values may have "
                "been old; call ct.wait() first, and after a step that has trained it run "
                "forward again")
        parameter.has_gradient = True
        if alive._syncs and not alive._defers:
            alive._send(parameter)

    return after_gradient(parameter.tensor, send)


def after_gradient(tensor: Any, call: Callable[..., None]) -> tuple[Any, object]:
    """Calls it whenever backward has added to the tensor's gradient. Returns the hook, and what has to
    live as long."""
    def call_in_backward(*unused: object) -> None:
        try:
            call()
        except LeftJob:
            pass  # a program that ends by one within backward may never end; ct.step() raises it, too

    if hasattr(tensor, "register_post_accumulate_grad_hook"):
        return tensor.register_post_accumulate_grad_hook(call_in_backward), None
    # Before torch 2.1: the node that accumulates the gradient, found by way of a view. One that
    # nobody holds is made anew, without the hook.
    with torch.enable_grad():
        node = tensor.expand_as(tensor).grad_fn.next_functions[0][0]
    return node.register_hook(call_in_backward), node
