"""A file beside the database, locked as long as this process lives: other processes see by it that its calls go on."""

import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from aggregator.domain.patient_files import patiently
from aggregator.storage.engine.lockfile import hold, is_held

_REPLICA: Final = "replica-"
_NAME: Final = re.compile(rf"(?:{_REPLICA})?[0-9a-f]{{16}}")


class Peers(Protocol):
    """The replicas that use the same database, on any machine, such as `replicas.group.membership.Membership`."""

    @property
    def joined_as(self) -> str | None:
        """The id of this process for others; None if they do not see it."""

    async def gone(self, ids: Iterable[str]) -> frozenset[str]:
        """Return which of these replicas have ended, or stand still.

        Raises:
            StorageError: the database cannot be read.
        """


class ProcessMark:
    """The locked file of this process; `peers` are the other processes, possibly on other machines, or None.

    The file exists between `put` and `take_away`.
    """

    def __init__(self, base: Path, peers: Peers | None = None) -> None:
        self.peers = peers
        self._name: str | None = None
        self._base = base
        self._descriptor: int | None = None

    def __repr__(self) -> str:
        return f"<ProcessMark {self.name}>"

    @property
    def name(self) -> str:
        """The name of this process in the database at `base`; it stays the same after the first call."""
        if self._name is None:
            id = self.peers.joined_as if self.peers is not None else None
            self._name = f"{_REPLICA}{id}" if id is not None else secrets.token_hex(8)
        return self._name

    @property
    def is_replica(self) -> bool:
        """Return whether other processes see this one, and this one them."""
        return self.peers is not None and self.peers.joined_as is not None

    def put(self) -> None:
        """Make the file, once, and keep it locked.

        Raises:
            OSError: the file cannot be created or locked.
        """
        if self._descriptor is None:
            self._base.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = hold(self._path(self.name))

    def take_away(self) -> None:
        """Remove the file: no call of this process is under way any more."""
        if self._descriptor is not None:
            # Closed first, since Windows removes no file that is open. A file that stays is that of a process gone.
            os.close(self._descriptor)
            self._descriptor = None
            with suppress(OSError):
                patiently(self._path(self.name).unlink)

    def gone(self, name: str, *, only_here: bool) -> bool:
        """Return whether the process of this name has ended. `only_here`: every user of the database is here.

        What another machine's process does is not known here; it counts as alive. `gone_elsewhere` says more.
        """
        if name == self.name:
            return False
        held = is_held(self._path(name)) if _NAME.fullmatch(name) else None
        return only_here if held is None else not held

    async def gone_elsewhere(self, names: Iterable[str]) -> frozenset[str]:
        """Return which processes of these names have ended, of those that were replicas.

        Raises:
            StorageError: the database cannot be read.
        """
        ids = {name.removeprefix(_REPLICA): name for name in names if name.startswith(_REPLICA) and name != self.name}
        if self.peers is None or not ids:
            return frozenset()
        return frozenset(ids[id] for id in await self.peers.gone(ids))

    def forget(self, names: Iterable[str]) -> None:
        """Remove the files of processes that are gone, once it is written what became of their calls."""
        for name in names:
            if _NAME.fullmatch(name):
                with suppress(OSError):
                    self._path(name).unlink()

    def _path(self, name: str) -> Path:
        return Path(f"{self._base}.calls-{name}")
