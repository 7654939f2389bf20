"""A table of rows under 64-bit keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from capstan import _errors
from capstan._open_job import OpenJob

if TYPE_CHECKING:
    import numpy
    import numpy.typing


class SparseTable:
    """A table from any 64-bit keys to rows of `dim` float32; made by Job.sparse_table.

    A row comes into being when it is first pushed. Keys are integers in an array of NumPy or a
    tensor of PyTorch, of any shape; negative ones count as their two's complement. One thread at a
    time uses a table or ends a step. Needs NumPy.
    """

    def __init__(self, job: OpenJob, index: int, name: str, dim: int) -> None:
        self.name = name
        self.dim = dim
        self._job = job
        self._index = index
        self._learning_rate: Optional[float] = None

    def pull(self, keys: Any) -> numpy.typing.NDArray[numpy.float32]:
        """The rows of the keys, with the values of the step that comes next or that is under way;
        or of the next one, after the push of that step. Waits until they have arrived. An array of
        the keys' shape and `dim`. A key may be there twice. Rows without a push have their initial
        values."""
        import numpy

        array = self._keys(keys)
        self._begin(array)
        rows = numpy.empty((array.size, self.dim), dtype=numpy.float32)
        self._job.wait_for(self._job.library.capstan_read_rows, self._index, rows.ctypes.data,
                           rows.size)
        return rows.reshape((*numpy.shape(keys), self.dim))

    def fetch(self, keys: Any) -> None:
        """Begins to pull these keys, which the next `pull` then has sooner. After this step's push it
        waits first until the other workers have pushed; `next_keys` does not."""
        self._begin(self._keys(keys))

    def push(self, keys: Any, gradients: Any, *, next_keys: Any = None) -> None:
        """Sends this step's gradients of the rows of the keys, once a step.

        keys: those of the last `pull`, in the same order, are not sent again.
        gradients: of the keys' shape and `dim`. Those of a key that is there twice are added up.
        next_keys: the keys of the next step, if they are known: their rows are fetched ahead.
        """
        import numpy

        array = self._keys(keys)
        values = numpy.ascontiguousarray(gradients, dtype=numpy.float32)
        if values.shape != (*numpy.shape(keys), self.dim):
            raise _errors.InvalidArgument(
                f"table {self.name}: expected gradients of shape "
                f"{(*numpy.shape(keys), self.dim)}, got {values.shape}")
        ahead = self._keys([] if next_keys is None else next_keys)
        self._job.wait_for(self._job.library.capstan_push_rows, self._index, array.ctypes.data,
                           array.size, values.ctypes.data, ahead.ctypes.data, ahead.size)

    @property
    def learning_rate(self) -> Optional[float]:
        """As Table.learning_rate. FTRL does not use it."""
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: float) -> None:
        self._job.set_learning_rate(self._index, learning_rate)
        self._learning_rate = learning_rate

    def _begin(self, keys: numpy.typing.NDArray[numpy.uint64]) -> None:
        self._job.wait_for(self._job.library.capstan_pull_rows, self._index, keys.ctypes.data,
                           keys.size)

    def _keys(self, keys: Any) -> numpy.typing.NDArray[numpy.uint64]:
        import numpy

        array = numpy.asarray(keys)
        if array.size == 0:
            return numpy.empty(0, dtype=numpy.uint64)
        if array.dtype.kind not in "iu":
            raise _errors.InvalidArgument(
                f"table {self.name}: expected keys that are integers, got {array.dtype}")
        return numpy.ascontiguousarray(array.reshape(-1)).astype(numpy.uint64, copy=False)
