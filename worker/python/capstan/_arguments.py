"""Arguments of the package's calls, as the library takes them."""

from __future__ import annotations

import numbers
from typing import Any

from capstan import _errors


def expect_whole(argument: str, value: object, end: int) -> None:
    """Raises InvalidArgument unless it is a whole number from 0 to below `end`."""
    if not isinstance(value, numbers.Integral) or not 0 <= int(value) < end:
        raise _errors.InvalidArgument(
            f"{argument}: expected a whole number from 0 to {end - 1}, got {value!r}")


def float_of(argument: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise _errors.InvalidArgument(f"{argument}: expected a number, got {value!r}") from None
