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
only. ct.EmbeddingBag and ct.Embedding have their rows on the servers, more than a worker can hold.
worker/python/README.md says what works and what is refused.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence, TypeVar, Union

import torch

from capstan import _connect
from capstan._alone_job import (AloneJob, environment_place, expect_places_as_told, is_alone,
                                say_alone)
from capstan._errors import InvalidArgument, WrongOrder
from capstan._job import Job
from capstan._optimizers import Optimizer
from capstan._torch_alone import AloneTrainer
from capstan._torch_bags import BagsTrainer
from capstan._torch_checkpoint import Batches, RandomState
from capstan._torch_embedding_bag import Embedding, EmbeddingBag
from capstan._torch_exported import optimizer_state_dict
from capstan._torch_group import TrainerGroup
from capstan._torch_here import HereTrainer
from capstan._torch_lion import Lion
from capstan._torch_local_steps import OUTER, LocalStepsTrainer
from capstan._torch_ranks import ranks_of
from capstan._torch_refusals import expect_max_norm, expect_replaceable
from capstan._torch_trainer import Trainer

__all__ = [
    "Batches",
    "Embedding",
    "EmbeddingBag",
    "Lion",
    "LocalSteps",
    "RandomState",
    "Trainer",
    "all_reduce",
    "attach",
    "attach_together",
    "barrier",
    "broadcast",
    "checkpoint_state",
    "finish",
    "join",
    "next_step",
    "no_sync",
    "optimizer_state_dict",
    "rank",
    "report",
    "step",
    "stop",
    "wait",
    "without_module_prefix",
    "world_size",
]

Model = TypeVar("Model", bound=torch.nn.Module)

AnyTrainer = Union[Trainer, AloneTrainer, BagsTrainer, HereTrainer, TrainerGroup, LocalStepsTrainer]
_attached: Optional[AnyTrainer] = None
# Within attach_together: the models so far.
_group: Optional[TrainerGroup] = None


