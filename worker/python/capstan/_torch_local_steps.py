"""Local steps: each worker trains alone for many steps, and then exchanges once."""

from __future__ import annotations

import contextlib
import math
import time
import weakref
from typing import Any, Callable, Iterable, NoReturn, Optional, Sequence, Union

import torch

from capstan._alone_job import AloneJob, expect_progress
from capstan._errors import InvalidArgument, WrongOrder
from capstan._job import Job
from capstan._local_rounds import Rhythm, Rounds
from capstan._optimizers import SGD, Optimizer
from capstan._torch_checkpoint import states_with
from capstan._torch_fragments import Fragment, LocalParameter, split
from capstan._torch_hooks import hook_forwards
from capstan._torch_optimizers import replace_step, restore_groups
from capstan._torch_plan import Plan
from capstan._torch_ranks import Ranks, RanksJob, is_sharded, job_of, of_parts, own_part, sharded_modules
from capstan._torch_refusals import expect_one_loss, step_after_end
from capstan._torch_structure import Structure
from capstan._torch_tables import Buffers

OUTER = SGD(lr=0.7, momentum=0.9, nesterov=True)
# Two arrays of Adam for 4 million parameters. A worker's states have at most 64 MiB together.
_MOST_KEPT_ELEMENTS = 1 << 22


