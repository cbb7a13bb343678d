"""The tests. They keep bytecode where the environment says no, too: each run, and each program that one starts, would
compile everything anew. `tests.mutate` has its own word for no, since its files change several times in a second.

With `TESTS_ON=windows` the package sees Windows (`tests/windows/likeness.py`), from its first import on.
"""

import os
import sys
from collections.abc import Mapping
from typing import Final

MUTANTS: Final = "mutants"
ON_WINDOWS: Final = os.environ.get("TESTS_ON") == "windows"

if os.environ.get("PYTHONDONTWRITEBYTECODE") != MUTANTS:
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

if ON_WINDOWS:
    from tests.windows.likeness import install

    install()


def with_folders_of_windows(environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables with the folders that Windows names, where `XDG_` has them, if the package sees Windows."""
    folders = (("APPDATA", "XDG_CONFIG_HOME"), ("LOCALAPPDATA", "XDG_DATA_HOME"))
    return {**environ, **{there: environ[here] for there, here in folders if ON_WINDOWS and here in environ}}
