"""A small transformer learns to write the next character of Capstan's README:

    python -m capstan run --num_workers=2 --worker_command="python char_transformer.py"
"""

import math
import pathlib

import torch
from torch import nn
from torch.nn import functional

import capstan.torch as ct

TEXT = pathlib.Path(__file__).parents[3] / "README.md"
LENGTH, WIDTH, STEPS, BATCH = 32, 64, 150, 16


class Transformer(nn.Module):
    """Two layers; input and output share the characters' vectors."""

    def __init__(self, characters):
        super().__init__()
        self.embedding = nn.Embedding(characters, WIDTH)
        self.position = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.layers = nn.ModuleList([
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True,
                                       norm_first=True) for _ in range(2)
        ])
        self.norm = nn.LayerNorm(WIDTH)
        nn.init.normal_(self.embedding.weight, std=0.05)
        self.register_buffer("mask", torch.full((LENGTH, LENGTH), float("-inf")).triu(1))

    def forward(self, text):
        hidden = self.embedding(text) + self.position
        for layer in self.layers:
            hidden = layer(hidden, src_mask=self.mask)
        return functional.linear(self.norm(hidden), self.embedding.weight)


def batch(text, generator):
    """Parts of the text, and the same parts one character later."""
    starts = torch.randint(len(text) - LENGTH, (BATCH,), generator=generator)
    parts = torch.stack([text[start:start + LENGTH + 1] for start in starts.tolist()])
    return parts[:, :-1], parts[:, 1:]


def loss_of(model, part):
    x, y = part
    return functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


def main():
    torch.set_num_threads(1)  # the workers share a machine
    characters = sorted(set(TEXT.read_text()))
    text = torch.tensor([characters.index(one) for one in TEXT.read_text()])
    training, test = text[:-1000], text[-1000:]
    model = Transformer(len(characters))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 20))

    model = ct.attach(model, optimizer, max_norm_per_worker=1.0)
    for _ in range(ct.next_step()):  # above 0 after a restart
        schedule.step()
    generator = torch.Generator().manual_seed(ct.rank())  # other parts for each worker
    for _ in range(ct.next_step(), STEPS):
        loss = loss_of(model, batch(training, generator))
        loss.backward()
        ct.step(loss, BATCH)
        schedule.step()
    if ct.finish():
        with torch.no_grad():
            loss = loss_of(model, batch(test, torch.Generator().manual_seed(0))).item()
        print(f"test loss {loss:.3f} a character; guessing has {math.log(len(characters)):.3f}")
        ct.report(test_loss=loss, samples=BATCH)


if __name__ == "__main__":
    main()
