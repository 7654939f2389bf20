"""Capstan within libraries that have a training loop of their own. Each module needs its library."""

from __future__ import annotations

from typing import Sequence

import torch

import capstan.torch as ct
from capstan._alone_job import AloneJob
from capstan._errors import WrongOrder


def join_job(model: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """From then on backward leaves the mean of the workers' gradients, and the program steps the
    optimizers."""
    before = ct._attached
    if before is not None and before.is_over and not isinstance(before.job, AloneJob):
        raise WrongOrder("a job trains one model once, and is over; train again in another job")
    # The library has shared out the samples by these.
    ct.rank(), ct.world_size()
    ct.attach(model, list(optimizers), optimizer_runs="here")
    if ct.next_step() != 0:
        raise WrongOrder(f"the job goes on from its step {ct.next_step()}, but the library's loop begins "
                         "anew; start the job without checkpoints of its own, and resume from those of "
                         "the library")


def end_job() -> None:
    """Waits for the other workers' last steps, and ends the job, so that all go on together."""
    if ct._attached is None or ct._attached.is_over:
        return
    if ct.next_step() == 0 and not isinstance(ct._attached.job, AloneJob):
        raise WrongOrder("the program has done no step: is what it resumes done already?")
    if ct.finish():
        ct.report()
