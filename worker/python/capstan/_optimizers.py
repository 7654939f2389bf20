"""The optimizers of the servers, with the names and the arguments of torch.optim.

The servers apply them to the mean of all workers' gradients (BSP), or to each worker's gradient
(SSP and async). kernels/optimizers.h has the formulas.
"""

from __future__ import annotations

import ctypes
import dataclasses

from capstan import _errors, _library

_SGD, _MOMENTUM, _NESTEROV, _ADAGRAD, _ADAM, _ADAMW, _ROW_ADAGRAD, _FTRL = range(1, 9)


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """Base of SGD, Adagrad, Adam and AdamW, and for sparse tables RowAdagrad and FTRL.

    lr is the learning rate, above 0. Table.learning_rate changes it while the job runs.
    """

    lr: float

    def _as_struct(self) -> _library.OptimizerStruct:
        raise _errors.InvalidArgument(
            f"expected SGD, Adagrad, Adam or AdamW for a dense table, got {type(self).__name__}")

    def _as_row_struct(self) -> _library.RowOptimizerStruct:
        """The optimizer of a sparse table."""
        if getattr(self, "weight_decay", 0.0) or getattr(self, "momentum", 0.0):
            raise _errors.InvalidArgument(
                f"expected no momentum and no weight_decay for a sparse table, got {self}")
        struct = self._row_fields()
        struct.struct_size = ctypes.sizeof(struct)
        struct.learning_rate = self.lr
        return struct

    def _row_fields(self) -> _library.RowOptimizerStruct:
        raise _errors.InvalidArgument("expected SGD, Adagrad, RowAdagrad, Adam or FTRL for a sparse "
                                      f"table, got {type(self).__name__}")


@dataclasses.dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent. `momentum` is 0 to below 1; Nesterov's needs one above 0."""

    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def _as_struct(self) -> _library.OptimizerStruct:
        kind = (_NESTEROV if self.nesterov else _MOMENTUM) if self.momentum else _SGD
        return _library.OptimizerStruct(type=kind, learning_rate=self.lr, momentum=self.momentum,
                                        weight_decay=self.weight_decay)

    def _row_fields(self) -> _library.RowOptimizerStruct:
        return _library.RowOptimizerStruct(type=_SGD)


@dataclasses.dataclass(frozen=True)
class Adagrad(Optimizer):
    """Adagrad. `weight_decay` times the values is added to the gradient."""

    eps: float = 1e-10
    weight_decay: float = 0.0

    def _as_struct(self) -> _library.OptimizerStruct:
        return _library.OptimizerStruct(type=_ADAGRAD, learning_rate=self.lr, epsilon=self.eps,
                                        weight_decay=self.weight_decay)

    def _row_fields(self) -> _library.RowOptimizerStruct:
        return _library.RowOptimizerStruct(type=_ADAGRAD, epsilon=self.eps)


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
    """Adam. `weight_decay` times the values is added to the gradient."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    _kind = _ADAM

    def _as_struct(self) -> _library.OptimizerStruct:
        return _library.OptimizerStruct(type=self._kind, learning_rate=self.lr,
                                        beta1=self.betas[0], beta2=self.betas[1],
                                        epsilon=self.eps, weight_decay=self.weight_decay)

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
