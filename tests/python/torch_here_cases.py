"""Cases of torch_here_test.py, as those of torch_cases.py: the program runs the optimizer."""

from __future__ import annotations

import contextlib
import copy
import functools
import pathlib
import time
import warnings
from typing import Any, Callable, Iterator

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import capstan
import capstan.torch as ct
from capstan import Job
from capstan._alone_job import AloneJob
from capstan._torch_here import HereTrainer
from expectations import expect
from torch_models import (BATCH, DEVICE, STEPS, TOLERANCE, Mlp, expect_equal, joined_batch, part_of,
                          seeded)

REFUSED = ["LBFGS", "SparseAdam"]
# Steps of a job that writes checkpoints, and between two of them.
KEPT_STEPS, CUTS = 16, 4


class OfAnotherLibrary(torch.optim.Optimizer):
    """Its state is not shaped like the parameter, or is no tensor."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for one in group["params"]:
                if one.grad is None:
                    continue
                state = self.state[one]
                square = (one.grad**2).mean()
                state["square"] = 0.9 * state.get("square", torch.zeros(())) + 0.1 * square.cpu()
                state["count"] = state.get("count", 0) + 1
                one.sub_(group["lr"] * one.grad / (float(state["square"])**0.5 + 0.1))


def optimizers() -> dict[str, Callable[[Any], torch.optim.Optimizer]]:
    """All of torch.optim but the refused ones, and another library's."""
    made: dict[str, Callable[[Any], torch.optim.Optimizer]] = {"another": lambda parameters:
                                                               OfAnotherLibrary(parameters, 0.05)}
    for name, kind in vars(torch.optim).items():
        is_one = isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)
        if is_one and kind is not torch.optim.Optimizer and name not in REFUSED:
            # A larger epsilon, where rounding would be divided by almost nothing.
            has_one = name in ("Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adadelta")
            made[name] = functools.partial(kind, lr=0.01, **({"eps": 1e-3} if has_one else {}))
    return made


@contextlib.contextmanager
def raising(kind: type[BaseException], text: str) -> Iterator[None]:
    """Fails unless the block raises this error with this text in its message."""
    try:
        yield
    except kind as error:
        expect(text in str(error), f"expected '{text}' in: {error}")
    else:
        raise AssertionError(f"expected {kind.__name__} with '{text}'")


def _optimizers_of(name: str, model: nn.Module) -> list[torch.optim.Optimizer]:
    make = optimizers()[name]
    if name != "Muon":
        return [make(model.parameters())]
    # It is of matrices alone.
    rest = [one for one in model.parameters() if one.ndim != 2]
    return [make([one for one in model.parameters() if one.ndim == 2]),
            torch.optim.AdamW(rest, lr=0.01, eps=1e-3)]


def _update(model: nn.Module, optimizers: list[torch.optim.Optimizer], scheduler: Any) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    for optimizer in optimizers:
        optimizer.step()
    scheduler.step()


def _scheduler(optimizer: torch.optim.Optimizer, name: str) -> Any:
    if name == "SGD" or "betas" in optimizer.defaults:
        return torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=40,
                                                   cycle_momentum=name != "SGD")
    return torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)


def equals_one_process(job: Job, rank: int, name: str, tolerance: float = TOLERANCE) -> None:
    """With clipping and a scheduler, as one process on the joined batch."""
    model, alone = seeded(Mlp, seed=1 + rank), seeded(Mlp)
    here, expected = _optimizers_of(name, model), _optimizers_of(name, alone)
    trainer = HereTrainer(model, here, job)
    schedulers = [_scheduler(one[0], name) for one in (here, expected)]
    for step in range(STEPS):
        batch = joined_batch(step)
        model.loss(part_of(batch, rank)).backward()
        _update(model, here, schedulers[0])
        trainer.step()
        for one in expected:
            one.zero_grad()
        alone.loss(batch).backward()
        _update(alone, expected, schedulers[1])
    # Rprop takes the signs of differences, and Muon computes in bfloat16.
    expect_equal(model, alone, tolerance=0.02 if name in ("Rprop", "Muon") else tolerance)
    trainer.finish()
    here[0].step()  # the program's alone again


