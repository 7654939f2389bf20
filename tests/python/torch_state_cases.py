"""The cases of torch_state_test: each is run by every worker of a job."""

from __future__ import annotations

import copy
import json
import pathlib
from typing import Any

import torch

import capstan
import capstan.torch as ct
from capstan import Job
from expectations import expect, expect_raises
from torch_cases import OPTIMIZERS
from torch_models import BATCH, Mlp, expect_equal, joined_batch, part_of, seeded

# Before the file, and after it.
FIRST_STEPS = 3
STEPS = 6


def _scheduler(optimizer: torch.optim.Optimizer) -> Any:
    return torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)


def _train_plain(model: Mlp, optimizer: torch.optim.Optimizer, scheduler: Any, begin: int,
                 end: int) -> None:
    for step in range(begin, end):
        optimizer.zero_grad()
        model.loss(joined_batch(step)).backward()
        optimizer.step()
        scheduler.step()


def _train(trainer: ct.Trainer, model: Mlp, rank: int, scheduler: Any, begin: int,
           end: int) -> None:
    for step in range(begin, end):
        loss = model.loss(part_of(joined_batch(step), rank))
        loss.backward()
        trainer.step(loss, BATCH)
        scheduler.step()


def _saved(model: Mlp, optimizer: torch.optim.Optimizer, scheduler: Any) -> dict[str, Any]:
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict()}


def _present(state: dict[int, Any]) -> dict[int, Any]:
    """Without what torch notes as None: plain SGD keeps nothing."""
    present = {index: {name: value for name, value in of_one.items() if value is not None}
               for index, of_one in state.items()}
    return {index: of_one for index, of_one in present.items() if of_one}


def _expect_same_state(got: dict[int, Any], expected: dict[int, Any], tolerance: float) -> None:
    got, expected = _present(got), _present(expected)
    expect(set(got) == set(expected), f"expected state of {set(expected)}, got {set(got)}")
    for index, state in expected.items():
        expect(set(got[index]) == set(state), f"expected {set(state)}, got {set(got[index])}")
        for name, value in state.items():
            difference = (torch.as_tensor(got[index][name]).float()
                          - torch.as_tensor(value).float()).abs().max()
            expect(bool(difference <= tolerance), f"{index}.{name} differs by {difference}")


def saves(job: Job, rank: int, optimizer: str, path: str) -> None:
    """The state between two steps is that of one process, and the same on all ranks. The job goes on
    as if nobody had asked, and its evaluator has the final state, too."""
    expected = seeded(Mlp)
    plain = OPTIMIZERS[optimizer](expected)
    plain_scheduler = _scheduler(plain)
    _train_plain(expected, plain, plain_scheduler, 0, FIRST_STEPS)

    model = seeded(Mlp)
    attached = OPTIMIZERS[optimizer](model)
    scheduler = _scheduler(attached)
    trainer = ct.Trainer(model, attached, job)
    fresh = OPTIMIZERS[optimizer](seeded(Mlp)).state_dict()["state"]
    _expect_same_state(attached.state_dict()["state"], fresh, tolerance=0)
    _train(trainer, model, rank, scheduler, 0, FIRST_STEPS)
    saved = _saved(model, attached, scheduler)
    _expect_same_state(saved["optimizer"]["state"], plain.state_dict()["state"], tolerance=1e-5)
    torch.save(saved, f"{path}.{rank}")
    # What is read later does not change what was.
    _train(trainer, model, rank, scheduler, FIRST_STEPS, STEPS)
    _train_plain(expected, plain, plain_scheduler, FIRST_STEPS, STEPS)
    if trainer.finish():
        _expect_same_state(attached.state_dict()["state"], plain.state_dict()["state"],
                           tolerance=1e-5)
        torch.save(_saved(model, attached, scheduler), f"{path}.final")
        job.report()
    _expect_same_state(attached.state_dict()["state"], fresh, tolerance=0)  # alone, and anew


def _expect_final(model: Mlp, optimizer: torch.optim.Optimizer, path: str) -> None:
    """The bits of the job that was not ended."""
    final = torch.load(f"{path}.final")
    undisturbed = seeded(Mlp)
    undisturbed.load_state_dict(final["model"])
    expect_equal(model, undisturbed, tolerance=0)
    _expect_same_state(optimizer.state_dict()["state"], final["optimizer"]["state"], tolerance=0)


