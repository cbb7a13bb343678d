"""The tests. They keep bytecode where the environment says no, too: each run, and each program that one starts, would
compile everything anew. `tests.mutate` has its own word for no, since its files change several times in a second.

With `TESTS_ON=windows` the package sees Windows (`tests/windows/likeness.py`), from its first import on.
"""

import os
import sys
from typing import Final

MUTANTS: Final = "mutants"
ON_WINDOWS: Final = os.environ.get("TESTS_ON") == "windows"

if os.environ.get("PYTHONDONTWRITEBYTECODE") != MUTANTS:
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

if ON_WINDOWS:
    from tests.windows.likeness import install

    install()
