"""A PyTorch program that declares itself replaceable. usage: torch_program.py STEPS"""

from __future__ import annotations

import sys

import torch
from torch import nn

import capstan
import capstan.torch as ct


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(8, 130), nn.Tanh(), nn.Dropout(0.2))
        self.items = ct.EmbeddingBag("items", 4, optimizer=capstan.Adagrad(lr=0.1), stddev=0.5)
        self.output = nn.Linear(134, 3)

    def forward(self, x: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return self.output(torch.cat([self.hidden(x), self.items(keys)], dim=1))


torch.manual_seed(1)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
ct.attach(model, optimizer, replaceable=True)
for step in range(ct.next_step(), int(sys.argv[1])):
    torch.manual_seed(100_000 * ct.rank() + step)
    x, keys = torch.randn(16, 8), torch.randint(1000, (16, 3))
    loss = nn.functional.cross_entropy(model(x, keys), x[:, :3].argmax(1))
    loss.backward()
    ct.step(loss)
ct.finish()
