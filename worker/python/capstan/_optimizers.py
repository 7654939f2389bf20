"""The optimizers of the servers, with the names and the arguments of torch.optim.

The servers apply them to the mean of all workers' gradients (BSP), or to each worker's gradient
(SSP and async). kernels/optimizers.h has the formulas.
"""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any

from capstan import _errors, _library

(_SGD, _MOMENTUM, _NESTEROV, _ADAGRAD, _ADAM, _ADAMW, _ROW_ADAGRAD, _FTRL, _RMSPROP,
 _LION) = range(1, 11)
# Settings that no sparse table has.
_OF_DENSE_TABLES = ("momentum", "weight_decay", "amsgrad", "maximize")


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """Base of SGD, Adagrad, Adam, AdamW, RMSprop and Lion, and for sparse tables RowAdagrad and FTRL.

    lr is the learning rate, above 0. Table.learning_rate changes it while the job runs, and
    Table.momentum a momentum or the first beta.
    """

    lr: float

    def _as_struct(self) -> _library.DenseOptimizerStruct:
        """The optimizer of a dense table."""
        settings = self._dense_fields()
        names = [field[0] for field in _library.OptimizerStruct._fields_]
        basic = {name: settings.pop(name) for name in names if name in settings}
        return _library.DenseOptimizerStruct(
            struct_size=ctypes.sizeof(_library.DenseOptimizerStruct),
            basic=_library.OptimizerStruct(learning_rate=self.lr, **basic), **settings)

    def _dense_fields(self) -> dict[str, Any]:
        raise _errors.InvalidArgument(
            "expected SGD, Adagrad, Adam, AdamW, RMSprop or Lion for a dense table, got "
            f"{type(self).__name__}")

    def _as_row_struct(self) -> _library.RowOptimizerStruct:
        """The optimizer of a sparse table."""
        for name in _OF_DENSE_TABLES:
            if getattr(self, name, 0):
                raise _errors.InvalidArgument(
                    f"expected no {name} for a sparse table, got {self}")
        struct = self._row_fields()
        struct.struct_size = ctypes.sizeof(struct)
        struct.learning_rate = self.lr
        return struct

    def _row_fields(self) -> _library.RowOptimizerStruct:
        raise _errors.InvalidArgument("expected SGD, Adagrad, RowAdagrad, Adam or FTRL for a sparse "
                                      f"table, got {type(self).__name__}")


@dataclasses.dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent. `momentum` is 0 to below 1; Nesterov's needs one above 0.
    `dampening` of each gradient, but the first, is left out of the momentum."""

    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    dampening: float = 0.0
    maximize: bool = False

    def _dense_fields(self) -> dict[str, Any]:
        if self.nesterov and (self.dampening or not self.momentum):
            raise _errors.InvalidArgument(
                f"expected a momentum above 0 and no dampening with nesterov, got {self}")
        kind = (_NESTEROV if self.nesterov else _MOMENTUM) if self.momentum else _SGD
        return {"type": kind, "momentum": self.momentum, "weight_decay": self.weight_decay,
                "dampening": self.dampening, "maximize": self.maximize}

    def _row_fields(self) -> _library.RowOptimizerStruct:
        return _library.RowOptimizerStruct(type=_SGD)


@dataclasses.dataclass(frozen=True)
class Adagrad(Optimizer):
    """Adagrad. `weight_decay` times the values is added to the gradient."""

    eps: float = 1e-10
    weight_decay: float = 0.0
    maximize: bool = False

    def _dense_fields(self) -> dict[str, Any]:
        return {"type": _ADAGRAD, "epsilon": self.eps, "weight_decay": self.weight_decay,
                "maximize": self.maximize}

    def _row_fields(self) -> _library.RowOptimizerStruct:
        return _library.RowOptimizerStruct(type=_ADAGRAD, epsilon=self.eps)


@dataclasses.dataclass(frozen=True)
class RMSprop(Optimizer):
    """RMSprop. `alpha` is the decay of the mean of squares. `centered` divides by the root of the
    variance. `weight_decay` times the values is added to the gradient."""

    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False
    maximize: bool = False

    def _dense_fields(self) -> dict[str, Any]:
        return {"type": _RMSPROP, "alpha": self.alpha, "epsilon": self.eps,
                "weight_decay": self.weight_decay, "momentum": self.momentum,
                "centered": self.centered, "maximize": self.maximize}


@dataclasses.dataclass(frozen=True)
class Lion(Optimizer):
    """Lion: steps of one size, in the direction of the sign of a mean of gradients. The values are
    first multiplied by 1 - lr weight_decay."""

    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0
    maximize: bool = False

    def _dense_fields(self) -> dict[str, Any]:
        return {"type": _LION, "beta1": self.betas[0], "beta2": self.betas[1],
                "weight_decay": self.weight_decay, "maximize": self.maximize}


@dataclasses.dataclass(frozen=True)
class RowAdagrad(Optimizer):
    """Adagrad with one sum of squares for each row, of a sparse table."""

    eps: float = 1e-10

    def _row_fields(self) -> _library.RowOptimizerStruct:
        return _library.RowOptimizerStruct(type=_ROW_ADAGRAD, epsilon=self.eps)


@dataclasses.dataclass(frozen=True)
class FTRL(Optimizer):
    """FTRL-proximal, of a sparse table. `lr` is its alpha. `beta` lowers the first learning rates,
    `l1` makes values 0 whose sum of gradients is no larger, `l2` pulls values toward 0."""

    beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0

    def _row_fields(self) -> _library.RowOptimizerStruct:
        return _library.RowOptimizerStruct(type=_FTRL, beta=self.beta, l1=self.l1, l2=self.l2)


@dataclasses.dataclass(frozen=True)
class Adam(Optimizer):
    """Adam. `weight_decay` times the values is added to the gradient. With `amsgrad` the largest
    second moment so far divides."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    amsgrad: bool = False
    maximize: bool = False

    _kind = _ADAM

    def _dense_fields(self) -> dict[str, Any]:
        return {"type": self._kind, "beta1": self.betas[0], "beta2": self.betas[1],
                "epsilon": self.eps, "weight_decay": self.weight_decay, "amsgrad": self.amsgrad,
                "maximize": self.maximize}

    def _row_fields(self) -> _library.RowOptimizerStruct:
        """Each row counts its own steps."""
        return _library.RowOptimizerStruct(type=_ADAM, beta1=self.betas[0], beta2=self.betas[1],
                                           epsilon=self.eps)


@dataclasses.dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay: the values are first multiplied by 1 - lr weight_decay."""

    weight_decay: float = 0.01

    _kind = _ADAMW

    def _row_fields(self) -> _library.RowOptimizerStruct:
        return Optimizer._row_fields(self)
