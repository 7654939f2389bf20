"""What can go wrong, by kind. Every message says what to do."""

from __future__ import annotations


class Error(Exception):
    """The base of this package's errors. LeftJob is not one: it ends the program."""


class InvalidArgument(Error, ValueError):
    """An argument of the call. The job is unchanged."""


class WrongOrder(Error):
    """The call does not fit here, as a push before the start."""


class JobFailed(Error):
    """The job has failed, or its processes cannot be reached. It is over for this process."""


class Forked(Error):
    """The job belongs to the parent process, as in a worker of a DataLoader."""


class OutOfMemory(Error, MemoryError):
    """There is not enough memory for the call. Buffers that do not fit fail the job: JobFailed."""


class LeftJob(SystemExit):
    """The worker has left the job, as SIGTERM asks it to, or as it took a lost one's place after
    the others' last step. The others go on.

    It is no Error, so that `except Exception` does not stop the program's end. If nothing catches
    it, the program ends with exit code 143, as if SIGTERM had killed it.
    """

    def __init__(self, message: str) -> None:
        super().__init__(143)
        self.message = message

    def __str__(self) -> str:
        return self.message
