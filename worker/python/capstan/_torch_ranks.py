"""Several ranks of torch.distributed that are one worker: those of a sharded model, or of a host."""

from __future__ import annotations

import collections
import ctypes
import functools
import inspect
import math
import os
import pickle
import weakref
import zlib
from typing import Any, Callable, Iterable, NamedTuple, Optional, Sequence, Union

import torch

from capstan import _connect, _library
from capstan._alone_job import AloneJob
from capstan._collectives import Collectives, Part, operation_of
from capstan._errors import Error, InvalidArgument, LeftJob, WrongOrder
from capstan._job import Job
from capstan._optimizers import Optimizer
from capstan._table import Table
from capstan._torch_shared_state import whole_of

_DTYPES = {_library.FLOAT32: torch.float32, _library.FLOAT64: torch.float64,
           _library.INT64: torch.int64}
_MOST_KEPT_BYTES = 1 << 16
_PLACES: collections.deque[torch.Tensor] = collections.deque(maxlen=64)  # as Ranks._place


def is_sharded(tensor: torch.Tensor) -> bool:
    """Whether it is a DTensor, of which each rank has a part."""
    return hasattr(tensor, "full_tensor")


def own_part(tensor: Any) -> torch.Tensor:
    """The tensor, or this rank's part of it."""
    part: torch.Tensor = tensor.to_local() if is_sharded(tensor) else tensor
    return part


def _told(error: BaseException) -> tuple[type[BaseException], str]:
    """What other ranks hear of it."""
    return type(error) if isinstance(error, (Error, LeftJob)) else RuntimeError, str(error)


