"""Cases of torch_local_test.py, as those of torch_cases.py: workers with local steps."""

from __future__ import annotations

import copy
import functools
import os
from typing import Any, Callable, Iterable, Optional
from unittest import mock

import torch
from torch import nn

import capstan
import capstan.torch as ct
from capstan import Job
from capstan._torch_fragments import split
from capstan._torch_local_steps import OUTER, LocalStepsTrainer
from capstan._torch_plan import Planned
from expectations import expect
from torch_here_cases import OfAnotherLibrary, raising
from torch_models import (DEVICE, TOLERANCE, WORKERS, Mlp, Zoo, expect_equal, joined_batch, part_of,
                          seeded)

SYNC_EVERY, ROUNDS = 6, 3
KEPT_ROUNDS, CUTS = 8, 2
INNER: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": functools.partial(torch.optim.SGD, lr=0.05, momentum=0.9),
    # A larger epsilon, where rounding would be divided by almost nothing.
    "AdamW": functools.partial(torch.optim.AdamW, lr=0.01, eps=1e-3),
    "another": functools.partial(OfAnotherLibrary, lr=0.02),
}


class Reference:
    """All workers in one process, in plain torch: models that train alone, and an outer optimizer of
    torch on the values that they share."""

    def __init__(self, make: Callable[[], Any], inner: Callable[[Any], torch.optim.Optimizer],
                 fragments: int = 1, delay: int = 0, alpha: Optional[float] = None) -> None:
        self.shared = seeded(make)
        self.models = [copy.deepcopy(self.shared) for _ in range(WORKERS)]
        self.inners = [inner(one.parameters()) for one in self.models]
        self.schedulers = [torch.optim.lr_scheduler.StepLR(one, 4, 0.7) for one in self.inners]
        named = [Planned(name, one, 0) for name, one in self.shared.named_parameters()]
        self.fragments = split(named, fragments)
        self.outers = [torch.optim.SGD([named[index].tensor for index in indices], lr=0.7,
                                       momentum=0.9, nesterov=True) for indices in self.fragments]
        self.delay, self.alpha = delay, alpha
        self.late: list[tuple[int, range, list[list[torch.Tensor]]]] = []
        self.steps = [0] * WORKERS

    def local_step(self, worker: int, batch: int) -> None:
        self.inners[worker].zero_grad()
        model = self.models[worker]
        _loss(model, part_of(joined_batch(batch), worker)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        self.inners[worker].step()
        self.schedulers[worker].step()
        self.steps[worker] += 1

    @torch.no_grad()
    def push(self, fragment: int) -> None:
        shared = list(self.shared.parameters())
        locals_ = [list(one.parameters()) for one in self.models]
        indices = self.fragments[fragment]
        for index in indices:
            differences = [shared[index] - one[index] for one in locals_]
            shared[index].grad = torch.stack(differences).mean(0)
        pushed = [[one[index].clone() for index in indices] for one in locals_]
        self.outers[fragment].step()
        self.late.append((self.steps[0] + self.delay, indices, pushed))

    @torch.no_grad()
    def take(self) -> None:
        """What is due after the local steps so far."""
        due = [one for one in self.late if one[0] <= self.steps[0]]
        self.late = [one for one in self.late if one[0] > self.steps[0]]
        for _, indices, pushed in due:
            for worker, model in enumerate(self.models):
                own = list(model.parameters())
                for number, index in enumerate(indices):
                    new = list(self.shared.parameters())[index]
                    if self.alpha is not None:
                        own[index].copy_((1 - self.alpha) * new + self.alpha * own[index])
                    else:
                        own[index].copy_(new + (own[index] - pushed[worker][number]))

    def round(self, number: int, sync_every: int = SYNC_EVERY) -> None:
        parts = len(self.fragments)
        for step in range(1, sync_every + 1):
            for worker in range(WORKERS):
                self.local_step(worker, number * sync_every + step)
            if self.delay > 0:
                self.take()
            if step * parts % sync_every == 0:
                self.push(step * parts // sync_every - 1)
            if self.delay == 0:
                self.take()


def _loss(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return model(batch) if isinstance(model, Zoo) else model.loss(batch)


def _local_step(model: Any, inners: Iterable[torch.optim.Optimizer], schedulers: Iterable[Any],
                batch: int, rank: int) -> float:
    for inner in inners:
        inner.zero_grad()
    loss = _loss(model, part_of(joined_batch(batch), rank))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    for inner in inners:
        inner.step()
    for scheduler in schedulers:
        scheduler.step()
    return float(loss.detach())


def equals_reference(job: Job, rank: int, name: str = "AdamW", tolerance: float = TOLERANCE,
                     **settings: Any) -> None:
    """After each round the worker has what its model in one process has, and after the end all have
    what the outer optimizer has made."""
    fragments = settings.get("fragments", 1)
    expected = Reference(Zoo, INNER[name], fragments, settings.get("fragment_sync_delay", 0),
                         settings.get("fragment_update_alpha"))
    model = seeded(Zoo, seed=1 + rank)
    inner = INNER[name](model.parameters())
    local = LocalStepsTrainer(model, inner, job, sync_every=SYNC_EVERY, **settings)
    scheduler = torch.optim.lr_scheduler.StepLR(inner, 4, 0.7)
    for number in range(ROUNDS):
        expect(local.rounds == number and local.local_step == 0, f"round {local.rounds}")
        for step in range(1, SYNC_EVERY + 1):
            loss = _local_step(model, [inner], [scheduler], number * SYNC_EVERY + step, rank)
            local.step(loss, samples=8)
        expected.round(number)
        expect_equal(model, expected.models[rank], tolerance)
        expect(0 < local.drift < 1, f"drift {local.drift}")
    local.finish()
    expect_equal(model, expected.shared, tolerance)
    inner.step()  # the program's alone again


def has_several_inner(job: Job, rank: int) -> None:
    """A local step is done once all optimizers have stepped; the rest of a round counts as one."""
    model, expected = seeded(Mlp), Reference(Mlp, INNER["SGD"])
    weights = [one for one in model.parameters() if one.ndim == 2]
    rest = [one for one in model.parameters() if one.ndim != 2]
    inners = [INNER["SGD"](weights), INNER["SGD"](rest)]
    with LocalStepsTrainer(model, inners, job, sync_every=SYNC_EVERY) as local:
        schedulers = [torch.optim.lr_scheduler.StepLR(one, 4, 0.7) for one in inners]
        for step in range(1, SYNC_EVERY + 3):
            _local_step(model, inners, schedulers, step, rank)
        expect(local.local_step == 2, f"{local.local_step}")
    expected.round(0)
    for step in (1, 2):
        for worker in range(WORKERS):
            expected.local_step(worker, SYNC_EVERY + step)
    expected.push(0)
    expect_equal(model, expected.shared)
    expect(local.rounds == 2, f"{local.rounds} rounds")


def rounds_by_time(job: Job, rank: int) -> None:
    """Rank 1 needs three times as long for a local step. The means have equal weights."""
    seconds = 0.0
    per_step = [0.25, 0.75][rank]
    model, expected = seeded(Mlp), Reference(Mlp, INNER["SGD"])
    inner = INNER["SGD"](model.parameters())
    local = LocalStepsTrainer(model, inner, job, round_seconds=2.0, clock=lambda: seconds)
    scheduler = torch.optim.lr_scheduler.StepLR(inner, 4, 0.7)
    steps = [0, 0]
    for number in range(ROUNDS):
        while local.rounds == number:
            seconds += per_step
            steps[rank] += 1
            _local_step(model, [inner], [scheduler], steps[rank], rank)
        for worker, count in enumerate((8, 3)):
            for step in range(count):
                expected.local_step(worker, number * count + step + 1)
        expected.push(0)
        expected.late = [(0, *one[1:]) for one in expected.late]
        expected.take()
        expect_equal(model, expected.models[rank])
    expect(steps[rank] == ROUNDS * (8, 3)[rank], f"{steps}")
    local.finish()


def fills_fragments_by_time(job: Job, rank: int) -> None:
    """A step may pass the moments of several fragments, and one that has not taken its values takes
    them before it is pushed again."""
    seconds = 0.0
    model = seeded(Mlp)
    inner = INNER["SGD"](model.parameters())
    local = LocalStepsTrainer(model, inner, job, round_seconds=1.0, fragments=3,
                              fragment_sync_delay=2, clock=lambda: seconds)
    losses = []
    for step in range(12):
        seconds += 0.7
        losses.append(_local_step(model, [inner], [], 1, rank))
    expect(local.rounds == 12, f"{local.rounds} rounds")
    expect(losses[-1] < losses[0], f"{losses}")
    local.finish()


def trains(job: Job, rank: int, **settings: Any) -> None:
    """Of a small model on the same batches, in any mode and with any codec."""
    model = seeded(Mlp)
    inner = INNER["AdamW"](model.parameters())
    local = LocalStepsTrainer(model, inner, job, sync_every=4, **_outer_of(settings))
    losses = [_local_step(model, [inner], [], step % 4, rank) for step in range(40)]
    expect(sum(losses[-4:]) < 0.8 * sum(losses[:4]), f"{losses[:4]}, then {losses[-4:]}")
    local.finish()


def _outer_of(settings: dict[str, Any]) -> dict[str, Any]:
    if "momentum" not in settings:
        return settings
    momentum = settings.pop("momentum")
    return {**settings, "outer": capstan.SGD(0.7, momentum=momentum, nesterov=momentum > 0)}


def keeps_other_types(job: Job, rank: int) -> None:
    """bfloat16: what was rounded away is not pushed. BatchNorm's statistics stay the worker's."""
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).to(DEVICE).bfloat16()
    torch.manual_seed(1)
    for one in model.parameters():
        nn.init.normal_(one)
    frozen = nn.Linear(2, 2).to(DEVICE).requires_grad_(False)
    nn.init.eye_(frozen.weight)
    nn.init.zeros_(frozen.bias)
    both = nn.ModuleList([model, frozen])
    before = copy.deepcopy(both)
    inner = torch.optim.SGD(model.parameters(), lr=0.0)
    local = LocalStepsTrainer(both, inner, job, sync_every=2, fragment_sync_delay=1)
    for _ in range(6):
        x = torch.randn(4, 4, device=DEVICE, dtype=torch.bfloat16)
        model(x).float().square().mean().backward()
        inner.step()
        inner.zero_grad()
    local.finish()
    expect_equal(both, before, tolerance=0)
    expect(local.drift == 0, f"{local.drift}")
    expect(not torch.equal(model[1].running_mean, before[0][1].running_mean), "it has batches")


def compiles(job: Job, rank: int) -> None:
    """A compiled model, and an inner step under the GradScaler, which leaves one out."""
    model = seeded(Mlp)
    inner = torch.optim.SGD(model.parameters(), lr=0.05)
    local = LocalStepsTrainer(model, inner, job, sync_every=2)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    layers = torch.compile(model.layers, backend="eager")
    for step in range(5):
        batch = part_of(joined_batch(step), rank)
        loss = nn.functional.cross_entropy(layers(batch["x"]), batch["label"])
        scaler.scale(loss * (float("inf") if step == 1 else 1)).backward()
        scaler.step(inner)
        scaler.update()
        inner.zero_grad()
    expect(local.rounds == 2 and local.local_step == 0, f"{local.rounds}, {local.local_step}")
    local.finish()


def keeps(job: Job, rank: int, path: str, restored_from: int) -> None:
    """Trains to the end with states that checkpoints have, and saves what comes out."""
    model = nn.ModuleList([seeded(Mlp), nn.BatchNorm1d(6)])
    inner = INNER["AdamW"](model.parameters())
    local = LocalStepsTrainer(model, inner, job, sync_every=3)
    expect(local.rounds == restored_from, f"it begins in round {local.rounds}")
    scheduler = torch.optim.lr_scheduler.StepLR(inner, 4, 0.7)
    local.states.add("scheduler", scheduler)
    while local.rounds < KEPT_ROUNDS:
        batch = part_of(joined_batch(local.rounds * 3 + local.local_step), rank)
        loss = model[0].loss({"x": model[1](batch["x"]), "label": batch["label"]})
        loss.backward()
        inner.step()
        inner.zero_grad()
        scheduler.step()
    local.finish()
    state = {"model": model.state_dict(), "inner": inner.state_dict(),
             "scheduler": scheduler.state_dict()}
    if restored_from == 0:
        torch.save(state, f"{path}-{rank}")
        return
    _expect_same(state, torch.load(f"{path}-{rank}", weights_only=False), "state")


def _expect_same(got: Any, expected: Any, what: str) -> None:
    if isinstance(expected, dict):
        expect(got.keys() == expected.keys(), f"{what}: {got.keys()}")
        for key, one in expected.items():
            _expect_same(got[key], one, f"{what}.{key}")
    elif isinstance(expected, torch.Tensor):
        expect(torch.equal(got, expected), f"{what}: {got} is not {expected}")
    elif isinstance(expected, (list, tuple)):
        for number, (one, other) in enumerate(zip(got, expected)):
            _expect_same(one, other, f"{what}[{number}]")
    else:
        expect(got == expected, f"{what}: {got} is not {expected}")


def refuses(job: Job, rank: int) -> None:
    model = seeded(Mlp)
    inner = INNER["SGD"](model.parameters())
    for text, settings in (
            ("that 4 fragments divide, got 50", {"fragments": 4}),
            ("that 1 fragments divide, got 0", {"sync_every": 0}),
            ("less than 5 local steps", {"sync_every": 10, "fragments": 2, "fragment_sync_delay": 5}),
            ("got both", {"sync_every": 10, "round_seconds": 1.0}),
            ("a time above 0", {"round_seconds": 0.0}),
            ("fragments: expected 1 or more", {"fragments": 0}),
            ("fragments: expected at most 6", {"sync_every": 7, "fragments": 7}),
            ("from 0 to below 1", {"fragment_update_alpha": 1.0}),
            ("outer: expected an optimizer of the servers", {"outer": inner})):
        with raising(capstan.InvalidArgument, text):
            LocalStepsTrainer(model, inner, job, **settings)
    with raising(capstan.InvalidArgument, "inner: expected an optimizer"):
        LocalStepsTrainer(model, [], job)
    bag = nn.ModuleList([model, ct.EmbeddingBag("bag", 8)])
    with raising(capstan.InvalidArgument, "EmbeddingBag bag"):
        LocalStepsTrainer(bag, inner, job)
    local = LocalStepsTrainer(model, inner, job, sync_every=2)
    with raising(capstan.InvalidArgument, "give round_seconds="):
        local.join()
    with raising(capstan.WrongOrder, "was not in the model"):
        model.layers.append(nn.Linear(3, 3))
        for _ in range(2):
            inner.step()
    del model.layers[5]
    local.finish()
    with raising(capstan.WrongOrder, "is over"):
        local.finish()


def needs(job: Job, rank: int, text: str) -> None:
    """The job refuses the outer optimizer that is the default."""
    model = seeded(Mlp)
    with raising(capstan.InvalidArgument, text):
        LocalStepsTrainer(model, INNER["SGD"](model.parameters()), job)
    job.fail("the end of the case")


def trains_alone() -> None:
    """Without a job: as the program without LocalSteps."""
    model, alone = seeded(Mlp), seeded(Mlp)
    inner, expected = (INNER["AdamW"](one.parameters()) for one in (model, alone))
    with mock.patch.dict(os.environ), mock.patch.object(ct, "_attached", None):
        os.environ.pop("CAPSTAN_COORDINATOR", None)
        local = ct.LocalSteps(model, inner, sync_every=2)
        for step in range(5):
            loss = _local_step(model, [inner], [], step, rank=0)
            ct.step(loss)
            _local_step(alone, [expected], [], step, rank=0)
        expect(local.rounds == 2 and local.local_step == 1, f"{local.rounds}")
        expect(ct.finish(), "one worker evaluates")
        ct.report(test_loss=0.5)
    expect_equal(model, alone, tolerance=0)
