"""A parameter of an attached model while it is trained."""

from __future__ import annotations

from typing import Any, Optional

import torch

from capstan._errors import WrongOrder
from capstan._table import Table
from capstan._torch_carriers import (Carrier, Gpu, SmallGradients, SmallSharedMemory,
                                     make_carrier)
from capstan._torch_plan import Planned
from capstan._torch_reads import Views, checksum
from capstan._torch_refusals import changed_gradient, changed_parameter


class Parameter:
    """A parameter while it is trained."""

    __slots__ = ("name", "group", "tensor", "table", "wait", "push", "carrier", "is_small",
                 "is_current", "has_gradient", "sent", "sent_version", "sent_checksum", "views",
                 "_current_class", "_waiting_class", "_address", "_version", "_checksum")

    def __init__(self, planned: Planned, table: Table) -> None:
        self.name = planned.name
        self.group = planned.group
        self.tensor = planned.tensor
        self.table = table
        # The table is the only one in its layer.
        self.wait = table._layer.wait
        self.push = table._layer.push
        self.carrier: Carrier
        # The values are those of the step that comes next, or that is under way. If not, the tensor
        # is of another class, and waits for them when it is read.
        self.is_current = True
        # A backward of this step has reached it.
        self.has_gradient = False
        # Its gradient, once it has left in this step.
        self.sent: Optional[torch.Tensor] = None
        # The gradient's version when it left, or was cleared.
        self.sent_version = 0
        # Its bits when it left, if any change is to be noticed.
        self.sent_checksum: Optional[int] = None

    def attach(self, gpu: Optional[Gpu], small: SmallGradients, waiting_class: Any,
               views: dict[int, Views]) -> None:
        """Makes the parameter's values those of the library's memory.

        waiting_class: the tensor's, while its values are on their way.
        views: of the model's parameters so far, by their memory.
        """
        self.carrier = make_carrier(self.tensor, self.table, gpu, small)
        self.is_small = isinstance(self.carrier, SmallSharedMemory)
        self.drop_gradient()
        self._address = self.tensor.data_ptr()
        self._version = self.tensor._version
        self.views = Views.of(self.tensor, views)
        self._current_class = type(self.tensor)
        self._waiting_class = waiting_class
        self._checksum: Optional[int] = None

    def begin_wait(self) -> None:
        """The values are those of a step before, or new ones are on their way."""
        self.is_current = False
        self.tensor.__class__ = self._waiting_class

    def end_wait(self) -> None:
        """The values of the step that comes next have arrived."""
        self.is_current = True
        self.tensor.__class__ = self._current_class

    def watch(self) -> None:
        """From now on until the gradient leaves, a change of the values is noticed."""
        self._checksum = checksum(self.tensor)

    def end_watch(self) -> None:
        self._checksum = None

    def expect_unchanged(self) -> None:
        """Raises WrongOrder if the values are not those that `watch` has seen."""
        before, self._checksum = self._checksum, None
        if before is not None and before != checksum(self.tensor):
            raise WrongOrder(
                f"the program has changed {self.name} by way of .data, of NumPy or of another "
                "view, but the servers hold its values, and the change would be lost; keep weights in "
                "bounds in forward, and do other changes before ct.attach")

    def drop_gradient(self) -> None:
        """A small parameter's gradient will be cleared, and has not left."""
        if isinstance(self.carrier, SmallSharedMemory):
            self.sent_version = self.carrier.gradient._version

    def has_gradient_to_send(self) -> bool:
        """Of a backward, or of the program itself."""
        gradient = self.tensor.grad
        if self.sent is not None or gradient is None:
            return False
        if self.has_gradient or not isinstance(self.carrier, SmallSharedMemory):
            return True
        return gradient is not self.carrier.gradient or gradient._version != self.sent_version

    def expect_untouched(self) -> None:
        """Raises WrongOrder if the program has changed the parameter, or its gradient too late."""
        sent = self.sent
        if sent is None and self._checksum is not None:
            self.expect_unchanged()
        if self.tensor._version != self._version or self.tensor.data_ptr() != self._address:
            raise changed_parameter(self.name)
        if sent is not None and (
                sent._version != self.sent_version or self.tensor.grad is not sent
                or (self.sent_checksum is not None and self.sent_checksum != checksum(sent))):
            raise changed_gradient(self.name)
