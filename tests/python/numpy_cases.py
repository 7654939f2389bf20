"""Cases of numpy_test.py, as those of torch_cases.py."""

from __future__ import annotations

import ctypes
import pathlib
import subprocess
import time

import numpy

import capstan
from capstan import Job
from expectations import expect, expect_raises

STEPS = 5

coordinator = ""  # of the case's job; run_cases sets it


def _samples(step: int, rank: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    random = numpy.random.default_rng(10 * step + rank)
    x = random.normal(size=(16, 4)).astype(numpy.float32)
    return x, x @ numpy.array([1, -2, 3, 0.5], dtype=numpy.float32) + 1


def _gradients(w: numpy.ndarray, b: numpy.ndarray, step: int, rank: int):
    x, y = _samples(step, rank)
    error = x @ w + b - y
    return x.T @ error / len(y), error.mean(keepdims=True), float((error ** 2).mean())


def regression(job: Job, rank: int) -> None:
    """Linear regression by Adam and momentum, beside the formulas. The learning rate changes."""
    w = job.table("w", numpy.full(4, 1.0 + rank), optimizer=capstan.Adam(lr=0.1))
    b = job.table("b", [0.5], optimizer=capstan.SGD(lr=0.1, momentum=0.5, weight_decay=0.1))
    expect(job.rank == -1 and job.step == -1, "expected no rank and no step yet")
    expect_raises(capstan.WrongOrder, "", lambda: w.values_buffer())
    job.start()
    expect((job.rank, job.num_workers, job.step, job.steps) == (rank, 2, 0, STEPS), "the job")
    expect_w, expect_b = numpy.ones(4), numpy.full(1, 0.5)
    first, second, velocity = numpy.zeros(4), numpy.zeros(4), numpy.zeros(1)
    for step in range(STEPS):
        rate = 0.1 if step < 3 else 0.05
        if step == 3:
            job.learning_rate = rate
        expect(numpy.allclose(w.values, expect_w, atol=1e-5), f"step {step}: {w.values}")
        expect(numpy.allclose(b.values, expect_b, atol=1e-5), f"step {step}: {b.values}")
        of_w, of_b, loss = _gradients(w.values, b.values, step, rank)
        both = [_gradients(expect_w, expect_b, step, other) for other in range(2)]
        w.push_pull(of_w)
        b.gradient[...] = of_b
        b.push_pull()
        job.end_step(loss, samples=16)

        mean_w = (both[0][0] + both[1][0]) / 2
        first, second = 0.9 * first + 0.1 * mean_w, 0.999 * second + 0.001 * mean_w ** 2
        expect_w = expect_w - rate * first / (1 - 0.9 ** (step + 1)) / (
            numpy.sqrt(second / (1 - 0.999 ** (step + 1))) + 1e-8)
        velocity = 0.5 * velocity + (both[0][1] + both[1][1]) / 2 + 0.1 * expect_b
        expect_b = expect_b - rate * velocity
    if job.finish():
        expect(numpy.allclose(w.values, expect_w, atol=1e-5), "expected the final values")
        job.report(test_accuracy=0.75, test_loss=0.5, samples=16)


class OnlyDlpack:
    """An array that has DLPack alone."""

    def __init__(self, array: numpy.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: object) -> object:
        return self._array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class OnlyPointer:
    """A tensor that has data_ptr alone, as those of torch. `bits` are the elements."""

    def __init__(self, dtype: str, bits: list[int]) -> None:
        self.dtype = f"torch.{dtype}"
        self._memory = (ctypes.c_uint16 * len(bits))(*bits)

    def data_ptr(self) -> int:
        return ctypes.addressof(self._memory)

    def numel(self) -> int:
        return len(self._memory)

    def is_contiguous(self) -> bool:
        return True

    def bits(self) -> list[int]:
        return list(self._memory)


def tensors_of_other_libraries(job: Job, rank: int) -> None:
    """SGD with learning rate 1 from 0: the values are the negative sum of what was pushed."""
    table = job.table("t", numpy.zeros((2, 3)), optimizer=capstan.SGD(lr=1.0))
    job.start()
    numbers = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    one, minus_two = 0x3f80, 0xc000  # of bfloat16
    gradients = [
        OnlyDlpack(numbers), OnlyDlpack(numbers.astype(numpy.float16)),
        OnlyPointer("bfloat16", [one] * 5 + [minus_two]), OnlyPointer("float16", [0x3c00] * 6),
        numbers.astype(numpy.float64), numbers.tolist(),
    ]
    expected = numpy.zeros((2, 3))
    for gradient, value in zip(gradients, [numbers, numbers, [[1, 1, 1], [1, 1, -2]],
                                           numpy.ones((2, 3)), numbers, numbers]):
        table.push_pull(gradient)
        job.end_step()
        expected -= value
        expect(numpy.array_equal(table.values, expected), f"{expected}, got {table.values}")
    read = OnlyPointer("bfloat16", [0] * 6)
    table.read(read)
    exact = (numpy.array(read.bits(), dtype=numpy.uint32) << 16).view(numpy.float32)
    expect(numpy.array_equal(exact, expected.flatten()), f"expected these numbers, got {exact}")
    array = numpy.zeros((2, 3))
    table.read(array)
    expect(numpy.array_equal(array, expected), "expected the values in the array")
    for wrong, text in [(numpy.zeros(5), "expected shape (2, 3)"),
                        (OnlyDlpack(numpy.zeros(6)), "expected elements of float32"),
                        (OnlyDlpack(numbers.T), "row by row")]:
        expect_raises(capstan.InvalidArgument, text, lambda: table.push_pull(wrong))
    job.finish()


def finishes_late(job: Job, rank: int) -> None:
    """The others have done all steps, and the job may be done, when this worker reads and ends."""
    table = job.table("t", (2,), optimizer=capstan.SGD(lr=1.0))
    job.start()
    for _ in range(job.steps):
        table.push_pull(numpy.ones(2))
        job.end_step()
    if rank == 1:
        time.sleep(0.5)
    expect(table.values.tolist() == [-job.steps] * 2, str(table.values))
    expect_raises(capstan.WrongOrder, "all 3 steps are done", lambda: table.push_pull([1.0, 1.0]))
    if job.finish():
        job.report()


def tables_of_a_layer(job: Job, rank: int) -> None:
    """They go together, and end_step tells if one of them lacks its gradient."""
    shapes: list[tuple[int, ...]] = [(2,), (), (3, 1)]
    a, b, c = (job.table(f"t{i}", shape, layer=layer, optimizer=capstan.SGD(lr=0.5))
               for i, (shape, layer) in enumerate(zip(shapes, (0, 0, 1))))
    expect_raises(capstan.InvalidArgument, "", lambda: job.table("t0", (2,)))
    job.start()
    expect_raises(capstan.WrongOrder, "", lambda: job.table("late", (2,)))
    expect([t.values.shape for t in (a, b, c)] == shapes, "the shapes")
    a.push_pull(numpy.ones(2))
    expect_raises(capstan.WrongOrder, "has its gradient of this step",
                  lambda: a.push_pull(numpy.zeros(2)))
    expect_raises(capstan.WrongOrder, "has a gradient of t0, but not", job.end_step)
    b.push_pull(numpy.float32(2))
    job.end_step()
    expect(a.values.tolist() == [-0.5, -0.5] and float(b.values) == -1.0, "a and b")
    expect(c.values.tolist() == [[0], [0], [0]], "expected c as it was")
    job.finish()


def values_that_the_servers_draw(job: Job, rank: int) -> None:
    drawn = job.table("drawn", (1000,), stddev=0.5)
    zero = job.table("zero", (3,))
    job.start()
    expect(0.45 < drawn.values.std() < 0.55 and abs(drawn.values.mean()) < 0.1, "the distribution")
    expect(zero.values.tolist() == [0, 0, 0], "expected zeros")
    expect_raises(capstan.InvalidArgument, "samples", lambda: job.end_step(1.0, -1))
    job.end_step()
    job.finish()


def names_the_table_of_a_nan(job: Job, rank: int) -> None:
    """In both workers, with what helps in a program without torch."""
    table = job.table("t", numpy.zeros(3), optimizer=capstan.SGD(lr=1.0))
    job.start()

    def train() -> None:
        table.push_pull(numpy.array([0.0, float("nan") if rank == 1 else 0.0, 0.0]))
        for _ in range(9):
            job.end_step()
        job.finish()

    for text in ("slice 0 of table t: the gradient of worker 1 at step 0 holds a NaN",
                 "Try a smaller learning rate of the table's optimizer"):
        expect_raises(capstan.JobFailed, text, train)


def refuses_other_shapes(job: Job, rank: int) -> None:
    table = job.table("t", numpy.zeros((2, 3)), optimizer=capstan.SGD(lr=1.0))
    for text, call in (
            ("layer: expected", lambda: job.table("wrong", (2,), layer=2**40)),
            ("got 5", lambda: job.table(5, (2,))),
            ("optimizer: expected", lambda: job.table("wrong", (2,), optimizer="sgd")),
            ("stddev: expected", lambda: job.table("wrong", (2,), stddev="much")),
            ("dim: expected", lambda: job.sparse_table("wrong", 2.5)),
            ("steps: expected", lambda: capstan.connect("127.0.0.1:1", steps=2**70)),
            ("rank: expected", lambda: capstan.connect("127.0.0.1:1", rank=2**33)),
            ("loss: expected", lambda: job.end_step("small"))):
        expect_raises(capstan.InvalidArgument, text, call)
    expect_raises(capstan.InvalidArgument, "(8,) is the shape", lambda: job.table("int", 8))
    job.start()
    expect_raises(capstan.InvalidArgument, "expected shape (2, 3)",
                  lambda: table.push_pull(numpy.zeros((3, 2))))
    expect_raises(capstan.InvalidArgument, "complex",
                  lambda: table.push_pull(numpy.zeros((2, 3), complex)))
    table.push_pull(numpy.arange(6.0))  # in a row
    job.end_step()
    expect(table.values.tolist() == [[0, -1, -2], [-3, -4, -5]], str(table.values))
    job.finish()


def other_shapes_are_reduced(job: Job, rank: int, shapes: list[list[int]], texts: list[str]) -> None:
    """The workers' arrays have as many elements each. Both hear of both shapes."""
    table = job.table("t", [0.0], optimizer=capstan.SGD(lr=1.0))
    job.start()
    expect(job.all_reduce(numpy.full((2, 1, 2), rank), "sum").tolist() == [[[1, 1]], [[1, 1]]],
           "the sum of a tensor")
    expect(job.broadcast(numpy.full((1, 2), rank), root=1).tolist() == [[1, 1]], "a broadcast")
    table.push_pull(numpy.zeros(1))
    job.end_step()
    for text in texts:
        expect_raises(capstan.JobFailed, text,
                      lambda: job.all_reduce(numpy.zeros(shapes[rank], numpy.float32)))


def views_outlive_the_job(job: Job, rank: int) -> None:
    table = job.table("t", numpy.arange(4))
    job.start()
    view = table.values
    job.end_step()
    job.finish()
    job.close()
    job.close()  # does nothing
    expect(view.tolist() == [0, 1, 2, 3], "expected the values")
    expect_raises(capstan.WrongOrder, "connect again", lambda: table.values)


def values_are_read_only(job: Job, rank: int) -> None:
    """What is written there would be lost: the servers have the values."""
    table = job.table("t", numpy.arange(4))
    job.start()
    values = table.values

    def write() -> None:
        values[0] = 7

    expect_raises(ValueError, "read-only", write)
    table.gradient[0] = 7
    table.push_pull()
    job.end_step()
    job.finish()


def ends_without_finish(job: Job, rank: int) -> None:
    """Rank 1 closes the job: rank 0 hears why it has failed."""
    table = job.table("t", (4,))
    if rank == 1:
        job.start()
        job.close()
        return

    def train() -> None:
        job.start()  # fails already if rank 1 was faster
        table.push_pull(numpy.ones(4))
        job.end_step()
        job.finish()

    expect_raises(capstan.JobFailed, "closed the job before its end", train)
    expect_raises(capstan.JobFailed, "", lambda: table.values)


KEYS = numpy.array([7, -1, 2**40, 0, 12], dtype=numpy.int64)


def _rows_of(step: int, rank: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Keys of a worker's step, one of them twice, and their gradients."""
    random = numpy.random.default_rng(100 * step + rank)
    keys = random.choice(KEYS, size=4)
    return numpy.append(keys, keys[0]), random.normal(size=(5, 3)).astype(numpy.float32)


def sparse_tables(job: Job, rank: int) -> None:
    """Rows by Adagrad and by FTRL, beside the formulas; the next step's keys are fetched ahead."""
    items = job.sparse_table("items", 3, optimizer=capstan.Adagrad(lr=0.5), stddev=0.1)
    weights = job.sparse_table("weights", 1, optimizer=capstan.FTRL(lr=0.3, l1=0.1, l2=0.2))
    bias = job.table("bias", numpy.zeros(1))
    expect_raises(capstan.WrongOrder, "capstan_start", lambda: items.pull(KEYS))
    job.start()
    initial = items.pull(KEYS)
    expect(initial.shape == (5, 3) and abs(initial).max() < 1 and initial.std() > 0.01, "initial")
    expect((items.pull(KEYS) == initial).all(), "expected the same rows again")
    expect(items.pull(KEYS.reshape(5, 1)).shape == (5, 1, 3), "expected the shape of the keys")
    rows = {key: row.astype(numpy.float64) for key, row in zip(KEYS.tolist(), initial)}
    squares = {key: numpy.zeros(3) for key in rows}
    values, z, n = ({key: 0.0 for key in rows} for _ in range(3))
    for step in range(STEPS):
        keys, gradients = _rows_of(step, rank)
        expected = numpy.array([rows[key] for key in keys.tolist()])
        expect(numpy.allclose(items.pull(keys), expected, atol=1e-5), f"items in step {step}")
        weights.fetch(keys)
        expected = numpy.array([[values[key]] for key in keys.tolist()])
        expect(numpy.allclose(weights.pull(keys), expected, atol=1e-5), f"weights in step {step}")
        items.push(keys, gradients, next_keys=_rows_of(step + 1, rank)[0])
        weights.push(keys, gradients[:, :1])
        expect_raises(capstan.WrongOrder, "items has been pushed", lambda: items.push(keys, gradients))
        if step % 2 == 0:
            weights.fetch(_rows_of(step + 1, rank)[0])  # of the next step, as the push has gone
        if step != 2:
            bias.push_pull([1.0])
        job.end_step()

        sums = {key: numpy.zeros(3) for key in rows}
        touched = set()
        for other in range(2):
            for key, gradient in zip(*_rows_of(step, other)):
                sums[int(key)] = sums[int(key)] + gradient / 2
                touched.add(int(key))
        for key in touched:
            squares[key] = squares[key] + sums[key] ** 2
            rows[key] = rows[key] - 0.5 * sums[key] / (numpy.sqrt(squares[key]) + 1e-10)
            g = sums[key][0]
            z[key] += g - (numpy.sqrt(n[key] + g * g) - numpy.sqrt(n[key])) / 0.3 * values[key]
            n[key] += g * g
            beyond = max(abs(z[key]) - 0.1, 0)
            values[key] = -numpy.sign(z[key]) * beyond / ((1 + numpy.sqrt(n[key])) / 0.3 + 0.2)
    if job.finish():
        expected = numpy.array([rows[key] for key in KEYS.tolist()])
        expect(numpy.allclose(items.pull(KEYS), expected, atol=1e-5), "expected the final rows")
        job.report()


def optimizer_state(job: Job, rank: int) -> None:
    """Adam beside its formula in float64, from a state that was loaded before the start."""
    first, second, steps = numpy.full(3, 0.5), numpy.full(3, 0.25), 7
    w = job.table("w", numpy.ones(3), optimizer=capstan.Adam(lr=0.1))
    plain = job.table("plain", (2,), optimizer=capstan.SGD(0.1))
    expect((w.optimizer_arrays, plain.optimizer_arrays) == (2, 0), "expected 2 arrays, and none")
    # Worker 0's counts.
    for number, array in enumerate((first, second)):
        w.load_optimizer_state(number, array + rank, steps + rank)
    expect_raises(capstan.InvalidArgument, "has 0 arrays of 2 numbers",
                  lambda: plain.load_optimizer_state(0, numpy.zeros(2), 1))
    job.start()
    values = numpy.ones(3)
    into = numpy.empty(3, dtype=numpy.float32)
    for step in range(4):
        gradient = numpy.array([1.0, -2.0, 0.5]) * (step + 1)
        w.push_pull(gradient)
        job.end_step()
        steps += 1
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        values -= (0.1 * first / (1 - 0.9**steps)
                   / (numpy.sqrt(second / (1 - 0.999**steps)) + 1e-8))
        for number, array in enumerate((first, second)):
            wide = numpy.zeros((3, 2))
            expect(w.read_optimizer_state(number, wide[:, 1]) == steps, f"expected {steps} steps")
            expect(numpy.allclose(wide[:, 1], array, rtol=1e-5), f"step {step}: {wide}")
            expect(w.read_optimizer_state(number, into) == steps, f"expected {steps} steps")
            expect(numpy.allclose(into, array, rtol=1e-5), f"step {step}: {into}, not {array}")
        expect(numpy.allclose(w.values, values, rtol=1e-5), f"step {step}: {w.values}")
    expect_raises(capstan.WrongOrder, "before the first gradient",
                  lambda: w.load_optimizer_state(0, into, 1))
    expect_raises(capstan.InvalidArgument, "got list", lambda: w.read_optimizer_state(0, [0.0] * 3))
    for wrong in (numpy.zeros(4), numpy.zeros((3, 1)), numpy.zeros(3, dtype=int)):
        expect_raises(capstan.InvalidArgument, "a writable array of floats of shape (3,)",
                      lambda: w.read_optimizer_state(0, wrong))
    for wrong_steps in (1.5, 2**64 + 3, -1):
        expect_raises(capstan.InvalidArgument, "steps: expected a whole number",
                      lambda: w.load_optimizer_state(0, into, wrong_steps))
    if job.finish():
        expect(w.read_optimizer_state(1, into) == steps, "expected the final state, too")
        job.report()


def optimizer_state_in_ssp(job: Job, rank: int) -> None:
    """Where nobody waits for worker 0's values, its state of the optimizer might come late."""
    w = job.table("w", numpy.ones(2), optimizer=capstan.SGD(0.5, momentum=0.5))
    drawn = job.table("drawn", (2,), optimizer=capstan.SGD(0.5, momentum=0.5))
    expect_raises(capstan.WrongOrder, "another worker's update may come before",
                  lambda: drawn.load_optimizer_state(0, numpy.ones(2), 1))
    w.load_optimizer_state(0, numpy.full(2, 9.0), 4)
    w.load_optimizer_state(0, numpy.full(2, 8.0), 3)  # the latest one counts
    job.start()
    into = numpy.empty(2)
    expect(w.read_optimizer_state(0, into) == 3, "expected 3 steps")
    expect(into.tolist() == [8.0, 8.0], f"got {into}")
    expect_raises(capstan.WrongOrder, "before the start",
                  lambda: w.load_optimizer_state(0, numpy.ones(2), 1))
    job.end_step()
    if job.finish():
        job.report()


def rows_are_read_by_others(job: Job, rank: int, folder: str) -> None:
    """capstan get prints what a worker pulls, and disturbs nobody."""
    items = job.sparse_table("items", 3, optimizer=capstan.Adagrad(lr=0.5), stddev=0.1)
    job.table("bias", numpy.zeros(1))
    job.start()
    while job.step < job.steps:
        rows = items.pull(KEYS)
        if rank == 0:
            # The step is not complete without this worker, so with BSP the servers have these rows.
            got = rows_of_get(f"--coordinator={coordinator}")
            expect([key for key, _ in got] == KEYS.tolist(), f"keys: {got}")
            for (_, row), expected in zip(got, rows):
                expect(row is None if job.step == 0 else row == expected.tolist(), f"{row}")
        items.push(KEYS, numpy.full((5, 3), 1.0 + rank))
        job.end_step()
    if job.finish():
        numpy.save(f"{folder}/final.npy", items.pull(KEYS))
        job.report()


def rows_of_get(place: str) -> list[tuple[int, list[float] | None]]:
    """What capstan get prints of KEYS: each key and its row, or None."""
    program = pathlib.Path(capstan.__file__).parent / "bin" / "capstan"
    keys = ",".join(map(str, KEYS.tolist()))
    run = subprocess.run([program, "get", "--table=items", f"--row_keys={keys}", place],
                         capture_output=True, text=True)
    expect(run.returncode == 0, run.stderr)
    rows = []
    for line in run.stdout.splitlines():
        key, values = line.removeprefix("key ").split(":")
        # Nine digits are enough to tell a float32.
        numbers = numpy.array(values.split(), dtype=numpy.float32) if "no row" not in line else None
        rows.append((int(key), None if numbers is None else numbers.tolist()))
    return rows


def refuses_other_rows(job: Job, rank: int) -> None:
    """What does not fit a sparse table."""
    items = job.sparse_table("items", 2, optimizer=capstan.SGD(lr=0.1))
    job.table("w", (1,))
    for arguments, message in [({"dim": 0}, "dim"), ({"dim": 2000}, "dim"),
                               ({"dim": 1, "admitting_push": -1}, "admitting_push"),
                               ({"dim": 1, "optimizer": capstan.SGD(lr=1, momentum=0.5)}, "momentum"),
                               ({"dim": 1, "optimizer": capstan.AdamW(lr=1)}, "weight_decay")]:
        expect_raises(capstan.InvalidArgument, message, lambda: job.sparse_table("x", **arguments))
    expect_raises(capstan.InvalidArgument, "dense",
                  lambda: job.table("x", (1,), optimizer=capstan.FTRL(lr=1)))
    job.start()
    expect_raises(capstan.InvalidArgument, "integers", lambda: items.pull([0.5]))
    expect_raises(capstan.InvalidArgument, "shape", lambda: items.push([1], [[1.0, 2.0, 3.0]]))
    expect_raises(capstan.InvalidArgument, "shape",
                  lambda: items.push([1, 2, 3], numpy.zeros((2, 3))))
    expect(items.pull([]).shape == (0, 2), "expected no rows")
    items.push([], numpy.zeros((0, 2)))
    job.end_step()
    if job.finish():
        job.report()
