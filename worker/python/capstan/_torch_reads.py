"""Reads of a parameter whose values are on their way: the first one waits for them."""

from __future__ import annotations

import copy
import ctypes
import functools
import sys
from typing import Any, Callable, Iterable

import torch

_C: Any = torch._C
# Within, torch asks no class what to do: for accesses that read no values.
NoDispatch: Any = getattr(_C, "DisableTorchFunctionSubclass", None) or _C.DisableTorchFunction


def _accesses_without_values() -> set[object]:
    """What a training loop may do right after a step without a wait. Not `device`: DataParallel
    looks at it before it copies parameters past torch's functions."""
    tensor: Any = torch.Tensor
    methods = {"dim", "element_size", "is_complex", "is_floating_point", "nelement", "numel",
               "register_hook", "register_post_accumulate_grad_hook", "requires_grad_", "size"}
    found = {getattr(tensor, name) for name in methods if hasattr(tensor, name)}
    for name in ("_version", "dtype", "grad", "grad_fn", "is_leaf", "layout", "ndim",
                 "requires_grad", "shape"):
        found.add(getattr(tensor, name).__get__)
    return found | {tensor.grad.__set__, tensor.grad.__delete__, tensor.requires_grad.__set__}


_WITHOUT_VALUES = _accesses_without_values()


def waiting_class(kind: Any, read: Callable[[list[Any], Callable[[], Any]], Any]) -> Any:
    """The class of parameters whose values are on their way; with them they are of class `kind`.

    read: called with the waiting parameters of an operation, and what runs the operation, whose
    result it returns. Makes them of class `kind` before.
    """

    class Waiting(kind):  # type: ignore[misc]
        def __deepcopy__(self, memo: Any) -> Any:
            return read([self], lambda: copy.deepcopy(self, memo))

        # Torch calls it before each operation on a parameter of this class.
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (),
                               kwargs: Any = None) -> Any:
            named = kwargs or {}
            if function in _WITHOUT_VALUES:
                with NoDispatch():
                    return function(*args, **named)
            waiting = list(_of_class(cls, (*args, *named.values())))
            return read(waiting, lambda: function(*args, **named))

    return Waiting


def _of_class(kind: Any, values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if type(value) is kind:
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _of_class(kind, value)
        elif isinstance(value, dict):
            yield from _of_class(kind, value.values())


class Views:
    """The tensors that share the memory of a parameter: a program may read through them past the
    parameter, as through parameter.detach().numpy() of an earlier step."""

    def __init__(self, storage: Any) -> None:
        # While this is held, the count below is one larger, and its address valid.
        self._storage = storage
        address = self._storage._cdata
        self._count: Callable[[], int]
        if hasattr(_C, "_storage_Use_Count"):
            self._count = functools.partial(_C._storage_Use_Count, address)
        else:
            # Before torch 2.1: behind the object's table of virtual functions.
            counter = ctypes.c_size_t.from_address(address + ctypes.sizeof(ctypes.c_void_p))
            self._count = lambda: counter.value
        self._num_own = 1  # this

    @staticmethod
    def of(parameter: Any, known: dict[int, Views]) -> Views:
        """Those of a parameter. `known`: of the model's other parameters, by their memory: on a GPU
        the parameters of a recurrent layer share it."""
        storage = (parameter.untyped_storage() if hasattr(parameter, "untyped_storage")
                   else parameter.storage().untyped())
        views = known.setdefault(storage._cdata, Views(storage))
        views._num_own += 1
        return views

    def exist(self) -> bool:
        return self._count() > self._num_own


def checksum(parameter: torch.Tensor) -> int:
    """Of the bits of a parameter's values, or of a gradient."""
    values = parameter.detach().reshape(-1)
    if values.numel() * values.element_size() % 8 == 0 and values.data_ptr() % 8 == 0:
        return int(values.view(torch.int64).sum())
    return int(values.view({2: torch.int16, 4: torch.int32}[values.element_size()]).sum())


def has_compiled() -> bool:
    """Whether torch.compile has compiled something in this process."""
    dynamo: Any = sys.modules.get("torch._dynamo.convert_frame")
    return dynamo is not None and getattr(dynamo, "FRAME_COUNTER", 0) > 0
