"""Cases of torch_ranks_test.py: workers that are several ranks of torch.distributed."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import re
import signal
from typing import Any, Iterator, Optional
from unittest import mock

import torch
from torch import distributed, nn
from torch.nn import functional

import capstan
import capstan.torch as ct
import torch_models
from capstan._torch_local_steps import LocalStepsTrainer
from capstan._torch_ranks import Ranks, is_sharded, own_part
from expectations import expect
from torch_here_cases import raising
from torch_local_cases import INNER, ROUNDS, SYNC_EVERY, Reference
from torch_models import BATCH, expect_equal, joined_batch, part_of, seeded
from torch_state_cases import tensors_in

RANKS = 2  # of each worker
STEPS = 6
CUTS = 2


class Ranked(torch_models.Zoo):
    """With parameters that have too few rows for all ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(6, 1)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return super().forward(batch) + self.score(batch["x"]).square().mean()


@contextlib.contextmanager
def together(place: dict[str, Any]) -> Iterator[Any]:
    """The process group of a worker's ranks, each as torchrun starts it."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group("gloo", init_method=place["meeting"], rank=place["rank"],
                                   world_size=place["ranks"])
    try:
        with in_environment(place):
            yield distributed.group.WORLD
        if ct._attached is not None:
            ct._attached.job.close()
    finally:
        distributed.destroy_process_group()


def in_environment(place: dict[str, Any]) -> Any:
    return mock.patch.dict(os.environ, {"CAPSTAN_COORDINATOR": place["coordinator"],
                                        "CAPSTAN_RANK": str(place["worker"]),
                                        "RANK": str(place["rank"])})


def made(place: dict[str, Any], sharded: bool, seed: int = 1) -> nn.Module:
    model = seeded(Ranked, seed)
    if sharded:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        fully_shard(model, mesh=init_device_mesh("cpu", (place["ranks"],)))
    return model


def own_batch(place: dict[str, Any], step: int) -> dict[str, torch.Tensor]:
    """The rank's samples of its worker's."""
    count = BATCH // place["ranks"]
    first = place["rank"] * count
    return {name: one[first:first + count]
            for name, one in part_of(joined_batch(step), place["worker"]).items()}


def whole(model: nn.Module, copy: Optional[nn.Module] = None) -> nn.Module:
    """The model in one process."""
    copy = copy or Ranked()
    with torch.no_grad():
        for to, one in zip(copy.parameters(), model.parameters()):
            to.copy_(one.full_tensor() if is_sharded(one) else one)
    return copy


def inner_step(model: nn.Module, inner: Any, place: dict[str, Any], step: int) -> torch.Tensor:
    """With the mean of the gradients of the worker's ranks."""
    inner.zero_grad()
    loss: torch.Tensor = model(own_batch(place, step))
    loss.backward()
    for one in model.parameters():
        if not is_sharded(one):
            distributed.all_reduce(one.grad)
            one.grad /= place["ranks"]
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    return loss


def takes_local_steps(place: dict[str, Any], sharded: bool, **settings: Any) -> None:
    """Each worker has after each round what its model in one process has."""
    expected = Reference(Ranked, INNER["AdamW"], settings.get("fragments", 1),
                         settings.get("fragment_sync_delay", 0),
                         settings.get("fragment_update_alpha"))
    with together(place) as group:
        model = made(place, sharded, seed=1 + place["worker"])
        inner = INNER["AdamW"](model.parameters())
        local = ct.LocalSteps(model, inner, sync_every=SYNC_EVERY, group=group, **settings)
        scheduler = torch.optim.lr_scheduler.StepLR(inner, 4, 0.7)
        expect(ct.rank() == place["worker"] and ct.world_size() == 2, f"worker {ct.rank()}")
        for number in range(ROUNDS):
            for step in range(1, SYNC_EVERY + 1):
                loss = inner_step(model, inner, place, number * SYNC_EVERY + step)
                ct.step(loss, samples=4)
                inner.step()
                scheduler.step()
            expected.round(number)
            expect_equal(whole(model), expected.models[place["worker"]])
            expect(ct.next_step() == number + 1 and 0 < local.drift < 1, f"drift {local.drift}")
        is_evaluator = ct.finish()
        expect_equal(whole(model), expected.shared)
        if is_evaluator:
            ct.report(test_loss=0.5)


class Wrapper(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, batch: dict[str, torch.Tensor]) -> Any:
        return {"loss": self.inner(batch)}["loss"]


