"""A job of the C library, as a Job and its tables call it."""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Callable, Optional

from capstan import _ending, _errors, _library


class Handle:
    """Owns the C library's job. Arrays that are views of its memory keep it alive."""

    def __init__(self, pointer: ctypes.c_void_p) -> None:
        self.pointer = pointer
        self._close = weakref.finalize(self, _library.load().capstan_close, pointer)

    def keep_open(self) -> None:
        """Never closes it: a call goes on in another thread."""
        self._close.detach()


class OpenJob:
    """The job until it is closed. Any thread may use it."""

    def __init__(self, pointer: ctypes.c_void_p) -> None:
        self.library = _library.load()
        self.handle: Optional[Handle] = Handle(pointer)
        self.owner: object = None  # the Job: a program that holds a table alone keeps it alive
        # Follows the error of a gradient that holds a NaN.
        self.advice_on_gradients = ("Try a smaller learning rate of the table's optimizer, and look "
                                    "at the data")

    def close(self) -> None:
        """The library's job goes once no array is a view of its memory."""
        self.handle = None

    def open_handle(self) -> Handle:
        if self.handle is None:
            raise _errors.WrongOrder("the job is closed; connect again")
        return self.handle

    def pointer(self) -> ctypes.c_void_p:
        return self.open_handle().pointer

    def wait_for(self, function: Callable[..., int], *arguments: object) -> None:
        """Calls a function that blocks for a while at most, until it is done."""
        handle = self.open_handle()  # so that no other thread's close frees it during the call
        status = function(handle.pointer, *arguments, _ending.WAIT_MS)
        while status == _library.TIMEOUT:
            self.open_handle()
            status = function(handle.pointer, *arguments, _ending.WAIT_MS)
        if status:
            _library.raise_status(status, self._with_advice(_library.last_error()))

    def _with_advice(self, message: str) -> str:
        is_of_gradient = "the gradient" in message and "holds a NaN or an infinity" in message
        return f"{message}. {self.advice_on_gradients}" if is_of_gradient else message

    def set_learning_rate(self, table: int, learning_rate: float) -> None:
        """Of all tables if `table` is -1."""
        _library.check(
            self.library.capstan_set_learning_rate(self.pointer(), table, learning_rate))

    def set_momentum(self, table: int, momentum: float) -> None:
        """Of all tables that have one if `table` is -1."""
        _library.check(self.library.capstan_set_momentum(self.pointer(), table, momentum))


def in_thread(call: Callable[[], int]) -> None:
    """Makes a call that can block for long, while this thread goes on to handle signals."""
    results: list[tuple[int, str]] = []

    def run() -> None:
        status = call()
        results.append((status, _library.last_error()))

    thread = threading.Thread(target=run, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # Python 3.12 starts none while the program ends
        run()
    while thread.is_alive():
        thread.join(_ending.WAIT_MS / 1000)
    _library.raise_status(*results[0])
