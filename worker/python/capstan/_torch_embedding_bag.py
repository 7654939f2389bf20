"""torch.nn.EmbeddingBag and torch.nn.Embedding with their rows on the servers."""

from __future__ import annotations

from typing import Optional

import torch
from torch.nn import functional

from capstan._errors import InvalidArgument, WrongOrder
from capstan._optimizers import FTRL, Optimizer
from capstan._torch_rows import Rows, expect_key

_STDDEV = 0.01


class EmbeddingBag(torch.nn.Module):
    """In place of torch.nn.EmbeddingBag, in a model for ct.attach. Its rows are in a sparse table
    on the servers, under 64-bit keys: any int64, without a largest one.

    Forward pulls the rows of its keys, each key once. ct.step() pushes their gradients. The
    module has no parameters. Before ct.attach, forward has no rows and raises WrongOrder.

    name: of the table; no two have the same.
    dim: of a row, 1 to 1024.
    mode, include_last_offset: as torch.nn.EmbeddingBag's. per_sample_weights need mode="sum".
    padding_idx: a key that counts in no bag. It has no row on the servers.
    optimizer: capstan.SGD, Adagrad, RowAdagrad, Adam or FTRL. None: as the first parameter group of
    the optimizer given to ct.attach, with its learning rate.
    stddev: rows begin with normal values around 0 with this standard deviation. None: 0.01; 0 with
    FTRL.
    admitting_push, max_idle_steps, max_rows: bounds of the number of rows, as Job.sparse_table's.
    """

    def __init__(self, name: str, dim: int, *, mode: str = "mean",
                 include_last_offset: bool = False, padding_idx: Optional[int] = None,
                 optimizer: Optional[Optimizer] = None, stddev: Optional[float] = None,
                 admitting_push: int = 1, max_idle_steps: int = 0, max_rows: int = 0) -> None:
        super().__init__()
        if not isinstance(name, str):
            raise InvalidArgument(f"expected a name for the table, got {name!r}; there is no "
                                  f"num_embeddings: ct.{type(self).__name__}(\"item\", dim=16)")
        expect_key("padding_idx", padding_idx)
        if mode not in ("sum", "mean", "max"):
            raise InvalidArgument(f"EmbeddingBag {name}: expected mode sum, mean or max, got "
                                  f"{mode!r}")
        if optimizer is not None and not isinstance(optimizer, Optimizer):
            raise InvalidArgument(
                f"EmbeddingBag {name}: expected an optimizer of the servers, such as "
                f"capstan.Adagrad(lr=0.05), got {type(optimizer).__name__}")
        self.name = name
        self.dim = dim
        self.mode = mode
        self.include_last_offset = include_last_offset
        self.padding_idx = padding_idx
        self.optimizer = optimizer
        self.stddev = stddev
        self.limits = {"admitting_push": admitting_push, "max_idle_steps": max_idle_steps,
                       "max_rows": max_rows}
        self._rows: Optional[Rows] = None

    def forward(self, input: torch.Tensor, offsets: Optional[torch.Tensor] = None,
                per_sample_weights: Optional[torch.Tensor] = None) -> torch.Tensor:
        """input: keys. In two dimensions, each row is a bag. In one, `offsets` says where in it
        each bag begins."""
        rows = self._attached()
        keys = rows.keys_of(input)
        has_last = self.include_last_offset and offsets is not None
        return functional.embedding_bag(
            keys.places.view(input.shape), rows.pull(keys),
            None if offsets is None else offsets.long(), mode=self.mode,
            per_sample_weights=per_sample_weights, include_last_offset=has_last,
            padding_idx=rows.place_of_padding(keys))

    def prefetch(self, keys: torch.Tensor) -> None:
        """Names the keys of the next step's forward, before ct.step(): their rows then come with
        the answer to this step's gradients. Others can still be asked for."""
        self._attached().prefetch(keys)

    @property
    def learning_rate(self) -> Optional[float]:
        """The rows' learning rate, if it was changed: 0 or more. FTRL does not use it. In BSP the
        smallest rank's counts."""
        return self._attached().table.learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: float) -> None:
        self._attached().table.learning_rate = learning_rate

    def extra_repr(self) -> str:
        return f"{self.name!r}, {self.dim}, mode={self.mode!r}{self._padding()}"

    def _padding(self) -> str:
        return "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"

    def initial_stddev(self) -> float:
        if self.stddev is not None:
            return self.stddev
        return 0.0 if isinstance(self.optimizer, FTRL) else _STDDEV

    def expect_optimizer(self, of_model: Optional[Optimizer]) -> Optimizer:
        """The rows' optimizer. Raises InvalidArgument if rows cannot have it."""
        optimizer = self.optimizer or of_model
        if optimizer is None:
            raise InvalidArgument(f"EmbeddingBag {self.name}: with dense=\"local\" give it an optimizer "
                                  "of its own, as optimizer=capstan.Adagrad(lr=0.05)")
        try:
            optimizer._as_row_struct()
        except InvalidArgument as error:
            raise InvalidArgument(f"EmbeddingBag {self.name}: {error}; give it one of its own, as "
                                  "optimizer=capstan.Adagrad(lr=0.05)") from error
        return optimizer

    def _attached(self) -> Rows:
        if self._rows is None:
            raise WrongOrder(f"EmbeddingBag {self.name} has no rows yet; call ct.attach with the "
                             "model that holds it")
        return self._rows


class Embedding(EmbeddingBag):
    """In place of torch.nn.Embedding: forward gives a row for each key, zeros for padding_idx. The
    rest is as of EmbeddingBag."""

    def __init__(self, name: str, dim: int, *, padding_idx: Optional[int] = None,
                 optimizer: Optional[Optimizer] = None, stddev: Optional[float] = None,
                 admitting_push: int = 1, max_idle_steps: int = 0, max_rows: int = 0) -> None:
        super().__init__(name, dim, mode="sum", padding_idx=padding_idx, optimizer=optimizer,
                         stddev=stddev, admitting_push=admitting_push,
                         max_idle_steps=max_idle_steps, max_rows=max_rows)

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """input: keys, of any shape; the result has one dimension more, for the row."""
        rows = self._attached()
        keys = rows.keys_of(input)
        result = functional.embedding(keys.places, rows.pull(keys))
        if self.padding_idx is not None:
            result = result.masked_fill((keys.given == self.padding_idx).unsqueeze(-1), 0.0)
        return result.view(*input.shape, self.dim)

    def extra_repr(self) -> str:
        return f"{self.name!r}, {self.dim}{self._padding()}"
