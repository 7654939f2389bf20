"""Cases of torch_group_test.py, as those of torch_cases.py: several models in one job."""

from __future__ import annotations

import copy
import pathlib
import time
import warnings
from typing import Any, Optional

import torch
from torch import nn
from torch.nn import functional

import capstan
import capstan.torch as ct
from capstan import Job
from expectations import expect, expect_raises
from torch_cases import HAS_SCALER
from torch_models import BATCH, DEVICE, WORKERS, expect_equal, joined_batch, part_of, seeded

ITERATIONS = 10
CUTS = 4  # steps between two checkpoints, which are two iterations
TOLERANCE = 1e-6


# A bias before a BatchNorm has a gradient of 0, except for rounding, which Adam would scale.
class Maker(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 130, bias=False), nn.BatchNorm1d(130), nn.ReLU(),
                                    nn.Linear(130, 6, bias=False))

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        return self.layers(noise)


class Judge(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 20, bias=False), nn.BatchNorm1d(20),
                                    nn.LeakyReLU(0.2), nn.Linear(20, 130), nn.LeakyReLU(0.2),
                                    nn.Linear(130, 1))

    def loss(self, x: torch.Tensor, is_real: bool) -> torch.Tensor:
        logits = self.layers(x)
        return functional.binary_cross_entropy_with_logits(
            logits, torch.full_like(logits, float(is_real)))


class Gan:
    """Two models with their optimizers, and a scheduler for each."""

    def __init__(self, seed: int = 1) -> None:
        self.maker, self.judge = seeded(Maker, seed), seeded(Judge, seed + 50)
        self.of_maker = torch.optim.Adam(self.maker.parameters(), lr=1e-3, betas=(0.5, 0.999))
        self.of_judge = torch.optim.Adam(self.judge.parameters(), lr=2e-3, betas=(0.5, 0.999))
        self.schedulers = [torch.optim.lr_scheduler.StepLR(one, 4, 0.5)
                           for one in (self.of_maker, self.of_judge)]

    def begin_as(self, other: Gan) -> None:
        for mine, its in ((self.maker, other.maker), (self.judge, other.judge),
                          (self.of_maker, other.of_maker), (self.of_judge, other.of_judge),
                          *zip(self.schedulers, other.schedulers)):
            mine.load_state_dict(copy.deepcopy(its.state_dict()))

    def attach(self, job: Optional[Job] = None, **options: Any) -> None:
        with ct.attach_together(job=job):
            expect(ct.attach(self.maker, self.of_maker, name="maker", **options) is self.maker,
                   "attach returns the model")
            ct.attach(self.judge, self.of_judge, **options)

    def iterate(self, batches: list[dict[str, torch.Tensor]], is_attached: bool,
                scaler: Any = None) -> None:
        """The usual loop: what the maker has made in the judge's step is used in its own. The
        gradient is the mean over the batches, each of which has its own statistics."""
        def scaled(losses: list[torch.Tensor]) -> torch.Tensor:
            loss = sum(losses) / len(losses)
            return loss if scaler is None else scaler.scale(loss)

        def step(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
            if is_attached:
                ct.step(loss, BATCH, optimizer=optimizer)
            else:
                optimizer.step()

        self.of_judge.zero_grad()
        made = [self.maker(one["x"]) for one in batches]
        loss = scaled([self.judge.loss(one["x"].cumsum(1), True) for one in batches])
        loss.backward()
        loss = scaled([self.judge.loss(one.detach(), False) for one in made])
        loss.backward()
        step(self.of_judge, loss)
        self.of_maker.zero_grad()
        loss = scaled([self.judge.loss(one, True) for one in made])
        loss.backward()
        step(self.of_maker, loss)
        for scheduler in self.schedulers:
            scheduler.step()

    def expect_equal(self, other: Gan, tolerance: float = TOLERANCE) -> None:
        expect_equal(self.maker, other.maker, tolerance)
        expect_equal(self.judge, other.judge, tolerance)


def _batches(iteration: int, is_same: bool) -> list[dict[str, torch.Tensor]]:
    """Of each worker."""
    joined = joined_batch(iteration)
    return [part_of(joined, 0 if is_same else rank) for rank in range(WORKERS)]


def _expect_equal_states(gan: Gan, expected: Gan) -> None:
    for mine, its in ((gan.of_maker, expected.of_maker), (gan.of_judge, expected.of_judge)):
        states, others = mine.state_dict()["state"], its.state_dict()["state"]
        expect(len(states) == len(others), f"{len(states)} states")
        for key, other in others.items():
            expect(float(states[key]["step"]) == float(other["step"]), "the number of steps")
            far = (states[key]["exp_avg"] - other["exp_avg"].cpu()).abs().max()
            expect(float(far) <= TOLERANCE, f"{far}")


def _expect_equal_buffers(gan: Gan, expected: Gan) -> None:
    for mine, its in ((gan.maker, expected.maker), (gan.judge, expected.judge)):
        for one, other in zip(mine.buffers(), its.buffers()):
            expect(bool(torch.allclose(one, other, atol=TOLERANCE)), f"{one} {other}")


def trains_a_gan(job: Job, rank: int, is_same: bool, goes_on: bool = False,
                 overlap: bool = True) -> None:
    """As plain torch in one process with the mean of the workers' gradients. goes_on: after some
    iterations of plain torch."""
    expected = Gan()
    first = 3 if goes_on else 0
    for iteration in range(first):
        expected.iterate(_batches(iteration, is_same), is_attached=False)
    gan = Gan(seed=1 + rank)  # rank 0's values count
    if goes_on:
        gan.begin_as(expected)
    gan.attach(job, overlap=overlap)
    warnings.simplefilter("error", UserWarning)
    for iteration in range(first, ITERATIONS):
        batches = _batches(iteration, is_same)
        expected.iterate(batches[:1] if is_same else batches, is_attached=False)
        gan.iterate([batches[rank]], is_attached=True)
        expect(ct.next_step() == 2 * (iteration - first + 1), f"step {ct.next_step()}")
    warnings.resetwarnings()
    gan.expect_equal(expected)
    _expect_equal_states(gan, expected)
    if is_same:
        _expect_equal_buffers(gan, expected)
    if ct.finish():
        gan.expect_equal(expected)
        ct.report(test_loss=0.0, samples=1)


def trains_a_gan_with_a_scaler(job: Job, rank: int) -> None:
    expected, gan = Gan(), Gan()
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3)
    gan.attach(job, grad_scaler=scaler)
    for iteration in range(ITERATIONS):
        batches = _batches(iteration, is_same=False)
        expected.iterate(batches, is_attached=False)
        gan.iterate([batches[rank]], is_attached=True, scaler=scaler)
    expect(scaler.get_scale() > 4.0, "the scale grows")
    gan.expect_equal(expected)
    ct.finish()


