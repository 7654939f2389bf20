"""How a parameter's values get from the library's memory into the model, and its gradient back."""

from __future__ import annotations

import ctypes
import queue
import threading
import weakref
from typing import Callable, Optional, Protocol

import torch

from capstan._errors import InvalidArgument
from capstan._table import Table


class Carrier(Protocol):
    """Moves one parameter's values and gradients."""

    def bring(self) -> None:
        """The values have arrived in the library's memory: brings them into the parameter."""

    def send(self, gradient: torch.Tensor, push: Callable[[], None]) -> torch.Tensor:
        """The parameter's gradient is complete: calls `push` once it is in the library's memory.
        Returns what is the parameter's gradient from now on."""

    def clear(self) -> None:
        """The parameter has no gradient in this step yet."""


def values_of(table: Table) -> torch.Tensor:
    """The library's memory of the table's values, as a tensor."""
    return torch.frombuffer(table.values_buffer(), dtype=torch.float32).view(table.shape)


def gradient_of(table: Table) -> torch.Tensor:
    """The library's memory of the table's gradient, as a tensor."""
    return torch.frombuffer(table.gradient_buffer(), dtype=torch.float32).view(table.shape)


def plain(parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """The gradient without its history, which it has with create_graph=True.

    Raises InvalidArgument if it is sparse.
    """
    if gradient.layout is not torch.strided:
        raise InvalidArgument(f"the gradient of a parameter of shape {tuple(parameter.shape)} is "
                              "sparse, and tables are dense; make the embedding with sparse=False")
    return gradient.detach() if gradient.requires_grad else gradient


class SharedMemory:
    """The parameter is a view of the library's values; so is its gradient, once it is complete.

    Autograd makes a gradient in memory of its own and hands it over. Copying that once costs less
    than clearing the library's memory and adding to it.
    """

    def __init__(self, parameter: torch.Tensor, table: Table) -> None:
        self._parameter = parameter
        self._gradient = gradient_of(table)
        parameter.data = values_of(table)

    def bring(self) -> None:
        pass

    def send(self, gradient: torch.Tensor, push: Callable[[], None]) -> torch.Tensor:
        self._gradient.copy_(plain(self._parameter, gradient))
        self._parameter.grad = self._gradient
        push()
        return self._gradient

    def clear(self) -> None:
        self._parameter.grad = None


class SmallGradients:
    """The gradients of a model's small parameters, in one piece of memory. Autograd adds to them.

    For a parameter with few elements, Python's calls take longer than its bytes. Here one call
    clears the gradients of all, and the parameters keep them from step to step.
    """

    MOST_ELEMENTS = 1 << 14  # of a small parameter

    def __init__(self, parameters: list[torch.Tensor]) -> None:
        sizes = [one.numel() for one in parameters if one.numel() <= self.MOST_ELEMENTS]
        self._all = torch.zeros(sum(sizes), dtype=torch.float32, device="cpu")
        self._taken = 0

    def take(self, parameter: torch.Tensor) -> torch.Tensor:
        """The memory for a small parameter's gradient."""
        begin = self._taken
        self._taken += parameter.numel()
        # With .data each view counts its own changes.
        return self._all[begin:self._taken].view(parameter.shape).data

    def clear(self) -> None:
        self._all.zero_()


def _bytes_of(memory: torch.Tensor) -> memoryview:
    """The tensor's memory, which must be contiguous and outlive the result."""
    size = 4 * memory.numel()
    return memoryview((ctypes.c_ubyte * size).from_address(memory.data_ptr())).cast("B")


class SmallSharedMemory(SharedMemory):
    """A small parameter, whose gradient SmallGradients clears."""

    def __init__(self, parameter: torch.Tensor, table: Table, gradient: torch.Tensor) -> None:
        super().__init__(parameter, table)
        self.gradient = gradient
        # Python copies these faster than torch copies small tensors.
        self._to, self._from = _bytes_of(self._gradient), _bytes_of(gradient)
        parameter.grad = gradient

    def send(self, gradient: torch.Tensor, push: Callable[[], None]) -> torch.Tensor:
        mine = self.gradient
        if gradient is not mine:  # as after zero_grad(set_to_none=True)
            mine.copy_(plain(self._parameter, gradient))
            self._parameter.grad = mine
        self._to[:] = self._from
        push()
        return mine


class Copy:
    """The parameter is float16 or bfloat16; the servers have its values as float32."""

    def __init__(self, parameter: torch.Tensor, table: Table) -> None:
        self._parameter = parameter
        self._values = values_of(table)
        self._gradient = gradient_of(table)
        self.bring()

    def bring(self) -> None:
        self._parameter.data.copy_(self._values)

    def send(self, gradient: torch.Tensor, push: Callable[[], None]) -> torch.Tensor:
        self._gradient.copy_(plain(self._parameter, gradient))
        push()
        return gradient

    def clear(self) -> None:
        self._parameter.grad = None


class Gpu:
    """What the parameters on one GPU share: a stream for each direction, and a thread that pushes
    gradients as soon as they are in the library's memory. That memory is page-locked."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.up = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.down = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._errors: list[BaseException] = []
        self._pushes: queue.Queue[tuple[torch.cuda.Event, Callable[[], None]]] = queue.Queue()
        threading.Thread(target=_push_all, args=(self._pushes, self._errors), daemon=True).start()

    def push_after(self, event: torch.cuda.Event, push: Callable[[], None]) -> None:
        self._pushes.put((event, push))

    def finish_pushes(self) -> None:
        """Waits until all gradients so far are pushed. Raises the error of one that failed."""
        self._pushes.join()
        if self._errors:
            raise self._errors[0]

    def flush(self) -> None:
        """As finish_pushes; also waits until all values so far are in the model."""
        self.finish_pushes()
        self.up.synchronize()


class Gpus:
    """The GPUs that a model is on."""

    def __init__(self) -> None:
        self._gpus: dict[torch.device, Gpu] = {}

    def of(self, tensor: torch.Tensor) -> Optional[Gpu]:
        if not tensor.is_cuda:
            return None
        if tensor.device not in self._gpus:
            self._gpus[tensor.device] = Gpu(tensor.device)
        return self._gpus[tensor.device]

    def finish_pushes(self) -> None:
        for gpu in self._gpus.values():
            gpu.finish_pushes()

    def flush(self) -> None:
        for gpu in self._gpus.values():
            gpu.flush()


def _push_all(pushes: queue.Queue[tuple[torch.cuda.Event, Callable[[], None]]],
              errors: list[BaseException]) -> None:
    while True:
        event, push = pushes.get()
        try:
            event.synchronize()
            push()
        except BaseException as error:  # finish_pushes raises it in the program's own thread
            errors.append(error)
        finally:
            pushes.task_done()


class GpuCopy:
    """The parameter is on a GPU. Copies go over streams beside the one that computes."""

    def __init__(self, parameter: torch.Tensor, table: Table, gpu: Gpu) -> None:
        self._parameter = parameter
        self._values = values_of(table)
        self._gradient = gradient_of(table)
        self._gpu = gpu
        for memory in (self._values, self._gradient):
            _lock_pages(self, memory)
        self.bring()

    def bring(self) -> None:
        # What reads the parameter now is done before the copy, what comes later waits for it. The
        # library does not change the values meanwhile: a push of this parameter waits for a
        # gradient that comes from them, and Gpu.flush precedes a step's end.
        computing = torch.cuda.current_stream(self._gpu.device)
        self._gpu.up.wait_stream(computing)
        with torch.cuda.stream(self._gpu.up):
            self._parameter.data.copy_(self._values, non_blocking=True)
        computing.wait_stream(self._gpu.up)

    def send(self, gradient: torch.Tensor, push: Callable[[], None]) -> torch.Tensor:
        source = plain(self._parameter, gradient)
        down = self._gpu.down
        down.wait_stream(torch.cuda.current_stream(self._gpu.device))
        with torch.cuda.stream(down):
            self._gradient.copy_(source, non_blocking=True)
        source.record_stream(down)
        self._gpu.push_after(down.record_event(), push)
        return gradient

    def clear(self) -> None:
        self._parameter.grad = None


_ALREADY_LOCKED = 712  # cudaErrorHostMemoryAlreadyRegistered, by a neighbour in the same page


def _lock_pages(owner: object, memory: torch.Tensor) -> None:
    """Until the end of `owner`, copies between this memory and a GPU run beside the program."""
    runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    result = int(runtime.cudaHostRegister(memory.data_ptr(), 4 * memory.numel(), 0))
    if result == _ALREADY_LOCKED:
        return
    torch.cuda.check_error(result)
    # The finalizer has the memory, so that it lives as long.
    weakref.finalize(owner, lambda: runtime.cudaHostUnregister(memory.data_ptr()))


def make_carrier(parameter: torch.Tensor, table: Table, gpu: Optional[Gpu],
                 small: SmallGradients) -> Carrier:
    """The carrier for a parameter; `gpu`: where it is, unless it is in the CPU's memory."""
    if gpu is not None:
        return GpuCopy(parameter, table, gpu)
    if parameter.dtype != torch.float32:
        return Copy(parameter, table)
    if parameter.numel() > SmallGradients.MOST_ELEMENTS:
        return SharedMemory(parameter, table)
    return SmallSharedMemory(parameter, table, small.take(parameter))
