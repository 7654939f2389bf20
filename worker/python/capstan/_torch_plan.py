"""What of a model the servers train, and what only has to be the same in all workers."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional, Union

import torch

from capstan._errors import InvalidArgument, WrongOrder
from capstan._job import Job
from capstan._optimizers import Optimizer
from capstan._table import Table
from capstan._torch_embedding_bag import EmbeddingBag
from capstan._torch_memory import expect_own_memory, repeats_elements, tensors_of
from capstan._torch_modules import expect_trainable_modules
from capstan._torch_optimizers import server_optimizers
from capstan._torch_ranks import LateTable, Ranks, RanksJob, is_sharded
from capstan._torch_shared_state import SharedState, whole_of

BUFFERS = "capstan.buffers"  # the table of SharedState
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@dataclasses.dataclass(frozen=True)
class Planned:
    """A parameter that becomes a table. `group`: the index of its parameter group."""

    name: str
    tensor: torch.Tensor
    group: int

    def initial(self) -> torch.Tensor:
        """Its values, in the CPU's memory, row-major. Of a sharded one all ranks ask."""
        return whole_of(self.tensor).cpu().contiguous()

    def table(self, job: Union[Job, RanksJob], **options: Any) -> Union[Table, LateTable]:
        """Its table; of several ranks that of this rank's shard, if it has one."""
        if isinstance(job, RanksJob):
            return job.tables(self.name, self.tensor, **options)
        return job.table(self.name, self.initial(), **options)


class Plan:
    """Sorts a model's tensors.

    prefix: goes before the names of parameters.
    runs_here: the program runs the optimizers, which may be any.
    ranks: those that are one worker, of which each may have shards of tensors.
    parameters: the optimizer's that require a gradient, in the model's order; with runs_here all that
    require one.
    shared_state: the buffers, as BatchNorm's, and the frozen parameters.
    bags: the model's embedding bags, with the optimizers of their rows.

    Raises InvalidArgument if servers cannot train the model as the optimizer would.
    """

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer,
                 *others: torch.optim.Optimizer, prefix: str = "", runs_here: bool = False,
                 ranks: Optional[Ranks] = None) -> None:
        self.server_optimizers = [] if runs_here else server_optimizers(optimizer)
        groups = [group for one in (optimizer, *others) for group in one.param_groups]
        group_of = {id(tensor): i for i, group in enumerate(groups) for tensor in group["params"]}
        named = list(model.named_parameters())
        if ranks is not None:
            ranks.expect_shards(named)
        elif any(is_sharded(tensor) for _, tensor in named):
            raise InvalidArgument("the model is sharded (DTensor): give the process group of its "
                                  "mesh, as group=torch.distributed.group.WORLD, with "
                                  "ct.LocalSteps or optimizer_runs=\"here\"")
        if not set(group_of) <= {id(tensor) for _, tensor in named}:
            raise InvalidArgument("the optimizer has parameters that the model has not; attach the "
                                  "module that holds all of them")
        self.parameters = [Planned(prefix + name, tensor, group_of.get(id(tensor), 0))
                           for name, tensor in named
                           if tensor.requires_grad and (runs_here or id(tensor) in group_of)]
        if not self.parameters:
            raise InvalidArgument("expected parameters that require a gradient in the optimizer")
        for one in self.parameters:
            _expect_trainable(one)
        expect_trainable_modules(model, {id(one.tensor) for one in self.parameters})
        if runs_here:
            _expect_no_bags(model)
        self.bags = [] if runs_here else bags_of(model, self.server_optimizers[0])
        trained = {id(one.tensor) for one in self.parameters}
        frozen = [(name, tensor) for name, tensor in named if id(tensor) not in trained]
        expect_own_memory([(one.name, one.tensor) for one in self.parameters],
                          [*frozen, *tensors_of(model)])
        self._to_stay_frozen = [(name, tensor) for name, tensor in frozen
                                if id(tensor) in group_of]
        buffers = list(model.named_buffers())
        for name, buffer in buffers:
            _expect_writable(name, buffer)
        self.shared_state = SharedState(buffers, frozen)

    def expect_frozen(self) -> None:
        """Raises InvalidArgument if a parameter of the optimizer is no longer frozen."""
        for name, tensor in self._to_stay_frozen:
            if tensor.requires_grad:
                raise InvalidArgument(
                    f"{name} was frozen at ct.attach, so no server trains it; call "
                    "requires_grad_(True) before ct.attach, and leave its gradient None for now")


def _expect_no_bags(model: torch.nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, EmbeddingBag):
            raise InvalidArgument(
                f"EmbeddingBag {module.name} has its rows on the servers, which step them; attach "
                "the model without optimizer_runs=\"here\" or with dense=\"local\", or use "
                "torch.nn.EmbeddingBag")


def bags_of(model: torch.nn.Module,
            of_model: Optional[Optimizer]) -> list[tuple[EmbeddingBag, Optimizer]]:
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


def _expect_writable(name: str, buffer: torch.Tensor) -> None:
    if torch.nn.parameter.is_lazy(buffer):
        raise InvalidArgument(f"{name} has no shape yet; run the model once before ct.attach")
    if buffer.layout is torch.strided and repeats_elements(buffer):
        raise InvalidArgument(f"the buffer {name} is an expanded tensor, whose elements share "
                              "memory and cannot take rank 0's values; register its clone()")