def has_ddp_gradients(job: Job, rank: int) -> None:
    """Accumulation, parameters without a gradient, and gradients that the program keeps."""
    model = seeded(Mlp)
    unused = nn.Linear(3, 2).to(DEVICE)  # rank 1 has a gradient of its bias
    both = nn.ModuleList([model, unused])
    optimizer = torch.optim.SGD(both.parameters(), lr=0.1, momentum=0.9)
    trainer = HereTrainer(both, [optimizer], job)
    batch = part_of(joined_batch(0), rank)
    halves = [{name: one[i::2] for name, one in batch.items()} for i in (0, 1)]
    with trainer.no_sync():
        (model.loss(halves[0]) / 2).backward()
    own = model.layers[0].weight.grad.clone()
    loss = model.loss(halves[1]) / 2
    (loss + unused.bias.sum() if rank == 1 else loss).backward()
    expect(not torch.equal(own, model.layers[0].weight.grad), "the mean of all")
    whole = copy.deepcopy(model)
    for one in whole.parameters():
        one.grad = None
    whole.loss(joined_batch(0)).backward()
    for one, expected in zip(model.parameters(), whole.parameters()):
        difference = float((one.grad - expected.grad).abs().max())
        expect(difference < TOLERANCE, f"a gradient differs by {difference}")
    expect(unused.weight.grad is None, "nobody has a gradient")
    expect(unused.bias.grad.tolist() == [0.5, 0.5], f"{unused.bias.grad}")
    kept = model.layers[0].weight.grad
    before = kept.clone()
    optimizer.step()
    trainer.step()
    expect(model.layers[0].weight.grad is None, "a new step")
    # A worker without a loss gives zeros.
    with raising(capstan.WrongOrder, "before the backward"):
        optimizer.step()
    with raising(capstan.WrongOrder, "before the backward"):
        trainer.step()
    (model.loss(batch) * (1 - rank)).backward()
    optimizer.step()
    trainer.step()
    expect(torch.equal(kept, before), "a gradient of an earlier step has changed")
    digest = sum(float(one.detach().double().sum()) for one in both.parameters())
    expect(job.all_reduce(digest, "max") == job.all_reduce(digest, "min"), "other parameters")
    # A gradient that is not finite is the program's affair, as the scaler's.
    (model.loss(batch) * (float("inf") if rank == 1 else 1.0)).backward()
    expect(not bool(torch.isfinite(model.layers[0].weight.grad).all()), "infinities come through")
    with raising(capstan.WrongOrder, "second gradient"):
        model.loss(batch).backward()
    trainer.step()
    trainer.finish()


def checkpoints_activations(job: Job, rank: int, is_whole: bool) -> None:
    """The backward of a reentrant checkpoint is within that of the step."""
    model, alone = seeded(Mlp), seeded(Mlp)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = HereTrainer(model, [optimizer], job)
    batch = joined_batch(0)
    part = part_of(batch, rank)
    inner = model.layers if is_whole else model.layers[:4]
    hidden = checkpoint(inner, part["x"].clone().requires_grad_(), use_reentrant=True)
    logits = hidden if is_whole else model.layers[4](hidden)
    loss = functional.cross_entropy(logits, part["label"])
    if is_whole:
        with raising(capstan.WrongOrder, "use_reentrant=False"):
            loss.backward()
        with contextlib.suppress(capstan.Error):  # who has come first ends the job
            job.barrier()
        return job.fail("the end of the case")
    loss.backward()
    alone.loss(batch).backward()
    for one, expected in zip(model.parameters(), alone.parameters()):
        difference = float((one.grad - expected.grad).abs().max())
        expect(difference < TOLERANCE, f"a gradient differs by {difference}")
    optimizer.step()
    trainer.step()
    trainer.finish()
    return None


def joins(job: Job, rank: int) -> None:
    """Different numbers of batches: as one process with zeros for the missing ones."""
    model, alone = seeded(Mlp), seeded(Mlp)
    optimizer = torch.optim.NAdam(model.parameters(), lr=0.01)
    expected = torch.optim.NAdam(alone.parameters(), lr=0.01)
    trainer = HereTrainer(model, [optimizer], job)
    schedulers = [torch.optim.lr_scheduler.StepLR(one, 2, 0.5) for one in (optimizer, expected)]
    counts = [3, 6]

    def update() -> None:
        _update(model, [optimizer], schedulers[0])

    with trainer.join(update):
        for step in range(counts[rank]):
            model.loss(part_of(joined_batch(step), rank)).backward()
            update()
            trainer.step()
    for step in range(max(counts)):
        expected.zero_grad()
        for other in range(2):
            if step < counts[other]:
                (alone.loss(part_of(joined_batch(step), other)) / 2).backward()
        _update(alone, [expected], schedulers[1])
    expect_equal(model, alone)
    trainer.finish()


def warns_of_different_parameters(job: Job, rank: int) -> None:
    model = seeded(Mlp)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (1 + rank))
    trainer = HereTrainer(model, [optimizer], job)
    model.loss(part_of(joined_batch(0), rank)).backward()
    optimizer.step()
    trainer.step()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.finish()
    expect(any("parameters differ" in str(one.message) for one in caught), f"{caught}")


def refuses(job: Job, rank: int) -> None:
    model = nn.Sequential(nn.Linear(3, 2))
    for name in REFUSED:
        optimizer = getattr(torch.optim, name)(model.parameters())
        with raising(capstan.InvalidArgument, name):
            HereTrainer(model, [optimizer], job)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for further in ({"grad_scaler": object()}, {"overlap": False}):
        with raising(capstan.InvalidArgument, "as with one process"):
            ct.attach(model, optimizer, job=job, optimizer_runs="here", **further)
    with raising(capstan.InvalidArgument, "\"here\""):
        ct.attach(model, optimizer, job=job, optimizer_runs="there")
    for wrong in ([], [optimizer, optimizer], None, {"one": optimizer}):
        with raising(capstan.InvalidArgument, "optimizer"):
            ct.attach(model, wrong, job=job, optimizer_runs="here")
    with raising(capstan.InvalidArgument, "several run"):
        ct.attach(model, [optimizer], job=job)
    bags = nn.Sequential(ct.EmbeddingBag(name="bag", dim=2), nn.Linear(2, 2))
    with raising(capstan.InvalidArgument, "EmbeddingBag"):
        HereTrainer(bags, [torch.optim.SGD(bags[1].parameters(), lr=0.1)], job)
    job.fail("the end of the case")


