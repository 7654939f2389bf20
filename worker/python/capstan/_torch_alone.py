"""Training of one model in this process, without a job."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any, Iterator, Optional, Union

import torch

from capstan._alone_job import START, AloneJob, expect_progress
from capstan._errors import InvalidArgument, JobFailed
from capstan._torch_carriers import plain
from capstan._torch_checkpoint import CheckpointStates, states_with
from capstan._torch_embedding_bag import EmbeddingBag
from capstan._torch_hooks import after_gradient
from capstan._torch_optimizers import (expect_unchanged, fixed_settings, give_to_servers,
                                       learning_rate, momentum)
from capstan._torch_plan import Plan, Planned
from capstan._torch_refusals import (ADVICE_ON_GRADIENTS, changed_gradient, changed_parameter,
                                     expect_group_sizes, expect_max_norm, expect_one_loss,
                                     group_sizes, second_gradient, step_after_end)
from capstan._torch_scaler import Scaler, expect_scaler
from capstan._torch_structure import Structure


class AloneTrainer:
    """A model whose optimizer steps in this process, with what Trainer has for capstan.torch.

    Does what a job of one worker does, and refuses what it refuses, so that a program that trains
    alone also trains in a job. The optimizer keeps its state itself.

    job, part: of several models, which share the job. Who gives them calls begin.
    """

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, *,
                 max_norm_per_worker: Optional[float] = None, grad_scaler: Optional[Any] = None,
                 overlap: bool = True, job: Optional[AloneJob] = None, part: str = "") -> None:
        expect_scaler(grad_scaler)
        expect_max_norm(max_norm_per_worker)
        _expect_no_bags(model)
        self._model = model
        self._plan = Plan(model, optimizer, prefix=part and f"{part}.")
        self._suffix = part and f".{part}"
        self._structure = Structure(model)
        self._optimizer = optimizer
        self._max_norm = max_norm_per_worker
        self._group_sizes = group_sizes(optimizer)
        self._settings = [fixed_settings(group) for group in optimizer.param_groups]
        self.job = job or AloneJob()
        self.is_over = False  # finish has returned
        has_scaler = grad_scaler is not None and grad_scaler.is_enabled()
        self._scaler = Scaler(self.job, grad_scaler) if has_scaler else None
        # In a job gradients would leave in backward, and not change afterwards.
        self._sends_early = overlap and self._max_norm is None and not has_scaler and not part
        self._syncs = True
        self._float_copies = FloatCopies(optimizer, [one.tensor for one in self._plan.parameters])
        self._own_step = optimizer.step
        self._release_optimizer = give_to_servers(optimizer)
        self._parameters = [_Parameter(one) for one in self._plan.parameters]
        self._hooks = [self._hook_gradient(one) for one in self._parameters]
        self._begin_step()
        if not part:
            self.begin(None)

    def begin(self, others: Optional[CheckpointStates]) -> None:
        """As Trainer.begin."""
        self.states = states_with(others, self.job, self._model, self._optimizer, self._suffix)

    def _hook_gradient(self, parameter: _Parameter) -> tuple[Any, object]:
        trainer = weakref.ref(self)

        def on_gradient(*unused: object) -> None:
            alive = trainer()
            if alive is not None and alive._syncs and alive._sends_early:
                parameter.send()

        return after_gradient(parameter.tensor, on_gradient)

    def _begin_step(self) -> None:
        for group in self._optimizer.param_groups:
            for tensor in group["params"]:
                tensor.grad = None
        for parameter in self._parameters:
            parameter.begin_step()

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """As Trainer.no_sync: a step may have several backward passes."""
        before, self._syncs = self._syncs, False
        try:
            yield
        finally:
            self._syncs = before

    def step(self, loss: Union[float, torch.Tensor, None] = None, samples: int = 0) -> None:
        """Clips, steps the optimizer, and clears gradients. Afterwards schedulers step."""
        if self.is_over:
            raise step_after_end()
        expect_one_loss(loss)
        expect_progress(None if isinstance(loss, torch.Tensor) else loss, samples)
        self._expect_unchanged()
        if self._may_step():
            self._expect_finite()
            self._clip()
            with self._float_copies.in_place():
                self._own_step()
        self.job.end_step()
        self.states.note_step()
        self._begin_step()
        self._optimizer._step_count = self.job.step  # type: ignore[attr-defined]

    def _expect_unchanged(self) -> None:
        self._structure.expect_unchanged()
        for parameter in self._parameters:
            parameter.expect_untouched()
        self._plan.expect_frozen()
        expect_group_sizes(self._optimizer, self._group_sizes)
        for group, settings in zip(self._optimizer.param_groups, self._settings):
            expect_unchanged(group, settings)
            learning_rate(group)
            momentum(group)

    def _may_step(self) -> bool:
        """Whether all gradients are finite, if there is a scaler."""
        return self._scaler is None or self._scaler.may_send(self._optimizer, [],
                                                             bool(self._with_gradients()))

    def _expect_finite(self) -> None:
        for one in self._parameters:
            gradient = one.tensor.grad
            if gradient is not None and not bool(torch.isfinite(gradient).all()):
                raise JobFailed(f"the gradient of {one.name} at step {self.job.step} holds a NaN or an "
                                f"infinity; parameters are unchanged. {ADVICE_ON_GRADIENTS}")

    def _clip(self) -> None:
        if self._max_norm is not None:
            torch.nn.utils.clip_grad_norm_(self._with_gradients(), self._max_norm)

    def _with_gradients(self) -> list[torch.Tensor]:
        return [one.tensor for one in self._parameters if one.tensor.grad is not None]

    def flush(self) -> None:
        """As Trainer.flush."""

    def pass_step(self, may_change: bool) -> None:
        """As Trainer.pass_step."""

    def end_empty_step(self) -> None:
        """As Trainer.end_empty_step, of which there are none: all batches are of this worker."""

    def wait(self) -> None:
        """Parameters always have their values."""

    @contextlib.contextmanager
    def join(self) -> Iterator[None]:
        """As Trainer.join. There are no others to wait for."""
        with self.job.join():
            yield

    def finish(self) -> bool:
        """No further step. Model and optimizer are the program's alone again."""
        self.end(True)
        return self.job.finish()

    def end(self, is_evaluator: bool) -> None:
        if not self.is_over:
            self.is_over = True
            for hook, _ in self._hooks:
                hook.remove()
            self._hooks.clear()
            for parameter in self._parameters:
                parameter.tensor.grad = None
            self._release_optimizer()