def trains_here(place: dict[str, Any], sharded: bool, wrapped: bool = False) -> None:
    """All ranks of all workers have what one process has with all their samples.

    wrapped: what is sharded is a part of the model; replicas are within DDP.
    """
    expected = seeded(Ranked)
    of_expected = torch.optim.AdamW(expected.parameters(), lr=0.01, eps=1e-3)
    with together(place) as group:
        model = made(place, sharded, seed=1 + place["worker"])
        if wrapped and sharded:
            model = Wrapper(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, eps=1e-3)
        ct.attach(model, optimizer, optimizer_runs="here", group=group)
        if wrapped and not sharded:
            model = nn.parallel.DistributedDataParallel(model)
        for step in range(STEPS):
            with ct.no_sync():  # half of the samples, and then the other half
                (model(joined_half(place, step, 0)) / 2).backward()
            (model(joined_half(place, step, 1)) / 2).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            of_expected.zero_grad()
            loss = expected(joined_batch(step))
            loss.backward()
            nn.utils.clip_grad_norm_(expected.parameters(), 0.5)
            of_expected.step()
            with torch.no_grad():  # after which a sharded model is whole
                model(own_batch(place, step))
            if not sharded and not wrapped:  # which would stay in the middle of a backward
                with raising(capstan.WrongOrder, "a second gradient of the model"):
                    model(own_batch(place, step)).backward()
            ct.step(loss, samples=4)
        expect_equal(whole(model), expected)
        ct.finish()


def joined_half(place: dict[str, Any], step: int, half: int) -> dict[str, torch.Tensor]:
    batch = own_batch(place, step)
    count = len(batch["x"]) // 2
    return {name: one[half * count:(half + 1) * count] for name, one in batch.items()}


def trains_as_the_readme_says(place: dict[str, Any], readme: str) -> None:
    """The README's loop, as one process with the samples of all ranks."""
    block = re.search(r"### A worker of several ranks\n.*?```python\n(.*?)```",
                      pathlib.Path(readme).read_text(), re.DOTALL)[1]
    torch.manual_seed(2)
    batches = [(torch.randn(8, 3), torch.randn(8, 2)) for _ in range(4)]
    number = place["worker"] * RANKS + place["rank"]
    alone, model = seeded(lambda: nn.Linear(3, 2)), seeded(lambda: nn.Linear(3, 2))
    starts = functools.partial(distributed.init_process_group, "gloo", init_method=place["meeting"],
                               rank=place["rank"], world_size=place["ranks"])
    with mock.patch.object(distributed, "init_process_group", starts), in_environment(place):
        from torch.distributed.fsdp import fully_shard

        exec(block, {"ct": ct, "torch": torch, "fully_shard": fully_shard, "model": model, "accuracy": lambda model: 0.25,
                     "criterion": functional.mse_loss,
                     "loader": [(x[2 * number:][:2], y[2 * number:][:2]) for x, y in batches]})
    optimizer = torch.optim.AdamW(alone.parameters(), lr=1e-3)
    for x, y in batches:
        optimizer.zero_grad()
        functional.mse_loss(alone(x), y).backward()
        optimizer.step()
    expect_equal(whole(model, nn.Linear(3, 2)), alone)
    distributed.destroy_process_group()


def works_together(place: dict[str, Any]) -> None:
    """Operations of all workers are of all ranks."""
    number = place["worker"] * RANKS + place["rank"]
    with together(place) as group:
        model = seeded(Ranked)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ct.attach(model, optimizer, optimizer_runs="here", group=group)
        expect(ct.all_reduce(number, "sum") == 6 and ct.all_reduce(number, "max") == 3, "numbers")
        expect(ct.all_reduce(float(number)) == 1.5 and ct.all_reduce(number, "min") == 0, "means")
        tensor = ct.all_reduce(torch.full((2, 2), float(number)))
        expect(tensor.tolist() == [[1.5, 1.5], [1.5, 1.5]], f"{tensor}")
        # The worker's first rank speaks for it.
        expect(ct.broadcast(number, root=1) == 2, "broadcast")
        ct.barrier()
        steps = 0
        while not ct.stop(number == 3 and steps == 2):  # not the first rank of a worker
            model(own_batch(place, steps)).backward()
            optimizer.step()
            ct.step()
            steps += 1
        expect(steps == 2, f"{steps} steps")
        with ct.join():
            for step in range(2 + place["worker"]):
                model(own_batch(place, step)).backward()
                optimizer.step()
                ct.step()
        expect(ct.next_step() == 5, f"step {ct.next_step()}")
        ct.finish()


def keeps(place: dict[str, Any], sharded: bool, how: str, path: str, restored_from: int) -> None:
    """Trains to the end with states that checkpoints have, and saves what comes out."""
    with together(place) as group:
        model = made(place, sharded)
        inner = INNER["AdamW"](model.parameters())
        if how == "local":
            ct.LocalSteps(model, inner, sync_every=3, group=group)
        else:
            ct.attach(model, inner, optimizer_runs="here", group=group)
        expect(ct.next_step() == restored_from, f"it begins in step {ct.next_step()}")
        while ct.next_step() < STEPS:
            step = ct.next_step()
            if how == "local":
                for number in range(3):
                    inner_step(model, inner, place, 3 * step + number)
                    inner.step()
            else:
                model(own_batch(place, step)).backward()
                inner.step()
                ct.step()
        ct.finish()
        values = [own_part(one.detach()) for one in model.parameters()]
        moments = [own_part(state["exp_avg"]) for state in inner.state.values()]
        file = f"{path}-{place['worker']}-{place['rank']}"
        if restored_from == 0:
            torch.save([values, moments], file)
            return
        for got, expected in zip([values, moments], torch.load(file)):
            expect(all(torch.equal(one, other) for one, other in zip(got, expected)), "other bits")


