"""Trains handwritten digits with Hugging Face Accelerate:

    python -m capstan run --num_workers=2 --worker_command="python accelerate_digits.py"
"""

import argparse

import torch
from torch.nn import functional

from capstan.integrations.accelerate import Accelerator
from digits import evaluate, load_digits


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch_size", type=int, default=16, help="of a worker")
    parser.add_argument("--accumulate", type=int, default=1, help="batches of a step")
    parser.add_argument("--save", help="file for the model")
    flags = parser.parse_args()

    training, test = load_digits()
    loader = torch.utils.data.DataLoader(training, flags.batch_size, drop_last=True)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=flags.accumulate)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(flags.epochs):
        for x, y in loader:
            with accelerator.accumulate(model):
                accelerator.backward(functional.cross_entropy(model(x), y))
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
    accelerator.print(f"test accuracy {evaluate(model, test)[0]:.4f}")
    if flags.save:
        accelerator.save(accelerator.get_state_dict(model), flags.save)
    accelerator.end_training()


if __name__ == "__main__":
    main()