def steps_both_after_one_backward(job: Job, rank: int) -> None:
    """As an encoder and a decoder with an optimizer each."""
    def make(seed: int) -> tuple[nn.Module, nn.Module, list[torch.optim.Optimizer]]:
        models = seeded(lambda: nn.Linear(6, 130), seed), seeded(lambda: nn.Linear(130, 3), seed)
        return (*models, [torch.optim.SGD(models[0].parameters(), lr=0.1, momentum=0.9),
                          torch.optim.AdamW(models[1].parameters(), lr=0.01, eps=1e-3)])

    def loss_of(encoder: nn.Module, decoder: nn.Module, batch: dict[str, torch.Tensor]) -> Any:
        return functional.cross_entropy(decoder(torch.tanh(encoder(batch["x"]))), batch["label"])

    *expected, plain = make(1)
    *models, attached = make(1 + rank)
    with ct.attach_together(job=job):
        for model, optimizer in zip(models, attached):
            ct.attach(model, optimizer)
    for iteration in range(ITERATIONS):
        batch = joined_batch(iteration)
        for optimizer in plain + attached:
            optimizer.zero_grad()
        loss_of(*expected, batch).backward()
        loss = loss_of(*models, part_of(batch, rank))
        loss.backward()
        for optimizer in plain:
            optimizer.step()
        for optimizer in attached:
            ct.step(loss, BATCH, optimizer=optimizer)
    for model, other in zip(models, expected):
        expect_equal(model, other)
    ct.finish()


