"""A worker process of harness.Workers: runs the cases that it reads, one for each line of input."""

from __future__ import annotations

import gc
import importlib
import json
import sys
import traceback

import capstan


def run(cases, order: dict) -> str:
    """Runs one case with a job that is connected, and not started. One of several ranks of a worker
    connects by itself."""
    cases.coordinator = order["coordinator"]
    job = None
    try:
        if "ranks" in order:
            getattr(cases, order["case"])(order, **order["arguments"])
        else:
            job = capstan.connect(order["coordinator"], rank=order["rank"])
            getattr(cases, order["case"])(job, order["rank"], **order["arguments"])
        return "passed"
    except BaseException:
        return traceback.format_exc()
    finally:
        if job is not None:
            job.close()


def main(module: str) -> None:
    cases = importlib.import_module(module)
    for line in sys.stdin:
        order = json.loads(line)
        result = run(cases, order)
        print(json.dumps(result), flush=True)
        if "ranks" in order and result != "passed":
            sys.exit(1)  # which ends the job that it has connected to
        gc.collect()  # frees the job: models and hooks know each other


if __name__ == "__main__":
    main(sys.argv[1])