def needs(job: Job, rank: int, text: str) -> None:
    """A job that cannot have such tables says why."""
    model = nn.Sequential(nn.Linear(300, 300))
    with raising(capstan.InvalidArgument, text):
        HereTrainer(model, [torch.optim.SGD(model.parameters(), lr=0.1)], job)
    job.fail("the end of the case")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 300), nn.BatchNorm1d(300), nn.Dropout(0.3),
                                    nn.Linear(300, 300), nn.Tanh(), nn.Linear(300, 3))

    def loss(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return functional.cross_entropy(self.layers(batch["x"]), batch["label"])


def _state_of(optimizers: list[torch.optim.Optimizer]) -> Iterator[tuple[str, torch.Tensor]]:
    for number, optimizer in enumerate(optimizers):
        for index, state in optimizer.state_dict()["state"].items():
            for name, value in state.items():
                if value is not None:
                    key = f"{name} of {index} of {number}"
                    yield key, torch.as_tensor(value).detach().cpu().clone()


def trains(job: Job, rank: int, path: str, name: str, restored_from: int) -> None:
    """A life that goes on from a checkpoint ends with the bits of the first one, which leaves its own
    in the file."""
    torch.manual_seed(rank + (1000 if restored_from else 0))
    model = seeded(Net, seed=5 + restored_from)
    here = _optimizers_of(name, model)
    trainer = HereTrainer(model, here, job)
    scheduler = _scheduler(here[0], name)
    trainer.states.add("scheduler", scheduler)
    trainer.states.add("random", ct.RandomState())
    expect(job.step == restored_from, f"step {job.step}")
    while job.step < KEPT_STEPS:
        model.loss(part_of(joined_batch(job.step), rank)).backward()
        _update(model, here, scheduler)
        trainer.step()
        if restored_from == 0:
            time.sleep(0.01)  # so that there are several checkpoints
            if job.step == KEPT_STEPS - 3:
                end = time.monotonic() + 60  # the servers may be slow
                kept = pathlib.Path(f"{path}-kept")
                while not list(kept.glob("checkpoint-*/manifest")) and time.monotonic() < end:
                    time.sleep(0.01)
    result = {**{key: one.detach().cpu().clone() for key, one in model.state_dict().items()},
              **dict(_state_of(here)), "rate": torch.tensor(scheduler.get_last_lr())}
    if restored_from == 0:
        torch.save(result, f"{path}.{rank}")
    else:
        expected = torch.load(f"{path}.{rank}", weights_only=False)
        expect(list(result) == list(expected), f"{list(result)}")
        for key, one in expected.items():
            expect(torch.equal(result[key], one), f"{key}: {result[key]} instead of {one}")
    trainer.finish()


def keeps_many_arrays(job: Job, rank: int) -> None:
    """capstan_keep_table refuses what the servers cannot hold; other ranks' calls do nothing."""
    table = job.table("one", torch.ones(6), replies_mean=True)
    other = job.table("other", torch.ones(6), optimizer=capstan.SGD(1.0))
    job.start()
    array = torch.ones(6)
    if rank == 0:
        for arrays in ([], [array] * 18):
            with raising(capstan.InvalidArgument, "at most"):
                table.keep(arrays)
        with raising(capstan.InvalidArgument, "the program runs"):
            other.keep([array])
    expect(table.updates == 0 and table.values.tolist() == [1.0] * 6, "the parameters")
    table.push_pull(array * (1 + 2 * rank))
    expect(table.values.tolist() == [2.0] * 6 and table.updates == 1, f"{table.values}")
    if rank == 0:
        with raising(capstan.WrongOrder, "the step that goes on"):
            table.keep([array])
    job.end_step()
    if rank == 0:
        with raising(capstan.WrongOrder, "lack the last parameters"):
            job.finish()
    table.keep([array, array * float("nan")], is_last=True)
    job.finish()


def trains_alone() -> None:
    """Without a job: the bits of plain torch."""
    model, alone = seeded(Mlp), seeded(Mlp)
    optimizer = torch.optim.RAdam(model.parameters(), lr=0.01)
    expected = torch.optim.RAdam(alone.parameters(), lr=0.01)
    trainer = HereTrainer(model, [optimizer], AloneJob())
    for step in range(STEPS):
        batch = part_of(joined_batch(step), 0)
        model.loss(batch).backward()
        optimizer.step()
        trainer.step(0.5, BATCH)
        expected.zero_grad()
        alone.loss(batch).backward()
        expected.step()
    expect_equal(model, alone, tolerance=0)
    expect(trainer.finish(), "it evaluates")
