"""Cases of torch_codec_test.py, as those of torch_cases.py, beside formulas of README.md in
common/codec, in float64."""

from __future__ import annotations

from typing import Callable, Iterator

import numpy
import torch
from torch import nn

import capstan.torch as ct
from capstan import Job
from expectations import expect
from torch_models import DEVICE, seeded

STEPS = 6
ELEMENTS = 600  # three blocks of int8, the last one shorter
SEED = 2**32 + 7  # of the job
RATIO = 0.1  # of topk
RATE, GAMMA, PERIOD = 0.5, 0.1, 2
Array = numpy.ndarray
# Codes the gradient of a worker's step, and decodes it.
Codec = Callable[[Array, int, int], Array]


class Weight(nn.Module):
    """The gradient of the weight is what forward is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(ELEMENTS))

    def forward(self, gradient: torch.Tensor) -> torch.Tensor:
        return (self.weight * gradient).sum()


def _gradient(step: int, rank: int) -> Array:
    random = numpy.random.default_rng([step, rank])
    return random.normal(size=ELEMENTS).astype(numpy.float32)


def _philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10. Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11."""
    a, b, c, d = counter
    k, l = key
    for _ in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = ((second >> 32) ^ b ^ k, second & 0xFFFFFFFF,
                      (first >> 32) ^ d ^ l, first & 0xFFFFFFFF)
        k, l = (k + 0x9E3779B9) & 0xFFFFFFFF, (l + 0xBB67AE85) & 0xFFFFFFFF
    return [a, b, c, d]


def _draws(step: int, rank: int) -> Iterator[float]:
    """Those of the elements of table 0, which is one slice."""
    key = _philox([SEED & 0xFFFFFFFF, SEED >> 32, 0, rank], [0, 0])[:2]
    for block in range(ELEMENTS // 8):
        for word in _philox([block, 0, step, 0], key):
            yield from ((word % 65536 + 0.5) / 65536, (word // 65536 + 0.5) / 65536)


def _int8(values: Array, step: int, rank: int) -> Array:
    decoded = []
    draws = numpy.fromiter(_draws(step, rank), dtype=numpy.float64)
    for begin in range(0, ELEMENTS, 256):
        block = values[begin:begin + 256]
        scale = abs(block).max() / 127
        decoded.append(scale * numpy.floor(block / scale + draws[begin:begin + 256]).clip(-127, 127))
    return numpy.concatenate(decoded)


def _topk(values: Array, step: int, rank: int) -> Array:
    largest = numpy.argsort(-abs(values), kind="stable")[:round(RATIO * ELEMENTS)]
    decoded = numpy.zeros(ELEMENTS)
    decoded[largest] = values[largest]
    return decoded


CODECS: dict[str, Codec] = {"int8": _int8, f"topk:{RATIO}": _topk}


def _trajectory(codec: Codec, begin: Array, num_workers: int) -> Iterator[Array]:
    """The values after each step. What a push leaves out counts with the rate of its own step."""
    values = begin.astype(numpy.float64)
    left_out = numpy.zeros((num_workers, ELEMENTS))  # of the values, not of a gradient
    for step in range(STEPS):
        rate = RATE * GAMMA ** (step // PERIOD)
        for rank in range(num_workers):
            wanted = rate * _gradient(step, rank).astype(numpy.float64) + left_out[rank]
            sent = rate * codec(wanted / rate, step, rank)
            left_out[rank] = wanted - sent
            values = values - sent / num_workers
        yield values


def follows_the_formula(job: Job, rank: int, codec: str) -> None:
    """Error feedback under StepLR."""
    model = seeded(Weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, PERIOD, GAMMA)
    trainer = ct.Trainer(model, optimizer, job)
    expected = _trajectory(CODECS[codec], model.weight.detach().cpu().numpy(), job.num_workers)
    for step, values in enumerate(expected):
        model(torch.from_numpy(_gradient(step, rank)).to(DEVICE)).backward()
        trainer.step()
        scheduler.step()
        got = model.weight.detach().cpu().numpy()
        difference = abs(got - values).max()
        expect(difference < 1e-5, f"step {step}: {difference} beside the formula")
    if trainer.finish():
        job.report()
