"""Capstan within libraries that have a training loop of their own. Each module needs its library."""

from __future__ import annotations

import capstan.torch as ct


def end_job() -> None:
    """Waits for the other workers' last steps, and ends the job, so that all go on together."""
    if ct._attached is not None and not ct._attached.is_over and ct.finish():
        ct.report()