def attach(model: Model,
           optimizer: Union[torch.optim.Optimizer, Sequence[torch.optim.Optimizer], None], *,
           job: Optional[Job] = None, optimizer_runs: str = "servers",
           max_norm_per_worker: Optional[float] = None, grad_scaler: Optional[Any] = None,
           overlap: bool = True, name: Optional[str] = None, replaceable: bool = False,
           max_norm: object = None, group: Optional[Any] = None, dense: str = "servers") -> Model:
    """Joins the job, and lets the servers run the optimizer from now on. Returns the model.

    The model begins with rank 0's values, or with the servers', if the job goes on from a
    checkpoint or has --initial. Waits until all the job's processes are there.

    Without `job` and without CAPSTAN_COORDINATOR in the environment, the program trains alone: the
    optimizer steps in this process.

    optimizer: SGD, Adagrad, Adam, AdamW or RMSprop of torch.optim, or Lion of this module, with
        any parameter groups.
    job: capstan.connect() unless given.
    optimizer_runs: "here" lets every worker step its own optimizer, which may be any that needs one
        dense gradient a step. When backward ends, each parameter's gradient is the mean over all
        workers; clip_grad_norm_, GradScaler and optimizer.step() do what they do with DDP, and
        ct.step() comes after them. `optimizer` may be a list of several. Under BSP. Checkpoints
        have rank 0's parameters and state.
    max_norm_per_worker: clips this worker's own gradient to this total norm before it is pushed.
    grad_scaler: the GradScaler that scales the loss. Trainer says more about both.
    overlap: without it ct.step() sends all gradients and waits for the next values: to find out
    whether an error comes from reads or changes of parameters.
    name: within attach_together: goes before the names of the model's parameters, as in a
    torch.nn.ModuleDict. The model's number, from 0, unless given.
    replaceable: under BSP: data, random draws, schedulers and buffers depend on the job, the rank
    and ct.next_step() alone. So another process can do the open step of a lost one again, with the
    same bits, and nobody starts again. In all workers, or in none. Operations of all workers are
    then between the forward pass and ct.step(), or behind the loop over all --steps.
    max_norm: refused, as it does not say which norm.
    group: with optimizer_runs="here": as of LocalSteps, a process group whose ranks are one worker.
    When backward ends, a rank's gradients are the means over all ranks of all workers. Backward goes
    through an output of the model itself; torch.autograd.grad does within ct.no_sync().
    dense: "local" lets the servers have the embedding bags alone, each with an optimizer of its own.
    The other parameters and `optimizer`, which may be None, are the program's: it averages gradients
    and steps as it likes, also with DDP and FSDP, and then calls ct.step(). Without GradScaler.

    Raises InvalidArgument: servers cannot do what model and optimizer ask for, and what to do.
    """
    global _attached
    expect_max_norm(max_norm_per_worker, max_norm)
    if dense == "local":
        if (optimizer_runs, group, name, _group, max_norm_per_worker, grad_scaler, overlap, replaceable
                ) != ("servers", None, None, None, None, None, True, False):
            raise InvalidArgument("dense=\"local\": leave out all other arguments but job, as the "
                                  "program steps the optimizer itself")
        _expect_none_attached()
        _attached = BagsTrainer(model, job or _connect.connect)
        expect_places_as_told(_attached.job)
        return model
    if dense != "servers":
        raise InvalidArgument(f"dense: expected \"servers\" or \"local\", got {dense!r}")
    if replaceable and job is not None:
        raise InvalidArgument("replaceable: say so where the job is made: "
                              "capstan.connect(replaceable=True)")
    if replaceable:
        expect_replaceable(model, optimizer_runs, grad_scaler, name or _group)
    if optimizer_runs == "here":
        if max_norm_per_worker is not None or grad_scaler is not None or not overlap:
            raise InvalidArgument(
                "with optimizer_runs=\"here\" leave out max_norm_per_worker, grad_scaler and "
                "overlap: call torch.nn.utils.clip_grad_norm_, scaler.step(optimizer) and "
                "scaler.update() in the loop, as with one process")
        if _group is not None or name is not None:
            raise InvalidArgument(
                "with optimizer_runs=\"here\" attach several models as one torch.nn.ModuleList, "
                "with a list of their optimizers")
        _expect_none_attached()
        ranks = ranks_of(group, job)
        is_by_itself = job is None and ranks is None and is_alone()
        is_list = isinstance(optimizer, Iterable) and not isinstance(optimizer, Mapping)
        optimizers: Any = optimizer if is_list else [optimizer]
        _attached = HereTrainer(model, optimizers,
                                AloneJob() if is_by_itself else job or _connect.connect, ranks)
        if is_by_itself:
            say_alone()
        expect_places_as_told(_attached.job)
        return model
    if group is not None:
        raise InvalidArgument("group: give optimizer_runs=\"here\", or use ct.LocalSteps")
    if optimizer_runs != "servers":
        raise InvalidArgument("optimizer_runs: expected \"servers\" or \"here\", got "
                              f"{optimizer_runs!r}")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidArgument(f"expected an optimizer, got {type(optimizer).__name__}; several run "
                              "with optimizer_runs=\"here\"")
    if _group is not None:
        if job is not None:
            raise InvalidArgument("job: give it to ct.attach_together")
        _group.add(model, optimizer, name, max_norm_per_worker=max_norm_per_worker,
                   grad_scaler=grad_scaler, overlap=overlap)
        return model
    if name is not None:
        raise InvalidArgument("name: only within ct.attach_together, which has several models")
    _expect_none_attached()
    if job is None and is_alone():
        _attached = AloneTrainer(model, optimizer, max_norm_per_worker=max_norm_per_worker,
                                 grad_scaler=grad_scaler, overlap=overlap)
        say_alone()
    else:
        _attached = Trainer(model, optimizer,
                            job or functools.partial(_connect.connect, replaceable=replaceable),
                            max_norm_per_worker=max_norm_per_worker, grad_scaler=grad_scaler,
                            overlap=overlap)
    expect_places_as_told(_attached.job)
    return model


@contextlib.contextmanager
def attach_together(*, job: Optional[Job] = None) -> Iterator[None]:
    """For several models, each with its optimizer, as of a GAN:

        with ct.attach_together():
            ct.attach(generator, of_generator)
            ct.attach(discriminator, of_discriminator)

    The job starts at the end of the block. `ct.step(loss, optimizer=of_discriminator)` then takes
    the place of `of_discriminator.step()`, and is one of the job's steps. The program keeps its
    calls of zero_grad. Under BSP the other models' values stay, so a graph of theirs goes on. All
    workers step the same optimizers in the same order. Gradients leave in ct.step().

    job: as of attach.
    """
    global _attached, _group
    if _group is not None:
        raise WrongOrder("ct.attach_together within ct.attach_together")
    _expect_none_attached()
    is_by_itself = job is None and is_alone()
    group = TrainerGroup(None if is_by_itself else lambda: job or _connect.connect())
    _group = group
    try:
        yield
    finally:
        _group = None
    group.start()
    _attached = group
    if is_by_itself:
        say_alone()
    expect_places_as_told(group.job)


