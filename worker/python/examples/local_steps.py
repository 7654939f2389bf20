"""Handwritten digits with local steps: 20 of each worker alone, then one exchange with int8.

    python -m capstan run --num_workers=2 --push_codec=int8 --pull_codec=int8 \
        --worker_command="python local_steps.py"
"""

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, DistributedSampler

import capstan.torch as ct
from digits import evaluate, load_digits

ROUNDS, SYNC_EVERY = 30, 20


def batches(loader, sampler):
    """One epoch after the other, without an end."""
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def main():
    torch.set_num_threads(1)  # the workers share a machine
    training, test = load_digits()
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    inner = torch.optim.AdamW(model.parameters(), lr=3e-3)

    local = ct.LocalSteps(model, inner, sync_every=SYNC_EVERY)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(inner, ROUNDS * SYNC_EVERY)
    ct.checkpoint_state("scheduler", scheduler)
    sampler = DistributedSampler(training, num_replicas=ct.world_size(), rank=ct.rank())
    stream = batches(DataLoader(training, batch_size=32, sampler=sampler), sampler)
    while local.rounds < ROUNDS:  # above 0 at first, after a restart
        x, y = next(stream)
        loss = functional.cross_entropy(model(x), y)
        inner.zero_grad()
        loss.backward()
        ct.step(loss, len(x))
        inner.step()
        scheduler.step()
    if ct.finish():
        accuracy, loss = evaluate(model, test)
        print(f"test accuracy {accuracy:.4f} after {local.rounds} rounds")
        ct.report(accuracy, loss, len(test))


if __name__ == "__main__":
    main()
