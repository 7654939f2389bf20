"""A job as one worker sees it: its tables, its steps and its end."""

from __future__ import annotations

import ctypes
import numbers
import weakref
from typing import Any, Callable, Optional

from capstan import _ending, _errors, _library, _memory
from capstan._arguments import expect_whole, float_of
from capstan._collectives import OpenCollectives
from capstan._open_job import OpenJob, in_thread
from capstan._optimizers import Optimizer
from capstan._sparse_table import SparseTable
from capstan._table import Layer, Table

_NOT_KNOWN = float("nan")


def _expect_optimizer(optimizer: object) -> None:
    if not isinstance(optimizer, Optimizer):
        raise _errors.InvalidArgument(
            f"optimizer: expected one of this package, such as capstan.SGD(0.1), got {optimizer!r}")


def _bytes_of(name: str) -> bytes:
    """A table's name for the library, which ends at the first byte of 0."""
    encoded = name.encode(errors="replace") if isinstance(name, str) else b"\0"
    if b"\0" in encoded or encoded.decode() != name:
        raise _errors.InvalidArgument(f"expected a name of printable text, got {name!r}")
    return encoded


class Job(OpenCollectives):
    """A job that this process takes part in as one worker; made by connect.

    Tables first, then `start`, then the steps, then `finish`. With `with`, or at the program's end,
    it is closed; an exception ends the whole job then. Any thread may call any method but `close`,
    which comes last.
    """

    def __init__(self, open_job: OpenJob) -> None:
        super().__init__(open_job)
        open_job.owner = self
        self._layers: dict[int, Layer] = {}
        self._shared_layers: list[Layer] = []  # of several tables
        self._learning_rate: Optional[float] = None
        self._is_replaceable = False  # as of connect
        self._is_of_ranks = False  # the worker is several processes
        self._is_finished = False
        self._must_report = False
        self._has_left = False
        self._has_failed = False
        self._at_end: list[Callable[[], Optional[Callable[[], None]]]] = []
        _ending.watch(self)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: object) -> None:
        if error is not None and not isinstance(error, (SystemExit, _errors.JobFailed)):
            _ending.fail(self, error)
        self.close()

    def table(self, name: str, initial: Any, *, optimizer: Optional[Optimizer] = None,
              layer: Optional[int] = None, stddev: float = 0.0,
              replies_mean: bool = False, _elsewhere: bool = False,
              _tensor: Optional[str] = None) -> Table:
        """Adds a parameter tensor. Every worker adds the same tables in the same order.

        name: no two tables have the same.
        initial: a shape (a tuple of sizes): the table begins with values that the servers draw from
        a normal distribution with standard deviation `stddev`. Or an array, or a list of numbers:
        its values in worker 0 count. A job that goes on from a checkpoint, or has --initial, takes
        none of them.
        optimizer: the job's unless given.
        layer: tables of one layer are pushed and pulled together. Layers are counted from the
        input, 0, 1, ... without gaps; one of its own after the others unless given.
        replies_mean: the program runs the optimizer, under BSP. The first values are the parameters;
        after a step in which a worker has a gradient (Table.updates has grown) they are the mean of
        all workers' gradients. Rank 0 gives the parameters for checkpoints to Table.keep.

        Raises InvalidArgument; WrongOrder after `start`.
        """
        if initial is None or isinstance(initial, numbers.Integral):
            raise _errors.InvalidArgument(
                f"table {name}: expected a shape, or an array of initial values, got {initial}; "
                "(8,) is the shape of 8 values")
        if _elsewhere:
            initial = tuple(initial)
        is_shape = (isinstance(initial, tuple)
                    and all(isinstance(size, numbers.Integral) for size in initial))
        memory = None if is_shape else _memory.memory_of(initial)
        shape = tuple(int(size) for size in initial) if is_shape else _shape_of(initial)
        index = self._layer_index(layer)
        stddev = float_of("stddev", stddev)
        number = self._add_table(name, shape, optimizer, index, memory, stddev, replies_mean,
                                 _elsewhere, _tensor)
        if index not in self._layers:
            self._layers[index] = Layer(self._open, index)
        table = Table(self._open, number, name, shape, self._layers[index])
        self._layers[index].tables.append(table)
        if len(self._layers[index].tables) == 2:
            self._shared_layers.append(self._layers[index])
        return table

    def sparse_table(self, name: str, dim: int, *, optimizer: Optional[Optimizer] = None,
                     stddev: float = 0.0, layer: Optional[int] = None, admitting_push: int = 1,
                     max_idle_steps: int = 0, max_rows: int = 0) -> SparseTable:
        """Adds a table from 64-bit keys to rows of `dim` values. Every worker adds the same tables
        in the same order.

        optimizer: the job's unless given: SGD, Adagrad, RowAdagrad, Adam or FTRL.
        stddev: rows begin with values from a normal distribution around 0 with this standard
        deviation. They depend on the job's seed, the table and the key alone.
        layer: for its place in the order of sending; as in `table`.
        admitting_push: a key has a row from this push on, 1 to 255. Gradients before are dropped.
        max_idle_steps: a row goes after more than this number of steps without a push or a pull of
        it, with the next push of rows in its shard. 0: it stays.
        max_rows: if there are more rows, those that were idle longest go; each shard has an equal
        part. 0: any number.

        Raises InvalidArgument; WrongOrder after `start`.
        """
        limits = {"dim": dim, "admitting_push": admitting_push, "max_idle_steps": max_idle_steps,
                  "max_rows": max_rows}
        for argument, value in limits.items():
            is_64_bits = argument.startswith("max_")
            expect_whole(argument, value, 2**63 if is_64_bits else 2**32)
        index = self._layer_index(layer)
        fields: dict[str, object] = dict(limits)
        if optimizer is not None:
            _expect_optimizer(optimizer)
            fields["optimizer"] = ctypes.pointer(optimizer._as_row_struct())
        number = ctypes.c_int32()
        _library.check(self._open.library.capstan_add_sparse_table(
            self._open.pointer(), _library.SparseTableStruct(
                struct_size=ctypes.sizeof(_library.SparseTableStruct), name=_bytes_of(name),
                layer=index, initial_stddev=stddev, **fields), number))
        self._layers.setdefault(index, Layer(self._open, index))
        return SparseTable(self._open, number.value, name, dim)

    def _layer_index(self, layer: Optional[int]) -> int:
        if layer is None:
            return max(self._layers, default=-1) + 1
        expect_whole("layer", layer, 2**31)
        return layer

    def _add_table(self, name: str, shape: tuple[int, ...], optimizer: Optional[Optimizer],
                   layer: int, memory: Optional[_memory.Memory], stddev: float,
                   replies_mean: bool, elsewhere: bool, tensor: Optional[str]) -> int:
        """Returns the table's number.

        elsewhere: another process of the worker exchanges it.
        tensor: the table is rows of the tensor of this name.
        """
        if memory is not None and memory.on_gpu:
            raise _errors.InvalidArgument(
                f"table {name}: expected initial values in the CPU's memory; copy them there")
        fields: dict[str, object] = {}
        if optimizer is not None:
            _expect_optimizer(optimizer)
            fields["dense_optimizer"] = ctypes.pointer(optimizer._as_struct())
        if memory is not None:
            fields.update(initial=memory.pointer, initial_dtype=memory.dtype)
        number = ctypes.c_int32()
        _library.check(self._open.library.capstan_add_table(
            self._open.pointer(), _library.TableStruct(
                struct_size=ctypes.sizeof(_library.TableStruct), name=_bytes_of(name),
                shape=(ctypes.c_uint64 * len(shape))(*shape), dimensions=len(shape), layer=layer,
                initial_from_worker=memory is not None or elsewhere, initial_stddev=stddev,
                replies_mean=replies_mean, elsewhere=elsewhere,
                tensor=None if tensor is None else _bytes_of(tensor), **fields),
            number))
        return number.value

    def _set_local_steps(self, sync_every: int, round_seconds: float, fragments: int,
                         fragment_sync_delay: int) -> None:
        """Each step of the job is a round of these local steps. Before `start`."""
        whole = {"sync_every": sync_every, "fragments": fragments,
                 "fragment_sync_delay": fragment_sync_delay}
        for argument, value in whole.items():
            expect_whole(argument, value, 2**63 if argument == "sync_every" else 2**31)
        _library.check(self._open.library.capstan_set_local_steps(
            self._open.pointer(), _library.LocalStepsStruct(
                struct_size=ctypes.sizeof(_library.LocalStepsStruct),
                round_seconds=float_of("round_seconds", round_seconds),
                **{argument: int(value) for argument, value in whole.items()})))

    def _note_round(self, local_steps: int, drift: float) -> None:
        """What the round is that is under way, for progress and reports. Before `end_step`."""
        expect_whole("local_steps", local_steps, 2**63)
        _library.check(self._open.library.capstan_note_round(
            self._open.pointer(), int(local_steps), float_of("drift", drift)))

    def _advise_on_gradients(self, text: str) -> None:
        """What errors say about gradients that are not finite."""
        self._open.advice_on_gradients = text

    def start(self) -> None:
        """Joins the job, and waits until all its processes are there.

        Raises JobFailed, also if the job has no place for this worker, or other workers have other
        tables.
        """
        self._open.wait_for(self._open.library.capstan_start)

    @property
    def rank(self) -> int:
        """This worker's, from 0. -1 before `start`."""
        return int(self._open.library.capstan_rank(self._open.pointer()))

    @property
    def _incarnation(self) -> int:
        return int(self._open.library.capstan_incarnation(self._open.pointer()))

    @property
    def num_workers(self) -> int:
        return int(self._open.library.capstan_num_workers(self._open.pointer()))

    @property
    def step(self) -> int:
        """The step that comes next. -1 before `start`. The first one is 0, unless the job goes on
        from a checkpoint, or the worker has taken the place of a lost one."""
        return int(self._open.library.capstan_step(self._open.pointer()))

    @property
    def _may_end(self) -> bool:
        """There may be no further step."""
        return self._has_agreed_to_stop or 0 < self.steps <= self.step

    @property
    def steps(self) -> int:
        """The number of steps that the job names (--steps). 0: none."""
        return int(self._open.library.capstan_steps_of_job(self._open.pointer()))

    @property
    def learning_rate(self) -> Optional[float]:
        """The learning rate of all tables, if it was set here. It counts from the next push on; 0
        or more. In BSP the smallest rank's counts."""
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: float) -> None:
        self._open.set_learning_rate(-1, learning_rate)
        self._learning_rate = learning_rate

    # What this worker keeps from step to step beside the tables, in named pieces: capstan.h says more.

    def put_worker_state(self, name: str, data: bytes) -> None:
        """The piece is `data` from now on, for checkpoints that are cut before the step that comes
        next, or before later ones. At most 64 MiB together.

        Raises InvalidArgument; WrongOrder before `start`, and in a job without a dense table.
        """
        _library.check(self._open.library.capstan_worker_state_put(
            self._open.pointer(), _bytes_of(name), data, len(data)))

    def worker_state(self, name: str) -> Optional[bytes]:
        """The piece in the checkpoint from which the job goes on. None: it has none, or the job has
        begun anew."""
        size = ctypes.c_size_t(0)
        call = self._open.library.capstan_worker_state_get
        status = call(self._open.pointer(), _bytes_of(name), None, size)
        if status == _library.WRONG_ORDER and self.step >= 0:
            return None
        _library.check(status)
        data = ctypes.create_string_buffer(size.value)
        _library.check(call(self._open.pointer(), _bytes_of(name), data, size))
        return data.raw[:size.value]

    def worker_state_is_due(self) -> bool:
        """Whether a checkpoint waits for the pieces. Who asks once, before each step, puts them only
        then, and before `finish`. Waits for the values of the first dense table."""
        is_due = ctypes.c_int32()
        self._open.wait_for(self._open.library.capstan_worker_state_due, is_due)
        return bool(is_due.value)

    def end_step(self, loss: float = _NOT_KNOWN, samples: int = 0) -> None:
        """Ends a step. Tables that were not pushed in it had no gradient.

        loss: the mean over `samples` samples, for progress and reports.
        """
        loss = float_of("loss", loss)
        expect_whole("samples", samples, 2**63)
        for layer in self._shared_layers:
            layer.expect_complete()
        self._open.wait_for(self._open.library.capstan_end_step, loss, int(samples))

    def _wait_for_all(self) -> None:
        """Until no exchange is open."""
        self._open.wait_for(self._open.library.capstan_wait, -1)

    def finish(self) -> bool:
        """No further step. Waits until all workers have done theirs, which are equally many.

        Returns whether this worker evaluates. If so, its values are the final ones, and the job's
        end waits for its `report`, or its `close`. Else the job has ended.
        """
        is_evaluator = ctypes.c_int32()
        self._open.wait_for(self._open.library.capstan_finish, is_evaluator)
        self._is_finished = True
        self._must_report = bool(is_evaluator.value)
        return self._must_report

    def report(self, test_accuracy: float = _NOT_KNOWN, test_loss: float = _NOT_KNOWN,
               samples: int = 0) -> None:
        """The evaluator's result for the job's summary: accuracy (0 to 1) and mean loss over
        `samples` held-out samples. Waits for the job's end."""
        self._open.wait_for(self._open.library.capstan_report, test_accuracy, test_loss, samples)
        self._must_report = False
        self._end()

    def leave(self) -> None:
        """Leaves the job after the step under way: the others go on, and another process may take
        this one's place. A later call raises LeftJob."""
        if self._is_of_ranks:  # others may have exchanges under way, and were not asked
            return self.fail("a rank of the worker was asked to end")
        _library.check(self._open.library.capstan_leave(self._open.pointer()))
        self._has_left = True

    def fail(self, reason: str) -> None:
        """Ends the whole job with this reason."""
        handle = self._open.open_handle()
        self._has_failed = True
        text = reason.encode(errors="replace")
        try:
            in_thread(lambda: int(self._open.library.capstan_fail(handle.pointer, text)))
        except KeyboardInterrupt:
            handle.keep_open()
            raise

    def close(self) -> None:
        """Ends this worker's part. Before `finish` it ends the whole job.

        Arrays that are views of tables stay valid, but no longer change.
        """
        if self._open.handle is None:
            return
        _ending.forget(self)
        try:
            if self._must_report:
                self.report()
            elif not (self._is_finished or self._has_left or self._has_failed) and self.rank >= 0:
                self.fail("a worker's program closed the job before its end; expected finish() "
                          "after the last step")
        except (_errors.Error, _errors.LeftJob):
            pass  # it has ended already
        self._open.close()
        self._end()

    def _call_at_end(self, call: weakref.WeakMethod[Callable[[], None]]) -> None:
        """Calls it once the job has ended or is closed, if it still lives then; perhaps twice."""
        self._at_end.append(call)

    def _end(self) -> None:
        for reference in self._at_end:
            call = reference()
            if call is not None:
                call()

    def _has_all_values(self) -> bool:
        """Whether the values of all tables have arrived."""
        status = self._open.library.capstan_wait(self._open.pointer(), -1, 0)
        if status == _library.TIMEOUT:
            return False
        _library.check(status)
        return True


def _shape_of(initial: Any) -> tuple[int, ...]:
    if hasattr(initial, "shape"):
        return tuple(int(size) for size in initial.shape)
    import numpy  # the package works without it

    return numpy.shape(initial)
