"""The models of the tests, their data, and plain torch beside them."""

from __future__ import annotations

import os

import torch
from torch import nn
from torch.nn import functional

STEPS = 5
BATCH = 8  # of one worker
WORKERS = 2
# Where models and samples are. Workers of other processes read the variable, too.
DEVICE = torch.device(os.environ.get("CAPSTAN_TEST_DEVICE", "cpu"))
# On a GPU sums have other orders for other sizes of a batch.
TOLERANCE = 1e-5 if DEVICE.type == "cpu" else 5e-5
if DEVICE.type == "cuda":
    torch.backends.cudnn.allow_tf32 = False  # convolutions in float32


class Mlp(nn.Module):
    """With a parameter that is not a small one (SmallGradients)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 130), nn.Tanh(), nn.Linear(130, 130), nn.Tanh(),
                                    nn.Linear(130, 3))

    def loss(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return functional.cross_entropy(self.layers(batch["x"]), batch["label"])


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2),
                                      nn.Conv2d(4, 6, 3, padding=1), nn.Tanh())
        self.output = nn.Linear(6 * 4 * 4, 3)

    def loss(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return functional.cross_entropy(self.output(self.features(batch["image"]).flatten(1)),
                                        batch["label"])


class Transformer(nn.Module):
    """Two layers; the output's weights are the embedding's."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 16)
        self.layers = nn.ModuleList([
            nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True) for _ in range(2)
        ])

    def loss(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        hidden = self.embedding(batch["tokens"])
        for layer in self.layers:
            hidden = layer(hidden)
        logits = functional.linear(hidden, self.embedding.weight)
        return functional.cross_entropy(logits.flatten(0, 1), batch["next"].flatten())


class Zoo(nn.Module):
    """All three: their gradients do not meet."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([Mlp(), ConvNet(), Transformer()])

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return sum((part.loss(batch) for part in self.parts), torch.zeros(()))


def seeded(make, seed: int = 1):
    """What `make` makes with this seed, of torch's random numbers."""
    torch.manual_seed(seed)
    return make().to(DEVICE)


def joined_batch(step: int) -> dict[str, torch.Tensor]:
    """The samples of all workers in a step."""
    random = torch.Generator().manual_seed(100 + step)
    size = BATCH * WORKERS

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(size, *shape, generator=random).to(DEVICE)

    def below(limit: int, *shape: int) -> torch.Tensor:
        return torch.randint(limit, (size, *shape), generator=random).to(DEVICE)

    return {"x": normal(6), "image": normal(1, 8, 8), "label": below(3),
            "tokens": below(11, 7), "next": below(11, 7)}


def part_of(batch: dict[str, torch.Tensor], rank: int) -> dict[str, torch.Tensor]:
    """One worker's samples."""
    return {name: tensor[rank * BATCH:(rank + 1) * BATCH] for name, tensor in batch.items()}


def expect_equal(got: nn.Module, expected: nn.Module, tolerance: float = TOLERANCE) -> None:
    """Fails unless all parameters are equal up to rounding."""
    for (name, one), other in zip(got.named_parameters(), expected.parameters()):
        difference = (one.detach().float() - other.detach().float()).abs().max().item()
        if not difference <= tolerance:
            raise AssertionError(f"{name}: expected what plain torch has, got {difference} away")
