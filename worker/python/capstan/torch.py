"""PyTorch on Capstan: the optimizer runs on the servers.

    import capstan.torch as ct
    model = ct.attach(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        ct.step(loss)
    if ct.finish():
        ct.report(test_accuracy=accuracy(model))

A gradient leaves as soon as backward has made it. Each module's forward waits for its own values
only. worker/python/README.md says what works and what is refused.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import Any, Callable, Iterator, Mapping, Optional, TypeVar, Union

import torch

from capstan import _job
from capstan._errors import InvalidArgument, WrongOrder
from capstan._job import Job, Table
from capstan._optimizers import SGD
from capstan._torch_carriers import Carrier, Gpu, make_carrier, values_of
from capstan._torch_optimizers import (expect_unchanged, fixed_settings, learning_rate,
                                       server_optimizers)
from capstan._torch_plan import Plan, Planned

Model = TypeVar("Model", bound=torch.nn.Module)

_FOUND_INF = "capstan.found_inf"
_BUFFERS = "capstan.buffers"


class _Parameter:
    """A parameter while it is trained. `layer` is its place in the order of pulls."""

    def __init__(self, planned: Planned, table: Table) -> None:
        self.name = planned.name
        self.group = planned.group
        self.tensor = planned.tensor
        self.table = table
        self.layer = table.layer
        self.carrier: Carrier
        # The values are those of the step that comes next, or that is under way.
        self.is_current = True
        # A module that holds it has begun its forward in this step.
        self.is_expected = False
        # Its gradient, once it has left in this step, and the gradient's version then.
        self.sent: Optional[torch.Tensor] = None
        self.sent_version = 0

    def attach(self, gpu: Optional[Gpu]) -> None:
        """Makes the parameter's values those of the library's memory."""
        self.carrier = make_carrier(self.tensor, self.table, gpu)
        self._address = self.tensor.data_ptr()
        self._version = self.tensor._version

    def expect_untouched(self) -> None:
        """Raises WrongOrder if the program has changed the parameter, or its gradient too late."""
        if self.tensor._version != self._version or self.tensor.data_ptr() != self._address:
            raise WrongOrder(
                f"the program has changed {self.name}, but the servers hold its values; do what "
                "changes or moves parameters (load_state_dict, to, init) before ct.attach")
        if self.sent is not None and self.sent._version != self.sent_version:
            raise WrongOrder(
                f"the gradient of {self.name} was changed after it had left; instead of "
                "clip_grad_norm_ give ct.attach(..., max_norm=), and let gradients be")


class Trainer:
    """A model whose optimizer runs on the servers of `job`, which is not started yet.

    ct.attach makes one and calls the functions of this module its methods. Use it alone for several
    models in one program.

    max_norm: clips this worker's own gradient to this total norm, as clip_grad_norm_ does, before it
    is pushed. The mean over the workers, which servers apply, is not clipped again.
    grad_scaler: the GradScaler that has scaled the loss. Gradients are unscaled before they are
    pushed. In BSP all workers skip a step in which one of them has found inf or NaN; in SSP and
    async a worker skips its own, and at most one more when it hears of another's.
    With either, gradients leave in `step`, not in backward.
    """

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer,
                 job: Union[Job, Callable[[], Job]], *, max_norm: Optional[float] = None,
                 grad_scaler: Optional[Any] = None) -> None:
        plan = Plan(model, optimizer)
        self._model = model
        self._optimizer = optimizer
        self._plan = plan
        self._max_norm = max_norm
        self._scaler = grad_scaler if grad_scaler is not None and grad_scaler.is_enabled() else None
        self._defers = max_norm is not None or self._scaler is not None
        self._syncs = True
        self._settings = [fixed_settings(group) for group in optimizer.param_groups]
        self._rates = [optimizer.lr for optimizer in plan.server_optimizers]
        self._hooks: list[Any] = []
        self._nodes: list[object] = []
        self._unexpected: list[_Parameter] = []
        self._has_begun = False
        self._has_rates = False
        self.job = job if isinstance(job, Job) else job()
        self._add_tables()
        self.job.start()
        self._take_values()
        self._hook_model()
        self._hook_optimizer()
        self._begin_step()

    # The tables, from the input on: first what all wait for, then the parameters, then buffers.

    def _add_tables(self) -> None:
        job, plan = self.job, self._plan
        self._found_inf: Optional[Table] = None
        if self._scaler is not None:
            self._found_inf = job.table(_FOUND_INF, torch.zeros(1), optimizer=SGD(1.0))
        self._parameters = [
            _Parameter(one, job.table(one.name, one.initial(),
                                      optimizer=plan.server_optimizers[one.group]))
            for one in plan.parameters]
        self._buffers: Optional[Table] = None
        if plan.has_shared_state:
            self._buffers = job.table(_BUFFERS, plan.shared_state(), optimizer=SGD(1.0))

    def _take_values(self) -> None:
        """The servers' values and rank 0's buffers take the place of the program's."""
        self._gpus: dict[torch.device, Gpu] = {}
        for parameter in self._parameters:
            parameter.table.wait()
            parameter.attach(self._gpu_of(parameter.tensor))
        if self._buffers is not None:
            self._buffers.wait()
            self._plan.take_shared_state(values_of(self._buffers))
        if self._found_inf is not None:
            self._found_inf.wait()
            self._infs = float(values_of(self._found_inf)[0])

    def _gpu_of(self, tensor: torch.Tensor) -> Optional[Gpu]:
        if not tensor.is_cuda:
            return None
        return self._gpus.setdefault(tensor.device, Gpu(tensor.device))

    def _flush(self) -> None:
        for gpu in self._gpus.values():
            gpu.flush()

    # Forward.

    def _hook_model(self) -> None:
        by_tensor = {id(one.tensor): one for one in self._parameters}
        module: Any
        for module in self._model.modules():
            own = [by_tensor[id(tensor)] for tensor in module._parameters.values()
                   if id(tensor) in by_tensor]
            hook = module.register_forward_pre_hook(_BeforeForward(self, own))
            # Before hooks that compute with parameters, as those of weight_norm.
            hooks: Any = module._forward_pre_hooks
            hooks.move_to_end(hook.id, last=False)
            self._hooks.append(hook)
            self._hooks.append(module._register_state_dict_hook(_AfterStateDict(self, own)))
        model: Any = self._model
        self._hooks.append(
            model._register_load_state_dict_pre_hook(_BeforeLoad(self, self._parameters)))
        for parameter in self._parameters:
            self._hook_gradient(parameter)

    def _before_forward(self, module: torch.nn.Module, own: list[_Parameter]) -> None:
        if not self._has_begun:
            self._has_begun = True
            for parameter in self._unexpected:
                self._bring(parameter)
        if not (module.training and torch.is_grad_enabled()):
            self.wait()  # evaluation has short cuts past the modules that hold parameters
        for parameter in own:
            parameter.is_expected = True
            if not parameter.is_current:
                self._bring(parameter)

    def _bring(self, parameter: _Parameter) -> None:
        if parameter.is_current:
            return
        if self._gpus:
            self._flush()
        parameter.table.wait()
        parameter.carrier.bring()
        parameter.is_current = True

    def wait(self) -> None:
        """Waits until all parameters have the values of the next step. A program that reads
        parameters other than by forward and state_dict calls it first."""
        for parameter in self._parameters:
            self._bring(parameter)

    # Backward.

    def _hook_gradient(self, parameter: _Parameter) -> None:
        trainer = weakref.ref(self)

        def on_gradient(*unused: object) -> None:
            alive = trainer()
            if alive is not None:
                alive._on_gradient(parameter)

        tensor: Any = parameter.tensor
        if hasattr(tensor, "register_post_accumulate_grad_hook"):
            self._hooks.append(tensor.register_post_accumulate_grad_hook(on_gradient))
            return
        # Before torch 2.1: the node that accumulates the gradient, found by way of a view.
        node = tensor.expand_as(tensor).grad_fn.next_functions[0][0]
        self._hooks.append(node.register_hook(on_gradient))
        self._nodes.append(node)  # a node that nobody holds is made anew, without the hook

    def _on_gradient(self, parameter: _Parameter) -> None:
        gradient = parameter.tensor.grad
        if gradient is not None and gradient.layout is not torch.strided:
            raise InvalidArgument(f"the gradient of {parameter.name} is sparse, and tables are "
                                  "dense; make the embedding with sparse=False")
        if not parameter.is_expected:
            self._on_unexpected(parameter)
        if self._syncs and not self._defers:
            self._send(parameter)

    def _on_unexpected(self, parameter: _Parameter) -> None:
        """The parameter was used without the forward of a module that holds it."""
        if not parameter.is_current:
            raise WrongOrder(
                f"{parameter.name} was used by no forward of a module that holds it, so its values "
                "may have been old; call ct.wait() before each forward pass")
        if parameter not in self._unexpected:
            self._unexpected.append(parameter)

    def _send(self, parameter: _Parameter) -> None:
        if parameter.sent is not None:
            raise WrongOrder(
                f"a second gradient of {parameter.name} in one step; call ct.step() after each "
                "backward, or all but the last of a step within `with ct.no_sync():`")
        if not self._has_rates:
            self._send_rates()
        parameter.carrier.send(parameter.table.push_pull)
        gradient = parameter.tensor.grad
        assert gradient is not None
        parameter.sent = gradient
        parameter.sent_version = gradient._version
        parameter.is_current = False

    def _send_rates(self) -> None:
        """The learning rates of this step, where they have changed."""
        self._has_rates = True
        for i, group in enumerate(self._optimizer.param_groups):
            expect_unchanged(group, self._settings[i])
            rate = learning_rate(group)
            if rate != self._rates[i]:
                self._rates[i] = rate
                for parameter in self._parameters:
                    if parameter.group == i:
                        parameter.table.learning_rate = rate

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of a backward within are kept, and added to those of the step's last one."""
        before, self._syncs = self._syncs, False
        try:
            yield
        finally:
            self._syncs = before

    # The step.

    def _begin_step(self) -> None:
        self._has_begun = False
        self._has_rates = False
        for parameter in self._parameters:
            parameter.sent = None
            parameter.is_expected = False
            parameter.tensor.grad = None

    def step(self, loss: Union[float, torch.Tensor, None] = None, samples: int = 0) -> None:
        """Ends a step, in place of optimizer.step() and zero_grad(). Afterwards schedulers step.

        loss: the mean over `samples` samples, for progress and reports. A tensor on a GPU is waited
        for.
        Raises WrongOrder: the program has changed parameters, or gradients that had left.
        """
        for parameter in self._parameters:
            parameter.expect_untouched()
        self._plan.expect_frozen()
        if self._scaler is None or self._may_send(self._scaler):
            self._send_rest()
        self._flush()
        if isinstance(loss, torch.Tensor):
            loss = float(loss.detach())
        self.job.end_step(float("nan") if loss is None else loss, samples)
        for parameter in self._parameters:
            if parameter.sent is None:
                parameter.is_current = False
        self._begin_step()
        # Schedulers warn if no step came before theirs.
        self._optimizer._opt_called = True  # type: ignore[attr-defined]
        self._optimizer._step_count = self.job.step  # type: ignore[attr-defined]

    def _send_rest(self) -> None:
        """Sends the gradients that have not left, last layer first."""
        rest = [one for one in self._parameters
                if one.tensor.grad is not None and one.sent is None]
        if self._max_norm is not None and rest:
            torch.nn.utils.clip_grad_norm_([one.tensor for one in rest], self._max_norm)
        for parameter in reversed(rest):
            self._send(parameter)

    def _may_send(self, scaler: Any) -> bool:
        """Unscales the gradients, and agrees with the other workers whether all are finite."""
        assert self._found_inf is not None
        found: list[torch.Tensor] = []
        if any(one.tensor.grad is not None for one in self._parameters):
            scaler.unscale_(self._optimizer)
            found = list(scaler._found_inf_per_device(self._optimizer).values())
        has_inf = any(float(one) > 0 for one in found)
        # SGD with learning rate 1 counts: each worker with inf adds 1 / workers.
        self._found_inf.push_pull(torch.tensor([-float(has_inf)]))
        self._found_inf.wait()
        infs, before = float(values_of(self._found_inf)[0]), self._infs
        self._infs = infs
        for one in found:
            one.fill_(float(has_inf or infs != before))
        if found:
            scaler.update()
        return not has_inf and infs == before

    def finish(self) -> bool:
        """No further step. Waits until all workers have done theirs, which are equally many.

        Returns whether this worker evaluates; its model then has the final values. The others' jobs
        have ended.
        """
        is_evaluator = self.job.finish()
        for parameter in self._parameters:
            parameter.carrier.bring()
            parameter.is_current = True
        self._flush()
        return is_evaluator

    def detach(self) -> None:
        """Takes all hooks from the model and the optimizer."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._optimizer.step = self._optimizer_step  # type: ignore[method-assign]

    def _hook_optimizer(self) -> None:
        def refuse(*unused: object, **also_unused: object) -> None:
            raise WrongOrder("the servers step this optimizer; call ct.step() instead of "
                             "optimizer.step(), and ct.attach(..., grad_scaler=scaler) with a "
                             "GradScaler")

        # Learning rate schedulers look for these, and warn if they are not there.
        refuse._with_counter = True  # type: ignore[attr-defined]
        refuse._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
        self._optimizer_step = self._optimizer.step
        self._optimizer.step = refuse  # type: ignore[method-assign,assignment]


class _Hook:
    """A hook of a module. A copy of the module has one that does nothing."""

    def __init__(self, trainer: Optional[Trainer], parameters: list[_Parameter]) -> None:
        self._trainer = trainer
        self._parameters = parameters

    def __deepcopy__(self, memo: object) -> _Hook:
        return type(self)(None, [])

    def __call__(self, *arguments: Any) -> None:
        if self._trainer is not None:
            self._run(self._trainer, *arguments)

    def _run(self, trainer: Trainer, *arguments: Any) -> None:
        raise NotImplementedError


class _BeforeForward(_Hook):
    def _run(self, trainer: Trainer, *arguments: Any) -> None:
        trainer._before_forward(arguments[0], self._parameters)


class _AfterStateDict(_Hook):
    """The dictionary has the tensors now. Their values are complete when it returns."""

    def _run(self, trainer: Trainer, *unused: Any) -> None:
        for parameter in self._parameters:
            trainer._bring(parameter)


class _BeforeLoad(_Hook):
    def _run(self, trainer: Trainer, *arguments: Any) -> None:
        state, prefix = arguments[:2]
        for parameter in self._parameters:
            if prefix + parameter.name in state:
                raise WrongOrder(f"the servers hold {parameter.name}; call load_state_dict before "
                                 "ct.attach")


_attached: Optional[Trainer] = None


def attach(model: Model, optimizer: torch.optim.Optimizer, *, job: Optional[Job] = None,
           max_norm: Optional[float] = None, grad_scaler: Optional[Any] = None) -> Model:
    """Joins the job, and lets the servers run the optimizer from now on. Returns the model.

    The model begins with rank 0's values, or with the servers', if the job goes on from a checkpoint
    or has --initial. Waits until all the job's processes are there.

    optimizer: SGD, Adagrad, Adam or AdamW of torch.optim, with any parameter groups.
    job: capstan.connect() unless given.
    max_norm: clips this worker's own gradient to this total norm before it is pushed.
    grad_scaler: the GradScaler that scales the loss. Trainer says more about both.

    Raises InvalidArgument: servers cannot do what model and optimizer ask for, and what to do.
    """
    global _attached
    if _attached is not None:
        raise WrongOrder("a program attaches one model; put its parts into one module, or make a "
                         "ct.Trainer of each")
    _attached = Trainer(model, optimizer, job or _job.connect, max_norm=max_norm,
                        grad_scaler=grad_scaler)
    return model


def _trainer() -> Trainer:
    if _attached is None:
        raise WrongOrder("there is no attached model; call ct.attach first")
    return _attached


def step(loss: Union[float, torch.Tensor, None] = None, samples: int = 0) -> None:
    """Ends a step, in place of optimizer.step() and zero_grad(). Schedulers step afterwards.

    loss: the mean over `samples` samples, for progress and reports.
    """
    _trainer().step(loss, samples)


def no_sync() -> contextlib.AbstractContextManager[None]:
    """`with ct.no_sync():` keeps the gradients of a backward for those of the step's last one."""
    return _trainer().no_sync()


