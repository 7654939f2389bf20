"""Cases of torch_together_test.py, as those of torch_cases.py: what all workers do together."""

from __future__ import annotations

import time

import numpy
import torch

import capstan
import capstan.torch as ct
from capstan import Job
from expectations import expect, expect_raises
from torch_models import DEVICE, STEPS, Mlp, expect_equal, joined_batch, part_of, seeded

# An epoch is a list: the number of batches of each worker.
BATCHES = [[7, 11], [0, 2], [3, 1]]


def _attached(job: Job) -> tuple[ct.Trainer, Mlp]:
    model = seeded(Mlp)
    return ct.Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), job), model


def _step(trainer: ct.Trainer, model: Mlp, rank: int, step: int) -> None:
    model.loss(part_of(joined_batch(step), rank)).backward()
    trainer.step()


def reduces(job: Job, rank: int) -> None:
    """Values of all kinds, before, within and after the steps, beside what they must be."""
    trainer, model = _attached(job)
    large = 2**53 + 1
    for step in range(STEPS):
        expect(job.all_reduce(1.5 + rank) == 2.0, "a mean of floats")
        expect(job.all_reduce(rank) == 0.5, "a mean of whole numbers")
        expect(job.all_reduce(large + rank, "max") == large + 1, "64 bits")
        expect(job.all_reduce(1e300 * (rank + 1), "sum") == 1e300 + 2e300, "float64")
        expect(job.all_reduce(rank == 1, "max") is True, "a bool")
        expect(job.all_reduce(True, "sum") == 2, "a count")
        model.loss(part_of(joined_batch(step), rank)).backward()
        values = torch.arange(6, dtype=torch.float32).reshape(2, 3) + rank
        mean = job.all_reduce(values.t().to(DEVICE))  # not contiguous
        expect(mean.shape == (3, 2) and mean.device.type == DEVICE.type, f"{mean}")
        expect(torch.equal(mean.cpu(), values.t() - rank + 0.5), f"{mean}")
        half = job.all_reduce(torch.tensor([1.0 + rank], dtype=torch.bfloat16), "sum")
        expect(half.dtype == torch.bfloat16 and half.item() == 3, f"{half}")
        small = job.all_reduce(torch.tensor([100, 27], dtype=torch.int8), "sum")
        expect(small.dtype == torch.int64 and small.tolist() == [200, 54], f"{small}")
        least = job.all_reduce(numpy.array([[rank, -rank]], dtype=numpy.int32), "min")
        expect(least.dtype == numpy.int32 and least.tolist() == [[0, -1]], f"{least}")
        expect(job.all_reduce(numpy.float32(rank), "max") == 1, "a scalar of NumPy")
        expect(job.all_reduce(torch.empty(0)).numel() == 0, "nothing")
        trainer.step()
    # The job knows the number of steps: it is not over before the program says so.
    expect(job.broadcast(torch.tensor([rank, 7.0]), root=1).tolist() == [1, 7], "a broadcast")
    expect(job.broadcast("ab"[rank] == "b") is False, "that of rank 0")
    job.barrier()
    state = trainer._optimizer.state_dict()["state"]
    expect(len(state) == 6 and "momentum_buffer" in state[0], f"{state}")
    expect_raises(capstan.InvalidArgument, "1 MiB", lambda: job.all_reduce(torch.zeros(2**18 + 1)))
    expect_raises(capstan.InvalidArgument, "mean", lambda: job.all_reduce(torch.ones(1).long()))
    expect_raises(capstan.InvalidArgument, "'sum'", lambda: job.all_reduce(1, "product"))
    expect_raises(capstan.InvalidArgument, "complex64",
                  lambda: job.all_reduce(torch.zeros(1, dtype=torch.complex64)))
    expect_raises(capstan.InvalidArgument, "rank below 2", lambda: job.broadcast(1, root=2))
    job.all_reduce(torch.zeros(2**18))
    trainer.finish()
    expect_raises(capstan.WrongOrder, "finished", job.barrier)


def needs_bsp(job: Job, rank: int) -> None:
    trainer, model = _attached(job)
    for call in (job.barrier, lambda: job.stop(True), lambda: job.all_reduce(1)):
        expect_raises(capstan.WrongOrder, "need --consistency=bsp", call)
    _step(trainer, model, rank, 0)
    trainer.finish()