def trains_under_ssp(job: Job, rank: int) -> None:
    """Values of any model may change in any step: a graph from before is refused."""
    gan = Gan()
    gan.attach(job)
    for iteration in range(3):
        x = part_of(joined_batch(iteration), rank)["x"]
        for optimizer in (gan.of_judge, gan.of_maker):
            optimizer.zero_grad()
            loss = gan.judge.loss(gan.maker(x), optimizer is gan.of_maker)
            loss.backward()
            ct.step(loss, BATCH, optimizer=optimizer)
    gan.of_judge.zero_grad()
    made = gan.maker(part_of(joined_batch(9), rank)["x"])
    gan.judge.loss(made.detach(), False).backward()
    ct.step(optimizer=gan.of_judge)
    loss = gan.judge.loss(made, True)
    expect_raises(capstan.WrongOrder, "before the last ct.step()", loss.backward)
    ct.finish()


def warns_of_a_missing_zero_grad(job: Job, rank: int) -> None:
    """The maker's backward leaves gradients in the judge."""
    gan = Gan()
    gan.attach(job)
    texts = []
    for how in ("in place", "to none", "not"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            x = part_of(joined_batch(0), rank)["x"]
            for _ in range(2):
                if how != "not":
                    gan.of_judge.zero_grad(set_to_none=how == "to none")
                for is_real in (True, False):
                    gan.judge.loss(x, is_real).backward()
                ct.step(optimizer=gan.of_judge)
                gan.judge.loss(gan.maker(x), True).backward()
                ct.step(optimizer=gan.of_maker)
            gan.of_judge.zero_grad()
        texts.append([str(one.message) for one in caught if "zero_grad" in str(one.message)])
    expect(texts[:2] == [[], []], f"{texts}")
    expect(len(texts[2]) == 1 and "added to one from before another model's step" in texts[2][0],
           f"{texts}")
    ct.finish()


def joins(job: Job, rank: int) -> None:
    """Rank 1 has more batches. Both end with the same values."""
    gan = Gan()
    gan.attach(job)
    with ct.join():
        for iteration in range(3 + 2 * rank):
            gan.iterate([part_of(joined_batch(iteration), rank)], is_attached=True)
    for model in (gan.maker, gan.judge):
        for parameter in model.parameters():
            total = float(parameter.detach().double().sum())
            expect(ct.all_reduce(total, "max") == ct.all_reduce(total, "min"), "equal values")
    expect(ct.next_step() == 10, f"step {ct.next_step()}")
    ct.finish()


def goes_on_from_a_checkpoint(job: Job, rank: int, path: str, restored_from: int) -> None:
    """A life that goes on ends with the bits of the first one, which leaves its own in the file."""
    torch.manual_seed(rank)
    gan = Gan(seed=1 + rank)
    gan.attach(job)
    for number, scheduler in enumerate(gan.schedulers):
        ct.checkpoint_state(f"scheduler {number}", scheduler)
    expect(ct.next_step() == restored_from, f"step {ct.next_step()}")
    for iteration in range(ct.next_step() // 2, ITERATIONS):
        gan.iterate([part_of(joined_batch(iteration), rank)], is_attached=True)
        end = time.monotonic() + 60  # the servers may be slow
        while (iteration == ITERATIONS - 3 and time.monotonic() < end
               and not list(pathlib.Path(f"{path}-kept").glob("checkpoint-*/manifest"))):
            time.sleep(0.01)
    result = [{name: one.detach().cpu().clone() for name, one in model.state_dict().items()}
              for model in (gan.maker, gan.judge)]
    rates = [scheduler.get_last_lr() for scheduler in gan.schedulers]
    file = pathlib.Path(f"{path}-{rank}")
    if restored_from == 0:
        torch.save((result, rates), file)
    else:
        expected, expected_rates = torch.load(file)
        expect(rates == expected_rates, f"{rates} {expected_rates}")
        for model, other in zip(result, expected):
            for name, one in model.items():
                expect(torch.equal(one, other[name]), f"{name}: other bits")
    ct.finish()