class LocalSteps(LocalStepsTrainer):
    """Joins the job with a worker that trains alone for many steps, then exchanges once (DiLoCo).

        local = ct.LocalSteps(model, inner, sync_every=50)
        for x, y in loader:
            criterion(model(x), y).backward()
            inner.step()
            inner.zero_grad()
        ct.finish()

    A step of the job is a round of local steps. Then each worker pushes what it has changed, `values -
    local`, and the servers apply `outer` to it: under BSP to the mean over the workers. All workers do
    the same number of rounds. ct.step(loss) only notes a loss. `with ct.LocalSteps(...) as local:`
    finishes the job at its end, and `local.is_evaluator` then says what ct.finish() would.

    inner: any optimizer of torch, or a list of them, which all step in a local step. Clipping,
        GradScaler, schedulers and torch.compile are the program's own, as with one process.
    sync_every: local steps of a round; 50 unless given.
    outer: the servers' optimizer. Without momentum or with 0.5 at most under SSP and async.
    fragments: the layers are split into so many parts. Part p is pushed after local step
        (p + 1) sync_every / fragments of the round, so that no moment needs the whole link.
    fragment_sync_delay: a part takes the new values so many local steps after its push, and what the
        worker has done meanwhile is kept. Below sync_every / fragments.
    fragment_update_alpha: in place of that, this share of the local value is blended with the new
        one, as by torchft, with a delay or without. It has measured worse.
    round_seconds: in place of sync_every: a worker does what it can in this time, and a slow one
        does fewer steps instead of holding up the others.
    keep_inner_state: checkpoints have the state of `inner`: under BSP, with one fragment and no delay,
        a restored job then has the bits of an undisturbed one. At most 64 MiB with all other states.
        Unless given: of models with up to 4 million parameters.
    group: a process group of torch.distributed whose ranks are one worker: all of them make the same
        calls. Of sharded parameters (DTensor, as of FSDP2) each rank has its part, the mesh is of the
        group's ranks, and each rank exchanges its own with the servers. Other parameters are averaged
        over the ranks before a push, by the first one.
    job: as of attach. Without a job `inner` is all that steps.

    Raises InvalidArgument: settings that do not fit each other, the model or those of other workers.
    """

    def __init__(self, model: torch.nn.Module,
                 inner: Union[torch.optim.Optimizer, Iterable[torch.optim.Optimizer]], *,
                 sync_every: Optional[int] = None, outer: Optimizer = OUTER, fragments: int = 1,
                 fragment_sync_delay: int = 0, fragment_update_alpha: Optional[float] = None,
                 round_seconds: Optional[float] = None, keep_inner_state: Optional[bool] = None,
                 group: Optional[Any] = None, job: Optional[Job] = None) -> None:
        global _attached
        _expect_none_attached()
        ranks = ranks_of(group, job)
        is_by_itself = job is None and ranks is None and is_alone()
        super().__init__(model, inner, AloneJob() if is_by_itself else job or _connect.connect,
                         sync_every=sync_every, outer=outer, fragments=fragments,
                         fragment_sync_delay=fragment_sync_delay,
                         fragment_update_alpha=fragment_update_alpha, round_seconds=round_seconds,
                         keep_inner_state=keep_inner_state,
                         ranks=ranks)
        _attached = self
        if is_by_itself:
            say_alone()
        expect_places_as_told(self.job)


def _expect_none_attached() -> None:
    if _attached is not None and not _attached.is_over:
        raise WrongOrder("a model is attached already; attach all models of a program within one "
                         "`with ct.attach_together():`, which says more; where a program begins "
                         "again without a job, as in a notebook, it calls ct.finish() before")


def _trainer() -> AnyTrainer:
    if _attached is None:
        raise WrongOrder("there is no attached model; call ct.attach first")
    return _attached


def _trainer_in_step() -> AnyTrainer:
    """For operations of all workers."""
    trainer = _trainer()
    if isinstance(trainer, Trainer):
        trainer.expect_within_step()
    return trainer


