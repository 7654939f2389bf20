"""The optimizers of the servers, with the names and the arguments of torch.optim.

The servers apply them to the mean of all workers' gradients (BSP), or to each worker's gradient
(SSP and async). kernels/optimizers.h has the formulas.
"""

from __future__ import annotations

import dataclasses

from capstan import _library

_SGD, _MOMENTUM, _NESTEROV, _ADAGRAD, _ADAM, _ADAMW = range(1, 7)


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """Base of SGD, Adagrad, Adam and AdamW.

    lr is the learning rate, above 0. Table.learning_rate changes it while the job runs.
    """

    lr: float

    def _as_struct(self) -> _library.OptimizerStruct:
        raise NotImplementedError("expected SGD, Adagrad, Adam or AdamW, got Optimizer itself")


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


@dataclasses.dataclass(frozen=True)
class Adagrad(Optimizer):
    """Adagrad. `weight_decay` times the values is added to the gradient."""

    eps: float = 1e-10
    weight_decay: float = 0.0

    def _as_struct(self) -> _library.OptimizerStruct:
        return _library.OptimizerStruct(type=_ADAGRAD, learning_rate=self.lr, epsilon=self.eps,
                                        weight_decay=self.weight_decay)


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


@dataclasses.dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay: the values are first multiplied by 1 - lr weight_decay."""

    weight_decay: float = 0.01

    _kind = _ADAMW
