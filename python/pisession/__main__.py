"""`python -m pisession` is the command line of the same name, where that is installed."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from typing import NoReturn

_NAME = "pisession"


def find() -> str | None:
    """Find the program: beside this interpreter, or else on PATH."""
    beside = shutil.which(_NAME, path=sysconfig.get_path("scripts"))
    return beside or shutil.which(_NAME)


def main() -> NoReturn:
    """Become the program, with the same arguments."""
    program = find()
    if program is None:
        print(
            f"python -m {_NAME}: the command line {_NAME!r} is not installed.\n"
            f"It is neither in {sysconfig.get_path('scripts')} nor on PATH. Build it from the "
            "source with `cargo install --path cli` or `make install`.",
            file=sys.stderr,
        )
        sys.exit(127)
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
