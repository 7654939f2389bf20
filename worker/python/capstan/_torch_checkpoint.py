"""What a worker keeps from step to step beside the parameters: it travels into checkpoints and back."""

from __future__ import annotations

import io
import random
import sys
import warnings
import zlib
from typing import Any, Iterator, Optional, Protocol

import torch

from capstan._errors import Error, InvalidArgument, WrongOrder
from capstan._torch_optimizers import learning_rate, momentum, set_momentum
from capstan._torch_shared_state import bits_of, view_of

_BUFFERS = "capstan.buffers"
_RATES = "capstan.learning_rates"


class StateKeeper(Protocol):
    """The job, as far as it keeps the worker's state."""

    def worker_state(self, name: str) -> Optional[bytes]: ...

    def put_worker_state(self, name: str, data: bytes) -> None: ...

    def worker_state_is_due(self) -> bool: ...

    @property
    def step(self) -> int: ...


class CheckpointStates:
    """The named objects of ct.checkpoint_state. A checkpoint that was cut before a step has them as
    they are when the step's first forward with gradients begins."""

    def __init__(self, job: StateKeeper) -> None:
        self._job = job
        self._objects: dict[str, Any] = {}
        self._rates: list[Rates] = []
        self._begun = -1  # the last step that has begun

    def add_model(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer,
                  part: str) -> None:
        """part: the end of the names of what is kept of this model."""
        self._rates.append(Rates(optimizer))
        self.add(_RATES + part, self._rates[-1])
        buffers = Buffers(model)
        if buffers.exist:
            self.add(_BUFFERS + part, buffers)

    def add(self, name: str, thing: Any) -> None:
        """Gives the object its state of the checkpoint from which the job goes on."""
        if name in self._objects:
            raise InvalidArgument(f"checkpoint_state: the name {name!r} is given twice")
        for method in ("state_dict", "load_state_dict"):
            if not callable(getattr(thing, method, None)):
                raise InvalidArgument(
                    f"checkpoint_state {name!r}: expected an object with state_dict and "
                    f"load_state_dict, got {type(thing).__name__} without {method}")
        restored = self._job.worker_state(name)
        if restored is not None:
            thing.load_state_dict(torch.load(io.BytesIO(restored), map_location="cpu",
                                             weights_only=False))
        if isinstance(thing, RandomState):
            thing._note_step()
        self._save(name, thing)
        self._objects[name] = thing

    def begin_step(self) -> None:
        """A step's first forward with gradients begins, or without one its first push. Does nothing
        in the rest of the step, as when a second model begins."""
        if self._job.step == self._begun:
            return
        self._begun = self._job.step
        for rates in self._rates:
            rates.apply()
        if self._job.worker_state_is_due():
            self.save()

    def save(self) -> None:
        for name, thing in self._objects.items():
            try:
                self._save(name, thing)
            except InvalidArgument as error:
                if not isinstance(thing, Buffers):
                    raise
                # Nobody has asked for them.
                warnings.warn(f"from now on checkpoints are without the model's buffers: {error}")
                thing.is_kept = False
                self._save(name, thing)

    def _save(self, name: str, thing: Any) -> None:
        data = io.BytesIO()
        try:
            torch.save(thing.state_dict(), data)
        except Error:  # of the job
            raise
        except Exception as error:
            raise InvalidArgument(
                f"checkpoint_state {name!r}: its state_dict() cannot be saved: {error}") from error
        self._job.put_worker_state(name, data.getvalue())

    def note_step(self) -> None:
        """A step has ended: its batches are done."""
        for thing in self._objects.values():
            if isinstance(thing, (Batches, RandomState)):
                thing._note_step()


def states_with(others: Optional[CheckpointStates], job: StateKeeper, model: torch.nn.Module,
                optimizer: torch.optim.Optimizer, part: str) -> CheckpointStates:
    """The states of the job's models so far, if there are any, and of this one."""
    states = CheckpointStates(job) if others is None else others
    states.add_model(model, optimizer, part)
    return states