class Ranks:
    """A process group that is one worker. All its ranks make the same calls in the same order: each
    call is one exchange among them, by torch.distributed."""

    def __init__(self, group: Any) -> None:
        self._dist: Any = torch.distributed
        if not (self._dist.is_available() and self._dist.is_initialized()):
            raise InvalidArgument("group: call torch.distributed.init_process_group before")
        try:
            self._reference = weakref.ref(group)  # the program may destroy it
            self.rank = int(self._dist.get_rank(group))
        except (TypeError, ValueError, RuntimeError):  # as of a group without this process
            self.rank = -1
        if self.rank < 0:
            raise InvalidArgument("group: expected a process group that has this process, got "
                                  f"{group!r}")
        self._error: Optional[BaseException] = None  # the leader's, of which nobody has heard
        self.size = int(self._dist.get_world_size(group))
        # The group may be of a part of the processes.
        self._all = [self._global_rank(rank) for rank in range(self.size)]
        is_gpu = "nccl" in str(self._dist.get_backend(group))
        # Where numbers travel. Parameters do where they are.
        self._device = torch.device("cuda", torch.cuda.current_device()) if is_gpu else torch.device(
            "cpu")

    @property
    def _group(self) -> Any:
        group = self._reference()
        if group is None:
            raise WrongOrder("the process group is destroyed; call "
                             "torch.distributed.destroy_process_group after ct.finish()")
        return group

    def _global_rank(self, rank: int) -> int:
        if self._group is self._dist.group.WORLD:
            return rank
        return int(self._dist.distributed_c10d.get_global_rank(self._group, rank))

    @property
    def leads(self) -> bool:
        """Whether this rank is the worker, and speaks for all of them."""
        return self.rank == 0

    def expect_shards(self, named: Iterable[tuple[str, Any]]) -> None:
        """Raises InvalidArgument if a sharded tensor has parts elsewhere."""
        for name, tensor in named:
            if is_sharded(tensor):
                ranks = sorted(tensor.device_mesh.mesh.flatten().tolist())
                if ranks != sorted(self._all):
                    raise InvalidArgument(
                        f"{name} has shards in ranks {ranks}, and the group has {self._all}: "
                        "expected a mesh of the ranks of the group")

    def from_first(self, call: Callable[[], Any], to_all: bool = True) -> Any:
        """What `call` returns in the leader, which alone calls it. to_all: in all ranks; else None in
        the others. Its error is raised in all."""
        told: list[Any] = [None, None, None]  # the result, and the error's class and text
        result = self.in_first(call)
        error, self._error = self._error, None
        if error is not None:
            told[1:] = _told(error)
        elif to_all:
            told[0] = result
        told = self._told_by_first(told)
        if error is not None:
            raise error
        if told[1] is not None:
            raise told[1](told[2])
        return result if self.leads else told[0]

    def _told_by_first(self, data: Any) -> Any:
        """The leader's data, in all ranks."""
        text = pickle.dumps(data) if self.leads else b""
        size = self._place(torch.tensor([len(text)], dtype=torch.int64, device="cpu"))
        self._dist.broadcast(size, self._all[0], group=self._group)
        place = torch.zeros(int(size), dtype=torch.uint8, device="cpu")
        if self.leads:
            place.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
        place = self._place(place)
        self._dist.broadcast(place, self._all[0], group=self._group)
        whole = place.cpu()
        return data if self.leads else pickle.loads(ctypes.string_at(whole.data_ptr(), whole.numel()))

    def _place(self, values: torch.Tensor) -> torch.Tensor:
        """A copy, or `values` themselves, where they can travel.

        A small one stays for a while: a thread of Gloo that has the last hold of a tensor waits for
        Python to free it, and a program that destroys the group then makes Python wait for the thread.
        """
        place = values.to(self._device)
        if place.numel() * place.element_size() <= _MOST_KEPT_BYTES:
            _PLACES.append(place)
        return place

    def in_first(self, call: Callable[[], Any]) -> Any:
        """As from_first, but without an exchange: the other ranks hear of an error in the next
        from_first, before which nothing further is called."""
        if not self.leads or self._error is not None:
            return None
        try:
            return call()
        except (Exception, LeftJob) as error:
            self._error = error
            return None

    def to_first(self, data: bytes) -> list[bytes]:
        """The data of all ranks, in the leader."""
        gathered: Optional[list[Any]] = [None] * self.size if self.leads else None
        self._dist.gather_object(data, gathered, dst=self._all[0], group=self._group)
        return gathered or []

    def to_all(self, data: Any) -> list[Any]:
        """The data of all ranks."""
        gathered: list[Any] = [None] * self.size
        self._dist.all_gather_object(gathered, data, group=self._group)
        return gathered

    def combine(self, values: torch.Tensor, op: str) -> None:
        """The "sum", "min" or "max" over the ranks takes the place of `values`, in the CPU's memory."""
        place = self._place(values)
        operation = {"sum": self._dist.ReduceOp.SUM, "min": self._dist.ReduceOp.MIN,
                     "max": self._dist.ReduceOp.MAX}[op]
        self._dist.all_reduce(place, op=operation, group=self._group)
        values.copy_(place)

    def spread(self, values: torch.Tensor) -> None:
        """The leader's take the place of `values`, in the CPU's memory."""
        place = self._place(values)
        self._dist.broadcast(place, self._all[0], group=self._group)
        values.copy_(place)

    def any(self, flags: Sequence[bool]) -> list[bool]:
        """Of each flag whether a rank's is true."""
        values = torch.tensor([int(one) for one in flags], dtype=torch.int64, device="cpu")
        self.combine(values, "max")
        return [bool(one) for one in values.tolist()]

    def shards_of(self, tensor: Any) -> Optional[list[tuple[int, ...]]]:
        """The shape of each rank's part, if ranks have consecutive rows of a tensor. None: it is not
        sharded, or in another way."""
        if not is_sharded(tensor) or len(tensor.placements) != 1:
            return None
        if not tensor.placements[0].is_shard(0) or tensor.device_mesh.mesh.tolist() != self._all:
            return None
        rows = -(-tensor.shape[0] // self.size)  # as torch.chunk
        return [(max(0, min(rows, tensor.shape[0] - rank * rows)), *tensor.shape[1:])
                for rank in range(self.size)]

    def whole(self, tensor: Any) -> torch.Tensor:
        """In the leader: the whole of a sharded tensor, or of another one the mean over the ranks;
        float32."""
        if is_sharded(tensor):
            return whole_of(tensor).float()
        mean: torch.Tensor = tensor.detach().float().clone(memory_format=torch.contiguous_format)
        self._dist.reduce(mean, self._all[0], group=self._group)
        return mean.div_(self.size)

    def part(self, like: Any, whole: Optional[torch.Tensor]) -> torch.Tensor:
        """This rank's part of the leader's `whole`, as of the tensor `like`, where that is; float32."""
        device = own_part(like).device
        place = torch.empty(like.shape, dtype=torch.float32, device=device)
        if self.leads:
            assert whole is not None
            place.copy_(whole)
        self._dist.broadcast(place, self._all[0], group=self._group)
        return own_part(shard(place, like)) if is_sharded(like) else place


def sharded_modules(model: torch.nn.Module) -> list[Any]:
    """Those of FSDP2. Their parameters are whole after a forward without gradients, until `reshard`."""
    return [one for one in model.modules() if hasattr(one, "reshard")]


def shard(whole: torch.Tensor, like: Any) -> Any:
    """A tensor that is sharded as `like`. All ranks have the `whole`."""
    from torch.distributed.tensor import distribute_tensor

    options: dict[str, Any] = {}
    if "src_data_rank" in inspect.signature(distribute_tensor).parameters:
        options["src_data_rank"] = None  # no exchange
    return distribute_tensor(whole, like.device_mesh, like.placements, **options)


def of_parts(own: torch.Tensor, like: Any) -> Any:
    """The tensor that is sharded as `like`, and of which this rank has the part `own`."""
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(own.to(own_part(like).device), like.device_mesh, like.placements,
                              run_check=False, shape=like.shape, stride=like.stride())


class LateTable:
    """A table that is there once the job has started, in the rank that exchanges it."""

    def __init__(self) -> None:
        self.table: Optional[Table] = None


class _Added(NamedTuple):
    late: LateTable
    owner: int
    name: str
    initial: torch.Tensor  # in the owner its values; elsewhere the shape counts
    options: dict[str, Any]


class RanksJob(Collectives):
    """The job of a worker that is several ranks, as each of them has it. Not started.

    The leader is the worker. A rank with tables of its own exchanges these by itself, as a part of it.

    connect: makes the leader's.
    """

    def __init__(self, ranks: Ranks, connect: Callable[[], Job]) -> None:
        self.ranks = ranks
        self.rank = self.step = -1  # the worker's
        self.num_workers = self.steps = 0
        self._job: Optional[Job] = None  # in the leader
        self._part: Optional[Job] = None  # in another rank with tables
        self._added: list[_Added] = []  # until the start, in other ranks
        self._at_end: list[weakref.WeakMethod[Callable[[], None]]] = []

        def make() -> None:
            self._job = connect()
            self._job._is_of_ranks = True

        ranks.from_first(make, to_all=False)

    def _ask(self, call: Callable[[Job], Any]) -> Any:
        """The result of the leader's call, in all ranks."""
        return self.ranks.from_first(lambda: call(self._leaders()))

    def _do(self, call: Callable[[Job], Any]) -> Any:
        """The result of the leader's call, in the leader. It fails in all."""
        return self.ranks.from_first(lambda: call(self._leaders()), to_all=False)

    def _leaders(self) -> Job:
        assert self._job is not None
        return self._job

    def table(self, name: str, initial: torch.Tensor, *, owner: int = 0,
              tensor: Optional[str] = None, optimizer: Optional[Optimizer] = None,
              replies_mean: bool = False) -> LateTable:
        """As Job.table, of the rank `owner`. What is wrong with it is said at the start.

        tensor: it is rows of the tensor of this name.
        """
        if owner != self.ranks.rank:  # the values are not needed
            initial = torch.empty((), device="cpu").expand(initial.shape)
        added = _Added(LateTable(), owner, name, initial,
                       {"optimizer": optimizer, "replies_mean": replies_mean, "_tensor": tensor})
        if self.ranks.leads:
            self.ranks.in_first(lambda: self._add_table(self._leaders(), added))
        else:
            self._added.append(added)
        return added.late

    def tables(self, name: str, tensor: Any, **options: Any) -> LateTable:
        """The table of a parameter, or that of this rank's shard: each rank exchanges its own."""
        shapes = self.ranks.shards_of(tensor)
        if shapes is None:
            return self.table(name, whole_of(tensor).cpu().contiguous(), **options)
        own = LateTable()
        for rank, shape in enumerate(shapes):
            if math.prod(shape) == 0:
                continue
            initial = (own_part(tensor.detach()).cpu().contiguous() if rank == self.ranks.rank
                       else torch.empty((), device="cpu").expand(shape))
            late = self.table(f"{name}/shard{rank}of{len(shapes)}", initial, owner=rank,
                              tensor=name, **options)
            if rank == self.ranks.rank:
                own = late
        return own

    def _add_table(self, job: Job, one: _Added) -> None:
        is_own = one.owner == self.ranks.rank
        initial: Any = one.initial if is_own else tuple(one.initial.shape)
        table = job.table(one.name, initial, _elsewhere=not is_own, **one.options)
        one.late.table = table if is_own else None

    def _set_local_steps(self, *settings: Any) -> None:
        self._do(lambda job: job._set_local_steps(*settings))

    def _note_round(self, local_steps: int, drift: float) -> None:
        self._do(lambda job: job._note_round(local_steps, drift))

    def _advise_on_gradients(self, text: str) -> None:
        if self._job is not None:
            self._job._advise_on_gradients(text)

    def _call_at_end(self, call: weakref.WeakMethod[Callable[[], None]]) -> None:
        self._at_end.append(call)
        if self._job is not None:
            self._job._call_at_end(call)

    def start(self) -> None:
        def start(job: Job) -> tuple[int, int, int, int, int]:
            job.start()
            return job.rank, job.num_workers, job.steps, job.step, job._incarnation

        self.rank, self.num_workers, self.steps, self.step, incarnation = self._ask(start)

        def start_part() -> None:
            self._part = _connect.connect(rank=self.rank, _part=self.ranks.rank,
                                          _incarnation=incarnation)
            self._part._is_of_ranks = True
            for one in self._added:
                self._add_table(self._part, one)
            self._part.start()

        has_part = any(one.owner == self.ranks.rank for one in self._added)
        self._together(start_part if has_part else None)
        self._added.clear()

    def _together(self, call: Optional[Callable[[], object]]) -> None:
        """Returns once each rank has called its own. If one has failed, its error is raised in all."""
        error: Optional[BaseException] = None
        try:
            if call is not None:
                call()
        except (Exception, LeftJob) as own_error:
            error = own_error
        if not self.ranks.any([error is not None])[0]:
            return
        errors = self.ranks.to_all(None if error is None else _told(error))
        if error is not None:
            raise error
        rank = next(number for number, one in enumerate(errors) if one is not None)
        kind, text = errors[rank]
        raise kind(f"rank {rank} of the group: {text}")

    @property
    def _may_end(self) -> bool:
        return bool(self._ask(lambda job: job._may_end))

    def end_step(self, loss: float = float("nan"), samples: int = 0) -> None:
        """loss: over this rank's samples. Ranks without a loss do not count."""
        weight = float(samples or 1)
        sums = torch.tensor([0.0, 0.0, samples] if loss != loss else
                            [loss * weight, weight, samples], dtype=torch.float64, device="cpu")
        self.ranks.combine(sums, "sum")
        total, weights, of_all = sums.tolist()
        mean = total / weights if weights > 0 else float("nan")

        def end(job: Job) -> int:
            job.end_step(mean, int(of_all))
            return job.step

        self.step = self._ask(end)
        if self._part is not None:
            self._part.end_step()

    def finish(self) -> bool:
        """In all ranks whether this worker evaluates."""
        # The leader's last step counts as the worker's: no other rank has an exchange open then.
        self._together(None if self._part is None else self._part._wait_for_all)
        own = self._job or self._part
        evaluates = False

        def finish(job: Job) -> None:
            nonlocal evaluates
            evaluates = job.finish()

        # Side by side: the last checkpoint waits for each one's state. Then all have the final values.
        self._together(None if own is None else functools.partial(finish, own))
        return bool(self.ranks.from_first(lambda: evaluates))

    def report(self, *result: Any, **named: Any) -> None:
        """As Job.report. The leader's counts; no exchange, so that it may be the only one."""
        own = self._job or self._part
        if own is not None:
            own.report(*result, **named)

    def close(self) -> None:
        """As Job.close. No exchange."""
        own = self._job or self._part
        if own is not None:
            own.close()
        for reference in self._at_end:
            call = reference()
            if call is not None:
                call()

    # Each rank has a state of its own.

    def worker_state(self, name: str) -> Optional[bytes]:
        names = [self._name_of(name, rank) for rank in range(self.ranks.size)]
        states = self._ask(lambda job: [job.worker_state(one) for one in names])
        if None in states:  # of another number of ranks
            return None
        state: bytes = states[self.ranks.rank]
        return state

    def put_worker_state(self, name: str, data: bytes) -> None:
        parts = self.ranks.to_first(data)

        def put(job: Job) -> None:
            for rank, part in enumerate(parts):
                job.put_worker_state(self._name_of(name, rank), part)

        self._do(put)

    def worker_state_is_due(self) -> bool:
        is_due = bool(self._ask(lambda job: job.worker_state_is_due()))
        # The servers ask each rank for what belongs to its tables.
        own = self._part is not None and self._part.worker_state_is_due()
        return self.ranks.any([is_due or own])[0]

    def _name_of(self, name: str, rank: int) -> str:
        return f"{name}/{rank}of{self.ranks.size}"

    # Operations of all ranks of all workers.

    @property
    def _keeps_values(self) -> bool:
        return bool(self._ask(lambda job: job._keeps_values))

    def barrier(self) -> None:
        self._do(lambda job: job.barrier())

    def stop(self, flag: Any) -> bool:
        any_stops = self.ranks.any([bool(flag)])[0]
        return bool(self._ask(lambda job: job.stop(any_stops)))

    def _combine(self, operation: int, part: Part) -> None:
        values = _values_of(part)
        is_mean = operation == operation_of("mean")
        if not is_mean or values.is_floating_point():  # else the job refuses it
            of_ranks = {operation_of("min"): "min", operation_of("max"): "max"}.get(operation, "sum")
            self.ranks.combine(values, of_ranks)
            if is_mean:
                values /= self.ranks.size
        self._do(lambda job: job._combine(operation, part))
        self.ranks.spread(values)

    def _spread(self, root: int, part: Part) -> None:
        self._do(lambda job: job._spread(root, part))
        self.ranks.spread(_values_of(part))

    def _end_empty_step(self) -> None:
        raise WrongOrder("ct.join is around the loop of an attached model")

    def _others_go_on(self) -> bool:
        return bool(self._ask(lambda job: job._others_go_on()))


def _values_of(part: Part) -> torch.Tensor:
    dtype = _DTYPES[part.dtype]
    size = part.num_elements * torch.empty((), dtype=dtype).element_size()
    return torch.frombuffer((ctypes.c_ubyte * size).from_address(part.pointer), dtype=dtype)


def ranks_of(group: Optional[Any], job: Optional[Job]) -> Optional[Ranks]:
    """For the arguments `group` and `job` of ct.attach and ct.LocalSteps."""
    if group is None:
        return None
    if job is not None:
        raise InvalidArgument("job: not with group, whose ranks connect by themselves")
    ranks = Ranks(group)
    if ranks.any([not os.environ.get("CAPSTAN_COORDINATOR")])[0]:
        raise InvalidArgument("group: CAPSTAN_COORDINATOR is not set, so there is no job; capstan run "
                              "starts one, with torchrun in its --worker_command")
    return ranks


def job_of(ranks: Optional[Ranks], job: Union[Job, AloneJob, Callable[..., Job]],
           parameters: Iterable[Any]) -> Union[Job, AloneJob, RanksJob]:
    """The worker's job, which is not started. `job`: it, or what connects to it. parameters: each has
    a name and a tensor."""
    if isinstance(job, (Job, AloneJob)):
        return job
    if ranks is None:
        return job()
    return RanksJob(ranks, functools.partial(_connect_apart, job, _layout(ranks, parameters)))


def _layout(ranks: Ranks, parameters: Iterable[Any]) -> str:
    """The same in each worker, else the job refuses it."""
    shards = [(one.name, str(one.tensor.placements), tuple(one.tensor.device_mesh.mesh.shape))
              for one in parameters if is_sharded(one.tensor)]
    layout = f" with shards {zlib.crc32(repr(shards).encode()):08x}" if shards else ""
    return f"{ranks.size} rank{'' if ranks.size == 1 else 's'}{layout}"


def _connect_apart(connect: Callable[..., Job], layout: str) -> Job:
    """RANK is not the worker's where torchrun has set it."""
    is_torchruns = "TORCHELASTIC_RUN_ID" in os.environ and "CAPSTAN_RANK" not in os.environ
    rank = os.environ.pop("RANK", None) if is_torchruns else None
    try:
        return connect(_processes=layout)
    finally:
        if rank is not None:
            os.environ["RANK"] = rank
