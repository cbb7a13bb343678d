"""A file beside the database, locked as long as this process lives: other processes see by it that its calls go on."""

import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from aggregator.storage.engine.lockfile import hold, is_held

_NAME: Final = re.compile(r"[0-9a-f]{16}")


class ProcessMark:
    """The locked file of this process.

    `name` is that of this process in the database at `base`. The file is there between `put` and `take_away`.
    """

    def __init__(self, base: Path) -> None:
        self.name = secrets.token_hex(8)
        self._base = base
        self._descriptor: int | None = None

    def __repr__(self) -> str:
        return f"<ProcessMark {self.name}>"

    def put(self) -> None:
        """Make the file, once, and keep it locked.

        Raises:
            OSError: that cannot be done.
        """
        if self._descriptor is None:
            self._base.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = hold(self._path(self.name))

    def take_away(self) -> None:
        """Remove the file: no call of this process is under way any more."""
        if self._descriptor is not None:
            self._path(self.name).unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    def gone(self, name: str, *, only_here: bool) -> bool:
        """Return whether the process of this name has ended. `only_here`: every user of the database is here.

        What another machine's process does is not known here; it counts as alive.
        """
        if name == self.name:
            return False
        held = is_held(self._path(name)) if _NAME.fullmatch(name) else None
        return only_here if held is None else not held

    def forget(self, names: Iterable[str]) -> None:
        """Remove the files of processes that are gone, once it is written what became of their calls."""
        for name in names:
            if _NAME.fullmatch(name):
                with suppress(OSError):
                    self._path(name).unlink()

    def _path(self, name: str) -> Path:
        return Path(f"{self._base}.calls-{name}")