class Rates:
    """The learning rate and the momentum of each of the optimizer's parameter groups. A scheduler
    that is made anew has set others by then, so they come back when the first step begins."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self._restored: Optional[dict[str, list[Any]]] = None

    def state_dict(self) -> dict[str, list[Any]]:
        if self._restored is not None:
            return self._restored
        groups = self._optimizer.param_groups
        return {"lr": [learning_rate(group) for group in groups],
                "momentum": [momentum(group) for group in groups]}

    def load_state_dict(self, state: dict[str, list[Any]]) -> None:
        self._restored = state

    def apply(self) -> None:
        restored, self._restored = self._restored, None
        if restored is None:
            return
        rates, groups = restored["lr"], self._optimizer.param_groups
        if len(rates) != len(groups):
            raise InvalidArgument(f"the checkpoint is of {len(rates)} parameter groups, but the "
                                  f"optimizer has {len(groups)}; make the same ones")
        # Checkpoints of earlier versions of Capstan have no momenta.
        momenta = restored.get("momentum", [None] * len(groups))
        for group, rate, one in zip(groups, rates, momenta):
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
            if one is not None:
                set_momentum(group, one)


class Buffers:
    """A model's persistent buffers, as far as they have changed since it was attached."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._first = {name: _checksum(one) for name, one in self._named()}
        self.exist = bool(self._first)
        self.is_kept = True  # they are not too large

    def _named(self) -> Iterator[tuple[str, torch.Tensor]]:
        for prefix, module in self._model.named_modules():
            left_out: Any = module._non_persistent_buffers_set
            for name, one in module.named_buffers(prefix, recurse=False):
                is_persistent = name[len(prefix):].lstrip(".") not in left_out
                if is_persistent and one.layout is torch.strided and not one.is_quantized:
                    yield name, one

    def state_dict(self) -> dict[str, torch.Tensor]:
        if not self.is_kept:
            return {}
        return {name: one.detach().cpu().clone() for name, one in self._named()
                if _checksum(one) != self._first.get(name, -1)}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        named = dict(self._named())
        with torch.no_grad():
            for name, tensor in state.items():
                if name in named and named[name].shape == tensor.shape:
                    named[name].copy_(tensor)
                else:
                    warnings.warn(f"the checkpoint has a buffer {name} of shape "
                                  f"{tuple(tensor.shape)}, which the model does not have now: it "
                                  "begins as the program made it")


def _checksum(tensor: torch.Tensor) -> int:
    bits = bits_of(tensor)  # as long as they are read
    return zlib.crc32(view_of(bits))


class RandomState:
    """The random generators of torch (on the CPU, and on GPUs that are in use), of Python and of NumPy
    in this process, for ct.checkpoint_state, in loops that choose their samples themselves. It is the
    state after the last ct.step(). Register it last, right before the loop.
    """

    def __init__(self) -> None:
        self._after_step: Optional[dict[str, Any]] = None

    def _note_step(self) -> None:
        self._after_step = self._get()

    def state_dict(self) -> dict[str, Any]:
        return self._get() if self._after_step is None else self._after_step

    def _get(self) -> dict[str, Any]:
        state: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
        cuda: Any = torch.cuda
        if cuda.is_available() and cuda.is_initialized():
            state["cuda"] = cuda.get_rng_state_all()
        if "numpy" in sys.modules:
            state["numpy"] = sys.modules["numpy"].random.get_state()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._after_step = state
        self._set(state)

    def _set(self, state: dict[str, Any]) -> None:
        torch.set_rng_state(state["torch"])
        version, numbers, gauss = state["python"]
        random.setstate((version, tuple(numbers), gauss))
        if "cuda" in state:
            torch.cuda.set_rng_state_all(state["cuda"])
        if "numpy" in state:
            import numpy

            numpy.random.set_state(state["numpy"])


