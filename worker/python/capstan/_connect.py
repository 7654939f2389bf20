"""How a program becomes a worker of a job."""

from __future__ import annotations

import ctypes
import os
from typing import Optional

from capstan import _library
from capstan._arguments import expect_whole, float_of
from capstan._job import Job
from capstan._open_job import OpenJob, in_thread


def connect(coordinator: Optional[str] = None, *, keys: Optional[str] = None,
            insecure: bool = False, rank: Optional[int] = None, steps: int = 0,
            rpc_deadline_seconds: float = 30.0, device: Optional[str] = None,
            trace: Optional[str] = None, record_history: Optional[str] = None,
            metrics_listen: Optional[str] = None, health_listen: Optional[str] = None,
            replaceable: bool = False, _part: int = 0, _incarnation: int = 0,
            _processes: Optional[str] = None) -> Job:
    """Reads the job from its coordinator. All arguments may be left out in a program that
    `capstan run --worker_command` has started.

    coordinator: HOST:PORT, or several with commas between them, tried in turn; the environment's
        CAPSTAN_COORDINATOR unless given.
    keys: the folder with this process's keys; CAPSTAN_KEYS unless given; without it: plaintext.
    insecure: plaintext although there are keys.
    rank: this worker's, from 0; the environment's CAPSTAN_RANK or RANK unless given, else the next
        free one.
    steps: of every worker, if they are known; the job's status shows them.
    rpc_deadline_seconds: how long to retry while the coordinator cannot be reached. If it keeps
        its state, it has the job's --coordinator_seconds once it has answered.
    device: what the worker computes on, for people: "cuda:0 (NVIDIA H200)". If it has no kind in
        parentheses, the CPU's is added.
    trace, record_history, metrics_listen, health_listen: as the flags of capstan_worker.
    replaceable: under BSP: this program's data, random draws and state depend on the job, its rank
        and the step (Job.step) alone. So another process can do the open step of a lost one again,
        with the same bits. In all workers, or in none. Operations of all workers are then within
        steps, after a wait for values, or behind the loop over all --steps.

    In the main thread SIGTERM asks the worker to leave the job, unless the program has a handler of
    its own: the call after the end of a step then raises LeftJob. An exception that nothing catches
    ends the job, with its text.

    Raises InvalidArgument: CAPSTAN_COORDINATOR, or another argument, is malformed; JobFailed: the
    coordinator cannot be reached, or its job is not for programs.
    """
    expect_whole("rank", rank or 0, 2**31)
    expect_whole("steps", steps, 2**63)
    rpc_deadline_seconds = float_of("rpc_deadline_seconds", rpc_deadline_seconds)
    options = _library.ConnectOptions(
        struct_size=ctypes.sizeof(_library.ConnectOptions), coordinator=_bytes(coordinator),
        keys=_bytes(keys), insecure=insecure, has_rank=rank is not None, rank=rank or 0,
        steps=steps, rpc_deadline_seconds=rpc_deadline_seconds, device=_bytes(device),
        trace=_bytes(trace), record_history=_bytes(record_history),
        metrics_listen=_bytes(metrics_listen), health_listen=_bytes(health_listen),
        replaceable=replaceable, part=_part, incarnation=_incarnation,
        processes=_bytes(_processes))
    pointer = ctypes.c_void_p()
    library = _library.load()
    in_thread(lambda: int(library.capstan_connect(options, pointer)))
    job = Job(OpenJob(pointer))
    job._is_replaceable = replaceable
    return job


def _bytes(text: Optional[str]) -> Optional[bytes]:
    return None if text is None else os.fsencode(text)