class LocalStepsTrainer:
    """As capstan.torch.LocalSteps, which says what the arguments are.

    job: one that is not started, or what connects to one.
    ranks: those that are this worker.
    clock: seconds, as time.monotonic.
    """

    def __init__(self, model: torch.nn.Module,
                 inner: Union[torch.optim.Optimizer, Iterable[torch.optim.Optimizer]],
                 job: Union[Job, AloneJob, Callable[[], Job]], *, sync_every: Optional[int] = None,
                 outer: Optimizer = OUTER, fragments: int = 1, fragment_sync_delay: int = 0,
                 fragment_update_alpha: Optional[float] = None,
                 round_seconds: Optional[float] = None, keep_inner_state: Optional[bool] = None,
                 ranks: Optional[Ranks] = None,
                 clock: Callable[[], float] = time.monotonic) -> None:
        inners = [inner] if isinstance(inner, torch.optim.Optimizer) else list(inner)
        if not inners or not all(isinstance(one, torch.optim.Optimizer) for one in inners):
            raise InvalidArgument(f"inner: expected an optimizer or a list of them, got {inner!r}")
        if not isinstance(outer, Optimizer):
            raise InvalidArgument("outer: expected an optimizer of the servers, such as "
                                  f"capstan.SGD(0.7, momentum=0.9, nesterov=True), got {outer!r}")
        self._rhythm = Rhythm.of(sync_every, round_seconds, fragments, fragment_sync_delay)
        if ranks is not None and self._rhythm.round_seconds > 0:
            raise InvalidArgument("round_seconds: not with group, whose ranks do the same number of "
                                  "local steps; give sync_every")
        self._alpha = _expect_share("fragment_update_alpha", fragment_update_alpha)
        self._ranks = ranks
        self._sharded = [] if ranks is None else sharded_modules(model)
        self._reshard()
        self._plan = Plan(model, *inners, runs_here=True, ranks=ranks)
        if fragments > len(self._plan.parameters):
            raise InvalidArgument(f"fragments: expected at most {len(self._plan.parameters)}, one "
                                  f"for each parameter tensor, got {fragments}")
        self._structure = Structure(model)
        self._inners = inners
        self._stepped = [0] * len(inners)  # by each, since the job began here
        self.job = job_of(ranks, job, self._plan.parameters)
        self.is_over = False  # finish has returned, or the job is closed
        self.is_evaluator = False  # what it has returned
        self.seconds_waiting = 0.0  # for new values, so far
        self.drift = 0.0  # norm of what the last round has changed, over the norm of the values
        self._loss = _Mean()
        self._samples = 0
        self._squares = [0.0, 0.0]  # of the round's differences, and of the values
        self._has_looked = False  # in this round, for a checkpoint that waits for the state
        self._fragments: list[Fragment] = []
        if not isinstance(self.job, AloneJob):
            self._start(self.job, outer)
        self._state = InnerState(inners)
        self.states = states_with(None, self.job, model, inners[0], "")
        if self._keeps_state(keep_inner_state):
            self.states.add("capstan.inner_optimizer", self._state)
        self._hooks = hook_forwards(self, model)  # which change buffers and random generators
        self._releases = [self._hook(one, number) for number, one in enumerate(inners)]
        if not isinstance(self.job, AloneJob):
            self.job._advise_on_gradients(
                "The model itself has values that are not finite: try a smaller lr of the inner "
                "optimizer, or clip gradients before inner.step()")
            self.job._call_at_end(weakref.WeakMethod(self._release))
        self._clock = clock
        self._rounds = Rounds(self._rhythm, clock)

    def _start(self, job: Union[Job, RanksJob], outer: Optimizer) -> None:
        """From then on all workers have the same parameters and buffers."""
        parameters = [LocalParameter(one, one.table(job, optimizer=outer), self._ranks)
                      for one in self._plan.parameters]
        buffers = Buffers(job, self._plan)
        job._set_local_steps(self._rhythm.sync_every, self._rhythm.round_seconds,
                             self._rhythm.fragments, self._rhythm.delay)
        job.start()
        for one in parameters:
            one.begin()
        self._wait_for(parameters)
        for one in parameters:
            one.replace()
        buffers.take()
        self._fragments = [Fragment([parameters[index] for index in indices])
                           for indices in split(self._plan.parameters, self._rhythm.fragments)]

    def _keeps_state(self, wanted: Optional[bool]) -> bool:
        if wanted is not None:
            return wanted
        # Each rank's state is kept, which is of a part or of the whole.
        ranks = 1 if self._ranks is None else self._ranks.size
        elements = sum(one.tensor.numel() * (1 if is_sharded(one.tensor) else ranks)
                       for one in self._plan.parameters)
        return elements <= _MOST_KEPT_ELEMENTS

    def _hook(self, optimizer: torch.optim.Optimizer, number: int) -> Callable[[], None]:
        own_step = optimizer.step
        trainer = weakref.ref(self)

        def step(closure: Any = None, **further: Any) -> Any:
            alive = trainer()
            if alive is not None:
                alive._begin_inner_step()
            result = own_step(closure, **further) if closure is not None else own_step(**further)
            if alive is not None:
                alive._end_inner_step(number)
            return result

        return replace_step(optimizer, step)

    @property
    def rounds(self) -> int:
        """Rounds done, also those before a checkpoint from which the job goes on."""
        return self.job.step

    @property
    def local_step(self) -> int:
        """Local steps done in the round that is under way. 0: between two rounds."""
        return self._rounds.local_step

    # A local step.

    def _before_forward(self, module: torch.nn.Module, unused: object) -> None:
        if not self._has_looked and module.training and torch.is_grad_enabled():
            self._look()

    def _begin_inner_step(self) -> None:
        if self.is_over:
            raise step_after_end()
        self._look()

    def _look(self) -> None:
        """For a checkpoint that waits for the worker's state: before the round changes it, but once
        its values have come, for which it would wait."""
        if not self._has_looked and not (self._fragments and self._fragments[0].is_open):
            self._has_looked = True
            self._state.begin_round()
            self.states.begin_step()

    def _end_inner_step(self, number: int) -> None:
        """The inner optimizer of this number has stepped."""
        self._stepped[number] += 1
        self._inners[number]._step_count = self._stepped[number]  # type: ignore[attr-defined]
        if min(self._stepped) <= self._rounds.total:
            return  # the step is done once all of them have stepped
        pushes = self._rounds.note_step()
        for fragment in self._fragments:
            if fragment.due is not None and self._rounds.total >= fragment.due:
                self._take(fragment)
        self._look()  # with a delay the round has begun before its values came
        self._push(pushes)

    def _push(self, pushes: int) -> None:
        """Pushes so many further fragments, and ends the round with the last one."""
        first = self._rounds.pushed - pushes
        pushed = self._fragments[first:self._rounds.pushed]
        for fragment in pushed:
            self._send(fragment)
        is_over = self._rounds.is_over
        if is_over:
            self._end_round()
        if self._rhythm.delay == 0:
            for fragment in pushed:
                self._take(fragment)
        if is_over:
            self._rounds.begin()

    def _send(self, fragment: Fragment) -> None:
        if fragment.is_open:
            self._take(fragment)  # a round by time may have few steps
        self._look()
        keeps = self._rhythm.delay > 0 and self._alpha is None
        for one in reversed(fragment.parameters):
            difference, values = one.push(keeps)
            self._squares[0] += difference
            self._squares[1] += values
        fragment.due = self._rounds.total + self._rhythm.delay

    def _wait_for(self, parameters: Iterable[LocalParameter]) -> None:
        """For their new values."""
        shared = [one for one in parameters if one.is_shared]

        def wait() -> None:
            for one in shared:
                one.wait()

        if self._ranks is not None and shared:
            self._ranks.from_first(wait)
        for one in parameters:
            if not one.is_shared:
                one.wait()

    def _take(self, fragment: Fragment) -> None:
        """Waits for the fragment's new values, and brings them into the model."""
        fragment.due = None
        began = self._clock()
        self._wait_for(fragment.parameters)
        self.seconds_waiting += self._clock() - began
        self._reshard()
        for one in fragment.parameters:
            if self._alpha is not None:
                one.blend(self._alpha)
            elif self._rhythm.delay == 0:
                one.replace()
            else:
                one.keep()

    def _reshard(self) -> None:
        for module in self._sharded:
            module.reshard()

    def _end_round(self) -> None:
        self._reshard()
        self._structure.expect_unchanged()
        self._plan.expect_frozen()
        if self._ranks is not None:
            squares = torch.tensor(self._squares, dtype=torch.float64, device="cpu")
            self._ranks.combine(squares, "sum")
            self._squares = squares.tolist()
        self.drift = math.sqrt(self._squares[0] / self._squares[1]) if self._squares[1] > 0 else 0.0
        loss, samples = self._loss.value, self._samples
        self._loss, self._samples = _Mean(), 0
        self._squares = [0.0, 0.0]
        if isinstance(self.job, AloneJob):
            self.job.end_step()
        else:
            self.job._note_round(self._rounds.local_step, self.drift)
            self.job.end_step(loss, samples)
        self.states.note_step()
        self._has_looked = False

    # What a program calls through capstan.torch.

    def step(self, loss: Union[float, torch.Tensor, None] = None, samples: int = 0) -> None:
        """Notes the loss of a local step, for progress and reports. It counts in the round that is
        under way."""
        if self.is_over:
            raise step_after_end()
        expect_one_loss(loss)
        if isinstance(loss, torch.Tensor):
            loss = float(loss.detach())
        expect_progress(loss, samples)
        self._samples += samples
        if loss is not None:
            self._loss.add(loss, samples or 1)

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """Gradients stay in the worker in any case."""
        return contextlib.nullcontext()

    def wait(self) -> None:
        """Parameters are the program's own."""

    def join(self) -> NoReturn:
        raise InvalidArgument("ct.join: with local steps all workers do the same number of rounds; "
                              "give round_seconds=, or end all loops by ct.stop between two rounds")

    def finish(self) -> bool:
        """No further step. The rest of a round counts as one. Returns whether this worker evaluates;
        its model then has the final values, and the others' those of their last round."""
        if self.is_over:
            raise WrongOrder("the job is over for this model")
        may_push = isinstance(self.job, AloneJob) or not self.job._may_end
        if self._rounds.local_step > 0 and may_push:
            before = self._rounds.pushed
            self._rounds.push_rest()
            self._push(self._rhythm.fragments - before)
        for fragment in self._fragments:
            if fragment.is_open:
                self._take(fragment)
        self.states.save()
        self.is_evaluator = self.job.finish()
        self._reshard()
        for fragment in self._fragments:
            for one in fragment.parameters:
                one.replace()
        self._release()
        return self.is_evaluator

    def __enter__(self) -> LocalStepsTrainer:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], *unused: object) -> None:
        """Without an error the job is finished, unless the program has done that."""
        if kind is None and not self.is_over:
            self.finish()

    def _release(self) -> None:
        """The job is over for the model: it computes and trains alone from now on."""
        if self.is_over:
            return
        self.is_over = True
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        for release in self._releases:
            release()


