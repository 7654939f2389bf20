"""Warns of a zero_grad that is missing in a program with several models."""

from __future__ import annotations

import warnings
import weakref
from typing import Any, Iterable, Mapping

import torch

from capstan._torch_hooks import after_gradient


class Leftovers:
    """The gradients that backward has left in models whose optimizer has not stepped since. The
    backward of a generator's loss leaves some in the discriminator.

    parameters: of all models, by name.
    """

    def __init__(self, parameters: Mapping[str, torch.Tensor]) -> None:
        self._touched: set[int] = set()  # what backward has reached since its optimizer's step
        self._left: dict[int, tuple[torch.Tensor, int]] = {}  # as of the last step of another one
        self._has_warned = False
        self._hooks = [self._hook(name, one) for name, one in parameters.items()
                       if one.requires_grad]

    def _hook(self, name: str, tensor: torch.Tensor) -> tuple[Any, object]:
        reference = weakref.ref(self)

        def on_gradient(*unused: object) -> None:
            alive = reference()
            if alive is not None:
                alive._note(name, tensor)

        return after_gradient(tensor, on_gradient)

    def _note(self, name: str, tensor: torch.Tensor) -> None:
        self._touched.add(id(tensor))
        left = self._left.pop(id(tensor), None)
        if left is None or self._has_warned:
            return
        gradient, version = left
        # What clears it counts as a change, too, or replaces it.
        if tensor.grad is gradient and gradient._version == version + 1:
            self._has_warned = True
            warnings.warn(f"the gradient of {name} was added to one from before another model's "
                          "step; call zero_grad() of its optimizer before the backward of its own "
                          "loss, as in plain torch")

    def note_step(self, stepped: Iterable[torch.Tensor], others: Iterable[torch.Tensor]) -> None:
        """The optimizer of the parameters `stepped` has stepped, and cleared their gradients."""
        for one in stepped:
            self._touched.discard(id(one))
            self._left.pop(id(one), None)
        for one in others:
            gradient = one.grad
            if gradient is not None and id(one) in self._touched:
                self._left[id(one)] = (gradient, gradient._version)

    def end(self) -> None:
        for hook, _ in self._hooks:
            hook.remove()
        self._hooks.clear()
