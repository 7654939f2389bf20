"""Refuses tensors of a model that share memory: the servers would hold each by itself."""

from __future__ import annotations

from typing import Iterable

import torch

from capstan._errors import InvalidArgument

Named = tuple[str, torch.Tensor]


def tensors_of(model: torch.nn.Module) -> list[Named]:
    """The buffers, and tensors that are plain attributes of modules."""
    tensors = list(model.named_buffers())
    for prefix, module in model.named_modules():
        # Hooks before forward, as those of spectral_norm, compute attributes anew.
        if module._forward_pre_hooks:
            continue
        tensors += [(f"{prefix}.{name}" if prefix else name, value)
                    for name, value in vars(module).items() if isinstance(value, torch.Tensor)]
    return tensors


def expect_own_memory(trained: Iterable[Named], others: Iterable[Named]) -> None:
    """Raises InvalidArgument unless no element of a trained tensor is one of another tensor too."""
    tensors = {id(tensor): (name, tensor) for name, tensor in others if _has_memory(tensor)}
    trained = [one for one in trained if _has_memory(one[1])]
    trained_ids = {id(tensor) for _, tensor in trained}
    tensors.update({id(tensor): (name, tensor) for name, tensor in trained})
    for name, tensor in trained:
        if repeats_elements(tensor):
            raise InvalidArgument(f"{name} is an expanded tensor, whose elements share memory; "
                                  "make the parameter of its clone()")
    open_ones: list[Named] = []
    for name, tensor in sorted(tensors.values(), key=lambda one: one[1].data_ptr()):
        begin = tensor.data_ptr()
        open_ones = [one for one in open_ones if begin < one[1].data_ptr() + _extent(one[1])]
        for other_name, other in open_ones:
            if not trained_ids.isdisjoint((id(tensor), id(other))) and _overlap(tensor, other):
                raise InvalidArgument(_shared(other_name, name))
        open_ones.append((name, tensor))


def repeats_elements(tensor: torch.Tensor) -> bool:
    """Whether one place in memory is several elements, as after expand."""
    strides = zip(tensor.shape, tensor.stride())
    return (any(size > 1 and stride == 0 for size, stride in strides)
            or _extent(tensor) < tensor.numel() * tensor.element_size())


def _has_memory(tensor: torch.Tensor) -> bool:
    return (not torch.nn.parameter.is_lazy(tensor) and tensor.layout is torch.strided
            and not hasattr(tensor, "full_tensor")  # the ranks' parts are nobody else's
            and tensor.device.type in ("cpu", "cuda") and tensor.numel() > 0)


def _extent(tensor: torch.Tensor) -> int:
    """Bytes from the first element to the end of the last one."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return (last + 1) * tensor.element_size()


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors in one range of memory have an element in common. Columns of a matrix
    have not."""
    if any(_extent(each) == each.numel() * each.element_size() for each in (one, other)):
        return True
    return bool(torch.isin(_addresses(one), _addresses(other)).any())


def _addresses(tensor: torch.Tensor) -> torch.Tensor:
    addresses = torch.tensor([tensor.data_ptr()], dtype=torch.int64, device="cpu")
    for size, stride in zip(tensor.shape, tensor.stride()):
        steps = torch.arange(size, dtype=torch.int64, device="cpu") * stride
        addresses = (addresses[:, None] + steps * tensor.element_size()).flatten()
    return addresses


def _shared(first: str, second: str) -> str:
    return (f"{second} and {first} share memory, as after .data = or as a view, and would come "
            "apart, since the servers hold each parameter by itself; tie weights by the parameter "
            "itself, as lm_head.weight = embedding.weight, and make anything else a clone()")
