"""What checkpoints have of optimizers that the program runs, and of its parameters."""

from __future__ import annotations

from typing import Any, Callable, Optional, Protocol, Sequence, Union

import torch

from capstan._alone_job import AloneJob
from capstan._errors import InvalidArgument
from capstan._job import Job
from capstan._table import Table
from capstan._torch_optimizers import restore_groups
from capstan._torch_ranks import Ranks, RanksJob, is_sharded, of_parts, own_part

_MOST_ARRAYS = 16
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


class Kept(Protocol):
    """A parameter and its table; without a job it has none, nor but in the first of several ranks."""

    tensor: torch.Tensor
    table: Optional[Table]
    ranks: Optional[Ranks]
    is_shared: bool


class HereState:
    """The optimizers, for CheckpointStates. What of their state is shaped like its parameter goes to
    the parameter's table, as float32, and comes back from there. The rest is in state_dict."""

    def __init__(self, job: Union[Job, AloneJob, RanksJob], optimizers: Sequence[torch.optim.Optimizer],
                 parameters: Sequence[Kept]) -> None:
        self._optimizers = optimizers
        self._is_keeper = job.rank == 0
        self._parameters = parameters
        self._restored_groups: list[list[dict[str, Any]]] = []  # until the first step begins
        self.keeps = False  # the servers may wait for parameters
        self.is_last = False  # there is no further step

    def state_dict(self) -> dict[str, Any]:
        wholes = [_copy_of(one.state_dict()) for one in self._optimizers]
        places = self._places(wholes)
        # By parameter: the names and types of the arrays that its table has.
        arrays: list[list[tuple[str, torch.dtype]]] = []
        for one in self._parameters:
            place = places.get(id(one.tensor))
            state = {} if place is None else wholes[place[0]]["state"].get(place[1], {})
            taken = [name for name, value in state.items()
                     if _is_like(value, one.tensor)][:_MOST_ARRAYS]
            tensors = [state.pop(name) for name in taken]
            arrays.append([(name, value.dtype) for name, value in zip(taken, tensors)])
            if self.keeps and self._is_keeper and (one.table is not None or one.is_shared):
                floats = [_floats(value, one.ranks if one.is_shared else None)
                          for value in [one.tensor, *tensors]]
                _first(one, lambda table: table.keep(floats, is_last=self.is_last))
        return {"optimizers": wholes, "arrays": arrays}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        wholes = [_copy_of(whole) for whole in saved["optimizers"]]
        if len(wholes) != len(self._optimizers) or len(saved["arrays"]) != len(self._parameters):
            raise InvalidArgument(
                f"the checkpoint is of {len(wholes)} optimizers and {len(saved['arrays'])} "
                f"parameters, got {len(self._optimizers)} and {len(self._parameters)}; make the "
                "same ones")
        places = self._places(wholes)
        for one, arrays in zip(self._parameters, saved["arrays"]):
            for number, (name, dtype) in enumerate(arrays):
                shape = one.tensor.shape if one.is_shared else own_part(one.tensor).shape
                array: Any = torch.empty(shape, dtype=torch.float32)
                if one.table is not None or one.is_shared:
                    _first(one, lambda table: table.read_optimizer_state(number, array))
                if one.ranks is not None and one.is_shared:
                    array = one.ranks.part(one.tensor, array)
                array = array.to(dtype)
                if is_sharded(one.tensor):
                    array = of_parts(array, one.tensor)
                optimizer, index = places[id(one.tensor)]
                wholes[optimizer]["state"].setdefault(index, {})[name] = array
        for each, whole in zip(self._optimizers, wholes):
            each.load_state_dict(whole)
        self._restored_groups = [whole["param_groups"] for whole in wholes]

    def begin_step(self) -> None:
        restored, self._restored_groups = self._restored_groups, []
        restore_groups(self._optimizers, restored)

    def _places(self, wholes: list[dict[str, Any]]) -> dict[int, tuple[int, int]]:
        """The optimizer of each parameter, and its number in the optimizer's state_dict, by the
        tensor's id."""
        return {id(tensor): (number, index)
                for number, (optimizer, whole) in enumerate(zip(self._optimizers, wholes))
                for saved, group in zip(whole["param_groups"], optimizer.param_groups)
                for index, tensor in zip(saved["params"], group["params"])}


def _first(one: Kept, call: Callable[[Table], object]) -> None:
    """Calls it with the table; of several ranks in the first one."""
    def call_with_table() -> None:
        assert one.table is not None
        call(one.table)

    if one.ranks is None or not one.is_shared:
        call_with_table()
    else:
        one.ranks.in_first(call_with_table)


def _copy_of(whole: dict[str, Any]) -> dict[str, Any]:
    """torch's own dictionaries stay as they are."""
    return {**whole, "state": {index: dict(state) for index, state in whole["state"].items()}}


def _is_like(value: Any, tensor: torch.Tensor) -> bool:
    return (isinstance(value, torch.Tensor) and value.dtype in _FLOATS
            and value.layout is torch.strided and value.shape == tensor.shape)


def _floats(tensor: torch.Tensor, ranks: Optional[Ranks]) -> torch.Tensor:
    if ranks is not None and is_sharded(tensor):
        tensor = ranks.whole(tensor)
    elif ranks is not None and not ranks.leads:
        return tensor  # nobody asks for it
    own: torch.Tensor = own_part(tensor.detach())
    return own.to("cpu", torch.float32).contiguous()