class InnerState:
    """The states of the inner optimizers, as a part of the worker's own state. A rank has its own parts
    of sharded tensors."""

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._optimizers = optimizers
        self._restored_groups: list[list[dict[str, Any]]] = []  # until the first round begins

    def state_dict(self) -> dict[str, Any]:
        return {"optimizers": [_with(one, one.state_dict(), lambda index, value: own_part(value))
                               for one in self._optimizers]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        wholes = state["optimizers"]
        if len(wholes) != len(self._optimizers):
            raise InvalidArgument(f"the checkpoint is of {len(wholes)} inner optimizers, got "
                                  f"{len(self._optimizers)}; make the same ones")
        for one, whole in zip(self._optimizers, wholes):
            tensors = [tensor for group in one.param_groups for tensor in group["params"]]
            one.load_state_dict(_with(one, whole, lambda index, value: _like(value, tensors[index])))
        self._restored_groups = [whole["param_groups"] for whole in wholes]

    def begin_round(self) -> None:
        restored, self._restored_groups = self._restored_groups, []
        restore_groups(self._optimizers, restored)


def _with(optimizer: torch.optim.Optimizer, whole: dict[str, Any],
          change: Callable[[int, Any], Any]) -> dict[str, Any]:
    """The state_dict of an optimizer of sharded parameters, with each value of a parameter's state as
    `change` makes it from the parameter's index and the value. Another one's as it is."""
    if not any(is_sharded(one) for group in optimizer.param_groups for one in group["params"]):
        return whole
    return {**whole, "state": {index: {name: change(index, value) for name, value in state.items()}
                               for index, state in whole["state"].items()}}


def _like(value: Any, tensor: torch.Tensor) -> Any:
    """The value of a parameter's state: sharded, if the parameter is, and this is a part of it."""
    is_part = (is_sharded(tensor) and isinstance(value, torch.Tensor)
               and value.shape == own_part(tensor).shape)
    return of_parts(value, tensor) if is_part else value


class _Mean:
    """A mean with weights; NaN of nothing."""

    def __init__(self) -> None:
        self._sum = self._weight = 0.0

    def add(self, value: float, weight: float) -> None:
        self._sum += weight * value
        self._weight += weight

    @property
    def value(self) -> float:
        return self._sum / self._weight if self._weight > 0 else float("nan")


def _expect_share(name: str, value: Optional[float]) -> Optional[float]:
    if value is not None and not (isinstance(value, (int, float)) and 0 <= value < 1):
        raise InvalidArgument(f"{name}: expected a number from 0 to below 1, or None to keep what was "
                              f"done meanwhile, got {value!r}")
    return value
