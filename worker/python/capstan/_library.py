"""libcapstan.so: the C interface of capstan.h, for ctypes."""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import POINTER, Structure, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64
from ctypes import c_uint32, c_void_p

from capstan import _errors

API_VERSION = 7

OK = 0
TIMEOUT = 1
WRONG_ORDER = 3
LEFT = 5
# By capstan_status.
ERRORS: dict[int, type[_errors.Error]] = {
    2: _errors.InvalidArgument,
    3: _errors.WrongOrder,
    4: _errors.JobFailed,
    6: _errors.Forked,
    7: _errors.OutOfMemory,
}

FLOAT32 = 0
FLOAT16 = 1
BFLOAT16 = 2
FLOAT64 = 3
INT64 = 4


class OptimizerStruct(Structure):
    """capstan_optimizer"""

    _fields_ = [
        ("type", c_int32),
        ("learning_rate", c_double),
        ("momentum", c_double),
        ("beta1", c_double),
        ("beta2", c_double),
        ("epsilon", c_double),
        ("weight_decay", c_double),
    ]


class DenseOptimizerStruct(Structure):
    """capstan_dense_optimizer"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("basic", OptimizerStruct),
        ("alpha", c_double),
        ("dampening", c_double),
        ("centered", c_int32),
        ("amsgrad", c_int32),
        ("maximize", c_int32),
    ]


class ConnectOptions(Structure):
    """capstan_connect_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("coordinator", c_char_p),
        ("keys", c_char_p),
        ("insecure", c_int32),
        ("has_rank", c_int32),
        ("rank", c_int32),
        ("steps", c_int64),
        ("rpc_deadline_seconds", c_double),
        ("device", c_char_p),
        ("trace", c_char_p),
        ("record_history", c_char_p),
        ("metrics_listen", c_char_p),
        ("health_listen", c_char_p),
        ("replaceable", c_int32),
        ("part", c_int32),
        ("incarnation", c_uint64),
        ("processes", c_char_p),
    ]


class TableStruct(Structure):
    """capstan_table"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("shape", POINTER(c_uint64)),
        ("dimensions", c_size_t),
        ("layer", c_int32),
        ("optimizer", POINTER(OptimizerStruct)),
        ("initial", c_void_p),
        ("initial_dtype", c_int32),
        ("initial_from_worker", c_int32),
        ("initial_stddev", c_double),
        ("dense_optimizer", POINTER(DenseOptimizerStruct)),
        ("replies_mean", c_int32),
        ("reserved", c_int32),
        ("elsewhere", c_int32),
        ("reserved2", c_int32),
        ("tensor", c_char_p),
    ]


class RowOptimizerStruct(Structure):
    """capstan_row_optimizer"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("type", c_int32),
        ("learning_rate", c_double),
        ("epsilon", c_double),
        ("beta1", c_double),
        ("beta2", c_double),
        ("beta", c_double),
        ("l1", c_double),
        ("l2", c_double),
    ]


class SparseTableStruct(Structure):
    """capstan_sparse_table"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("dim", c_uint32),
        ("layer", c_int32),
        ("optimizer", POINTER(RowOptimizerStruct)),
        ("initial_stddev", c_double),
        ("admitting_push", c_uint32),
        ("max_idle_steps", c_uint64),
        ("max_rows", c_uint64),
    ]


class LocalStepsStruct(Structure):
    """capstan_local_steps"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("sync_every", c_int64),
        ("round_seconds", c_double),
        ("fragments", c_int32),
        ("fragment_sync_delay", c_int32),
    ]


