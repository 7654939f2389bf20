"""Notices that the modules of an attached model are no longer those of ct.attach."""

from __future__ import annotations

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
        self._children = [(one._modules, dict(one._modules)) for one in modules if one._modules]
        self._own = [(one._parameters, len(one._parameters)) for one in modules]
        self._parameters = [(one._parameters, name, tensor) for one in modules
                            for name, tensor in one._parameters.items()]

    def expect_unchanged(self) -> None:
        """Raises WrongOrder if what the servers train is not what the model has."""
        if (all(now == before for now, before in self._children)
                and all(len(now) == before for now, before in self._own)
                and all(now.get(name) is tensor for now, name, tensor in self._parameters)):
            return
        now = _held(self._model)
        for before, after, text in [(self._held, now, "is no longer in the model"),
                                    (now, self._held, "was not in the model at ct.attach")]:
            for one in before.keys() - after.keys():
                raise WrongOrder(f"{before[one]} {text}, but the servers train what the model had "
                                 "then; add and replace layers before ct.attach")
        self._look()  # what was replaced has no parameters


def _held(model: torch.nn.Module) -> dict[object, str]:
    """The names of what servers train, or compare."""
    names: dict[object, str] = {one: name for name, one in model.named_parameters()}
    names.update({one: name for name, one in model.named_modules()
                  if isinstance(one, EmbeddingBag)})
    return names
