"""Training of a model of which the servers have the embedding bags alone."""

from __future__ import annotations

import contextlib
import weakref
from typing import Callable, Iterator, Union

import torch

from capstan._errors import InvalidArgument
from capstan._job import Job
from capstan._torch_checkpoint import CheckpointStates
from capstan._torch_hooks import hook_forwards
from capstan._torch_plan import bags_of
from capstan._torch_reads import NoDispatch
from capstan._torch_refusals import expect_one_loss, step_after_end
from capstan._torch_tables import add_rows


class BagsTrainer:
    """As ct.attach(..., dense="local") makes one: the rest of the model is the program's own, with its
    optimizer and whatever averages its gradients."""

    def __init__(self, model: torch.nn.Module, job: Union[Job, Callable[[], Job]]) -> None:
        bags = bags_of(model, None)
        if not bags:
            raise InvalidArgument("dense=\"local\": expected a model with ct.EmbeddingBag or "
                                  "ct.Embedding, as nothing else is on the servers then")
        self.is_over = False  # finish has returned, or the job is closed
        self._has_looked = False  # in this step, for a checkpoint that waits for the worker's state
        self.job = job if isinstance(job, Job) else job()
        self._rows = add_rows(self.job, bags)
        self.job.start()
        for (bag, _), rows in zip(bags, self._rows):
            bag._rows = rows
        self.states = CheckpointStates(self.job)
        self._hooks = hook_forwards(self, model)
        self.job._call_at_end(weakref.WeakMethod(self._release))

    def _before_forward(self, module: torch.nn.Module, unused: object) -> None:
        if module.training and torch.is_grad_enabled():
            self._look()

    def _look(self) -> None:
        """For a checkpoint that waits for the worker's state. Before the step's push."""
        if not self._has_looked:
            self._has_looked = True
            self.states.begin_step()

    def step(self, loss: Union[float, torch.Tensor, None] = None, samples: int = 0) -> None:
        """Ends a step: the gradients of the rows leave."""
        if self.is_over:
            raise step_after_end()
        expect_one_loss(loss)
        if isinstance(loss, torch.Tensor):
            loss = loss.detach()
        self._end_step(float("nan") if loss is None else float(loss), samples)

    def _end_step(self, loss: float, samples: int) -> None:
        self._look()
        with NoDispatch():
            for rows in self._rows:
                rows.merge()
                rows.push()
            self.job.end_step(loss, samples)
        self.states.note_step()
        self._has_looked = False

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """Gradients of rows leave in `step` in any case."""
        return contextlib.nullcontext()

    def wait(self) -> None:
        """Parameters are the program's own."""

    @contextlib.contextmanager
    def join(self) -> Iterator[None]:
        """As Job.join, around a loop with this trainer's steps."""
        yield
        while self.job._others_go_on():
            self._end_step(float("nan"), samples=0)

    def finish(self) -> bool:
        """No further step. Returns whether this worker evaluates: it alone can read rows then."""
        self.states.save()
        is_evaluator = self.job.finish()
        self._release()
        return is_evaluator

    def _release(self) -> None:
        self.is_over = True
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
