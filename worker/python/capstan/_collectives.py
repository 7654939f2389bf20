"""Operations of all workers: on numbers, NumPy's arrays and torch's tensors."""

from __future__ import annotations

import contextlib
import ctypes
import math
import numbers
import threading
from typing import Any, Callable, Iterator, NamedTuple, Union

from capstan import _errors, _library
from capstan._open_job import OpenJob

_OPERATIONS = {"sum": 1, "mean": 2, "min": 3, "max": 4}
# How a type travels, and what its sums have.
_TRAVELS = {
    "bool": "int64",
    "int8": "int64", "int16": "int64", "int32": "int64", "int64": "int64",
    "uint8": "int64", "uint16": "int64", "uint32": "int64",
    "float16": "float32", "bfloat16": "float32", "float32": "float32",
    "float64": "float64",
}
_DTYPES = {"float32": _library.FLOAT32, "float64": _library.FLOAT64, "int64": _library.INT64}


class Part(NamedTuple):
    """A worker's values on their way."""

    pointer: int
    shape: tuple[int, ...]  # of a number: ()
    dtype: int
    # What has taken the place of the values, as what the caller gave. True: whole numbers are int64.
    result: Callable[[bool], Any]

    @property
    def num_elements(self) -> int:
        return math.prod(self.shape)


def operation_of(op: str) -> int:
    if op not in _OPERATIONS:
        raise _errors.InvalidArgument(f"op: expected 'sum', 'mean', 'min' or 'max', got {op!r}")
    return _OPERATIONS[op]


def part_of(value: Any) -> Part:
    """A copy of the value: a number, an array or a tensor on any device."""
    if isinstance(value, (bool, numbers.Integral)):
        return _of_number(int(value), type(value) if isinstance(value, bool) else int)
    if isinstance(value, numbers.Real) and not hasattr(value, "dtype"):
        return _of_number(float(value), float)
    if hasattr(value, "data_ptr"):
        return _of_tensor(value)
    return _of_array(value)


def _of_number(value: Union[int, float], kind: type) -> Part:
    is_whole = isinstance(value, int)
    if is_whole and not -2**63 <= value < 2**63:
        raise _errors.InvalidArgument(f"expected a whole number of 64 bits, got {value}")
    place: Any = ctypes.c_int64(int(value)) if is_whole else ctypes.c_double(value)
    return Part(ctypes.addressof(place), (), _library.INT64 if is_whole else _library.FLOAT64,
                lambda widens: (int if widens and kind is bool else kind)(place.value))


def _travels(dtype: str) -> str:
    if dtype not in _TRAVELS:
        raise _errors.InvalidArgument(
            f"expected numbers of one of the types {', '.join(_TRAVELS)}, got {dtype}")
    return _TRAVELS[dtype]


def _of_tensor(tensor: Any) -> Part:
    import torch

    name = _travels(str(tensor.dtype).rpartition(".")[2])
    wide = getattr(torch, name)
    copy = tensor.detach().to("cpu", wide, copy=True).contiguous()

    def result(widens: bool) -> Any:
        is_whole = name == "int64"
        return copy.to(tensor.device, wide if widens and is_whole else tensor.dtype)

    return Part(copy.data_ptr(), tuple(copy.shape), _DTYPES[name], result)


def _of_array(value: Any) -> Part:
    import numpy  # the package works without it

    array = numpy.asarray(value)
    name = _travels(array.dtype.name)
    copy = numpy.array(array, dtype=name, order="C", copy=True)

    def result(widens: bool) -> Any:
        is_whole = name == "int64"
        back = copy if widens and is_whole else copy.astype(array.dtype)
        return back if back.ndim > 0 else back[()]

    return Part(copy.ctypes.data, copy.shape, _DTYPES[name], result)


