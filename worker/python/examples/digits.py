"""Trains handwritten digits with PyTorch:

    python -m capstan run --num_workers=2 --worker_command="python digits.py"
"""

import csv
import gzip
import pathlib

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import capstan.torch as ct

DATA = pathlib.Path(__file__).parents[2] / "dataset" / "digits.csv.gz"
EPOCHS = 30


def load_digits():
    """Training and test sets: 8x8 pixels from 0 to 1, and the digit."""
    with gzip.open(DATA, "rt") as file:
        rows = torch.tensor([[float(field) for field in row] for row in csv.reader(file)])
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(1))]
    data = TensorDataset(rows[:, :64] / 16, rows[:, 64].long())
    return torch.utils.data.random_split(data, [1437, len(data) - 1437],
                                         torch.Generator().manual_seed(1))


def evaluate(model, data):
    """Accuracy and mean loss."""
    x, y = data[:]
    with torch.no_grad():
        output = model(x)
    return ((output.argmax(1) == y).float().mean().item(),
            functional.cross_entropy(output, y).item())


def main():
    torch.set_num_threads(1)  # the workers share a machine
    training, test = load_digits()
    sampler = DistributedSampler(training, num_replicas=ct.world_size(), rank=ct.rank())
    loader = DataLoader(training, batch_size=32, sampler=sampler)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)

    model = ct.attach(model, optimizer)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            ct.step(loss, len(x))
        scheduler.step()
    if ct.finish():
        accuracy, loss = evaluate(model, test)
        print(f"test accuracy {accuracy:.4f}")
        ct.report(accuracy, loss, len(test))


if __name__ == "__main__":
    main()
