"""DeepFM learns who clicks, by 13 numbers and 26 categories with a 64-bit key each:

    python -m capstan run --num_workers=2 --worker_command="python deepfm.py"
"""

import numpy
import torch
from torch import nn

import capstan.torch as ct

STEPS, BATCH, DENSE, FIELDS, DIM, KNOWN = 700, 512, 13, 26, 4, 10
OF_NUMBERS, OF_KEYS, OF_PAIRS = (
    scale * numpy.random.default_rng(i).normal(size=shape) for i, (scale, shape) in enumerate(
        [(0.15, DENSE), (0.2, (FIELDS, KNOWN + 1)), (0.25, (FIELDS, KNOWN + 1, 2))]))
OF_KEYS[:, KNOWN] = OF_PAIRS[:, KNOWN] = 0  # of all but the KNOWN most frequent ones


def draw(random, size):
    """Samples as tensors, and the true log odds of their clicks."""
    numbers = random.normal(size=(size, DENSE))
    ranks = random.zipf(1.8, size=(size, FIELDS))  # from 1 on; some are very large
    keys = (ranks * FIELDS + numpy.arange(FIELDS)) * -0x61C8864680B583EB  # spread over 64 bits
    known = numpy.arange(FIELDS), numpy.minimum(ranks - 1, KNOWN)
    odds = numbers @ OF_NUMBERS + OF_KEYS[known].sum(1) + products(OF_PAIRS[known]) - 1
    clicks = random.random(size) < 1 / (1 + numpy.exp(-odds))
    return torch.tensor(numbers).float(), torch.tensor(keys), torch.tensor(clicks).float(), odds


def products(factors):
    """The sum of the inner products of every two fields' factors."""
    return (factors.sum(1)**2 - (factors**2).sum(1)).sum(1) / 2


class DeepFm(nn.Module):
    """Guo et al., 2017: a factorization machine, and layers on the same rows."""

    def __init__(self):
        super().__init__()
        self.rows = ct.EmbeddingBag("keys", 1 + DIM, mode="sum")  # on the servers
        self.deep = nn.Sequential(nn.Linear(FIELDS * DIM + DENSE, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, numbers, keys):
        rows = self.rows(keys.view(-1, 1)).view(len(keys), FIELDS, 1 + DIM)
        weights, factors = rows[:, :, 0], rows[:, :, 1:]
        deep = self.deep(torch.cat([factors.flatten(1), numbers], 1))
        return weights.sum(1) + products(factors) + deep[:, 0]


def auc(scores, clicks):
    """How often a sample with a click has a higher score than one without."""
    ranks = 1 + numpy.nonzero(numpy.asarray(clicks)[numpy.argsort(scores)])[0]
    return (ranks.mean() - (len(ranks) + 1) / 2) / (len(clicks) - len(ranks))


def main():
    torch.set_num_threads(1)  # the workers share a machine
    model = DeepFm()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  # of the rows, too
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, STEPS)
    ct.attach(model, optimizer)
    random = numpy.random.default_rng([3, ct.rank()])  # other samples for each worker
    numbers, keys, clicks, _ = draw(random, BATCH)
    for _ in range(STEPS):
        loss = nn.functional.binary_cross_entropy_with_logits(model(numbers, keys), clicks)
        loss.backward()
        numbers, keys, clicks, _ = draw(random, BATCH)
        model.rows.prefetch(keys)  # their rows come with the answer to this step's gradients
        ct.step(loss, BATCH)
        schedule.step()
    if ct.finish():
        numbers, keys, clicks, odds = draw(numpy.random.default_rng(4), 50000)
        scores = model(numbers, keys).detach()
        print(f"AUC {auc(scores, clicks):.4f}; the best possible is {auc(odds, clicks):.4f}")
        ct.report(((scores > 0) == (clicks > 0)).float().mean().item(), samples=len(clicks))


if __name__ == "__main__":
    main()