def step(loss: Union[float, torch.Tensor, None] = None, samples: int = 0, *,
         optimizer: Optional[torch.optim.Optimizer] = None) -> None:
    """Ends a step, in place of optimizer.step() and zero_grad(). Schedulers step afterwards. With
    LocalSteps it only notes the loss.

    loss: the mean over `samples` samples, for progress and reports.
    optimizer: the one that steps, of several models: attach_together says more.
    """
    trainer = _trainer()
    if isinstance(trainer, TrainerGroup):
        trainer.step(loss, samples, optimizer)
        return
    if isinstance(trainer, (BagsTrainer, HereTrainer, LocalStepsTrainer)):
        if optimizer is not None:
            raise InvalidArgument("optimizer: the program steps it itself, before ct.step()")
    elif optimizer is not None and optimizer is not trainer._optimizer:
        raise InvalidArgument("optimizer: expected the one that was given to ct.attach")
    trainer.step(loss, samples)


def no_sync() -> contextlib.AbstractContextManager[None]:
    """`with ct.no_sync():` keeps the gradients of a backward for those of the step's last one."""
    return _trainer().no_sync()


def wait() -> None:
    """Waits until all parameters have the values of the next step: before a program reads them
    past torch's functions, as in an extension in C++ or by their address."""
    _trainer().wait()


def checkpoint_state(name: str, thing: Any) -> None:
    """From now on the checkpoints of the job have this worker's state of the object, which has
    state_dict and load_state_dict: a scheduler, ct.Batches, ct.RandomState. If the job goes on from
    a checkpoint, the object gets its state at once. Call it after attach, before the loop.

    A checkpoint has the state as it is when the first forward of a step begins, with the updates of
    the steps before: under BSP a restored job has the bits of one that was not disturbed. Under SSP
    and async a worker may do some steps again that the state has already. The model's buffers and
    the GradScaler of attach need no call. All states of a worker have at most 64 MiB together.
    They are read by pickle: restore only checkpoints that you trust.

    Raises InvalidArgument: a name twice, an object that cannot be saved, or one that is too large.
    """
    _trainer().states.add(name, thing)


def all_reduce(value: Any, op: str = "mean") -> Any:
    """The mean, "sum", "min" or "max" over the workers of a number or a small tensor (at most 1 MiB),
    under BSP: `loss = ct.all_reduce(loss)`. All workers call it at the same places.

    Returns a new value of the same kind; Job.all_reduce says more."""
    return _trainer_in_step().job.all_reduce(value, op)


def broadcast(value: Any, root: int = 0) -> Any:
    """The value of the worker `root`, under BSP. All give one of the same type and size."""
    return _trainer_in_step().job.broadcast(value, root)


def barrier() -> None:
    """Waits until all workers have called it, under BSP."""
    _trainer_in_step().job.barrier()


def stop(flag: Any) -> bool:
    """Whether any worker's flag is true, under BSP: `if ct.stop(patience == 0): break` ends the loops
    of all workers after the same step, also before the job's --steps are done, unless it stays."""
    return _trainer_in_step().job.stop(flag)


def join(update: Optional[Callable[[], Any]] = None) -> contextlib.AbstractContextManager[None]:
    """`with ct.join():` around the loop over batches, if workers have different numbers of them, as
    with DDP's Join. A worker that has none any more goes on without a gradient, which counts as
    zeros in the mean, until all are through. Under BSP.

    update: with optimizer_runs="here", what the loop does between backward and ct.step, as clipping,
    optimizer.step() and scheduler.step(). Unless given it is optimizer.step()."""
    trainer = _trainer()
    if isinstance(trainer, HereTrainer):
        return trainer.join(update)
    if update is not None:
        raise InvalidArgument("update is for optimizer_runs=\"here\"; here the servers step")
    return trainer.join()


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
    """The step that comes next: 0 at first, unless the job goes on from a checkpoint, or this
    worker has taken the place of a lost one."""
    return _trainer().job.step


def rank() -> int:
    """This worker's rank, from 0. Before `attach`: the environment's RANK, or 0."""
    return environment_place("RANK", 0) if _attached is None else _attached.job.rank


def world_size() -> int:
    """The number of workers. Before `attach`: the environment's WORLD_SIZE, or 1."""
    return environment_place("WORLD_SIZE", 1) if _attached is None else _attached.job.num_workers


def without_module_prefix(state_dict: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The state_dict of a model in DistributedDataParallel, for the model itself: without "module."
    before each name."""
    prefix = "module."
    return {name[len(prefix):] if name.startswith(prefix) else name: tensor
            for name, tensor in state_dict.items()}
