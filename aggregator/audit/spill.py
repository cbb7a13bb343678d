"""Rows that the database does not take: kept in files beside it until it does.

Rule 1: a file is there whole or not at all, and is written into the database once, whichever process does it.
Rule 2: a file that grows is locked by its process. Once that has ended, its whole lines count, also after a kill.
"""

import json
import logging
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from aggregator.domain.patient_files import ON_WINDOWS, patiently
from aggregator.storage.audit.chain import ChainBatch, ChainEntry, Head, entry
from aggregator.storage.engine.lockfile import hold, is_held

log = logging.getLogger(__name__)

_MARK: Final = ".unwritten-"
_ENDING: Final = ".jsonl"
_GROWING: Final = ".growing"
_REFUSED: Final = ".refused"


class SpillFull(OSError):
    """The files take as much room as they may."""


class Spill:
    """The files beside `base`, the path of the database; together they take at most `at_most` bytes."""

    def __init__(self, base: Path, at_most: int) -> None:
        self.base = base
        self._at_most = at_most
        # The file that grows: its name, its descriptor, and how many rows and bytes are in it for good.
        self._growing: Path | None = None
        self._descriptor = -1
        self._rows = self._bytes = 0

    def __repr__(self) -> str:
        return f"<Spill {self.base}{_MARK}*{_ENDING}>"

    def files(self) -> list[Path]:
        """Return the files that wait to be written into the database, oldest first; none of ours grows from now on."""
        self.finish()
        for left in _beside(self.base, _GROWING):
            if is_held(left) is False:
                _whole(left)
        return waiting_beside(self.base)

    def grow(self, entries: Sequence[ChainEntry], now: float, most: int) -> None:
        """Append rows to the growing file and sync it; it gets `most` rows at most, but in one go.

        Raises:
            OSError: the write failed; nothing was stored.
        """
        text = "".join(f"{json.dumps([one.kind, one.values])}\n" for one in entries).encode()
        if sum(map(_size, waiting_beside(self.base))) + self._bytes + len(text) > self._at_most:
            raise SpillFull("the files beside the database take as much room as they may")
        if self._rows + len(entries) > most:
            self.finish()
        if self._growing is None:
            self._begin(now)
        try:
            _write(self._descriptor, text)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._bytes)
                os.lseek(self._descriptor, self._bytes, os.SEEK_SET)
            raise
        self._rows, self._bytes = self._rows + len(entries), self._bytes + len(text)

    def finish(self) -> None:
        """Finish the growing file, if there is one, so that it is read like the others."""
        growing, self._growing = self._growing, None
        if growing is not None:
            os.close(self._descriptor)
            _whole(growing)
            self._rows = self._bytes = 0

    def _begin(self, now: float) -> None:
        name = f"{self.base}{_MARK}{int(now * 1000):014d}-{secrets.token_hex(4)}"
        growing = Path(f"{name}{_GROWING}")
        # Windows renames no file that is open; for the same reason, other processes cannot finish this one.
        part = growing if ON_WINDOWS else Path(f"{name}.part")
        part.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Locked before it gets the name that other processes find it by.
        descriptor = hold(part)
        try:
            head = f"{json.dumps({'rows': None, 'tried': None})}\n".encode()
            _write(descriptor, head)
            if part != growing:
                part.rename(growing)
        except OSError:
            os.close(descriptor)
            part.unlink(missing_ok=True)
            raise
        self._growing, self._descriptor, self._rows, self._bytes = growing, descriptor, 0, len(head)

    def keep(self, entries: Sequence[ChainEntry], tried: Head | None, now: float) -> Path:
        """Write rows into a new file and sync it.

        Raises:
            OSError: the write failed; nothing was stored.
        """
        head = {"rows": len(entries), "tried": tried}
        lines = [json.dumps(head), *(json.dumps([one.kind, one.values]) for one in entries)]
        text = "\n".join((*lines, "")).encode()
        if sum(_size(one) for one in self.files()) + len(text) > self._at_most:
            raise SpillFull("the files beside the database take as much room as they may")
        target = Path(f"{self.base}{_MARK}{int(now * 1000):014d}-{secrets.token_hex(4)}{_ENDING}")
        part = target.with_suffix(".part")
        try:
            part.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            patiently(lambda: part.rename(target))
        except OSError:
            part.unlink(missing_ok=True)
            raise
        return target

    def read(self, file: Path) -> ChainBatch | None:
        """Return the rows of a file; None when another process took it, or it holds no rows and was set aside."""
        try:
            first, *lines = file.read_bytes().splitlines(keepends=True)
            head = json.loads(first)
            if head["rows"] is None and lines and not lines[-1].endswith(b"\n"):
                # A process was killed while it wrote this row, which it counted nowhere.
                del lines[-1]
            entries = [_entry(json.loads(line)) for line in lines]
            if head["rows"] not in (None, len(entries)):
                raise ValueError("rows are missing")
            if not entries:
                self.done(file)
                return None
            return ChainBatch(entries, Head(*head["tried"]) if head["tried"] else None)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            log.error("%s holds no rows of the audit log (%s); it is now %s", file, error, self.refuse(file))
            return None

    def refuse(self, file: Path) -> Path:
        """Set aside for good a file that the database rejects; return its new path."""
        target = Path(f"{file}{_REFUSED}")
        patiently(lambda: file.rename(target))
        return target

    def done(self, file: Path) -> None:
        """Remove a file whose rows are in the database."""
        patiently(lambda: file.unlink(missing_ok=True))


def waiting_beside(base: Path) -> list[Path]:
    """Return the files that hold rows which are not in the database `base` yet, oldest first."""
    return _beside(base, _ENDING)


def _beside(base: Path, ending: str) -> list[Path]:
    try:
        found = [one for one in base.parent.iterdir() if one.name.startswith(base.name + _MARK)]
    except OSError:
        return []
    return sorted(one for one in found if one.name.endswith(ending))


def _whole(growing: Path) -> None:
    """Finish a file that grows no more, so that it is read like the others; another process may have done so.

    If it cannot be renamed now, the next look for files finishes it.
    """
    with suppress(FileNotFoundError, PermissionError):
        patiently(lambda: growing.rename(growing.with_suffix(_ENDING)))


def _write(descriptor: int, text: bytes) -> None:
    """Write bytes down to the disk."""
    left = memoryview(text)
    while left:
        left = left[os.write(descriptor, left) :]
    os.fsync(descriptor)


def _entry(line: Any) -> ChainEntry:
    kind, values = line
    if not isinstance(kind, str) or not all(isinstance(value, str | int | float) for value in values.values()):
        raise ValueError("these are no columns of a row")
    return entry(kind, values)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