# The functions of capstan.h: what each returns, and its arguments.
FUNCTIONS: dict[str, tuple[object, list[object]]] = {
    "capstan_api_version": (c_int32, []),
    "capstan_version": (c_char_p, []),
    "capstan_last_error": (c_char_p, []),
    "capstan_connect": (c_int32, [POINTER(ConnectOptions), POINTER(c_void_p)]),
    "capstan_add_table": (c_int32, [c_void_p, POINTER(TableStruct), POINTER(c_int32)]),
    "capstan_add_sparse_table":
        (c_int32, [c_void_p, POINTER(SparseTableStruct), POINTER(c_int32)]),
    "capstan_set_local_steps": (c_int32, [c_void_p, POINTER(LocalStepsStruct)]),
    "capstan_start": (c_int32, [c_void_p, c_int64]),
    "capstan_rank": (c_int32, [c_void_p]),
    "capstan_num_workers": (c_int32, [c_void_p]),
    "capstan_step": (c_int64, [c_void_p]),
    "capstan_steps_of_job": (c_int64, [c_void_p]),
    "capstan_keeps_values": (c_int32, [c_void_p]),
    "capstan_incarnation": (c_uint64, [c_void_p]),
    "capstan_values": (c_void_p, [c_void_p, c_int32]),
    "capstan_gradient": (c_void_p, [c_void_p, c_int32]),
    "capstan_read_values": (c_int32, [c_void_p, c_int32, c_void_p, c_size_t, c_int32]),
    "capstan_write_gradient": (c_int32, [c_void_p, c_int32, c_void_p, c_size_t, c_int32]),
    "capstan_wait": (c_int32, [c_void_p, c_int32, c_int64]),
    "capstan_push": (c_int32, [c_void_p, c_int32, c_int64]),
    "capstan_push_nothing": (c_int32, [c_void_p, c_int32, c_int64]),
    "capstan_updates": (c_int64, [c_void_p, c_int32]),
    "capstan_pull_rows": (c_int32, [c_void_p, c_int32, c_void_p, c_size_t, c_int64]),
    "capstan_read_rows": (c_int32, [c_void_p, c_int32, c_void_p, c_size_t, c_int64]),
    "capstan_push_rows": (c_int32, [c_void_p, c_int32, c_void_p, c_size_t, c_void_p, c_void_p,
                                    c_size_t, c_int64]),
    "capstan_set_learning_rate": (c_int32, [c_void_p, c_int32, c_double]),
    "capstan_set_momentum": (c_int32, [c_void_p, c_int32, c_double]),
    "capstan_optimizer_arrays": (c_int32, [c_void_p, c_int32]),
    "capstan_read_optimizer_state": (c_int32, [c_void_p, c_int32, c_int32, c_void_p, c_size_t,
                                               POINTER(c_int64), c_int64]),
    "capstan_load_optimizer_state": (c_int32, [c_void_p, c_int32, c_int32, c_void_p, c_size_t,
                                               c_int64, c_int64]),
    "capstan_keep_table": (c_int32, [c_void_p, c_int32, POINTER(c_void_p), c_size_t, c_size_t,
                                     c_int32, c_int64]),
    "capstan_worker_state_put": (c_int32, [c_void_p, c_char_p, c_char_p, c_size_t]),
    "capstan_worker_state_get": (c_int32, [c_void_p, c_char_p, c_void_p, POINTER(c_size_t)]),
    "capstan_worker_state_due": (c_int32, [c_void_p, POINTER(c_int32), c_int64]),
    "capstan_all_reduce": (c_int32, [c_void_p, c_int32, c_void_p, c_size_t, c_int32, c_int64]),
    "capstan_all_reduce_tensor": (c_int32, [c_void_p, c_int32, c_void_p, POINTER(c_uint64),
                                            c_size_t, c_int32, c_int64]),
    "capstan_broadcast": (c_int32, [c_void_p, c_int32, c_void_p, c_size_t, c_int32, c_int64]),
    "capstan_broadcast_tensor": (c_int32, [c_void_p, c_int32, c_void_p, POINTER(c_uint64),
                                           c_size_t, c_int32, c_int64]),
    "capstan_barrier": (c_int32, [c_void_p, c_int64]),
    "capstan_stop": (c_int32, [c_void_p, c_int32, POINTER(c_int32), c_int64]),
    "capstan_join": (c_int32, [c_void_p, POINTER(c_int32), c_int64]),
    "capstan_note_round": (c_int32, [c_void_p, c_int64, c_double]),
    "capstan_end_step": (c_int32, [c_void_p, c_double, c_uint64, c_int64]),
    "capstan_finish": (c_int32, [c_void_p, POINTER(c_int32), c_int64]),
    "capstan_report": (c_int32, [c_void_p, c_double, c_double, c_uint64, c_int64]),
    "capstan_leave": (c_int32, [c_void_p]),
    "capstan_fail": (c_int32, [c_void_p, c_char_p]),
    "capstan_close": (None, [c_void_p]),
}


@functools.lru_cache(maxsize=None)
def load() -> ctypes.CDLL:
    """The library that came with this package."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "libcapstan.so")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"cannot load {path}: {error}; install Capstan's wheel, made by deploy/wheel.sh"
        ) from error
    declare(library)
    version = library.capstan_api_version()
    if version < API_VERSION:
        raise ImportError(f"expected version {API_VERSION} or later of capstan.h in {path}, got "
                          f"{version}; install Capstan's wheel anew")
    return library


def declare(library: ctypes.CDLL) -> None:
    """Gives the functions of the library the types of capstan.h."""
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments


def last_error() -> str:
    """The message of this thread's latest failed call."""
    return str((load().capstan_last_error() or b"").decode(errors="replace"))


def raise_status(status: int, message: str) -> None:
    """Raises what `status` stands for, unless it is OK."""
    if status == OK:
        return
    if status == LEFT:
        raise _errors.LeftJob(message)
    raise ERRORS.get(status, _errors.Error)(message)


def check(status: int) -> None:
    """As raise_status, with the latest message."""
    if status != OK:
        raise_status(status, last_error())


