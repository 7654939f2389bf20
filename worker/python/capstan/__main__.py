"""`python -m capstan ARGUMENTS` is `capstan ARGUMENTS`, the program that came with the package."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Becomes the program."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "capstan")
    os.execv(program, ["capstan", *sys.argv[1:]])


if __name__ == "__main__":
    main()
