"""The order of what is done for parameters on a GPU. Streams and events are stand-ins that note
calls; copies are real, in the CPU's memory."""

from __future__ import annotations

import contextlib
import ctypes
import unittest
from typing import Iterator
from unittest import mock

import torch

from capstan import _torch_carriers

_notes: list[str] = []


class _Stream:
    def __init__(self, name: object) -> None:
        self.name = name if isinstance(name, str) else "side"

    def wait_stream(self, other: _Stream) -> None:
        _notes.append(f"{self.name} waits for {other.name}")

    def record_event(self) -> _Event:
        return _Event()

    def synchronize(self) -> None:
        _notes.append(f"{self.name} is waited for")


class _Event:
    def synchronize(self) -> None:
        _notes.append("the gradient is there")


class _Runtime:
    def cudaHostRegister(self, pointer: int, size: int, flags: int) -> int:
        _notes.append(f"locked {size} bytes")
        return 0

    def cudaHostUnregister(self, pointer: int) -> None:
        _notes.append("unlocked")


class _Table:
    shape = (3,)

    def __init__(self) -> None:
        self._values = (ctypes.c_float * 3)(1, 2, 3)
        self._gradient = (ctypes.c_float * 3)()

    def values_buffer(self) -> ctypes.Array[ctypes.c_float]:
        return self._values

    def gradient_buffer(self) -> ctypes.Array[ctypes.c_float]:
        return self._gradient


@contextlib.contextmanager
def _on_stream(stream: _Stream) -> Iterator[None]:
    _notes.append(f"on {stream.name}:")
    yield
    _notes.append("end")


class GpuTest(unittest.TestCase):
    def setUp(self) -> None:
        _notes.clear()
        computing = _Stream("computing")
        for name, stand_in in [("Stream", _Stream), ("stream", _on_stream),
                               ("current_stream", lambda device: computing),
                               ("cudart", _Runtime), ("check_error", lambda result: None)]:
            patch = mock.patch.object(torch.cuda, name, stand_in)
            patch.start()
            self.addCleanup(patch.stop)
        patch = mock.patch.object(torch.Tensor, "record_stream",
                                  lambda tensor, stream: _notes.append(f"kept for {stream.name}"))
        patch.start()
        self.addCleanup(patch.stop)
        self.gpu = _torch_carriers.Gpu(torch.device("cpu"))
        self.gpu.up.name, self.gpu.down.name = "up", "down"
        self.parameter = torch.zeros(3, requires_grad=True)
        self.table = _Table()
        self.carrier = _torch_carriers.GpuCopy(self.parameter, self.table, self.gpu)

    def test_values_come_between_what_read_the_old_and_what_reads_the_new(self) -> None:
        self.assertEqual(_notes, ["locked 12 bytes", "locked 12 bytes", "up waits for computing",
                                  "on up:", "end", "computing waits for up"])
        self.assertEqual(self.parameter.tolist(), [1, 2, 3])

    def test_a_push_waits_for_its_gradient(self) -> None:
        _notes.clear()
        gradient = torch.tensor([4.0, 5.0, 6.0])
        self.carrier.send(
            gradient, lambda: _notes.append(f"pushed {list(self.table.gradient_buffer())}"))
        self.gpu.flush()
        self.assertEqual(_notes[:4], ["down waits for computing", "on down:", "end",
                                      "kept for down"])
        self.assertEqual(_notes[4:], ["the gradient is there", "pushed [4.0, 5.0, 6.0]",
                                      "up is waited for"])

    def test_an_error_of_a_push_is_raised_by_flush(self) -> None:
        def push() -> None:
            raise ValueError("lost")

        self.carrier.send(torch.zeros(3), push)
        with self.assertRaisesRegex(ValueError, "lost"):
            self.gpu.flush()

    def test_pages_are_unlocked_at_the_end(self) -> None:
        _notes.clear()
        del self.carrier
        self.assertEqual(_notes, ["unlocked", "unlocked"])


if __name__ == "__main__":
    unittest.main()
