"""Training of a model whose optimizer the program runs: the servers average the gradients."""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
import weakref
import zlib
from typing import Any, Callable, Iterable, Iterator, Optional, Union

import torch
from torch.utils._pytree import tree_flatten

from capstan._alone_job import AloneJob, expect_progress
from capstan._errors import InvalidArgument, LeftJob, WrongOrder
from capstan._job import Job
from capstan._torch_checkpoint import states_with
from capstan._torch_here_parameter import HereParameter
from capstan._torch_here_state import HereState
from capstan._torch_hooks import Hook, after_gradient, hook_forwards
from capstan._torch_optimizers import replace_step
from capstan._torch_plan import Plan
from capstan._torch_ranks import Ranks, RanksJob, job_of, sharded_modules
from capstan._torch_refusals import (expect_group_sizes, expect_one_loss, group_sizes,
                                     second_gradient, step_after_end)
from capstan._torch_shared_state import bits_of, view_of
from capstan._torch_structure import Structure
from capstan._torch_tables import Buffers

_CHECKPOINT = "torch.utils.checkpoint"
_MOST_UNSTEPPED = 20


class HereTrainer:
    """Each worker steps its own optimizers with the mean of all workers' gradients, as with DDP.

    A gradient leaves as soon as backward has made it. When backward ends, the parameters' gradients
    are the means. A step is from one `step` to the next, with one backward outside of no_sync.

    ranks: those that are this worker. Gradients then leave when backward has ended.
    """

    def __init__(self, model: torch.nn.Module, optimizers: Iterable[torch.optim.Optimizer],
                 job: Union[Job, AloneJob, Callable[[], Job]], ranks: Optional[Ranks] = None) -> None:
        optimizers = list(optimizers)
        _expect_apart(optimizers)
        for optimizer in optimizers:
            _expect_usual(optimizer)
        self._ranks = ranks
        self._sharded = [] if ranks is None else sharded_modules(model)
        self._reshard()
        self._plan = Plan(model, *optimizers, runs_here=True, ranks=ranks)
        self.optimizers = optimizers
        self._structure = Structure(model)
        self._group_sizes = [group_sizes(one) for one in optimizers]
        self.job = job_of(ranks, job, self._plan.parameters)
        self.is_over = False  # finish has returned
        self._syncs = True
        self._unstepped = 0  # steps since an optimizer has stepped
        self._lock = threading.Lock()  # backward has a thread for each device
        self._has_looked = False  # in this step, for a checkpoint that waits for the state
        self._parameters = [HereParameter(one, ranks) for one in self._plan.parameters]
        if not isinstance(self.job, AloneJob):
            self._start(self.job)
        self._state = HereState(self.job, optimizers, self._parameters)
        self.states = states_with(None, self.job, model, optimizers[0], "")
        self.states.add("capstan.optimizer", self._state)
        self._state.keeps = True
        self._begin_step()
        self._hooks: list[Any] = []
        self._nodes: list[object] = []  # that have to live as long
        self._hook_model(model)
        self._releases = [self._hook_optimizer(one) for one in optimizers]
        if not isinstance(self.job, AloneJob):
            self.job._advise_on_gradients(
                "Lossy codecs cannot send it: with a GradScaler start the job without --push_codec "
                "and --pull_codec")
            self.job._call_at_end(weakref.WeakMethod(self._release))

    def _start(self, job: Union[Job, RanksJob]) -> None:
        """From then on all workers have the same parameters and buffers."""
        for one in self._parameters:
            one.late = one.planned.table(job, replies_mean=True)
        buffers = Buffers(job, self._plan)
        job.start()
        for one in self._parameters:
            one.begin()
        buffers.take()

    def _hook_model(self, model: torch.nn.Module) -> None:
        self._hooks += hook_forwards(self, model)
        trainer = weakref.ref(self)
        if self._ranks is not None:
            self._hooks.append(model.register_forward_hook(AfterForward(self, {})))
            return  # FSDP makes gradients past autograd
        for one in self._parameters:
            def on_gradient(*unused: object, one: HereParameter = one) -> None:
                alive = trainer()
                if alive is not None and alive._syncs:
                    alive._send(one)

            hook, node = after_gradient(one.tensor, on_gradient)
            self._hooks.append(hook)
            self._nodes.append(node)

    def _hook_optimizer(self, optimizer: torch.optim.Optimizer) -> Callable[[], None]:
        """optimizer.step() comes after the step's backward: gradients are not the means before."""
        own_step = optimizer.step
        trainer = weakref.ref(self)

        def step(closure: Any = None, **further: Any) -> Any:
            alive = trainer()
            if alive is not None:
                if not alive._has_means and closure is None:
                    raise _without_backward("optimizer.step()")
                alive._unstepped = 0
                optimizer._step_count = alive.job.step + 1  # type: ignore[attr-defined]
            return own_step(closure, **further) if closure is not None else own_step(**further)

        return replace_step(optimizer, step)

    def _before_forward(self, module: torch.nn.Module, unused: object) -> None:
        if not self._has_looked and module.training and torch.is_grad_enabled():
            self._look()

    def _look(self) -> None:
        """For a checkpoint that waits for the worker's state. Before the step's first push."""
        if not self._has_looked:
            self._has_looked = True
            self._state.begin_step()
            self.states.begin_step()

    def _begin_step(self) -> None:
        self._has_looked = False
        self._awaits_end = False  # of a backward that makes gradients to send
        self._has_means = False
        for one in self._parameters:
            one.is_sent = False
            one.tensor.grad = None

    def _send(self, one: HereParameter) -> None:
        """Backward has made the parameter's gradient."""
        if one.is_sent:
            raise second_gradient(one.name)
        with self._lock:
            is_first, self._awaits_end = not self._awaits_end, True
            if is_first:
                _expect_outermost(one.name)
                engine: Any = torch.autograd.Variable._execution_engine
                engine.queue_callback(self._end_backward)
                self._look()
        one.send()

    def _begin_backward(self) -> None:
        """Of several ranks: backward has reached the model's outputs."""
        if self.is_over or not self._syncs:
            return
        if self._has_means:
            raise second_gradient("the model")
        is_first, self._awaits_end = not self._awaits_end, True
        if is_first:
            # Behind the callbacks in which FSDP and DDP make their last gradients, which may not be
            # queued yet: one that a callback queues comes after all of them.
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(lambda: engine.queue_callback(self._end_backward))

    def _end_backward(self) -> None:
        try:
            self._exchange()
        except LeftJob:
            self._has_means = True  # ct.step() raises it, too; as in after_gradient

    def _exchange(self) -> None:
        """Backward has ended. Sends what is left, and waits for the means."""
        if self._has_means:
            return
        self._look()
        if self._ranks is not None:
            self._exchange_of(self._ranks)
        else:
            for one in reversed(self._parameters):
                if not one.is_sent:
                    one.send()
            for one in self._parameters:
                one.take_mean(one.has_new_mean())
        self._has_means = True

    def _exchange_of(self, ranks: Ranks) -> None:
        has_gradient = ranks.any([one.tensor.grad is not None for one in self._parameters])
        for one, has in zip(reversed(self._parameters), reversed(has_gradient)):
            one.send_of_ranks(has)
        # A rank without rows of a tensor has an empty gradient, if the others have one.
        are_new = ranks.any([one.has_new_mean() for one in self._parameters])
        for one, is_new in zip(self._parameters, are_new):
            one.take_mean(is_new)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of a backward within are kept, and added to those of the step's last one."""
        before, self._syncs = self._syncs, False
        try:
            yield
        finally:
            self._syncs = before

    def step(self, loss: Union[float, torch.Tensor, None] = None, samples: int = 0) -> None:
        """Ends a step, after optimizer.step(), and clears gradients.

        Raises WrongOrder: there was no backward in this step.
        """
        if self.is_over:
            raise step_after_end()
        expect_one_loss(loss)
        if isinstance(loss, torch.Tensor):
            loss = float(loss.detach())
        expect_progress(loss, samples)
        self._reshard()
        self._structure.expect_unchanged()
        self._plan.expect_frozen()
        for optimizer, sizes in zip(self.optimizers, self._group_sizes):
            expect_group_sizes(optimizer, sizes)
        if not self._has_means:
            raise _without_backward("ct.step()")
        # A GradScaler leaves some out.
        self._unstepped += 1
        if self._unstepped == _MOST_UNSTEPPED:
            warnings.warn(f"no optimizer has stepped in {_MOST_UNSTEPPED} steps; call "
                          "optimizer.step() before ct.step()")
        self._end_step(loss, samples)

    def _reshard(self) -> None:
        for module in self._sharded:
            module.reshard()

    def _end_step(self, loss: Optional[float], samples: int) -> None:
        if isinstance(self.job, AloneJob):
            self.job.end_step()
        else:
            self.job.end_step(float("nan") if loss is None else loss, samples)
        self.states.note_step()
        self._begin_step()

    def wait(self) -> None:
        """Parameters always have their values."""

    @contextlib.contextmanager
    def join(self, update: Optional[Callable[[], Any]] = None) -> Iterator[None]:
        """As Job.join, around a loop with this trainer's steps.

        update: what the loop does between backward and `step`; optimizer.step() unless given.
        """
        yield
        while self.job._others_go_on():
            self._exchange()
            (update or self._step_all)()
            self._end_step(None, samples=0)

    def _step_all(self) -> None:
        for optimizer in self.optimizers:
            optimizer.step()

    def finish(self) -> bool:
        """No further step. Model and optimizers are the program's alone again."""
        if not self.is_over:
            self._state.begin_step()  # of a job that had no step left
            self._state.is_last = True
            self.states.save()
            self._expect_equal()
            self._release()
        return self.job.finish()

    def _release(self) -> None:
        """The job is over for the model: it computes and trains alone from now on."""
        if self.is_over:
            return
        self.is_over = True
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._nodes.clear()
        for one in self._parameters:
            one.tensor.grad = None
        for release in self._releases:
            release()

    def _expect_equal(self) -> None:
        """Warns if the workers' parameters differ. The servers have rank 0's."""
        checksum = 0
        for one in self._parameters:
            bits = bits_of(one.tensor)
            checksum = zlib.crc32(view_of(bits), checksum)
        if int(self.job.all_reduce(checksum, "max")) != int(self.job.all_reduce(checksum, "min")):
            warnings.warn("the workers' parameters differ, and the job keeps rank 0's; each worker "
                          "has to step its optimizer in the same way, with the same rates")