def writes_files(place: dict[str, Any], how: str, initial: str, path: str) -> None:
    """The model of a sharded worker begins with a file's tensors, ends before all steps of the job,
    and is saved as one of a single process."""
    with together(place) as group:
        model = made(place, sharded=True)
        inner = INNER["AdamW"](model.parameters())
        if how == "local":
            ct.LocalSteps(model, inner, sync_every=1, group=group)
        else:
            ct.attach(model, inner, optimizer_runs="here", group=group)
        if initial:
            expected = Ranked()
            named = tensors_in(initial)
            expected.load_state_dict({name: named[name] for name in expected.state_dict()})
            expect_equal(whole(model), expected, tolerance=0)
        while not ct.stop(ct.next_step() == STEPS - 1):
            model(own_batch(place, ct.next_step())).backward()
            inner.step()
            if how == "here":
                ct.step()
        ct.finish()
        final = whole(model)
        if place["worker"] == 0 and place["rank"] == 0:
            torch.save(final.state_dict(), path)


def refuses(place: dict[str, Any]) -> None:
    model = seeded(Ranked)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    with raising(capstan.InvalidArgument, "init_process_group before"):
        ct.LocalSteps(model, inner, group=object())
    with together(place) as group:
        for text, options in (("give sync_every", {"round_seconds": 1.0}),
                              ("job: not with group", {"job": object()})):
            with raising(capstan.InvalidArgument, text):
                ct.LocalSteps(model, inner, group=group, **options)
        with raising(capstan.InvalidArgument, "optimizer_runs=\"here\""):
            ct.attach(model, inner, group=group)
        with mock.patch.dict(os.environ):
            del os.environ["CAPSTAN_COORDINATOR"]
            with raising(capstan.InvalidArgument, "CAPSTAN_COORDINATOR is not set"):
                ct.LocalSteps(model, inner, group=group)
        first = distributed.new_group([0])
        if place["rank"] > 0:
            with raising(capstan.InvalidArgument, "that has this process"):
                ct.LocalSteps(model, inner, group=first)
        ct.LocalSteps(model, inner, group=group, sync_every=1)
        model(own_batch(place, 0)).backward()
        inner.step()
        ct.finish()


def hears_the_jobs_refusal(place: dict[str, Any]) -> None:
    """An error of the first rank is one of all."""
    with together(place) as group:
        model = seeded(Ranked)
        jobs: list[capstan.Job] = []  # in the first rank

        def connect(**options: Any) -> capstan.Job:
            jobs.append(capstan.connect(**options))
            return jobs[-1]

        with raising(capstan.InvalidArgument, "momentum"):
            LocalStepsTrainer(model, torch.optim.SGD(model.parameters(), lr=0.1), connect,
                              ranks=Ranks(group))
        for job in jobs:
            job.fail("the end of the case")


def refuses_shards(place: dict[str, Any]) -> None:
    with together(place) as group:
        model = made(place, sharded=True)
        inner = torch.optim.SGD(model.parameters(), lr=0.1)
        with raising(capstan.InvalidArgument, "sharded (DTensor): give the process group"):
            ct.LocalSteps(model, inner)
        with raising(capstan.InvalidArgument, "sharded (DTensor): give the process group"):
            ct.attach(model, inner)
        first = distributed.new_group([0])
        if place["rank"] == 0:
            with raising(capstan.InvalidArgument, "shards in ranks [0, 1], and the group has [0]"):
                ct.LocalSteps(model, inner, group=first)
        ct.LocalSteps(model, inner, group=group, sync_every=1)
        inner_step(model, inner, place, 0)
        inner.step()
        ct.finish()


def needs_equal_ranks(place: dict[str, Any], sharded: bool, text: str) -> None:
    """Worker 1 has fewer ranks, or no shards as worker 0, and is refused with this text. Its end is the
    job's, for which worker 0 waits."""
    with together(place) as group:
        model = made(place, sharded and place["worker"] == 0)
        job = capstan.connect() if place["worker"] == 1 and place["rank"] == 0 else None
        with raising(capstan.JobFailed, text if place["worker"] == 1 else "refused"):
            ct.LocalSteps(model, torch.optim.SGD(model.parameters(), lr=0.1), group=group,
                          outer=capstan.SGD(lr=1))
        if job is not None:
            job.fail("refused")


def loses_a_rank(place: dict[str, Any], sharded: bool = False, how: str = "dies") -> None:
    """The second rank of worker 1 dies in the second round, or is asked to end. Nobody waits."""
    with together(place) as group:
        model = made(place, sharded)
        inner = torch.optim.SGD(model.parameters(), lr=0.1)
        ct.LocalSteps(model, inner, sync_every=1, group=group)
        for step in range(100):
            if (place["worker"], place["rank"], step) == (1, 1, 1):
                if how == "dies":
                    os._exit(9)
                signal.raise_signal(signal.SIGTERM)
            model(own_batch(place, step)).backward()
            inner.step()
