"""Handwritten digits with BatchNorm, dropout and a scheduler, in a job that survives its processes:

    python -m capstan run --num_workers=2 --restart=on_failure --checkpoint_dir=kept --checkpoint_steps=50 \
        --worker_command="python resume.py"

End a worker or a server by kill -9 while it trains: the result has the same bits.
"""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, DistributedSampler, Subset

import capstan
import capstan.torch as ct
from digits import load_digits

EPOCHS = 20


def correct(model, data):
    """The number of right answers."""
    model.eval()
    with torch.no_grad():
        x, y = data[:]
        right = (model(x).argmax(1) == y).sum().item()
    model.train()
    return right


def main():
    torch.set_num_threads(1)  # the workers share a machine
    torch.manual_seed(ct.rank())  # each worker has its own dropout
    training, test = load_digits()
    sampler = DistributedSampler(training, num_replicas=ct.world_size(), rank=ct.rank())
    loader = DataLoader(training, batch_size=32, sampler=sampler)
    model = nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.2),
                          nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)

    job = capstan.connect(steps=EPOCHS * len(loader))  # checkpoints need the number of steps
    model = ct.attach(model, optimizer, job=job)
    batches = ct.Batches(loader)  # tells the sampler its epoch
    ct.checkpoint_state("scheduler", scheduler)
    ct.checkpoint_state("batches", batches)
    mine = Subset(test, list(range(ct.rank(), len(test), ct.world_size())))
    for epoch in range(batches.epoch, EPOCHS):
        for x, y in batches:
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            ct.step(loss, len(x))
        scheduler.step()
        accuracy = ct.all_reduce(correct(model, mine), "sum") / len(test)
        if ct.rank() == 0:
            print(f"epoch {epoch}: test accuracy {accuracy:.4f}")
    if ct.finish():
        ct.report(accuracy, samples=len(test))


if __name__ == "__main__":
    main()