class AfterForward(Hook):
    """Tells the trainer of the begin of each backward through the model."""

    def _run(self, trainer: Any, *arguments: Any) -> None:
        if not torch.is_grad_enabled():
            return
        reference = weakref.ref(trainer)

        def begin_backward(unused: torch.Tensor) -> None:
            alive = reference()
            if alive is not None:
                alive._begin_backward()

        for one in tree_flatten(arguments[-1])[0]:
            if isinstance(one, torch.Tensor) and one.requires_grad:
                one.register_hook(begin_backward)  # type: ignore[no-untyped-call]


def _without_backward(call: str) -> WrongOrder:
    return WrongOrder(f"{call} came before the backward of its step; a worker without a batch calls "
                      "backward on a loss of zero, or goes on in `with ct.join():`")


def _expect_outermost(name: str) -> None:
    """Raises WrongOrder within the backward of a reentrant checkpoint, whose end is not the end of
    the step's backward."""
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "backward" and frame.f_globals.get("__name__") == _CHECKPOINT:
            raise WrongOrder(f"the gradient of {name}, the first one, was made within a checkpoint; "
                             "give torch.utils.checkpoint.checkpoint(..., use_reentrant=False)")
        frame = frame.f_back


def _expect_apart(optimizers: list[torch.optim.Optimizer]) -> None:
    if not optimizers or not all(isinstance(one, torch.optim.Optimizer) for one in optimizers):
        raise InvalidArgument(f"expected an optimizer or a list of them, got {optimizers!r}")
    tensors = [id(tensor) for one in optimizers for group in one.param_groups
               for tensor in group["params"]]
    if len(tensors) != len(set(tensors)):
        raise InvalidArgument("two of the optimizers have a parameter in common; give each its own")


def _expect_usual(optimizer: torch.optim.Optimizer) -> None:
    name = type(optimizer).__name__
    if isinstance(optimizer, torch.optim.LBFGS):
        raise InvalidArgument(f"{name} computes many gradients in a step, and a step here has one; "
                              "use another optimizer")
    if isinstance(optimizer, torch.optim.SparseAdam):
        raise InvalidArgument(f"{name} needs sparse gradients, and the mean of gradients is dense; "
                              "use Adam, or ct.EmbeddingBag for large embeddings")
