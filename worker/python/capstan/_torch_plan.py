"""What of a model the servers train, and what only has to be the same in all workers."""

from __future__ import annotations

import ctypes
import dataclasses
import zlib

import torch

from capstan._errors import InvalidArgument, WrongOrder
from capstan._optimizers import Optimizer
from capstan._torch_embedding_bag import EmbeddingBag
from capstan._torch_optimizers import server_optimizers

_LARGEST = torch.finfo(torch.float32).max
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@dataclasses.dataclass(frozen=True)
class Planned:
    """A parameter that becomes a table. `group`: the index of its parameter group."""

    name: str
    tensor: torch.Tensor
    group: int

    def initial(self) -> torch.Tensor:
        """Its values, in the CPU's memory, row-major."""
        return self.tensor.detach().cpu().contiguous()


class Plan:
    """Sorts a model's tensors.

    parameters: the optimizer's that require a gradient, in the model's order.
    Floating-point buffers, as BatchNorm's, are to begin with rank 0's. Frozen parameters are to be
    equal. Other buffers stay as each worker made them.
    bags: the model's embedding bags, with the optimizers of their rows.

    Raises InvalidArgument if servers cannot train the model as the optimizer would.
    """

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        _expect_plain(model)
        self.server_optimizers = server_optimizers(optimizer)
        group_of = {id(tensor): i for i, group in enumerate(optimizer.param_groups)
                    for tensor in group["params"]}
        named = list(model.named_parameters())
        if not set(group_of) <= {id(tensor) for _, tensor in named}:
            raise InvalidArgument("the optimizer has parameters that the model has not; attach the "
                                  "module that holds all of them")
        self.parameters = [Planned(name, tensor, group_of[id(tensor)]) for name, tensor in named
                           if tensor.requires_grad and id(tensor) in group_of]
        if not self.parameters:
            raise InvalidArgument("expected parameters that require a gradient in the optimizer")
        for one in self.parameters:
            _expect_trainable(one)
        self.bags = _bags_of(model, self.server_optimizers[0])
        trained = {id(one.tensor) for one in self.parameters}
        self._frozen = [(name, tensor) for name, tensor in named if id(tensor) not in trained]
        self._to_stay_frozen = [(name, tensor) for name, tensor in self._frozen
                                if id(tensor) in group_of]
        self._buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        self._checksum = self._halves_of_checksum()

    @property
    def has_shared_state(self) -> bool:
        """Whether there are floating-point buffers or frozen parameters."""
        return bool(self._frozen) or any(buffer.numel() for buffer in self._buffers)

    def shared_state(self) -> torch.Tensor:
        """The buffers, and a checksum of the frozen parameters, as one row of finite float32."""
        flat = [buffer.detach().cpu().float().flatten() for buffer in self._buffers]
        # Servers refuse infinities, and masks are full of them.
        return torch.cat([*flat, self._checksum]).nan_to_num(posinf=_LARGEST, neginf=-_LARGEST)

    def _halves_of_checksum(self) -> torch.Tensor:
        """Of the frozen parameters; float32 has each half exactly."""
        checksum = 0
        for name, tensor in self._frozen:
            checksum = zlib.crc32(_bytes_of(tensor), zlib.crc32(name.encode(), checksum))
        return torch.tensor([checksum >> 16, checksum & 0xffff], dtype=torch.float32)

    def take_shared_state(self, state: torch.Tensor) -> None:
        """Gives the buffers the values of `state`, which is rank 0's.

        Raises InvalidArgument if the frozen parameters are not equal to rank 0's.
        """
        if not torch.equal(state[-2:], self._checksum):
            names = ", ".join(name for name, _ in self._frozen[:3])
            raise InvalidArgument(
                f"the frozen parameters ({names}, ...) are not equal to those of rank 0; load the "
                "same in all workers, or call torch.manual_seed(0) before the model is made")
        start = 0
        state = torch.where(state.abs() == _LARGEST, state * float("inf"), state)
        with torch.no_grad():
            for buffer in self._buffers:
                buffer.copy_(state[start:start + buffer.numel()].view(buffer.shape))
                start += buffer.numel()

    def expect_frozen(self) -> None:
        """Raises InvalidArgument if a parameter of the optimizer is no longer frozen."""
        for name, tensor in self._to_stay_frozen:
            if tensor.requires_grad:
                raise InvalidArgument(
                    f"{name} was frozen at ct.attach, so no server trains it; call "
                    "requires_grad_(True) before ct.attach, and leave its gradient None for now")


def _expect_plain(model: torch.nn.Module) -> None:
    if isinstance(model, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
        raise InvalidArgument(f"expected a model without {type(model).__name__} around it; attach "
                              "model.module")
    for name, module in model.named_modules():
        if getattr(module, "sparse", False) is True:
            raise InvalidArgument(f"{name} makes sparse gradients, and tables are dense; make it "
                                  "with sparse=False")


def _bags_of(model: torch.nn.Module, of_model: Optimizer) -> list[tuple[EmbeddingBag, Optimizer]]:
    """The embedding bags, whose rows have the optimizer `of_model` unless they have their own."""
    bags = [one for one in model.modules() if isinstance(one, EmbeddingBag)]
    names = [one.name for one in bags]
    for bag in bags:
        if names.count(bag.name) > 1:
            raise InvalidArgument(f"expected another name for each EmbeddingBag, got {bag.name} "
                                  "twice; use one module in both places, or give it two names")
        if bag._rows is not None:
            raise WrongOrder(f"EmbeddingBag {bag.name} is in an attached model already")
    return [(bag, bag.expect_optimizer(of_model)) for bag in bags]


def _expect_trainable(one: Planned) -> None:
    tensor = one.tensor
    if torch.nn.parameter.is_lazy(tensor):
        raise InvalidArgument(f"{one.name} has no shape yet; run the model once before ct.attach")
    if tensor.dtype not in _DTYPES:
        raise InvalidArgument(f"{one.name} is {tensor.dtype}, and tables are float32; call "
                              "model.float(), .half() or .bfloat16() before ct.attach")
    if tensor.device.type not in ("cpu", "cuda"):
        raise InvalidArgument(f"{one.name} is on {tensor.device}; expected cpu or cuda")
    if tensor.layout is not torch.strided or tensor.numel() == 0:
        raise InvalidArgument(f"{one.name} is sparse or has no elements; freeze it")


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    memory = tensor.detach().cpu().contiguous()
    array = (ctypes.c_char * (memory.numel() * memory.element_size())).from_address(
        memory.data_ptr())
    return memoryview(bytes(array))
