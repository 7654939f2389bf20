"""Cases of torch_schedule_test.py, in both workers of a job, as those of torch_cases.py."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import nn
from torch.optim.lr_scheduler import CyclicLR, OneCycleLR

import capstan
import capstan.torch as ct
from capstan import Job
from capstan._torch_optimizers import momentum
from expectations import expect, expect_raises
from torch_models import DEVICE, Mlp, expect_equal, joined_batch, part_of, seeded

STEPS = 12
# On a GPU sums have other orders for other sizes of a batch.
TOLERANCE = 1e-6 if DEVICE.type == "cpu" else 5e-5


def _one_cycle(optimizer: torch.optim.Optimizer) -> Any:
    return OneCycleLR(optimizer, max_lr=0.02, total_steps=STEPS + 1)


def _cyclic(optimizer: torch.optim.Optimizer) -> Any:
    return CyclicLR(optimizer, base_lr=0.005, max_lr=0.05, step_size_up=3)


# Momenta are 0.85 to 0.95 in OneCycleLR, 0.8 to 0.9 in CyclicLR.
KINDS: dict[str, tuple[Callable[[Any], torch.optim.Optimizer], Callable[[Any], Any]]] = {
    "momentum": (lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
                 _one_cycle),
    "nesterov": (lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9,
                                               nesterov=True, weight_decay=0.01), _one_cycle),
    "damped": (lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9,
                                             dampening=0.3), _one_cycle),
    "adam": (lambda model: torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3), _one_cycle),
    "adamw": (lambda model: torch.optim.AdamW(model.parameters(), lr=0.01, eps=1e-3,
                                              weight_decay=0.1), _one_cycle),
    "amsgrad": (lambda model: torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3,
                                               amsgrad=True), _one_cycle),
    "rmsprop": (lambda model: torch.optim.RMSprop(model.parameters(), lr=0.01, eps=1e-2,
                                                  momentum=0.9), _one_cycle),
    "lion": (lambda model: ct.Lion(model.parameters(), lr=0.01, weight_decay=0.1),
             lambda optimizer: OneCycleLR(optimizer, max_lr=0.001, total_steps=STEPS + 1)),
    "cyclic": (lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.85), _cyclic),
    # The scheduler gives them a momentum.
    "momentum from 0": (lambda model: torch.optim.SGD(model.parameters(), lr=0.1), _one_cycle),
    "rmsprop from 0": (lambda model: torch.optim.RMSprop(model.parameters(), lr=0.01, eps=1e-2),
                       _one_cycle),
}


def equals_one_process(job: Job, rank: int, kind: str, is_late: bool) -> None:
    """is_late: the scheduler is made after the trainer."""
    make_optimizer, make_scheduler = KINDS[kind]
    expected = seeded(Mlp)
    plain = make_optimizer(expected)
    plain_scheduler = make_scheduler(plain)
    for step in range(STEPS):
        plain.zero_grad()
        expected.loss(joined_batch(step)).backward()
        plain.step()
        plain_scheduler.step()

    model = seeded(Mlp, seed=1 + rank)
    optimizer = make_optimizer(model)
    scheduler = None if is_late else make_scheduler(optimizer)
    trainer = ct.Trainer(model, optimizer, job)
    scheduler = scheduler or make_scheduler(optimizer)
    momenta = set()
    for step in range(STEPS):
        momenta.add(momentum(optimizer.param_groups[0]))
        model.loss(part_of(joined_batch(step), rank)).backward()
        trainer.step()
        scheduler.step()
    expect(len(momenta) > 3, f"expected several momenta, got {momenta}")
    if trainer.finish():
        job.report()
    if kind == "lion":
        _expect_mostly_equal(model, expected)
    else:
        expect_equal(model, expected, TOLERANCE)


def _expect_mostly_equal(got: nn.Module, expected: nn.Module) -> None:
    """The sign of a sum that is 0 up to rounding is any. Later steps then differ in few others."""
    differences = torch.cat([(one - other).abs().flatten() for one, other
                             in zip(got.parameters(), expected.parameters())])
    others = int((differences > TOLERANCE).sum())
    expect(others < len(differences) / 1000, f"{others} of {len(differences)} differ")


def refuses_a_momentum_without_a_state(job: Job, rank: int) -> None:
    model = seeded(Mlp)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = ct.Trainer(model, optimizer, job)
    _one_cycle(optimizer)
    expect_raises(capstan.InvalidArgument, "made before ct.attach, or with cycle_momentum=False",
                  lambda: model.loss(part_of(joined_batch(0), rank)).backward())
    table = trainer._parameters[0].table
    expect_raises(capstan.InvalidArgument, "table layers.0.weight: expected a dense table whose",
                  lambda: setattr(table, "momentum", 0.5))
    expect(table.momentum is None, "a momentum was refused, but is there")


class _Bags(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.items = ct.EmbeddingBag("items", dim=4)
        self.output = nn.Linear(4, 1)

    def loss(self) -> torch.Tensor:
        return self.output(self.items(torch.tensor([[1, 2], [2, 3]], device=DEVICE))).sum()


def refuses_a_momentum_of_rows(job: Job, rank: int) -> None:
    """Until then the rows' first beta is that of the scheduler."""
    model = seeded(_Bags)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    scheduler = _one_cycle(optimizer)
    trainer = ct.Trainer(model, optimizer, job)
    model.loss().backward()
    trainer.step()
    scheduler.step()
    expect_raises(capstan.InvalidArgument, "EmbeddingBag items has the optimizer of the first parameter group",
                  lambda: model.loss().backward())
