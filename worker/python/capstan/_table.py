"""A parameter tensor of a job, and the layers that tables are grouped into."""

from __future__ import annotations

import ctypes
import math
import threading
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence

from capstan import _ending, _errors, _library, _memory
from capstan._arguments import expect_whole
from capstan._open_job import OpenJob

if TYPE_CHECKING:
    import numpy
    import numpy.typing


class Layer:
    """Tables that are pushed and pulled together: once a step, when each has its gradient."""

    __slots__ = ("index", "tables", "_job", "_given", "_lock")

    def __init__(self, job: OpenJob, index: int) -> None:
        self.index = index
        self.tables: list[Table] = []
        self._job = job
        self._given: set[Table] = set()
        self._lock = threading.Lock()

    def wait(self) -> None:
        self._job.wait_for(self._job.library.capstan_wait, self.index)

    def push(self) -> None:
        """The gradients of all its tables are complete."""
        # Not by wait_for at first, which takes longer.
        job = self._job
        handle = job.handle
        push = job.library.capstan_push
        if handle is None or push(handle.pointer, self.index, _ending.WAIT_MS) != _library.OK:
            job.wait_for(push, self.index)

    def push_nothing(self) -> None:
        """No table has a gradient in this step. For programs that need the next values before the
        step ends."""
        self._job.wait_for(self._job.library.capstan_push_nothing, self.index)

    def give(self, table: Table) -> None:
        """The table's gradient is complete."""
        with self._lock:
            self._given.add(table)
            is_complete = len(self._given) == len(self.tables)
            if is_complete:
                self._given.clear()
        if is_complete:
            self.push()

    def expect_not_given(self, table: Table) -> None:
        """Raises WrongOrder if the layer waits for its other tables only."""
        if table in self._given:
            raise _errors.WrongOrder(
                f"table {table.name} has its gradient of this step; give the other tables of layer "
                f"{self.index} theirs")

    def expect_complete(self) -> None:
        if self._given:
            given = ", ".join(sorted(table.name for table in self._given))
            raise _errors.WrongOrder(
                f"layer {self.index} has a gradient of {given}, but not of its other tables; give "
                "each table of a layer one, or each table a layer of its own")