class _Parameter:
    """What the program has done to a parameter and its gradient in a step."""

    def __init__(self, planned: Planned) -> None:
        self.name = planned.name
        self.tensor = planned.tensor

    def begin_step(self) -> None:
        self._address = self.tensor.data_ptr()
        self._version = self.tensor._version
        self._sent: Optional[torch.Tensor] = None  # the gradient, where a job would have sent it
        self._sent_version = 0

    def send(self) -> None:
        """A job would send the gradient now."""
        if self._sent is not None:
            raise second_gradient(self.name)
        assert self.tensor.grad is not None
        self._sent = self.tensor.grad
        self._sent_version = self._sent._version

    def expect_untouched(self) -> None:
        """Raises WrongOrder if the program has changed the parameter, or its gradient too late."""
        tensor, sent = self.tensor, self._sent
        if tensor._version != self._version or tensor.data_ptr() != self._address:
            raise changed_parameter(self.name)
        if sent is not None and (sent._version != self._sent_version or tensor.grad is not sent):
            raise changed_gradient(self.name)
        if tensor.grad is not None:
            tensor.grad = plain(tensor, tensor.grad)


class FloatCopies:
    """float32 copies of float16 and bfloat16 parameters. The optimizer steps the copies, as servers
    do, and the model has their values rounded."""

    def __init__(self, optimizer: torch.optim.Optimizer, tensors: list[torch.Tensor]) -> None:
        self._optimizer = optimizer
        self._copies = {one: one.detach().float() for one in tensors if one.dtype != torch.float32}

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Within, the optimizer has the copies in place of the parameters."""
        if not self._copies:
            yield
            return
        for tensor, copy in self._copies.items():
            copy.grad = None if tensor.grad is None else tensor.grad.float()
        self._replace(self._copies)
        try:
            yield
        finally:
            self._replace({copy: tensor for tensor, copy in self._copies.items()})
        with torch.no_grad():
            for tensor, copy in self._copies.items():
                tensor.copy_(copy)

    def _replace(self, others: dict[torch.Tensor, torch.Tensor]) -> None:
        for group in self._optimizer.param_groups:
            group["params"] = [others.get(one, one) for one in group["params"]]
        for before, after in others.items():
            state = self._optimizer.state.pop(before, None)
            if state is not None:
                self._optimizer.state[after] = {name: _widened(one) for name, one in state.items()}


def _widened(value: Any) -> Any:
    is_narrow = isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16)
    return value.float() if is_narrow else value


def _expect_no_bags(model: torch.nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, EmbeddingBag):
            raise InvalidArgument(
                f"EmbeddingBag {module.name} has its rows on a job's servers, and there is no job "
                f"(CAPSTAN_COORDINATOR is not set); {START} starts one")
