"""A program that ends itself by SIGKILL where it is told. With numpy and torch it declares itself
replaceable; with local a step is a round of local steps.

usage: replaced_program.py numpy|torch|local END_FILE LOSSES

LOSSES: RANK-STEP-WHERE,... WHERE: begin, within (some gradients have left) or end of the step; asked: the
same end, by SIGTERM. Each loss happens once: a file beside END_FILE keeps it in mind."""

from __future__ import annotations

import hashlib
import os
import pathlib
import signal
import sys
from typing import Callable

import numpy

import capstan

STEPS = 10


class Losses:
    def __init__(self, end: pathlib.Path, losses: str) -> None:
        self._end = end
        self._losses = set(losses.split(","))

    def at(self, rank: int, step: int, where: str) -> None:
        for place, number in ((where, signal.SIGKILL), ("asked", signal.SIGTERM)):
            name = f"{rank}-{step}-{place}"
            mark = self._end.with_suffix(f".{name}")
            if name in self._losses and not mark.exists() and (place == where or where == "end"):
                mark.touch()
                os.kill(os.getpid(), number)


def expect_refused(operation: Callable[[], object]) -> None:
    """Another process would not know of an operation between two steps."""
    try:
        operation()
    except capstan.WrongOrder as error:
        assert "replaceable" in str(error), error
    else:
        raise AssertionError("an operation between two steps was not refused")


def train_arrays(losses: Losses) -> bytes:
    """The values at the end, for the worker that evaluates. Two layers, and a sum of all workers."""
    job = capstan.connect(replaceable=True)
    tables = [job.table(f"layer{i}", (300,), layer=i, optimizer=capstan.Adam(lr=0.05), stddev=0.5)
              for i in range(3)]
    job.start()
    total = 0.0
    while job.step < STEPS:
        step = job.step
        losses.at(job.rank, step, "begin")
        draws = numpy.random.default_rng((job.rank, step))
        norm = sum(float(numpy.abs(one.values).sum()) for one in tables)
        total = job.all_reduce(norm, "sum")  # after the wait for values
        for i in (2, 1, 0):
            if i == step % 3:
                continue  # a layer that is not used
            noise = draws.standard_normal(300).astype(numpy.float32)
            tables[i].push_pull(tables[i].values - noise + numpy.float32(total / 1e6))
            if i == 1:
                losses.at(job.rank, step, "within")
        job.end_step()
        if job.step < STEPS:
            expect_refused(job.barrier)
        losses.at(job.rank, step, "end")
    total = job.all_reduce((1 + job.rank) * total, "sum")
    if not job.finish():
        return b""
    return b"".join(one.values.tobytes() for one in tables) + numpy.float64(total).tobytes()


def train_modules(losses: Losses) -> bytes:
    import torch
    from torch import nn

    import capstan.torch as ct

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = nn.Sequential(nn.Linear(8, 130), nn.Tanh(), nn.Dropout(0.2))
            self.items = ct.EmbeddingBag("items", 4, optimizer=capstan.Adagrad(lr=0.1), stddev=0.5)
            self.output = nn.Linear(134, 3)

        def forward(self, x: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
            return self.output(torch.cat([self.hidden(x), self.items(keys)], dim=1))

    torch.manual_seed(1)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    ct.attach(model, optimizer, replaceable=True)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
    model.hidden[0].weight.register_hook(lambda _: losses.at(ct.rank(), ct.next_step(), "within"))
    mean = 0.0
    for step in range(ct.next_step(), 2 * STEPS):
        losses.at(ct.rank(), step, "begin")
        for _ in range(step - scheduler.last_epoch):
            scheduler.step()
        torch.manual_seed(1000 * ct.rank() + step)
        x = torch.randn(16, 8)
        keys = torch.randint(30, (16, 3))
        loss = nn.functional.cross_entropy(model(x, keys), x[:, :3].argmax(1))
        loss.backward()
        mean = ct.all_reduce(float(loss.detach()))
        ends = ct.stop(ct.rank() == 1 and step == STEPS - 1)
        ct.step(loss)
        losses.at(ct.rank(), step, "end")
        if ends:
            break
        with torch.no_grad():
            model(x, keys)  # an evaluation
        expect_refused(ct.barrier)
    mean = ct.all_reduce((1 + ct.rank()) * mean, "sum")
    if not ct.finish():
        return b""
    return (b"".join(one.detach().numpy().tobytes() for one in model.parameters())
            + numpy.float64(mean).tobytes())


def train_rounds(losses: Losses) -> bytes:
    import torch
    from torch import nn

    import capstan.torch as ct

    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 130), nn.Tanh(), nn.Dropout(0.2), nn.Linear(130, 3))
    inner = torch.optim.AdamW(model.parameters(), lr=0.01)
    outer = capstan.SGD(lr=0.7, momentum=0.5, nesterov=True)
    local = ct.LocalSteps(model, inner, sync_every=4, outer=outer)
    scheduler = torch.optim.lr_scheduler.StepLR(inner, 7, 0.8)
    ct.checkpoint_state("scheduler", scheduler)
    while local.rounds < STEPS:
        losses.at(ct.rank(), local.rounds, ("begin", "first", "within", "end")[local.local_step])
        torch.manual_seed(1000 * ct.rank() + 4 * local.rounds + local.local_step)
        x = torch.randn(16, 8)
        inner.zero_grad()
        nn.functional.cross_entropy(model(x), x[:, :3].argmax(1)).backward()
        inner.step()
        scheduler.step()
    if not ct.finish():
        return b""
    return b"".join(one.detach().numpy().tobytes() for one in model.parameters())


if __name__ == "__main__":
    the_end = pathlib.Path(sys.argv[2])
    train = {"numpy": train_arrays, "torch": train_modules, "local": train_rounds}[sys.argv[1]]
    values = train(Losses(the_end, sys.argv[3]))
    if values:
        the_end.write_text(hashlib.sha256(values).hexdigest())
