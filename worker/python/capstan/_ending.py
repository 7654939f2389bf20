"""What ends a program, and what it means for its jobs: SIGTERM, exceptions, a fork."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
import traceback
import weakref
from types import FrameType, TracebackType
from typing import Optional, Protocol

from capstan import _errors

# Waits return to Python after this time, so that it can handle signals.
WAIT_MS = 100


class Watched(Protocol):
    """A job, as far as a program's end concerns it."""

    def leave(self) -> None: ...

    def fail(self, reason: str) -> None: ...

    def close(self) -> None: ...


_jobs: weakref.WeakSet[Watched] = weakref.WeakSet()
_next_hook = sys.excepthook
_is_hooked = False


def watch(job: Watched) -> None:
    """From now on, SIGTERM leaves the job, and an exception that nothing catches ends it."""
    global _is_hooked, _next_hook
    _jobs.add(job)
    if (threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL):
        signal.signal(signal.SIGTERM, _leave_jobs)
    if not _is_hooked:
        _next_hook, sys.excepthook = sys.excepthook, _fail_jobs
        os.register_at_fork(after_in_child=_forget_parent)
        atexit.register(_close_jobs)
        _is_hooked = True


def forget(job: Watched) -> None:
    """The job is closed."""
    _jobs.discard(job)


def text_of(error: BaseException) -> str:
    """The error and where the program raised it, or called what did, in one line."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if os.path.dirname(one.filename) != os.path.dirname(__file__)]
    return f"{text} ({own[-1].filename}:{own[-1].lineno})" if own else text


def fail(job: Watched, error: BaseException) -> None:
    """Ends the job with the error's text, unless it has ended."""
    try:
        job.fail(text_of(error))
    except (_errors.Error, _errors.LeftJob):
        pass


def _leave_jobs(number: int, frame: Optional[FrameType]) -> None:
    # A second one ends the program at once.
    signal.signal(number, signal.SIG_DFL)
    left = 0
    for job in list(_jobs):
        try:
            job.leave()
            left += 1
        except _errors.Error:
            pass  # it has ended, or has not begun
    if left == 0:
        sys.exit(128 + number)


def _fail_jobs(kind: type[BaseException], error: BaseException,
               trace: Optional[TracebackType]) -> None:
    for job in list(_jobs):
        fail(job, error)
    _next_hook(kind, error, trace)


def _close_jobs() -> None:
    """At the program's end, before the library's memory of the jobs is freed."""
    has_open = bool(_jobs)
    for job in list(_jobs):
        job.close()
    if has_open and threading.active_count() > 1:
        # A daemon thread may be in a wait, which ends after this time.
        time.sleep(2 * WAIT_MS / 1000)


def _forget_parent() -> None:
    _jobs.clear()
    if signal.getsignal(signal.SIGTERM) is _leave_jobs:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
