"""Where a tensor of any library lies: by its data_ptr, by DLPack, or as NumPy sees it."""

from __future__ import annotations

import contextlib
import ctypes
import math
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint16
from ctypes import c_uint64, c_uint8, c_void_p
from typing import Any, Callable, Iterator, NamedTuple, Optional

from capstan import _errors, _library

_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
# DLPack's codes of types, and bits.
_DTYPES = {
    (2, 32): _library.FLOAT32,
    (2, 16): _library.FLOAT16,
    (4, 16): _library.BFLOAT16,
}
_NAMES = {
    "float32": _library.FLOAT32,
    "float16": _library.FLOAT16,
    "bfloat16": _library.BFLOAT16,
}


class Memory(NamedTuple):
    """`size` elements of `dtype` at `pointer`, row-major. `owner` keeps them alive."""

    pointer: int
    size: int
    dtype: int
    on_gpu: bool
    owner: object


class _Tensor(Structure):
    """DLTensor, the first field of DLManagedTensor."""

    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("dimensions", c_int32),
        ("type_code", c_uint8),
        ("type_bits", c_uint8),
        ("type_lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


def memory_of(tensor: Any, stream: Optional[int] = None) -> Memory:
    """The memory of a dense, row-major float32, float16 or bfloat16 tensor.

    NumPy's arrays, numbers and lists are converted to float32 if they have to be.
    stream: for a tensor on a GPU, the stream (an address, such as torch.cuda.Stream.cuda_stream) on
    which it is to be ready.
    """
    if hasattr(tensor, "data_ptr"):
        return _of_data_ptr(tensor)
    if hasattr(tensor, "__dlpack__") and not hasattr(tensor, "__array_interface__"):
        return _of_dlpack(tensor, stream)
    import numpy  # the package works without it

    if numpy.iscomplexobj(tensor):
        raise _wrong_dtype("complex numbers")
    array = numpy.ascontiguousarray(tensor, dtype=numpy.float32)
    return Memory(array.ctypes.data, array.size, _library.FLOAT32, False, array)


def _of_data_ptr(tensor: Any) -> Memory:
    dtype = _NAMES.get(str(tensor.dtype).rpartition(".")[2])
    if dtype is None:
        raise _wrong_dtype(tensor.dtype)
    if not tensor.is_contiguous():
        raise _not_contiguous()
    device = str(getattr(tensor, "device", "cpu")).partition(":")[0]
    if device not in ("cpu", "cuda"):
        raise _errors.InvalidArgument(
            f"expected a tensor on cpu or cuda, got one on {device}; copy it")
    on_gpu = device == "cuda"
    return Memory(tensor.data_ptr(), tensor.numel(), dtype, on_gpu, tensor)


def _of_dlpack(tensor: Any, stream: Optional[int]) -> Memory:
    # The capsule stays unconsumed: it gives the tensor back when it is dropped.
    on_gpu = tensor.__dlpack_device__()[0] in (_CUDA, _CUDA_MANAGED)
    # To DLPack the default stream, whose address is 0, is number 1.
    capsule = tensor.__dlpack__(stream=stream or 1) if on_gpu else tensor.__dlpack__()
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = c_void_p
    get_pointer.argtypes = [ctypes.py_object, c_char_p]
    address = get_pointer(capsule, b"dltensor")
    if address is None:
        raise _errors.InvalidArgument("expected a DLPack capsule that is not yet consumed")
    view = _Tensor.from_address(address)
    if view.device_type not in (_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED):
        raise _errors.InvalidArgument("expected a tensor in memory of the CPU or of a CUDA GPU; "
                                      "copy it to the CPU first")
    dtype = _DTYPES.get((view.type_code, view.type_bits)) if view.type_lanes == 1 else None
    if dtype is None:
        raise _wrong_dtype(f"type {view.type_code} of {view.type_bits} bits")
    shape = view.shape[:view.dimensions]
    if view.strides and view.strides[:view.dimensions] != _row_major(shape):
        raise _not_contiguous()
    return Memory((view.data or 0) + view.byte_offset, math.prod(shape), dtype, on_gpu, capsule)


def _row_major(shape: list[int]) -> list[int]:
    strides = [1] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        strides[i] = strides[i + 1] * shape[i + 1]
    return strides


def _wrong_dtype(got: object) -> _errors.InvalidArgument:
    return _errors.InvalidArgument(
        f"expected elements of float32, float16 or bfloat16, got {got}; convert the tensor first")


def _not_contiguous() -> _errors.InvalidArgument:
    return _errors.InvalidArgument(
        "expected a tensor whose elements follow each other, row by row; make it contiguous first")


def copy_from_gpu(destination: int, source: int, count_bytes: int, stream: int) -> None:
    """Copies from a GPU to this process's memory, after what `stream` was given before."""
    with _device_of(source) as driver:
        driver("cuMemcpyDtoHAsync_v2", c_void_p(destination), c_uint64(source),
               c_size_t(count_bytes), c_void_p(stream))
        driver("cuStreamSynchronize", c_void_p(stream))


def copy_to_gpu(destination: int, source: int, count_bytes: int, stream: int) -> None:
    """Copies from this process's memory to a GPU, after what `stream` was given before."""
    with _device_of(destination) as driver:
        driver("cuMemcpyHtoDAsync_v2", c_uint64(destination), c_void_p(source),
               c_size_t(count_bytes), c_void_p(stream))
        driver("cuStreamSynchronize", c_void_p(stream))


_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL


@contextlib.contextmanager
def _device_of(pointer: int) -> Iterator[Callable[..., None]]:
    """Within, calls of CUDA's driver are about the GPU with this memory: the default stream is that
    of the GPU's primary context, which CUDA's libraries share. Gives what makes such a call."""
    library = ctypes.CDLL("libcuda.so.1")

    def driver(name: str, *arguments: object) -> None:
        result = getattr(library, name)(*arguments)
        if result:
            raise _errors.Error(f"{name} failed with CUDA's error {result}; expected a tensor that "
                                "is on a GPU of this process, and a stream of that GPU")

    device, context = c_int(), c_void_p()
    driver("cuPointerGetAttribute", byref(device), _DEVICE_ORDINAL, c_uint64(pointer))
    driver("cuDevicePrimaryCtxRetain", byref(context), device)
    try:
        driver("cuCtxPushCurrent_v2", context)
        try:
            yield driver
        finally:
            driver("cuCtxPopCurrent_v2", byref(c_void_p()))
    finally:
        driver("cuDevicePrimaryCtxRelease_v2", device)