def goes_on(job: Job, rank: int, optimizer: str, path: str, loads_after: bool) -> None:
    """A new job goes on from the file with the bits of the one that was not ended. One process that
    goes on from it comes to the same, up to rounding."""
    saved = torch.load(f"{path}.{rank}")
    of_first = torch.load(f"{path}.0")
    _expect_same_state(saved["optimizer"]["state"], of_first["optimizer"]["state"], tolerance=0)

    expected = seeded(Mlp, seed=7)
    expected.load_state_dict(saved["model"])
    plain = OPTIMIZERS[optimizer](expected)
    plain_scheduler = _scheduler(plain)
    plain.load_state_dict(copy.deepcopy(saved["optimizer"]))  # newer torch trains in its tensors
    plain_scheduler.load_state_dict(saved["scheduler"])
    _train_plain(expected, plain, plain_scheduler, FIRST_STEPS, STEPS)

    model = seeded(Mlp, seed=8)
    model.load_state_dict(saved["model"])
    attached = OPTIMIZERS[optimizer](model)
    scheduler = _scheduler(attached)
    # What is loaded last counts.
    attached.load_state_dict(copy.deepcopy(saved["optimizer"]))
    if loads_after:
        model.loss(joined_batch(0)).backward()
        attached.step()
        model.load_state_dict(saved["model"])
    trainer = ct.Trainer(model, attached, job)
    if loads_after:
        attached.load_state_dict(OPTIMIZERS[optimizer](seeded(Mlp)).state_dict())
        if rank == 0:
            _expect_same_state(attached.state_dict()["state"],
                               OPTIMIZERS[optimizer](seeded(Mlp)).state_dict()["state"],
                               tolerance=0)
        attached.load_state_dict(state_dict=saved["optimizer"])
    scheduler.load_state_dict(saved["scheduler"])
    expect(not attached.state, "expected the state on the servers alone")
    if rank == 0 or not loads_after:  # rank 0's state counts, and is on its way
        _expect_same_state(attached.state_dict()["state"], saved["optimizer"]["state"],
                           tolerance=0)
    _train(trainer, model, rank, scheduler, FIRST_STEPS, STEPS)
    trainer.wait()
    expect_equal(model, expected)
    if trainer.finish():
        _expect_final(model, attached, path)
        job.report()


def begins_with_a_file(job: Job, rank: int, optimizer: str, path: str) -> None:
    """Which the servers have read, with its parameters and the optimizer's state."""
    final = torch.load(f"{path}.final")
    model = seeded(Mlp)
    attached = OPTIMIZERS[optimizer](model)
    trainer = ct.Trainer(model, attached, job)
    expected = seeded(Mlp)
    expected.load_state_dict(final["model"])
    expect_equal(model, expected, tolerance=0)
    _expect_same_state(attached.state_dict()["state"], final["optimizer"]["state"], tolerance=0)
    _train(trainer, model, rank, _scheduler(attached), 0, 1)
    if trainer.finish():
        job.report()


def tensors_in(path: str) -> dict[str, torch.Tensor]:
    """As safetensors.torch.load_file. All are float32."""
    contents = pathlib.Path(path).read_bytes()
    begin = 8 + int.from_bytes(contents[:8], "little")
    tensors = {}
    for name, tensor in json.loads(contents[8:begin]).items():
        if name != "__metadata__":
            first, last = tensor["data_offsets"]
            flat = torch.frombuffer(bytearray(contents[begin + first:begin + last]),
                                    dtype=torch.float32)
            tensors[name] = flat.reshape(tensor["shape"])
    return tensors


def one_process_goes_on_from_a_file(optimizer: str, path: str, file: str) -> None:
    """The file has the bits that `saves` has read of the servers. One process goes on with them as
    if it had done all steps."""
    tensors = tensors_in(file)
    final = torch.load(f"{path}.final")
    model = seeded(Mlp)
    model.load_state_dict({name: tensors[name] for name in model.state_dict()})
    plain = OPTIMIZERS[optimizer](model)
    scheduler = _scheduler(plain)
    state = ct.optimizer_state_dict(tensors, model, plain)
    _expect_same_state(state["state"], final["optimizer"]["state"], tolerance=0)
    plain.load_state_dict({**state, "param_groups": final["optimizer"]["param_groups"]})
    scheduler.load_state_dict(final["scheduler"])
    _train_plain(model, plain, scheduler, STEPS, STEPS + FIRST_STEPS)

    undisturbed = seeded(Mlp)
    other = OPTIMIZERS[optimizer](undisturbed)
    _train_plain(undisturbed, other, _scheduler(other), 0, STEPS + FIRST_STEPS)
    expect_equal(model, undisturbed, tolerance=1e-6)
    _expect_refusals(tensors, model, plain)


