"""Hugging Face Accelerate: in a program that trains with it, this class takes the place of its own.

    from capstan.integrations.accelerate import Accelerator

`capstan run --worker_command="python train.py"` then takes the place of `accelerate launch`.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Optional

import accelerate  # type: ignore[import-untyped]
import torch
from accelerate.optimizer import AcceleratedOptimizer  # type: ignore[import-untyped]

import capstan.torch as ct
from capstan._errors import InvalidArgument
from capstan.integrations import end_job


class Accelerator(accelerate.Accelerator):  # type: ignore[misc]
    """As accelerate.Accelerator. The job's servers average gradients over its workers, under BSP, in
    place of DistributedDataParallel; each worker steps the optimizer. `gather` and its like are those of
    torch.distributed.

    prepare: joins the job once it has had the model and its optimizers. One model is trained.
    end_training: waits for the other workers and ends this one's part. Every program calls it.
    """

    _to_train: Optional[torch.nn.Module] = None  # until the job is joined
    _loss: Optional[torch.Tensor] = None  # of the step's backward passes so far

    def prepare(self, *args: Any, **options: Any) -> Any:
        if self.distributed_type.value not in ("NO", "MULTI_CPU", "MULTI_GPU"):
            raise InvalidArgument(f"expected no {self.distributed_type.value}, as the job's servers average "
                                  "gradients; leave out its plugin")
        prepared = super().prepare(*args, **options)
        if self._to_train is not None and self._optimizers:
            ct.attach(self._to_train, [one.optimizer for one in self._optimizers], optimizer_runs="here")
            self._to_train = None
        return prepared

    def prepare_model(self, model: torch.nn.Module, device_placement: Optional[bool] = None,
                      evaluation_mode: bool = False) -> Any:
        if not evaluation_mode:
            if self._to_train not in (None, model):
                raise InvalidArgument("expected one model to train; put several into one torch.nn.ModuleList")
            self._to_train = model
        # What is only evaluated is not wrapped in DistributedDataParallel.
        return super().prepare_model(model, device_placement, evaluation_mode=True)

    def prepare_optimizer(self, optimizer: torch.optim.Optimizer,
                          device_placement: Optional[bool] = None) -> Any:
        prepared = super().prepare_optimizer(optimizer, device_placement)
        prepared.__class__ = _Optimizer
        prepared.accelerator = self
        return prepared

    def backward(self, loss: torch.Tensor, **options: Any) -> None:
        part = loss.detach() / self.gradient_accumulation_steps
        self._loss = part if self._loss is None else self._loss + part
        super().backward(loss, **options)

    @contextlib.contextmanager
    def no_sync(self, model: torch.nn.Module) -> Iterator[None]:
        with ct.no_sync():
            yield

    def end_training(self) -> None:
        end_job()
        super().end_training()

    def _end_step(self) -> None:
        loss, self._loss = self._loss, None
        ct.step(loss)


class _Optimizer(AcceleratedOptimizer):  # type: ignore[misc]
    """Ends the job's step once the last optimizer has stepped, or has left it out as gradients are not
    finite."""

    accelerator: Accelerator

    def step(self, closure: Any = None) -> None:
        super().step(closure)
        if self.gradient_state.sync_gradients and self is self.accelerator._optimizers[-1]:
            self.accelerator._end_step()