class Batches:
    """A DataLoader whose place survives a restart, for ct.checkpoint_state:

        batches = ct.Batches(loader)
        ct.checkpoint_state("batches", batches)
        for epoch in range(batches.epoch, 10):
            for x, y in batches:
                ...
                ct.step(loss)

    After a restore the loop goes on with the first batch of the step that is done again, and with the
    random generators of that moment. Batches that the loader has fetched ahead do not count as done;
    what the program itself takes ahead does. The ones before are fetched again and dropped. Each loop
    over it is an epoch, also one that only looks at a batch, and one goes on at a time. A sampler with
    set_epoch is told. A step's batches are of one epoch. enumerate(batches, batches.done) counts on.
    Processes of a loader with persistent_workers keep random states of their own, which nobody
    restores. A job with more --steps begins with the rest of its last epoch, maybe without a batch.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._random = RandomState()
        self._generators = _generators_of(loader)
        self.epoch = 0  # the loop that is under way, or comes first
        self._has_begun = False
        self._given = 0  # batches of the epoch that the program has
        self.done = 0  # of them, those of ended steps
        self._begin: Any = None  # the random generators before the epoch
        self._before: Any = None  # and before the first batch that is not done
        self._resumed: Optional[dict[str, Any]] = None
        self._loops = 0  # so far

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        resumed, self._resumed = self._resumed, None
        self._loops = loop = self._loops + 1
        if resumed is not None:
            self._set_random(resumed["begin"])
        elif self._has_begun:
            self.epoch += 1
        self._has_begun = True
        self._begin = self._get_random()
        self._given = self.done = 0 if resumed is None else resumed["done"]
        for sampler in (getattr(self._loader, "sampler", None),
                        getattr(self._loader, "batch_sampler", None)):
            set_epoch = getattr(sampler, "set_epoch", None)
            if set_epoch is not None:
                set_epoch(self.epoch)
        iterator = iter(self._loader)
        for done in range(self.done):
            if next(iterator, self) is self:
                raise InvalidArgument(f"the checkpoint has {self.done} batches of epoch "
                                      f"{self.epoch} behind it, but the loader has {done}; restore "
                                      "it with the same data and batch size")
        if resumed is not None:
            self._set_random(resumed["before"])
        while True:
            if loop != self._loops:
                raise WrongOrder("a loop over ct.Batches went on after another one had begun; give "
                                 "each its own loader, and end one before the next")
            if self._given == self.done:
                self._before = self._get_random()
            batch = next(iterator, self)
            if batch is self:
                return
            self._given += 1
            yield batch

    def _note_step(self) -> None:
        self.done = self._given

    def _get_random(self) -> dict[str, Any]:
        return {"process": self._random._get(),
                "loader": [one.get_state() for one in self._generators]}

    def _set_random(self, state: Optional[dict[str, Any]]) -> None:
        if state is None:
            return
        if len(state["loader"]) != len(self._generators):
            raise InvalidArgument(f"the checkpoint is of a loader with {len(state['loader'])} "
                                  f"generators, got one with {len(self._generators)}")
        self._random._set(state["process"])
        for generator, one in zip(self._generators, state["loader"]):
            generator.set_state(one)

    def state_dict(self) -> dict[str, Any]:
        if self._resumed is not None:  # no loop has begun since
            return self._resumed
        return {"epoch": self.epoch, "has_begun": self._has_begun, "done": self.done,
                "begin": self._begin, "before": self._before}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch = state["epoch"]
        self._resumed = state if state["has_begun"] else None


def _generators_of(loader: Any) -> list[torch.Generator]:
    samplers = [getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)]
    samplers.append(getattr(samplers[1], "sampler", None))
    found: list[torch.Generator] = []
    for owner in [loader, *samplers]:
        generator = getattr(owner, "generator", None)
        if isinstance(generator, torch.Generator) and all(generator is not one for one in found):
            found.append(generator)
    return found