class Table:
    """A parameter tensor of a job; made by Job.table.

    Its values and its gradient are float32, row-major, in memory of the library. After `push_pull`
    the library owns both, until `wait` has returned.
    """

    def __init__(self, job: OpenJob, index: int, name: str, shape: tuple[int, ...],
                 layer: Layer) -> None:
        self.name = name
        self.shape = shape
        self.layer = layer.index
        self._job = job
        self._index = index
        self._layer = layer
        self._learning_rate: Optional[float] = None
        self._momentum: Optional[float] = None

    @property
    def values(self) -> numpy.typing.NDArray[numpy.float32]:
        """The values of the step that comes next, or that is under way. Waits until they have
        arrived. A read-only array of NumPy, without a copy: the values of later steps come into
        it."""
        self.wait()
        array = self._array(self.values_buffer())
        array.flags.writeable = False  # the servers' values are what counts
        return array

    @property
    def gradient(self) -> numpy.typing.NDArray[numpy.float32]:
        """Where the gradient is written, for a push_pull without one. An array of NumPy."""
        self.wait()
        return self._array(self.gradient_buffer())

    def push_pull(self, gradient: Any = None, *, stream: Optional[int] = None) -> None:
        """Sends this step's gradient, and asks for the next values, once a step.

        gradient: of the table's size: an array of NumPy, or a dense tensor of float32, float16 or
        bfloat16 of any library with DLPack or data_ptr; it is copied. None: it is in `gradient`
        already.
        stream: for a tensor on a GPU, the address of the stream that computes it, such as
        torch.cuda.Stream.cuda_stream.
        """
        self._layer.expect_not_given(self)
        if gradient is not None:
            self.wait()
            self._write(gradient, stream)
        self._layer.give(self)

    def wait(self) -> None:
        """Waits until the values of the step that comes next, or that is under way, are there."""
        self._layer.wait()

    def read(self, tensor: Any, *, stream: Optional[int] = None) -> None:
        """Waits for the values, and copies them into a tensor as push_pull takes them.

        stream: for a tensor on a GPU, the address of the stream for the copy.
        """
        self.wait()
        if hasattr(tensor, "__array_interface__"):
            tensor[...] = self.values
            return
        memory = self._memory_of(tensor, stream)
        if memory.on_gpu:
            _memory.copy_to_gpu(memory.pointer, ctypes.addressof(self.values_buffer()),
                                4 * memory.size, stream or 0)
            return
        _library.check(self._job.library.capstan_read_values(
            self._job.pointer(), self._index, memory.pointer, memory.size, memory.dtype))

    @property
    def learning_rate(self) -> Optional[float]:
        """The table's learning rate, if it was set here: then it takes the place of its
        optimizer's, from the next push on; 0 or more. In BSP the smallest rank's counts."""
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: float) -> None:
        self._job.set_learning_rate(self._index, learning_rate)
        self._learning_rate = learning_rate

    @property
    def momentum(self) -> Optional[float]:
        """As learning_rate: the momentum of SGD and RMSprop, which began with one above 0, or the
        first beta of Adam, AdamW and Lion. 0 to below 1."""
        return self._momentum

    @momentum.setter
    def momentum(self, momentum: float) -> None:
        self._job.set_momentum(self._index, momentum)
        self._momentum = momentum

    @property
    def optimizer_arrays(self) -> int:
        """The number of arrays that the servers' optimizer keeps, each as long as the table: 2 of
        Adam, 1 of a momentum, 0 of SGD. capstan.h says which."""
        return int(self._job.library.capstan_optimizer_arrays(self._job.pointer(), self._index))

    def read_optimizer_state(self, array: int, into: Any) -> int:
        """Waits for the values, and copies the array that belongs to them into an array of NumPy, or
        into a float32 tensor in the CPU's memory. Returns the number of steps that the optimizer has
        counted.

        In BSP, between two steps, it belongs exactly to `values`. In SSP and async it is as new as
        the servers'. After the last step only the worker that evaluates has it, before Job.report.
        """
        expect_whole("array", array, 2**31)
        if hasattr(into, "__array_interface__"):
            is_as_large = into.shape == self.shape or into.shape == (math.prod(self.shape),)
            if not (is_as_large and into.dtype.kind == "f" and into.flags.writeable):
                raise _errors.InvalidArgument(
                    f"table {self.name}: expected a writable array of floats of shape {self.shape}, "
                    f"got one of {into.dtype} of shape {into.shape}")
            buffer = (ctypes.c_float * math.prod(self.shape))()
            steps = self._read_state(array, ctypes.addressof(buffer), len(buffer))
            into[...] = self._array(buffer).reshape(into.shape)
            return steps
        if not (hasattr(into, "data_ptr") or hasattr(into, "__dlpack__")):
            raise _errors.InvalidArgument(f"table {self.name}: expected an array or a tensor for the "
                                          f"optimizer's state, got {type(into).__name__}")
        memory = self._state_of(into)
        return self._read_state(array, memory.pointer, memory.size)

    def _read_state(self, array: int, address: int, count: int) -> int:
        steps = ctypes.c_int64()
        self._job.wait_for(self._job.library.capstan_read_optimizer_state, self._index, array,
                           address, count, steps)
        return steps.value

    def load_optimizer_state(self, array: int, values: Any, steps: int) -> None:
        """The servers begin with this array, and count on from `steps`, the same for all arrays of
        the table. Worker 0's counts. A job that goes on from a checkpoint takes none. Before the
        first push; after Job.start in BSP only."""
        expect_whole("array", array, 2**31)
        expect_whole("steps", steps, 2**31)
        memory = self._state_of(values)
        self._job.wait_for(self._job.library.capstan_load_optimizer_state, self._index, array,
                           memory.pointer, memory.size, steps)

    @property
    def updates(self) -> int:
        """The number of updates in `values`. Waits for them."""
        self.wait()
        return int(self._job.library.capstan_updates(self._job.pointer(), self._index))

    def keep(self, arrays: Sequence[Any], *, is_last: bool = False) -> None:
        """Of a table with replies_mean, at rank 0: the parameters, and up to 16 arrays of the
        optimizer's state, for the checkpoint that Job.worker_state_is_due tells of; and before
        Job.finish, with `is_last`, for --output and readers. float32 in the CPU's memory."""
        memories = [self._state_of(one) for one in arrays]
        pointers = (ctypes.c_void_p * len(memories))(*(one.pointer for one in memories))
        self._job.wait_for(self._job.library.capstan_keep_table, self._index, pointers,
                           len(memories), math.prod(self.shape), int(is_last))

    def _state_of(self, tensor: Any) -> _memory.Memory:
        memory = self._memory_of(tensor, None)
        if memory.dtype != _library.FLOAT32:
            raise _errors.InvalidArgument(f"table {self.name}: expected float32 for the optimizer's "
                                          "state")
        return memory

    def values_buffer(self) -> ctypes.Array[ctypes.c_float]:
        """The memory of `values`, without a wait, for other libraries than NumPy."""
        return self._buffer(self._job.library.capstan_values)

    def gradient_buffer(self) -> ctypes.Array[ctypes.c_float]:
        """The memory of `gradient`, without a wait, for other libraries than NumPy."""
        return self._buffer(self._job.library.capstan_gradient)

    def _buffer(self, function: Callable[..., Optional[int]]) -> ctypes.Array[ctypes.c_float]:
        address = function(self._job.pointer(), self._index)
        if address is None:
            raise _errors.WrongOrder(
                f"table {self.name} has no memory before Job.start, nor in a forked child")
        buffer = (ctypes.c_float * math.prod(self.shape)).from_address(address)
        buffer._handle = self._job.handle  # type: ignore[attr-defined]
        return buffer

    def _array(self, buffer: Any) -> numpy.typing.NDArray[numpy.float32]:
        import numpy  # the package works without it

        return numpy.frombuffer(buffer, dtype=numpy.float32).reshape(self.shape)

    def _write(self, gradient: Any, stream: Optional[int]) -> None:
        memory = self._memory_of(gradient, stream)
        if memory.on_gpu:
            _memory.copy_from_gpu(ctypes.addressof(self.gradient_buffer()), memory.pointer,
                                  4 * memory.size, stream or 0)
            return
        _library.check(self._job.library.capstan_write_gradient(
            self._job.pointer(), self._index, memory.pointer, memory.size, memory.dtype))

    def _memory_of(self, tensor: Any, stream: Optional[int]) -> _memory.Memory:
        memory = _memory.memory_of(tensor, stream)
        if memory.on_gpu and (stream is None or memory.dtype != _library.FLOAT32):
            raise _errors.InvalidArgument(
                f"table {self.name}: expected a stream with a tensor on a GPU, and float32; or "
                "copy the tensor to the CPU first")
        shape = tuple(int(size) for size in getattr(tensor, "shape", (memory.size,)))
        if memory.size != math.prod(self.shape) or (len(shape) > 1 and shape != self.shape):
            raise _errors.InvalidArgument(f"table {self.name}: expected shape {self.shape}, or as "
                                          f"many elements in a row, got shape {shape}")
        return memory
