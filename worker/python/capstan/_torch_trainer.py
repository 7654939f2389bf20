"""Training of one model whose optimizer runs on the servers."""

from __future__ import annotations

import contextlib
import warnings
import weakref
from typing import Any, Callable, Iterator, Optional, Union

import torch

from capstan._errors import WrongOrder
from capstan._job import Job
from capstan._torch_carriers import Gpus, SmallGradients
from capstan._torch_checkpoint import CheckpointStates, states_with
from capstan._torch_hooks import hook_modules, on_gradient
from capstan._torch_optimizers import expect_unchanged, give_to_servers
from capstan._torch_parameter import Parameter
from capstan._torch_plan import Plan
from capstan._torch_rates import SentRates
from capstan._torch_reads import NoDispatch, Views, checksum, has_compiled, waiting_class
from capstan._torch_refusals import (ADVICE_ON_GRADIENTS, expect_group_sizes, expect_max_norm,
                                     expect_one_loss, expect_replaceable, group_sizes,
                                     operation_between_steps, second_gradient, step_after_end)
from capstan._torch_rows import Rows
from capstan._torch_scaler import Scaler, expect_scaler
from capstan._torch_state import OptimizerState
from capstan._torch_structure import Structure
from capstan._torch_tables import add_tables


class Trainer:
    """A model whose optimizer runs on the servers of `job`, which is not started yet.

    ct.attach makes one, and the functions of capstan.torch call its methods. Use it alone in a
    program that takes part in several jobs.

    max_norm_per_worker: clips this worker's own gradient to this total norm, as clip_grad_norm_
    does, before it is pushed. The mean over the workers, which servers apply, is not clipped again.
    grad_scaler: the GradScaler that has scaled the loss. Gradients are unscaled before they are
    pushed. In BSP all workers skip a step in which one of them has found inf or NaN; in SSP and
    async a worker skips its own.
    With either, gradients leave in `step`, not in backward.
    overlap: without it gradients leave in `step`, which waits for the next values, and every change
    of parameters is noticed. Slower, and for debugging.
    part: the name of this model among several in one job. Who gives it starts the job, and calls
    begin. Gradients leave in `step`.
    """

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer,
                 job: Union[Job, Callable[[], Job]], *,
                 max_norm_per_worker: Optional[float] = None, grad_scaler: Optional[Any] = None,
                 overlap: bool = True, max_norm: object = None, part: str = "") -> None:
        expect_scaler(grad_scaler)
        expect_max_norm(max_norm_per_worker, max_norm)
        plan = Plan(model, optimizer, prefix=part and f"{part}.")
        self._suffix = part and f".{part}"
        self._model = model
        self._optimizer = optimizer
        self._plan = plan
        self._structure = Structure(model)
        self._max_norm = max_norm_per_worker
        scaler = grad_scaler if grad_scaler is not None and grad_scaler.is_enabled() else None
        self._overlaps = overlap
        self._defers = bool(self._max_norm or scaler is not None or not overlap or part)
        self._syncs = True
        self._group_sizes = group_sizes(optimizer)
        self._rates = SentRates(optimizer, plan.server_optimizers)
        self.is_over = False  # finish has returned, or the job is closed
        self._has_looked = False  # in this step, for a checkpoint that waits for the worker's state
        self._has_warned = False  # of a read between backward and the step's end
        self._nodes: list[object] = []
        self._num_steps = 0  # so far
        if isinstance(job, Job) and job._is_replaceable:
            expect_replaceable(model, grad_scaler=scaler, is_of_group=part)
        self.job = job if isinstance(job, Job) else job()
        self.job._advise_on_gradients(ADVICE_ON_GRADIENTS)
        self._scaler = None if scaler is None else Scaler(self.job, scaler)
        self._rows, self._parameters, self._buffers = add_tables(self.job, plan, self._suffix)
        self._state = OptimizerState(optimizer, plan.server_optimizers, self._parameters)
        self._state.load()
        self._hooks: list[Any] = []
        if not part:
            self.job.start()
            self.begin(None)

    def begin(self, others: Optional[CheckpointStates]) -> None:
        """The job has started. `others`: the states of its models before this one."""
        self._take_values()
        self.states = states_with(others, self.job, self._model, self._optimizer, self._suffix)
        if self._scaler is not None:
            self.states.add("capstan.grad_scaler" + self._suffix, self._scaler.scaler)
        self._hook_model()
        self._state.take_over()
        self._release_optimizer = give_to_servers(self._optimizer)
        self.job._call_at_end(weakref.WeakMethod(self._release))
        self.job._call_at_end(weakref.WeakMethod(self._state.release))
        self._begin_step()
        for parameter in self._parameters:
            parameter.end_wait()
            parameter.watch()

    def _take_values(self) -> None:
        """The servers' values and rank 0's buffers take the place of the program's."""
        self._gpus = Gpus()
        self._small = SmallGradients([one.tensor for one in self._parameters])
        classes: dict[type, Any] = {}
        views: dict[int, Views] = {}
        for parameter in self._parameters:
            kind = type(parameter.tensor)
            waiting = classes.setdefault(kind, waiting_class(kind, self._read))
            parameter.table.wait()
            parameter.attach(self._gpus.of(parameter.tensor), self._small, waiting, views)
        self._buffers.take()
        for (bag, _), rows in zip(self._plan.bags, self._rows):
            bag._rows = rows

    def expect_within_step(self) -> None:
        """Raises WrongOrder if another process in this one's place would not know of an operation of
        all workers here."""
        # Evaluation is no begin of a step: another process may leave it out.
        if self.job._is_replaceable and not (self._has_looked or self.job._may_end):
            raise operation_between_steps()

    # Forward.

    def _hook_model(self) -> None:
        self._by_tensor = {id(one.tensor): one for one in self._parameters}
        self._hooks += hook_modules(self, self._model, self._by_tensor)
        for parameter in self._parameters:
            hook, node = on_gradient(self, parameter)
            self._hooks.append(hook)
            self._nodes.append(node)

    def _before_forward(self, module: torch.nn.Module, own: list[Parameter]) -> None:
        if not self._has_begun:
            self._begin_forward()
        if not self._has_looked and module.training and torch.is_grad_enabled():
            self._look()
        if not (self._has_waited or (module.training and torch.is_grad_enabled())):
            self._bring_all()  # evaluation has short cuts past the modules that hold parameters
        for parameter in own:
            if not parameter.is_current:
                self._bring(parameter)

    def _look(self) -> None:
        """For a checkpoint that waits for the worker's state. Before the step's first push."""
        if not self._has_looked:
            self._has_looked = True
            self.states.begin_step()

    def _begin_forward(self) -> None:
        """The first forward of a step."""
        self._has_begun = True
        # It is usual that all values are there, if computing takes longer than exchanges.
        if self.job._has_all_values():
            for parameter in self._parameters:
                if not parameter.is_current:
                    parameter.end_wait()
                    if not parameter.is_small:
                        parameter.carrier.bring()
                    if self._watches:
                        parameter.watch()

    def _bring(self, parameter: Parameter) -> None:
        """Waits for the parameter's values, if it has older ones."""
        if parameter.is_current:
            return
        if parameter.sent is not None and not self._has_warned:
            self._has_warned = True
            warnings.warn(f"{parameter.name} was read after its gradient had left in backward, and "
                          "so has the values of the next step already; read parameters before "
                          "backward or after ct.step(), or give ct.attach(..., overlap=False)")
        self._gpus.finish_pushes()
        parameter.wait()
        parameter.end_wait()
        parameter.carrier.bring()
        if self._watches:
            parameter.watch()

    def _bring_all(self) -> None:
        for parameter in self._parameters:
            self._bring(parameter)
        self._has_waited = True

    def wait(self) -> None:
        """As capstan.torch.wait."""
        self._watches = True
        self._bring_all()

    # Other reads. waiting_class calls it.

    def _read(self, tensors: list[Any], operation: Callable[[], Any]) -> Any:
        """Waits for the tensors' values, and returns the operation's result."""
        parameters = [self._by_tensor[id(tensor)] for tensor in tensors]
        for parameter in parameters or self._parameters:
            self._bring(parameter)
        result = operation()
        for parameter in parameters:
            # A view may be written to. On a GPU it would take too long to look each time.
            if parameter.views.exist() and not (self._watches or parameter.tensor.is_cuda):
                parameter.watch()
        return result

    # Backward.

    def _send(self, parameter: Parameter) -> None:
        if parameter.sent is not None:
            raise second_gradient(parameter.name)
        self._look()
        if not self._has_rates:
            self._send_rates()
        # Without a forward, as with a gradient of the program's own, an exchange may be open.
        if not parameter.is_current:
            self._bring(parameter)
        parameter.expect_unchanged()
        gradient = parameter.tensor.grad
        assert gradient is not None
        parameter.sent = sent = parameter.carrier.send(gradient, parameter.push)
        parameter.sent_version = sent._version
        parameter.sent_checksum = checksum(sent) if self._watches else None
        parameter.begin_wait()
        self._has_waited = False

    def _send_rates(self) -> None:
        """The learning rates and momenta of this step, where they have changed."""
        self._has_rates = True
        expect_group_sizes(self._optimizer, self._group_sizes)
        for group, settings in zip(self._optimizer.param_groups, self._state.settings):
            expect_unchanged(group, settings)
        self._rates.send(self._parameters, self._rows)

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
        self._has_looked = False
        self._has_rates = False
        self._has_waited = False  # for all parameters
        # What the program does in each step is noticed in one of these.
        self._watches = not self._overlaps or self._num_steps & (self._num_steps - 1) == 0
        for parameter in self._parameters:
            if parameter.sent is None:
                parameter.begin_wait()
                parameter.drop_gradient()
            parameter.sent = None
            parameter.has_gradient = False
            if not parameter.is_small:
                parameter.carrier.clear()
        self._small.clear()

    def step(self, loss: Union[float, torch.Tensor, None] = None, samples: int = 0) -> None:
        """Ends a step, in place of optimizer.step() and zero_grad(). Afterwards schedulers step.

        loss: the mean over `samples` samples, for progress and reports. A tensor on a GPU is waited
        for.
        Raises WrongOrder: the program has changed parameters, or gradients that had left.
        """
        if self.is_over:
            raise step_after_end()
        expect_one_loss(loss)
        with NoDispatch():
            self._end_step(loss, samples)
        if not self._overlaps or has_compiled():
            self._bring_all()
            return
        for parameter in self._parameters:
            if not parameter.is_current and parameter.views.exist():
                self._bring(parameter)
                parameter.watch()

    def _end_step(self, loss: Union[float, torch.Tensor, None], samples: int,
                  has_batch: bool = True) -> None:
        self._structure.expect_unchanged()
        for parameter in self._parameters:
            parameter.expect_untouched()
        self._plan.expect_frozen()
        self._look()
        if not self._has_rates:
            self._send_rates()
        for rows in self._rows:
            rows.merge()
        if has_batch and self._may_send():
            self._send_rest()
        else:
            for rows in self._rows:
                rows.drop()
        for rows in self._rows:
            rows.push()
        self._state.end_loading()
        self._gpus.flush()
        if isinstance(loss, torch.Tensor):
            loss = float(loss.detach())
        self.job.end_step(float("nan") if loss is None else loss, samples)
        self._num_steps += 1
        self.states.note_step()
        self._begin_step()
        self._optimizer._step_count = self.job.step  # type: ignore[attr-defined]

    def flush(self) -> None:
        """Waits for copies between a GPU and the library's memory, which a step's end may change."""
        self._gpus.flush()

    def pass_step(self, may_change: bool) -> None:
        """Another model of the job has ended a step. may_change: also this one's values, by other
        workers."""
        self._has_looked = False
        self._state.end_loading()
        if not may_change:
            return
        self._has_begun = self._has_waited = False
        for parameter in self._parameters:
            parameter.begin_wait()
            parameter.end_watch()
        if has_compiled():
            self._bring_all()

    @contextlib.contextmanager
    def join(self) -> Iterator[None]:
        """As Job.join, around a loop with this trainer's steps."""
        yield
        while self.job._others_go_on():
            self.end_empty_step()

    def end_empty_step(self) -> None:
        """Ends a step without a batch."""
        with NoDispatch():
            self._end_step(None, samples=0, has_batch=False)

    def _send_rest(self) -> None:
        """Sends the gradients that have not left, last layer first."""
        rest = [one for one in self._parameters
                if one.sent is None and one.has_gradient_to_send()]
        sums = self._sums()
        if self._max_norm is not None and (rest or sums):
            torch.nn.utils.clip_grad_norm_([*(one.tensor for one in rest), *sums], self._max_norm)
        for parameter in reversed(rest):
            self._send(parameter)

    def _sums(self) -> list[torch.Tensor]:
        """Tensors whose gradients are those of the rows."""
        return [one.sums for one in self._rows if one.sums is not None]

    def _may_send(self) -> bool:
        """Whether the gradients of all workers are finite, if there is a scaler."""
        if self._scaler is None:
            return True
        has_gradients = any(one.has_gradient_to_send() for one in self._parameters)
        return self._scaler.may_send(self._optimizer, self._sums(), has_gradients)

    def finish(self) -> bool:
        """No further step. Waits until all workers have done theirs, which are equally many.

        Returns whether this worker evaluates; its model then has the final values. The others' jobs
        have ended. Model and optimizer are the program's alone again; the optimizer begins anew.
        """
        self.states.save()
        is_evaluator = self.job.finish()
        self.end(is_evaluator)
        return is_evaluator

    def end(self, is_evaluator: bool) -> None:
        """The job has finished."""
        for parameter in self._parameters:
            parameter.end_wait()
            parameter.carrier.bring()
        self._gpus.flush()
        self._release()
        self._state.end(can_read=is_evaluator)

    def _release(self) -> None:
        """The job is over for the model: it computes and trains alone from now on."""
        if self.is_over:
            return
        self.is_over = True
        for parameter in self._parameters:
            parameter.end_wait()
            parameter.tensor.grad = None
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._nodes.clear()
        self._release_optimizer()
