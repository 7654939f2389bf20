"""Notices that the modules of an attached model are no longer those of ct.attach."""

from __future__ import annotations

import operator

import torch

from capstan._errors import WrongOrder
from capstan._torch_embedding_bag import EmbeddingBag


class Structure:
    """The modules and the parameters of a model at ct.attach."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._held = _held(model)
        self._look()

    def _look(self) -> None:
        modules = list(self._model.modules())
        self._children = [one._modules for one in modules]
        self._children_then = [dict(one) for one in self._children]
        self._own = [one._parameters for one in modules]
        self._counts = list(map(len, self._own))
        parameters = [(own, name, tensor) for own in self._own for name, tensor in own.items()]
        self._owners = [own for own, _, _ in parameters]
        self._names = [name for _, name, _ in parameters]
        self._tensors = [tensor for _, _, tensor in parameters]

    def expect_unchanged(self) -> None:
        """Raises WrongOrder if what the servers train is not what the model has."""
        # Each step does this: a few calls for all modules together.
        if (self._children == self._children_then and list(map(len, self._own)) == self._counts
                and all(map(operator.is_, map(dict.get, self._owners, self._names),
                            self._tensors))):
            return
        now = _held(self._model)
        for before, after, text in [(self._held, now, "is no longer in the model"),
                                    (now, self._held, "was not in the model at ct.attach")]:
            for one, name in before.items():
                if one not in after:
                    raise WrongOrder(f"{name} {text}, and the servers train what the model had "
                                     "there; add and replace layers before ct.attach")
        self._look()  # what was replaced has no parameters


def _held(model: torch.nn.Module) -> dict[object, str]:
    """The names of what servers train, or compare."""
    names: dict[object, str] = {one: name for name, one in model.named_parameters()}
    names.update({one: name for name, one in model.named_modules()
                  if isinstance(one, EmbeddingBag)})
    return names
