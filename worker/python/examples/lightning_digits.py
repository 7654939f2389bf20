"""Trains handwritten digits with Lightning:

    python -m capstan run --num_workers=2 --worker_command="python lightning_digits.py"
"""

import argparse

import lightning
import torch
from torch.nn import functional

from capstan.integrations.lightning import Strategy
from digits import load_digits


class Digits(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))

    def training_step(self, batch, index):
        x, y = batch
        return functional.cross_entropy(self.layers(x), y)

    def validation_step(self, batch, index):
        x, y = batch
        accuracy = (self.layers(x).argmax(1) == y).float().mean()
        self.log("accuracy", accuracy, sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch_size", type=int, default=16, help="of a worker")
    parser.add_argument("--accumulate", type=int, default=1, help="batches of a step")
    parser.add_argument("--save", help="file for the model")
    flags = parser.parse_args()

    training, test = load_digits()
    torch.manual_seed(1)
    model = Digits()
    trainer = lightning.Trainer(
        strategy=Strategy(),
        accelerator="cpu", max_epochs=flags.epochs, accumulate_grad_batches=flags.accumulate,
        gradient_clip_val=1.0, logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(model, torch.utils.data.DataLoader(training, flags.batch_size, drop_last=True),
                torch.utils.data.DataLoader(test, flags.batch_size))
    if trainer.is_global_zero:
        print(f"test accuracy {trainer.callback_metrics['accuracy']:.4f}")
    if flags.save:
        trainer.save_checkpoint(flags.save)


if __name__ == "__main__":
    main()
