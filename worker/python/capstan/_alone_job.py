"""A job of this process alone, for a program that nobody has started as a worker."""

from __future__ import annotations

import functools
import math
import os
import sys
from typing import Any

from capstan import _library
from capstan._arguments import expect_whole, float_of
from capstan._collectives import Collectives, Part, operation_of
from capstan._errors import InvalidArgument, WrongOrder

START = "\"capstan run --worker_command='python train.py'\""
_MAX_BYTES = 1 << 20  # of a collective operation
_MAX_STATE_BYTES = 64 << 20
_NOT_KNOWN = float("nan")


def is_alone() -> bool:
    """Whether the environment names no job. Raises InvalidArgument if it has other workers."""
    if os.environ.get("CAPSTAN_COORDINATOR"):
        return False
    for variable, alone in [("WORLD_SIZE", "1"), ("RANK", "0")]:
        value = os.environ.get(variable) or alone
        if value != alone:
            raise InvalidArgument(
                f"{variable} is {value}, but CAPSTAN_COORDINATOR is not set: without the job's "
                f"coordinator each worker would train a model of its own. {START} starts a job; to "
                f"train alone, unset {variable}")
    return True


# What environment_place has said.
_told: dict[str, int] = {}


def environment_place(variable: str, default: int) -> int:
    """RANK or WORLD_SIZE as the environment says, before there is a job."""
    # torchrun within a worker sets RANK anew.
    told = os.environ.get(f"CAPSTAN_{variable}") or os.environ.get(variable)
    _told[variable] = default if told is None else int(told)
    return _told[variable]


def expect_places_as_told(job: Any) -> None:
    """Raises WrongOrder if a program may have chosen its samples by another rank than the job's."""
    for variable, number in [("RANK", job.rank), ("WORLD_SIZE", job.num_workers)]:
        if _told.get(variable, number) != number:
            raise WrongOrder(
                f"before ct.attach, {variable} was taken to be {_told[variable]}, and now it is "
                f"{number}: workers may have chosen the same samples; set {variable} for each worker "
                "(capstan run does, with --rendezvous if it has --first_rank), or choose samples "
                "after ct.attach")


@functools.lru_cache(maxsize=None)  # in a notebook or a test, many models follow each other
def say_alone() -> None:
    print("capstan: there is no job (CAPSTAN_COORDINATOR is not set): this program trains alone; "
          f"{START} starts one", file=sys.stderr, flush=True)


class AloneJob(Collectives):
    """What a trainer needs of a job, with one worker and no servers.

    Arguments are refused as by a job.
    """

    rank = 0
    num_workers = 1
    steps = 0
    _keeps_values = True

    def __init__(self) -> None:
        self.step = 0
        self._is_finished = False

    def barrier(self) -> None:
        self._expect_unfinished()

    def end_step(self) -> None:
        self.step += 1

    def finish(self) -> bool:
        self._is_finished = True
        return True

    def report(self, test_accuracy: float = _NOT_KNOWN, test_loss: float = _NOT_KNOWN,
               samples: int = 0) -> None:
        """Prints the result, as there is no summary."""
        accuracy, loss = float_of("test_accuracy", test_accuracy), float_of("test_loss", test_loss)
        if accuracy < 0 or accuracy > 1:
            raise InvalidArgument(f"test_accuracy: expected 0 to 1, or NaN, got {accuracy}")
        if not self._is_finished:
            raise WrongOrder("expected finish before report")
        parts = [f"{name} {value:.6g}" for name, value in [("accuracy", accuracy), ("loss", loss)]
                 if math.isfinite(value)]
        if parts:
            print(f"capstan: test {', '.join(parts)}", file=sys.stderr, flush=True)

    # There are no checkpoints.

    def worker_state(self, name: str) -> None:
        return None

    def put_worker_state(self, name: str, data: bytes) -> None:
        if len(data) >= _MAX_STATE_BYTES:
            raise InvalidArgument(f"state {name} has {len(data)} bytes: expected less than "
                                  f"{_MAX_STATE_BYTES} (64 MiB)")

    def worker_state_is_due(self) -> bool:
        return False

    def _combine(self, operation: int, part: Part) -> None:
        _expect_small(part)
        if operation == operation_of("mean") and part.dtype == _library.INT64:
            raise InvalidArgument("expected floats for a mean, got int64: take the sum, or convert "
                                  "them")
        self._expect_unfinished()

    def _spread(self, root: int, part: Part) -> None:
        _expect_small(part)
        if root >= self.num_workers:
            raise InvalidArgument(f"root: expected a worker's rank below {self.num_workers}, got "
                                  f"{root}")
        self._expect_unfinished()

    def _others_go_on(self) -> bool:
        self._expect_unfinished()
        return False

    def _expect_unfinished(self) -> None:
        if self._is_finished:
            raise WrongOrder("the worker has finished; do operations of all workers before")


def expect_progress(loss: Any, samples: object) -> None:
    """Raises InvalidArgument unless a step can end with these."""
    if loss is not None:
        float_of("loss", loss)
    expect_whole("samples", samples, 2**63)


def _expect_small(part: Part) -> None:
    limit = _MAX_BYTES // (4 if part.dtype == _library.FLOAT32 else 8)
    if part.num_elements > limit:
        raise InvalidArgument(f"count: expected at most {limit} elements, 1 MiB, got "
                              f"{part.num_elements}: larger tensors belong into tables")