class Collectives:
    """What all workers of a job do together beside its tables, under BSP only, between the job's
    start and its finish. Every worker makes the same calls in the same order. Workers that differ
    fail the job, which names them. Results have the same bits everywhere: values are combined in
    order of rank.

    This class knows what values may be. Those derived from it bring them together.
    """

    def all_reduce(self, value: Any, op: str = "mean") -> Any:
        """The mean, "sum", "min" or "max" of the workers' values, which have the same shape.

        value: a number, an array or a tensor, also on a GPU; at most 1 MiB. Whole numbers are exact
        with 64 bits, where sums wrap, and have no mean except Python's own. Sums of smaller whole numbers and of
        bools are int64; float16 and bfloat16 are combined as float32.

        Returns what is like `value`. Raises InvalidArgument; WrongOrder under SSP and async.
        """
        operation = operation_of(op)
        if op == "mean" and isinstance(value, numbers.Integral):
            value = float(value)
        part = part_of(value)
        self._combine(operation, part)
        return part.result(op == "sum")

    def broadcast(self, value: Any, root: int = 0) -> Any:
        """The value of the worker `root`. All give one of the same type and shape."""
        if not isinstance(root, numbers.Integral) or not 0 <= root < 2**31:
            raise _errors.InvalidArgument(f"root: expected a worker's rank from 0 on, got {root!r}")
        part = part_of(value)
        self._spread(int(root), part)
        return part.result(False)

    def barrier(self) -> None:
        """Waits until all workers have called it."""
        raise NotImplementedError

    def stop(self, flag: Any) -> bool:
        """Whether any worker's flag is true: all end their loops after the same step, also before
        the job's --steps are done, unless it stays."""
        return bool(self.all_reduce(bool(flag), "max"))

    @contextlib.contextmanager
    def join(self) -> Iterator[None]:
        """Around a loop over batches of which workers have different numbers. At its end, a worker
        goes on with steps without a gradient, which count as zeros in the mean, until all are there.
        What the others reduce meanwhile is theirs alone."""
        yield
        while self._others_go_on():
            self._end_empty_step()

    @property
    def _keeps_values(self) -> bool:
        raise NotImplementedError

    def _combine(self, operation: int, part: Part) -> None:
        """All workers' values take the place of this worker's."""
        raise NotImplementedError

    def _spread(self, root: int, part: Part) -> None:
        """The values of `root` take the place of this worker's."""
        raise NotImplementedError

    def _end_empty_step(self) -> None:
        raise NotImplementedError

    def _others_go_on(self) -> bool:
        """Whether another worker does the step that comes next. Waits until that is known."""
        raise NotImplementedError


class OpenCollectives(Collectives):
    """Those of an open job."""

    def __init__(self, open_job: OpenJob) -> None:
        self._open = open_job
        self._is_calling = threading.Lock()  # one thread after the other
        self._has_agreed_to_stop = False

    def _call(self, function: Callable[..., int], *arguments: object) -> None:
        with self._is_calling:
            self._open.wait_for(function, *arguments)

    @property
    def _keeps_values(self) -> bool:
        return int(self._open.library.capstan_keeps_values(self._open.pointer())) == 1

    def barrier(self) -> None:
        """Waits until all workers have called it."""
        self._call(self._open.library.capstan_barrier)

    def stop(self, flag: Any) -> bool:
        """As Collectives.stop says."""
        stops = ctypes.c_int32()
        self._call(self._open.library.capstan_stop, int(bool(flag)), stops)
        self._has_agreed_to_stop = self._has_agreed_to_stop or bool(stops.value)
        return bool(stops.value)

    def _combine(self, operation: int, part: Part) -> None:
        self._call_with(self._open.library.capstan_all_reduce_tensor, operation, part)

    def _spread(self, root: int, part: Part) -> None:
        self._call_with(self._open.library.capstan_broadcast_tensor, root, part)

    def _call_with(self, function: Callable[..., int], which: int, part: Part) -> None:
        num_dims = len(part.shape)
        shape = (ctypes.c_uint64 * num_dims)(*part.shape)
        self._call(function, which, part.pointer, shape, num_dims, part.dtype)

    def _end_empty_step(self) -> None:
        self._open.wait_for(self._open.library.capstan_end_step, float("nan"), 0)

    def _others_go_on(self) -> bool:
        goes_on = ctypes.c_int32()
        self._call(self._open.library.capstan_join, goes_on)
        return bool(goes_on.value)
