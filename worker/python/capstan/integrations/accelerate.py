"""Hugging Face Accelerate: in a program that trains with it, this class takes the place of its own.

    from capstan.integrations.accelerate import Accelerator

`capstan run --worker_command="python train.py"` then takes the place of `accelerate launch`.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, NoReturn, Optional

import accelerate  # type: ignore[import-untyped]
import torch
from accelerate.optimizer import (  # type: ignore[import-untyped]
    AcceleratedOptimizer, patch_optimizer_step)

import capstan.torch as ct
from capstan._errors import InvalidArgument
from capstan.integrations import end_job, join_job


class Accelerator(accelerate.Accelerator):  # type: ignore[misc]
    """As accelerate.Accelerator. The job's servers average gradients over its workers, under BSP, in
    place of DistributedDataParallel. Each worker steps the optimizer, and its step clears gradients.
    `gather` and its like are those of torch.distributed.

    prepare: joins the job once it has had the model and its optimizers. One model is trained.
    end_training: waits for the other workers and ends this one's part. Every program calls it.

    Raises InvalidArgument: plugins of sharding, even_batches=False, sync_each_batch=True.
    """

    _to_train: Optional[torch.nn.Module] = None  # until the job is joined
    _has_joined = False
    _loss: Optional[torch.Tensor] = None  # of the step's backward passes so far
    _stepped = 0  # optimizers in this step

    def prepare(self, *args: Any, **options: Any) -> Any:
        self._expect_usual()
        prepared = super().prepare(*args, **options)
        if self._to_train is not None and self._optimizers:
            join_job(self._to_train, [one.optimizer for one in self._optimizers])
            self._to_train, self._has_joined = None, True
            for one in self._optimizers:
                one.use_step_of_job()
        return prepared

    def _expect_usual(self) -> None:
        for plugin in ("fsdp_plugin", "deepspeed_plugin", "megatron_lm_plugin", "parallelism_config"):
            if getattr(self.state, plugin, None) is not None:
                raise InvalidArgument(f"expected no {plugin}: every worker has the whole model, and the "
                                      "job's servers average gradients")
        if self.gradient_state.plugin_kwargs.get("sync_each_batch", False):
            raise InvalidArgument("sync_each_batch: expected False, as gradients leave once a step")
        if self.num_processes > 1 and self.even_batches is False:
            raise InvalidArgument("even_batches: expected True, as all workers do the same number of steps")

    def prepare_model(self, model: torch.nn.Module, device_placement: Optional[bool] = None,
                      evaluation_mode: bool = False) -> Any:
        if not evaluation_mode:
            if self._has_joined or self._to_train not in (None, model):
                raise InvalidArgument("a job trains one model once: put several into one "
                                      "torch.nn.ModuleList, and train again in another job")
            self._to_train = model
        # What is only evaluated is not wrapped in DistributedDataParallel.
        return super().prepare_model(model, device_placement, evaluation_mode=True)

    def prepare_optimizer(self, optimizer: torch.optim.Optimizer,
                          device_placement: Optional[bool] = None) -> Any:
        if self._has_joined and not isinstance(optimizer, _Optimizer):
            raise InvalidArgument("expected all optimizers in one call of prepare, with the model")
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

    def join_uneven_inputs(self, *unused: Any, **options: Any) -> NoReturn:
        raise InvalidArgument("join_uneven_inputs: leave it out, as even_batches=True gives all workers "
                              "the same number of batches")

    def end_training(self) -> None:
        end_job()
        super().end_training()

    def note_optimizer_step(self) -> None:
        """One of the optimizers has stepped. The last one ends the job's step."""
        self._stepped += 1
        if self._stepped == len(self._optimizers):
            loss, self._loss, self._stepped = self._loss, None, 0
            ct.step(loss)


class _Optimizer(AcceleratedOptimizer):  # type: ignore[misc]
    accelerator: Accelerator

    def use_step_of_job(self) -> None:
        """With a GradScaler Accelerate keeps the optimizer's `step`, which the job has replaced."""
        if self.scaler is not None:
            self._optimizer_original_step_method = self.optimizer.step
            self._optimizer_patched_step_method = patch_optimizer_step(self, self.optimizer.step)

    def step(self, closure: Any = None) -> None:
        super().step(closure)
        # Also where it has left the step out, as gradients were not finite.
        if self.gradient_state.sync_gradients:
            self.accelerator.note_optimizer_step()
