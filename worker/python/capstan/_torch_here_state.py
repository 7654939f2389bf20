"""What checkpoints have of an optimizer that the program runs, and of its parameters."""

from __future__ import annotations

from typing import Any, Optional, Protocol, Sequence, Union

import torch

from capstan._alone_job import AloneJob
from capstan._job import Job
from capstan._table import Table

_MOST_ARRAYS = 16
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_State = dict[int, dict[str, Any]]


class Kept(Protocol):
    """A parameter and its table; without a job it has none."""

    tensor: torch.Tensor
    table: Optional[Table]


class HereState:
    """The optimizer, for CheckpointStates. What of its state is shaped like its parameter goes to
    the parameter's table, as float32, and comes back from there. The rest is in state_dict."""

    def __init__(self, job: Union[Job, AloneJob], optimizer: torch.optim.Optimizer,
                 parameters: Sequence[Kept]) -> None:
        self._optimizer = optimizer
        self._is_keeper = job.rank == 0
        self._parameters = parameters
        self._restored_groups: list[dict[str, Any]] = []  # until the first step begins
        self.keeps = False  # the servers may wait for parameters
        self.is_last = False  # there is no further step

    def state_dict(self) -> dict[str, Any]:
        whole = self._optimizer.state_dict()
        index_of = self._index_of(whole)
        # torch's own dictionaries stay as they are.
        states: _State = {index: dict(state) for index, state in whole["state"].items()}
        arrays: dict[int, list[tuple[str, torch.dtype]]] = {}
        for one in self._parameters:
            index = index_of[id(one.tensor)]
            state = states.get(index, {})
            taken = [name for name, value in state.items()
                     if _is_like(value, one.tensor)][:_MOST_ARRAYS]
            tensors = [state.pop(name) for name in taken]
            arrays[index] = [(name, value.dtype) for name, value in zip(taken, tensors)]
            if self.keeps and self._is_keeper and one.table is not None:
                one.table.keep([_floats(value) for value in [one.tensor, *tensors]],
                               is_last=self.is_last)
        return {"optimizer": {**whole, "state": states}, "arrays": arrays}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        whole = saved["optimizer"]
        index_of = self._index_of(self._optimizer.state_dict())
        states: _State = {index: dict(state) for index, state in whole["state"].items()}
        for one in self._parameters:
            assert one.table is not None
            index = index_of[id(one.tensor)]
            for number, (name, dtype) in enumerate(saved["arrays"].get(index, [])):
                array = torch.empty(one.tensor.shape, dtype=torch.float32)
                one.table.read_optimizer_state(number, array)
                states.setdefault(index, {})[name] = array.to(dtype)
        self._optimizer.load_state_dict({**whole, "state": states})
        self._restored_groups = whole["param_groups"]

    def begin_step(self) -> None:
        """A scheduler that was made anew has set others by then."""
        groups, self._restored_groups = self._restored_groups, []
        for group, restored in zip(self._optimizer.param_groups, groups):
            group.update({name: one for name, one in restored.items() if name != "params"})

    def _index_of(self, whole: dict[str, Any]) -> dict[int, int]:
        """The number of each parameter in the optimizer's state_dict, by the tensor's id."""
        return {id(tensor): index
                for saved, group in zip(whole["param_groups"], self._optimizer.param_groups)
                for index, tensor in zip(saved["params"], group["params"])}


def _is_like(value: Any, tensor: torch.Tensor) -> bool:
    return (isinstance(value, torch.Tensor) and value.dtype in _FLOATS
            and value.layout is torch.strided and value.shape == tensor.shape)


def _floats(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu", torch.float32).contiguous()
