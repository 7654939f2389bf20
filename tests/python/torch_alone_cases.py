"""Cases of torch_alone_test.py: each trains in a job of one worker, and then alone."""

from __future__ import annotations

import os
from typing import Callable, Optional, Union
from unittest import mock

import torch
from torch import nn

import capstan.torch as ct
from capstan import Job
from capstan._torch_alone import AloneTrainer
from expectations import expect
from torch_cases import HAS_SCALER, OPTIMIZERS
from torch_models import DEVICE, STEPS, Mlp, Zoo, expect_equal, joined_batch, part_of, seeded

Trainer = Union[ct.Trainer, AloneTrainer]

coordinator = ""  # of the case's job; run_cases sets it
# One process and the servers compute the same up to the last bits.
TOLERANCE = 1e-6


def _compare(job: Job, make: Callable[[], nn.Module], optimizer: str,
             train: Callable[[Trainer, nn.Module, object], None], **options: object) -> None:
    """Both trainers do the same, with a scheduler."""
    models = []
    for alone in (False, True):
        model = seeded(make)
        own = OPTIMIZERS[optimizer](model)
        trainer = AloneTrainer(model, own, **options) if alone else ct.Trainer(model, own, job,
                                                                              **options)
        train(trainer, model, torch.optim.lr_scheduler.StepLR(own, 2, 0.5))
        expect((trainer.job.rank, trainer.job.num_workers) == (0, 1), "one worker")
        expect(trainer.job.step >= STEPS, f"step {trainer.job.step}")
        trainer.wait()
        expect(trainer.finish(), "expected the only worker to evaluate")
        trainer.job.report()
        models.append(model)
    expect_equal(models[1], models[0], TOLERANCE)


def _loss(model: nn.Module, step: int) -> torch.Tensor:
    return getattr(model, "loss", model)(part_of(joined_batch(step), 0))


def trains_as_alone(job: Job, rank: int, optimizer: str,
                    max_norm_per_worker: Optional[float] = None) -> None:
    def train(trainer: Trainer, model: nn.Module, scheduler) -> None:
        for step in range(STEPS):
            loss = _loss(model, step) * (1 if max_norm_per_worker is None else 10)
            loss.backward()
            trainer.step(loss, 8)
            scheduler.step()

    make = Mlp if optimizer == "lion" else Zoo
    _compare(job, make, optimizer, train, max_norm_per_worker=max_norm_per_worker)


def accumulates_as_alone(job: Job, rank: int) -> None:
    """no_sync, gradients that the program changes within, parameters without one, and an old
    gradient from before ct.attach."""
    def train(trainer: Trainer, model: nn.Module, scheduler) -> None:
        for step in range(STEPS):
            with trainer.no_sync():
                _loss(model, step).backward()
                if step % 2 == 1:
                    nn.utils.clip_grad_value_(model.parameters(), 0.01)
                if step == 3:
                    model.layers[0].bias.grad = None
                    model.layers[2].weight.grad = None
            if step % 2 == 0:
                _loss(model, step + 10).backward()
            trainer.step()
            with trainer.join():
                pass

    def make() -> nn.Module:
        model = Mlp()
        for one in model.parameters():
            one.grad = torch.ones_like(one)
        return model

    _compare(job, make, "adamw", train)


def rounds_as_alone(job: Job, rank: int, dtype: str) -> None:
    """The optimizer has float32 where the model has less."""
    def train(trainer: Trainer, model: nn.Module, scheduler) -> None:
        for step in range(2 * STEPS):
            outputs = model(joined_batch(step)["x"].to(getattr(torch, dtype)))
            outputs.float().square().mean().backward()
            trainer.step()

    _compare(job, lambda: nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 2)).to(getattr(torch, dtype)),
             "adamw", train)


def scales_as_alone(job: Job, rank: int) -> None:
    """A step with infinities is left out, and does not count for Adam."""
    if not HAS_SCALER:
        return
    scales = []

    def train(trainer: Trainer, model: nn.Module, scheduler) -> None:
        scaler = trainer._scaler.scaler
        for step in range(STEPS):
            factor = float("inf") if step == 2 else 1.0
            scaler.scale(factor * _loss(model, step)).backward()
            trainer.step()
        scales.append(scaler.get_scale())
        scaler._scale.fill_(1024.0)

    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=1024.0)
    _compare(job, Mlp, "adam", train, grad_scaler=scaler, max_norm_per_worker=1.0)
    expect(scales == [512.0, 512.0], f"{scales}")


def attaches_with_a_coordinator(job: Job, rank: int) -> None:
    """The environment's coordinator counts, as in a program that capstan run has started."""
    model = seeded(Mlp)
    with mock.patch.dict(os.environ, CAPSTAN_COORDINATOR=coordinator, WORLD_SIZE="1", RANK="0"):
        ct.attach(model, OPTIMIZERS["sgd"](model))
    try:
        expect(isinstance(ct._attached, ct.Trainer), "expected a job")
        ct.step()
        expect(ct.finish(), "expected to evaluate")
        ct.report()
    finally:
        ct._attached.job.close()
        ct._attached = None
