"""The rows of an EmbeddingBag or an Embedding while they are trained."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn, Optional

import torch

from capstan._errors import InvalidArgument, WrongOrder
from capstan._sparse_table import SparseTable


class Keys(NamedTuple):
    """The keys of one forward."""

    given: torch.Tensor  # int64, in one dimension
    unique: torch.Tensor  # ascending
    places: torch.Tensor  # where in `unique` each given one is


def _flat(name: str, keys: torch.Tensor) -> torch.Tensor:
    """The keys as int64, in one dimension."""
    if not isinstance(keys, torch.Tensor):
        raise InvalidArgument(f"EmbeddingBag {name}: expected a tensor of keys, got "
                              f"{type(keys).__name__}")
    if keys.is_floating_point() or keys.is_complex() or keys.dtype == torch.bool:
        raise InvalidArgument(f"EmbeddingBag {name}: expected keys that are integers, got "
                              f"{keys.dtype}; convert them with keys.long()")
    is_unsigned = keys.dtype == getattr(torch, "uint64", None)
    return (keys.view(torch.int64) if is_unsigned else keys.long()).reshape(-1)


def expect_key(name: str, key: object) -> None:
    """Raises InvalidArgument unless it is a key or None."""
    is_key = isinstance(key, int) and not isinstance(key, bool) and -2**63 <= key < 2**63
    if key is not None and not is_key:
        raise InvalidArgument(f"{name}: expected a key, an int64, got {key!r}")


def _unique(given: torch.Tensor) -> Keys:
    unique, places = torch.unique(given, return_inverse=True)
    return Keys(given, unique, places)


class Rows:
    """Pulls the rows of a table, collects their gradients of a step and pushes them at its end.

    group: the parameter group whose learning rate the table follows. Below 0: none.
    padding: a key whose gradients do not count.
    """

    def __init__(self, name: str, table: SparseTable, group: int,
                 padding: Optional[int] = None) -> None:
        self.name = name
        self.table = table
        self.group = group
        self.padding = padding
        self._step = 0
        # The keys and the gradients of each backward in this step.
        self._parts: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._keys: Optional[torch.Tensor] = None
        # The sums of the step's gradients are the gradient of this tensor, from `merge` on.
        self.sums: Optional[torch.Tensor] = None
        self._next: Optional[Keys] = None
        self._fetched: Optional[Keys] = None

    def keys_of(self, keys: torch.Tensor) -> Keys:
        given = _flat(self.name, keys)
        fetched = self._fetched
        if (fetched is not None and fetched.given.device == given.device
                and torch.equal(fetched.given, given)):
            return fetched
        return _unique(given)

    def pull(self, keys: Keys) -> torch.Tensor:
        """The rows of keys.unique. Where gradients are enabled, theirs are collected."""
        array = self.table.pull(keys.unique.cpu().numpy())
        rows = torch.from_numpy(array).to(keys.unique.device)
        if torch.is_grad_enabled():
            step = self._step
            rows.requires_grad_()
            hook: Any = rows.register_hook
            hook(lambda gradient: self._collect(step, keys.unique, gradient))
        return rows

    def place_of_padding(self, keys: Keys) -> Optional[int]:
        """Where the padding is in keys.unique. None: it is not there."""
        if self.padding is None:
            return None
        places = (keys.unique == self.padding).nonzero()
        return int(places) if len(places) > 0 else None

    def _collect(self, step: int, keys: torch.Tensor, gradient: torch.Tensor) -> None:
        if step != self._step:
            raise WrongOrder(f"the rows of EmbeddingBag {self.name} are those of a step that has "
                             "ended; run forward again after ct.step()")
        gradient = gradient.detach()
        if self.padding is not None:
            counts = keys != self.padding
            keys, gradient = keys[counts], gradient[counts]
        self._parts.append((keys, gradient))

    def prefetch(self, keys: torch.Tensor) -> None:
        # Copied: the program may write its next keys into the same memory.
        self._next = _unique(_flat(self.name, keys).clone())

    def merge(self) -> None:
        """Adds up the step's gradients of each key."""
        if not self._parts:
            return
        if len(self._parts) == 1:
            self._keys, gradient = self._parts[0]
        else:
            # A program may have given keys on several devices.
            device = self._parts[0][1].device
            self._keys, places = torch.unique(
                torch.cat([keys.to(device) for keys, _ in self._parts]), return_inverse=True)
            gradients = torch.cat([one.to(device) for _, one in self._parts])
            gradient = gradients.new_zeros(len(self._keys), self.table.dim)
            gradient.index_add_(0, places, gradients)
        self._parts.clear()
        self.sums = gradient.detach().requires_grad_()
        self.sums.grad = gradient

    def drop(self) -> None:
        """The step has no gradient of the rows."""
        self._parts.clear()
        self._keys = self.sums = None

    def push(self) -> None:
        """Ends the step: sends the sums, if there are any, and fetches the next step's rows."""
        ahead = None if self._next is None else self._next.unique.cpu().numpy()
        if self._keys is not None:
            assert self.sums is not None and self.sums.grad is not None
            self.table.push(self._keys.cpu().numpy(), self.sums.grad.cpu().numpy(),
                            next_keys=ahead)
        elif ahead is not None:
            nothing = torch.empty(0, self.table.dim, dtype=torch.float32, device="cpu")
            self.table.push(ahead[:0], nothing.numpy(), next_keys=ahead)
        self.drop()
        self._fetched, self._next = self._next, None
        self._step += 1

    def __deepcopy__(self, memo: object) -> NoReturn:
        self._refuse_copy()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self._refuse_copy()

    def _refuse_copy(self) -> NoReturn:
        raise WrongOrder(f"the servers hold the rows of EmbeddingBag {self.name}, so a model with "
                         "it cannot be copied or saved; save model.state_dict(), which has all "
                         "but the rows")