def _expect_refusals(tensors: dict[str, torch.Tensor], model: Mlp,
                     optimizer: torch.optim.Optimizer) -> None:
    alone = {name: tensors[name] for name in model.state_dict()}
    if len(alone) == len(tensors):  # the optimizer keeps no state
        return
    expect_raises(capstan.InvalidArgument, "got none; write the file with",
                  lambda: ct.optimizer_state_dict(alone, model, optimizer))
    odd = {**tensors, "optimizer.other.weight.step": torch.tensor(1.0)}
    expect_raises(capstan.InvalidArgument, "got that of other.weight; give the model",
                  lambda: ct.optimizer_state_dict(odd, model, optimizer))
    name = next(name for name in tensors if name.startswith("optimizer.")
                and not name.endswith(".step"))
    odd = {**tensors, name: torch.zeros(1)}
    expect_raises(capstan.InvalidArgument, "of shape",
                  lambda: ct.optimizer_state_dict(odd, model, optimizer))


def goes_on_in_two_lives(job: Job, rank: int, optimizer: str, path: str) -> None:
    """The same by two jobs: the second goes on from a checkpoint of the first, and takes no state of
    the program's."""
    saved = torch.load(f"{path}.{rank}")
    model = seeded(Mlp, seed=8)
    model.load_state_dict(saved["model"])
    attached = OPTIMIZERS[optimizer](model)
    scheduler = _scheduler(attached)
    attached.load_state_dict(saved["optimizer"])
    trainer = ct.Trainer(model, attached, job)
    scheduler.load_state_dict(saved["scheduler"])
    for _ in range(job.step):
        scheduler.step()
    _train(trainer, model, rank, scheduler, FIRST_STEPS + job.step, FIRST_STEPS + job.steps)
    if trainer.finish():
        if FIRST_STEPS + job.steps == STEPS:
            _expect_final(model, attached, path)
        job.report()


def comes_from_one_process(job: Job, rank: int, optimizer: str) -> None:
    """One process, then a job, then one process again, each with the state of the one before."""
    model = seeded(Mlp)
    plain = OPTIMIZERS[optimizer](model)
    scheduler = _scheduler(plain)
    _train_plain(model, plain, scheduler, 0, 2)
    attached = OPTIMIZERS[optimizer](model)
    attached.load_state_dict(plain.state_dict())
    scheduler_of_job = _scheduler(attached)
    scheduler_of_job.load_state_dict(scheduler.state_dict())
    trainer = ct.Trainer(model, attached, job)
    _train(trainer, model, rank, scheduler_of_job, 2, 4)
    saved = _saved(model, attached, scheduler_of_job)
    last = seeded(Mlp, seed=9)
    last.load_state_dict(saved["model"])
    if trainer.finish():
        job.report()
    again = OPTIMIZERS[optimizer](last)
    again.load_state_dict(saved["optimizer"])
    last_scheduler = _scheduler(again)
    last_scheduler.load_state_dict(saved["scheduler"])
    _train_plain(last, again, last_scheduler, 4, 6)

    expected = seeded(Mlp)
    alone = OPTIMIZERS[optimizer](expected)
    _train_plain(expected, alone, _scheduler(alone), 0, 6)
    expect_equal(last, expected)


def is_loaded_before_the_start(job: Job, rank: int) -> None:
    """In SSP. After the start it would come too late."""
    model = seeded(Mlp)
    optimizer = OPTIMIZERS["adam"](model)
    _train_plain(model, optimizer, _scheduler(optimizer), 0, 5)
    state = optimizer.state_dict()
    trainer = ct.Trainer(model, optimizer, job)
    # The other worker's update may have come since.
    steps = {int(one["step"]) for one in optimizer.state_dict()["state"].values()}
    expect(steps <= {5, 6}, f"expected 5 steps, and perhaps one more, got {steps}")
    expect_raises(capstan.WrongOrder, "before the start", lambda: optimizer.load_state_dict(state))
    model.loss(part_of(joined_batch(1), rank)).backward()
    trainer.step()
    if trainer.finish():
        job.report()
