"""Checks within cases."""

from __future__ import annotations

from typing import Callable


def expect(is_right: bool, text: str) -> None:
    if not is_right:
        raise AssertionError(text)


def expect_raises(kind: type[BaseException], text: str, call: Callable[[], object]) -> None:
    """Fails unless the call raises this error with this text in its message."""
    try:
        call()
    except kind as error:
        expect(text in str(error), f"expected '{text}' in: {error}")
    else:
        raise AssertionError(f"expected {kind.__name__} with '{text}'")
