"""The optimizer's state in a file of a model, for an optimizer of torch."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

import torch

from capstan._errors import InvalidArgument
from capstan._optimizers import Adagrad
from capstan._torch_optimizers import server_optimizers
from capstan._torch_state import counts_steps, expect_state, state_names

_PREFIX = "optimizer."


@dataclasses.dataclass(frozen=True)
class _Parameter:
    name: str
    tensor: torch.Tensor


def optimizer_state_dict(tensors: Mapping[str, torch.Tensor], model: torch.nn.Module,
                         optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The state_dict of `optimizer` with the state in a file, for optimizer.load_state_dict: a run
    of DDP goes on from a job, or a job from another. The learning rates are those of `optimizer`.

    tensors: the file's, as safetensors.torch.load_file returns them. The file is the --output of a
        job with --output_optimizer_state, or of capstan export --optimizer_state.
    model: has the parameters of `optimizer`; without DistributedDataParallel around it.

    Raises InvalidArgument: the state is not there, or is of other parameters or another optimizer.
    """
    states: dict[str, dict[str, torch.Tensor]] = {}  # by parameter
    for key, tensor in tensors.items():
        if key.startswith(_PREFIX):
            parameter, _, array = key[len(_PREFIX):].rpartition(".")
            states.setdefault(parameter, {})[array] = tensor
    kinds = server_optimizers(optimizer)
    if not states and any(state_names(kind) for kind in kinds):
        raise InvalidArgument("expected tensors optimizer.PARAMETER.ARRAY, got none; write the "
                              "file with --output_optimizer_state, or with capstan export "
                              "--optimizer_state")
    names = {id(tensor): name for name, tensor in model.named_parameters()}
    result = optimizer.state_dict()
    loaded = {}
    for group, saved, kind in zip(optimizer.param_groups, result["param_groups"], kinds):
        for tensor, index in zip(group["params"], saved["params"]):
            name = names.get(id(tensor), "")
            state = states.pop(name, None)
            if state is None:  # it was frozen
                continue
            expect_state(_Parameter(name, tensor), kind, state)
            if not state.get("step", 1) and not isinstance(kind, Adagrad):
                continue  # no step yet
            wanted = state_names(kind) + ["step"] * counts_steps(kind)
            loaded[index] = {array: state[array].clone() for array in wanted}
    if states:
        raise InvalidArgument(f"expected the state of the optimizer's parameters, got that of "
                              f"{', '.join(sorted(states))}; give the model and the optimizer "
                              "with which the job was trained")
    return {**result, "state": loaded}
