"""Lightning: a strategy of its Trainer, in place of "ddp".

    from capstan.integrations.lightning import Strategy
    trainer = lightning.Trainer(strategy=Strategy())

Each worker of the job is one process with one device, so devices and num_nodes stay as they are.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Callable, Iterator, Optional

import torch
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.pytorch.strategies import DDPStrategy

import capstan.torch as ct
from capstan._errors import InvalidArgument
from capstan.integrations import end_job, join_job

_OPTIONS = ("accelerator", "checkpoint_io", "parallel_devices", "precision_plugin",
            "process_group_backend", "timeout")


class Strategy(DDPStrategy):
    """As DDPStrategy. The job's servers average gradients over its workers, under BSP, in place of
    DistributedDataParallel. There is one optimizer. Each worker steps it, and its step clears gradients.
    Samplers and metrics see all workers. The end of `fit` is the job's, so it is called once.

    options: accelerator, checkpoint_io, parallel_devices, precision_plugin, process_group_backend and
        timeout, as of DDPStrategy.
    """

    _loss: Optional[torch.Tensor] = None  # of the step's backward passes so far

    def __init__(self, **options: Any) -> None:
        for name in options:
            if name not in _OPTIONS:
                raise InvalidArgument(f"{name}: expected one of {', '.join(_OPTIONS)}, as workers are "
                                      "those of the job, without DistributedDataParallel")
        super().__init__(cluster_environment=_Workers(), **options)

    @property
    def root_device(self) -> torch.device:
        assert self.parallel_devices is not None
        return self.parallel_devices[self.local_rank % len(self.parallel_devices)]

    @property
    def distributed_sampler_kwargs(self) -> dict[str, int]:
        return {"num_replicas": self.world_size, "rank": self.global_rank}

    def configure_ddp(self) -> None:
        """The servers take its place."""

    def setup(self, trainer: Any) -> None:
        super().setup(trainer)
        if trainer.state.fn != "fit":
            return
        if len(self.optimizers) != 1:
            raise InvalidArgument(f"expected one optimizer, got {len(self.optimizers)}; write the loop of "
                                  "several yourself, with ct.attach_together")
        assert self.lightning_module is not None
        join_job(self.lightning_module, self.optimizers)

    def pre_backward(self, closure_loss: torch.Tensor) -> None:
        super().pre_backward(closure_loss)
        loss = closure_loss.detach()  # a GradScaler has not scaled it yet
        self._loss = loss if self._loss is None else self._loss + loss

    @contextlib.contextmanager
    def block_backward_sync(self) -> Iterator[None]:
        with ct.no_sync():
            yield

    def optimizer_step(self, optimizer: torch.optim.Optimizer, closure: Callable[[], Any],
                       model: Optional[Any] = None, **options: Any) -> Any:
        result = super().optimizer_step(optimizer, closure, model, **options)
        # Some callbacks step without a backward.
        loss, self._loss = self._loss, None
        if loss is not None:
            ct.step(loss)
        return result

    def on_train_end(self) -> None:
        end_job()
        super().on_train_end()

    def teardown(self) -> None:
        super().teardown()
        if sys.exc_info()[0] is None:  # without a step there was no end of the training
            end_job()


class _Workers(LightningEnvironment):
    """The workers of the job, as their environment tells."""

    @property
    def creates_processes_externally(self) -> bool:
        return True

    def world_size(self) -> int:
        return ct.world_size()

    def set_world_size(self, size: int) -> None:
        """It is the job's."""

    def global_rank(self) -> int:
        return ct.rank()

    def set_global_rank(self, rank: int) -> None:
        """It is the job's."""

    def local_rank(self) -> int:
        return int(os.environ.get("LOCAL_RANK", 0))