def wait() -> None:
    """Waits until all parameters have the values of the next step: before a program reads them other
    than by forward and state_dict."""
    _trainer().wait()


def finish() -> bool:
    """No further step. Waits until all workers have done theirs, which are equally many.

    Returns whether this worker evaluates; its model then has the final values.
    """
    return _trainer().finish()


def report(test_accuracy: float = float("nan"), test_loss: float = float("nan"),
           samples: int = 0) -> None:
    """The evaluator's result, for the job's summary: accuracy (0 to 1) and mean loss over `samples`
    held-out samples. Waits for the job's end."""
    _trainer().job.report(test_accuracy, test_loss, samples)


def next_step() -> int:
    """The step that comes next: 0 at first, unless the job goes on from a checkpoint, or this worker
    has taken the place of a lost one."""
    return _trainer().job.step


def rank() -> int:
    """This worker's rank, from 0. Before `attach`: the environment's RANK, or 0."""
    return int(os.environ.get("RANK", "0")) if _attached is None else _attached.job.rank


def world_size() -> int:
    """The number of workers. Before `attach`: the environment's WORLD_SIZE, or 1."""
    if _attached is None:
        return int(os.environ.get("WORLD_SIZE", "1"))
    return _attached.job.num_workers


def without_module_prefix(state_dict: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The state_dict of a model in DistributedDataParallel, for the model itself: without "module."
    before each name."""
    prefix = "module."
    return {name[len(prefix):] if name.startswith(prefix) else name: tensor
            for name, tensor in state_dict.items()}