def differs(job: Job, rank: int, how: str) -> None:
    """Rank 1 does something else. Both hear soon who does what."""
    trainer, model = _attached(job)
    _step(trainer, model, rank, 0)
    began = time.monotonic()
    texts = {
        "size": ("worker 0 calls the mean of 2 float32 as operation 0 of step 1",
                 "worker 1 calls the mean of 3 float32"),
        "shape": ("worker 0 calls the mean of 2x3 float32 as operation 0 of step 1",
                  "worker 1 calls the mean of 3x2 float32 as operation 0 of step 1"),
        "operation": ("worker 0 calls the mean of 2 float32", "worker 1 calls a barrier"),
        "leaves it out": ("worker 0 calls the mean of 2 float32", "worker 1 has ended step 1"),
        "finishes": ("worker 0 calls the mean of 2 float32", "worker 1 has done all its steps"),
    }[how]

    def run() -> None:
        if how == "shape":
            job.all_reduce(torch.zeros(2, 3) if rank == 0 else torch.zeros(3, 2))
        elif rank == 0:
            job.all_reduce(torch.zeros(2))
        elif how == "size":
            job.all_reduce(torch.zeros(3))
        elif how == "operation":
            job.barrier()
        for step in range(1, 9 if how != "finishes" else 1):
            _step(trainer, model, rank, step)
        trainer.finish()

    for text in texts:
        expect_raises(capstan.JobFailed, text, run)
    expect(time.monotonic() - began < 20, "expected the answer soon")


def joins(job: Job, rank: int, reduces_losses: bool) -> None:
    """One worker has fewer batches: as one process in which it has zeros for gradients."""
    trainer, model = _attached(job)
    steps = 0
    for epoch, batches in enumerate(BATCHES):
        with trainer.join():
            for batch in range(batches[rank]):
                _step(trainer, model, rank, 20 * epoch + batch)
                if reduces_losses:
                    took_part = job.all_reduce(1, "sum")
                    expect(took_part == sum(batch < one for one in batches), f"{took_part}")
        steps += max(batches)
        expect(job.step == steps, f"step {job.step}")
        expect(job.all_reduce(rank, "sum") == 1, "all take part again")
    expected = seeded(Mlp)
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.1, momentum=0.9)
    for epoch, batches in enumerate(BATCHES):
        for batch in range(max(batches)):
            optimizer.zero_grad()
            for one in range(2):
                if batch < batches[one]:
                    (expected.loss(part_of(joined_batch(20 * epoch + batch), one)) / 2).backward()
            optimizer.step()
    trainer.wait()
    expect_equal(model, expected, tolerance=1e-5)
    trainer.finish()


def joins_alone(job: Job, rank: int) -> None:
    """Rank 0 forgets to join. Both hear of it."""
    trainer, model = _attached(job)

    def run() -> None:
        _step(trainer, model, rank, 0)
        if rank == 1:
            with trainer.join():
                pass
        trainer.finish()

    expect_raises(capstan.JobFailed, "worker 1 has joined, but worker 0 has done all its steps", run)


def stops_early(job: Job, rank: int, first: int = 0, last: int = 4, path: str = "",
                compares: bool = False) -> None:
    """Leaves the parameters in the file, or compares them with those there."""
    trainer, model = _attached(job)
    expect(job.step == first, f"step {job.step}")
    for step in range(first, 100):
        _step(trainer, model, rank, step)
        if job.stop(rank == 1 and step == last - 1):
            break
    expect((step, job.step) == (last - 1, last), f"step {step}")
    if path and not compares:
        torch.save(model.state_dict(), f"{path}.{rank}")
    if compares:
        for name, expected in torch.load(f"{path}.{rank}").items():
            expect(torch.equal(model.state_dict()[name], expected), f"{name} has other bits")
    trainer.finish()


def joins_with_arrays(job: Job, rank: int) -> None:
    """As `joins`, without torch."""
    table = job.table("w", [0.0], optimizer=capstan.SGD(lr=1.0))
    job.start()
    with job.join():
        for _ in range(BATCHES[0][rank]):
            table.push_pull(numpy.array([-1.0], dtype=numpy.float32))
            job.end_step()
    expect(table.values[0] == sum(BATCHES[0]) / 2, f"{table.values}")
    expect_raises(ValueError, "in the loop", lambda: _raise_in(job))
    job.finish()


def _raise_in(job: Job) -> None:
    with job.join():
        raise ValueError("in the loop")
