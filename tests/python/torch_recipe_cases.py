"""Cases of torch_recipe_test.py, as those of torch_cases.py: usual programs beside plain torch."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel

import capstan.torch as ct
from capstan import Job
from torch_models import BATCH, DEVICE, Mlp, expect_equal, joined_batch, part_of, seeded

ITERATIONS = 8
TOLERANCE = 1e-6


def averages_weights(job: Job, rank: int) -> None:
    """An exponential moving average beside the model, for evaluation."""
    def average(one: torch.Tensor, new: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        return 0.9 * one + 0.1 * new

    def make(seed: int) -> tuple[Mlp, torch.optim.Optimizer]:
        model = seeded(Mlp, seed)
        return model, torch.optim.AdamW(model.parameters(), lr=0.001, eps=1e-3)

    expected, plain = make(1)
    model, optimizer = make(1 + rank)
    trainer = ct.Trainer(model, optimizer, job)
    averages = [AveragedModel(one, avg_fn=average) for one in (expected, model)]
    for step in range(ITERATIONS):
        plain.zero_grad()
        expected.loss(joined_batch(step)).backward()
        plain.step()
        loss = model.loss(part_of(joined_batch(step), rank))
        loss.backward()
        trainer.step(loss, BATCH)
        averages[0].update_parameters(expected)
        averages[1].update_parameters(model)
        expect_equal(averages[1], averages[0], TOLERANCE)
    trainer.finish()
    expect_equal(model, expected, TOLERANCE)
    averages[1].update_parameters(model)  # it outlives the job


class Moco(nn.Module):
    """Momentum contrast: a queue of keys, which an average of the encoder has made."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 130), nn.Tanh(), nn.Linear(130, 8))
        self.of_keys = copy.deepcopy(self.encoder).requires_grad_(False)
        self.register_buffer("queue", functional.normalize(torch.randn(8, 4 * BATCH), dim=0))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    def forward(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        q = functional.normalize(self.encoder(queries), dim=1)
        with torch.no_grad():
            for one, average in zip(self.encoder.parameters(), self.of_keys.parameters()):
                average.data = average.data * 0.9 + one.data * 0.1
            k = functional.normalize(self.of_keys(keys), dim=1)
        positive = (q * k).sum(1, keepdim=True)
        logits = torch.cat([positive, q @ self.queue.clone().detach()], dim=1) / 0.5
        with torch.no_grad():
            place = int(self.place)
            self.queue[:, place:place + len(k)] = k.t()
            self.place[0] = (place + len(k)) % self.queue.shape[1]
        return functional.cross_entropy(logits, torch.zeros(len(k), dtype=torch.long,
                                                            device=q.device))


def contrasts_with_momentum(job: Job, rank: int) -> None:
    """Both workers have the same data, so that the queues are equal."""
    def make() -> tuple[Moco, torch.optim.Optimizer]:
        model = seeded(Moco)
        return model, torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)

    expected, plain = make()
    model, optimizer = make()
    trainer = ct.Trainer(model, optimizer, job)
    for step in range(ITERATIONS):
        x = part_of(joined_batch(step), 0)["x"]
        for one in (expected, model):
            loss = one(x, x + 0.1)
            if one is expected:
                plain.zero_grad()
            loss.backward()
            plain.step() if one is expected else trainer.step(loss, BATCH)
    trainer.finish()
    expect_equal(model, expected, TOLERANCE)  # also the frozen encoder of keys
    for one, other in zip(model.buffers(), expected.buffers()):
        torch.testing.assert_close(one, other, rtol=0, atol=TOLERANCE)


class LowRank(nn.Module):
    """A frozen layer with a trainable difference of rank 2."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(2, base.in_features) / 10)
        self.up = nn.Parameter(torch.zeros(base.out_features, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + 2 * (x @ self.down.t()) @ self.up.t()


def adapts_a_frozen_model(job: Job, rank: int) -> None:
    """The optimizer has the adapters alone."""
    def make(seed: int) -> tuple[Mlp, Any]:
        model = seeded(Mlp)  # the same base in all workers
        torch.manual_seed(seed)
        layers: Any = model.layers
        for i in (0, 2):
            layers[i] = LowRank(layers[i])
        model.to(DEVICE)
        layers[4].requires_grad_(False)
        trained = [one for one in model.parameters() if one.requires_grad]
        return model, torch.optim.AdamW(trained, lr=0.001, eps=1e-3)

    expected, plain = make(1)
    model, optimizer = make(1 + rank)
    trainer = ct.Trainer(model, optimizer, job)
    for step in range(ITERATIONS):
        plain.zero_grad()
        expected.loss(joined_batch(step)).backward()
        plain.step()
        loss = model.loss(part_of(joined_batch(step), rank))
        loss.backward()
        trainer.step(loss, BATCH)
    trainer.finish()
    expect_equal(model, expected, TOLERANCE)
