"""A worker process of harness.Workers: runs the cases that it reads, one for each line of input."""

from __future__ import annotations

import gc
import importlib
import json
import sys
import traceback

import capstan


def run(cases, order: dict) -> str:
    """Runs one case with a job that is connected, and not started."""
    cases.coordinator = order["coordinator"]
    job = capstan.connect(order["coordinator"], rank=order["rank"])
    try:
        getattr(cases, order["case"])(job, order["rank"], **order["arguments"])
        return "passed"
    except BaseException:
        return traceback.format_exc()
    finally:
        job.close()


def main(module: str) -> None:
    cases = importlib.import_module(module)
    for line in sys.stdin:
        print(json.dumps(run(cases, json.loads(line))), flush=True)
        gc.collect()  # frees the job: models and hooks know each other


if __name__ == "__main__":
    main(sys.argv[1])
