"""Cases of torch_checkpoint_test.py, as those of torch_cases.py: a worker's own state in checkpoints."""

from __future__ import annotations

import pathlib
import random
import time
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, DistributedSampler

import capstan
import capstan.torch as ct
from capstan import Job
from expectations import expect, expect_raises
from torch_cases import HAS_SCALER
from torch_models import DEVICE, seeded

# SAMPLES is the size of the data, BATCH that of a batch. Each of 2 workers has 6 batches in an
# epoch, and the last one is smaller.
SAMPLES, BATCH = 44, 4
STEPS = 26
CUTS = 5  # steps between two checkpoints


class Noisy(Dataset):
    """Each read of a sample draws from torch's and Python's generators."""

    def __init__(self) -> None:
        self._x = torch.randn(SAMPLES, 6, generator=torch.Generator().manual_seed(5))

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = self._x[index] + 0.1 * torch.randn(6) + 0.1 * random.random()
        return x, (self._x[index].sum() > 0).long()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3),
                                    nn.Linear(16, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def _loader(kind: str, rank: int) -> DataLoader:
    data = Noisy()
    if kind == "distributed":
        sampler = DistributedSampler(data, num_replicas=2, rank=rank, seed=3)
        return DataLoader(data, BATCH, sampler=sampler)
    part = torch.utils.data.Subset(data, range(rank, SAMPLES, 2))
    if kind == "generator":
        return DataLoader(part, BATCH, shuffle=True, generator=torch.Generator().manual_seed(9))
    # Processes of the loader read ahead.
    return DataLoader(part, BATCH, shuffle=True, num_workers=2 if kind == "ahead" else 0)


def _await_checkpoint(kept: pathlib.Path) -> None:
    """The first one of the job is complete, or will be of a step that is still to come."""
    end = time.monotonic() + 60  # the servers may be slow
    while not list(kept.glob("checkpoint-*/manifest")) and time.monotonic() < end:
        time.sleep(0.01)


def _result(model: nn.Module, scheduler: Any, seen: list[float], loss: float) -> dict[str, Any]:
    return {"model": {name: one.detach().cpu().clone() for name, one in model.state_dict().items()},
            "rates": scheduler.get_last_lr(), "seen": seen, "loss": loss,
            "betas": [group["betas"] for group in scheduler.optimizer.param_groups]}


def trains(job: Job, rank: int, path: str, loader: str, restored_from: int, accumulates: int = 1,
           has_scaler: bool = False, kind: str = "plain") -> None:
    """With BatchNorm, dropout, a scheduler and noisy samples. A life that goes on ends with the bits
    of the first one, which leaves its own in the file."""
    torch.manual_seed(rank + (1000 if restored_from else 0))
    random.seed(rank)
    model = seeded(Net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, eps=1e-3)
    if kind == "one cycle":  # changes the first of betas, too
        scheduler: Any = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, STEPS + 1)
    else:
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.7)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0, growth_interval=4) if has_scaler else None
    trainer = ct.Trainer(model, optimizer, job, grad_scaler=scaler)
    compute: Any = model
    if kind == "compiled":
        compute = torch.compile(model, backend="eager")
    if kind == "evaluating":  # as with a frozen BatchNorm
        model.eval()
    batches = ct.Batches(_loader(loader, rank))
    trainer.states.add("scheduler", scheduler)
    trainer.states.add("batches", batches)
    expect(trainer.job.step == restored_from, f"step {trainer.job.step}")
    torch.manual_seed(77 + rank)  # what a program draws before its loop does not matter
    seen: list[float] = []
    loss, parts = torch.zeros(()), 0
    while trainer.job.step < STEPS:
        for x, y in batches:
            parts += 1
            x, y = x.to(DEVICE), y.to(DEVICE)
            loss = functional.cross_entropy(compute(x + 0.01 * torch.randn_like(x)), y)
            scaled = loss if scaler is None else scaler.scale(loss)
            if parts % accumulates:
                with trainer.no_sync():
                    scaled.backward()
                continue
            scaled.backward()
            trainer.step(loss)
            scheduler.step()
            seen.append(float(x.sum()))
            if restored_from == 0:
                time.sleep(0.01)  # so that a job of few steps has several checkpoints
                if trainer.job.step == STEPS - 4:
                    _await_checkpoint(pathlib.Path(f"{path}-kept"))
            if trainer.job.step == STEPS:
                break
        model.eval()
        model(torch.ones(2, 6, device=DEVICE))  # a validation between
        model.train(kind != "evaluating")
    result = _result(model, scheduler, seen, float(loss))
    if kind == "compiled":  # its buffers are those of the step's end
        result["model"] = {name: one for name, one in result["model"].items()
                           if "running" not in name and "tracked" not in name}
    if scaler is not None:
        result["scale"] = scaler.get_scale()
    if restored_from == 0:
        torch.save(result, f"{path}.{rank}")
    else:
        expected = torch.load(f"{path}.{rank}", weights_only=False)
        seen_then = expected.pop("seen")[restored_from:]
        expect(result.pop("seen") == seen_then, f"other samples: {seen} and {seen_then}")
        for name, tensor in expected.pop("model").items():
            now = result["model"][name]
            difference = (now.double() - tensor.double()).abs().max()
            expect(torch.equal(now, tensor), f"{name} differs by {difference}")
        result.pop("model")
        expect(result == expected, f"{result} instead of {expected}")
    trainer.finish()


def refuses(job: Job, rank: int) -> None:
    model = seeded(Net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = ct.Trainer(model, optimizer, job)

    class Holder:
        def __init__(self, state: object) -> None:
            self._state = state

        def state_dict(self) -> object:
            return self._state

        def load_state_dict(self, state: object) -> None:
            raise AssertionError("there is nothing to load")

    add = trainer.states.add
    add("one", Holder({"a": 1}))
    expect_raises(capstan.InvalidArgument, "'one' is given twice", lambda: add("one", Holder({})))
    expect_raises(capstan.InvalidArgument, "without state_dict", lambda: add("two", object()))
    expect_raises(capstan.InvalidArgument, "cannot be saved", lambda: add("two", Holder(lambda: 0)))
    expect_raises(capstan.InvalidArgument, "expected less than 67108864",
                  lambda: add("two", Holder(torch.zeros(2**24))))
    model(torch.ones(2, 6)).sum().backward()
    trainer.step()
    trainer.finish()


def keeps_pieces(job: Job, rank: int, first: int, steps: int) -> None:
    """As a program without torch does it."""
    table = job.table("w", [0.0], optimizer=capstan.SGD(lr=1.0))
    expect_raises(capstan.WrongOrder, "start", lambda: job.put_worker_state("a", b"x"))
    job.start()
    expected = None if first == 0 else b"%d of %d\0" % (first, rank)
    expect(job.worker_state("count") == expected, f"{job.worker_state('count')!r}")
    expect(job.worker_state("other") is None, "no such piece")
    for step in range(first, steps):
        job.put_worker_state("count", b"%d of %d\0" % (step, rank))
        table.push_pull([1.0])
        job.end_step()
    job.put_worker_state("count", b"%d of %d\0" % (steps, rank))
    job.finish()
