"""Several models of a program in one job, each with its optimizer."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Optional, Union

import torch

from capstan._alone_job import AloneJob
from capstan._errors import InvalidArgument, WrongOrder
from capstan._job import Job
from capstan._torch_alone import AloneTrainer
from capstan._torch_checkpoint import CheckpointStates
from capstan._torch_embedding_bag import EmbeddingBag
from capstan._torch_leftovers import Leftovers
from capstan._torch_trainer import Trainer


class TrainerGroup:
    """The trainers of ct.attach_together. In each step one of their optimizers steps.

    connect: the job, which is not started. None: there is none, and the program trains alone.
    """

    def __init__(self, connect: Optional[Callable[[], Job]]) -> None:
        self._connect = connect
        self._connected: Optional[Job] = None
        self._alone = AloneJob()
        self._trainers: list[Union[Trainer, AloneTrainer]] = []
        self._optimizers: list[torch.optim.Optimizer] = []
        self._names: list[str] = []
        self._names_of: dict[torch.Tensor, str] = {}  # all parameters

    def add(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, name: Optional[str],
            **options: Any) -> None:
        """As attach. The job starts later."""
        part = self._expect_name(name)
        self._expect_own(model, part)
        if self._connect is None:
            trainer: Union[Trainer, AloneTrainer] = AloneTrainer(
                model, optimizer, job=self._alone, part=part, **options)
        else:
            trainer = Trainer(model, optimizer, self._job_of_all, part=part, **options)
        self._trainers.append(trainer)
        self._optimizers.append(optimizer)
        self._names.append(part)
        for of_tensor, tensor in model.named_parameters():
            self._names_of[tensor] = f"{part}.{of_tensor}"

    def _job_of_all(self) -> Job:
        if self._connected is None:
            assert self._connect is not None
            self._connected = self._connect()
        return self._connected

    def _expect_name(self, name: Optional[str]) -> str:
        part = str(len(self._trainers)) if name is None else name
        if not isinstance(part, str) or not part or part.split(".")[0] == "capstan":
            raise InvalidArgument(f"name: expected text, and not capstan, got {part!r}")
        if part in self._names:
            raise InvalidArgument(f"name: two models are called {part}; give each its own")
        return part

    def _expect_own(self, model: torch.nn.Module, part: str) -> None:
        """Raises InvalidArgument if the model cannot be one of several."""
        for name, tensor in model.named_parameters():
            other = self._names_of.get(tensor)
            if other is not None:
                raise InvalidArgument(
                    f"{part}.{name} is the same parameter as {other}, and one optimizer steps it; "
                    "attach both models as one torch.nn.ModuleList with one optimizer, and a "
                    "group of parameters for each")
        for module in model.modules():
            if isinstance(module, EmbeddingBag):
                raise InvalidArgument(
                    f"EmbeddingBag {module.name} is in one of several models; attach them as one "
                    "torch.nn.ModuleList with one optimizer, and a group of parameters for each")

    def start(self) -> None:
        """Starts the job. All models begin with their values."""
        if not self._trainers:
            raise InvalidArgument("ct.attach_together: expected a ct.attach within")
        if self._connected is not None:
            self._connected.start()
        self.job: Union[Job, AloneJob] = self._connected or self._alone
        self._leftovers = Leftovers({name: one for one, name in self._names_of.items()})
        states: Optional[CheckpointStates] = None
        for trainer in self._trainers:
            trainer.begin(states)
            states = trainer.states
        self.states = self._trainers[0].states

    @property
    def is_over(self) -> bool:
        return self._trainers[0].is_over

    def step(self, loss: Union[float, torch.Tensor, None], samples: int,
             optimizer: Optional[torch.optim.Optimizer]) -> None:
        """Ends a step of this optimizer. The other models keep their gradients."""
        if optimizer is None:
            raise WrongOrder("several models are attached; name the optimizer that steps, as in "
                             "ct.step(loss, optimizer=optimizer)")
        for one, trainer in zip(self._optimizers, self._trainers):
            if one is optimizer:
                for other in self._trainers:
                    other.flush()
                trainer.step(loss, samples)
                self._pass_step(trainer, may_change=not self.job._keeps_values)
                self._leftovers.note_step(*self._split(optimizer))
                return
        raise InvalidArgument("optimizer: expected one that was given to ct.attach")

    def _split(self, stepped: torch.optim.Optimizer) -> tuple[list[torch.Tensor],
                                                              list[torch.Tensor]]:
        """The parameters of this optimizer, and those of the others."""
        parts: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
        for one in self._optimizers:
            for group in one.param_groups:
                parts[one is not stepped].extend(group["params"])
        return parts

    def _pass_step(self, done: Union[Trainer, AloneTrainer], may_change: bool) -> None:
        for trainer in self._trainers:
            if trainer is not done:
                trainer.pass_step(may_change)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients leave in `step` in any case."""
        yield

    def wait(self) -> None:
        for trainer in self._trainers:
            trainer.wait()

    @contextlib.contextmanager
    def join(self) -> Iterator[None]:
        """As Trainer.join. Any optimizer of the others may step meanwhile."""
        yield
        while self.job._others_go_on():
            for trainer in self._trainers:
                trainer.flush()
            self._trainers[0].end_empty_step()
            self._pass_step(self._trainers[0], may_change=True)

    def finish(self) -> bool:
        """As Trainer.finish."""
        self.states.save()
        is_evaluator = self.job.finish()
        for trainer in self._trainers:
            trainer.end(is_evaluator)
        self._leftovers.end()
        return is_evaluator
