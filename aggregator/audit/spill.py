"""Rows that the database does not take: kept in files beside it until it does.

Rule: a file is there whole or not at all, and is written into the database once, whichever process does it.
"""

import json
import logging
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from aggregator.storage.audit.chain import ChainBatch, ChainEntry, Head, entry, with_present_names

log = logging.getLogger(__name__)

_MARK: Final = ".unwritten-"
_ENDING: Final = ".jsonl"
_REFUSED: Final = ".refused"


class SpillFull(OSError):
    """The files take as much room as they may."""


class Spill:
    """The files beside `base`, the database (or where it would be); together they take at most `at_most` bytes."""

    def __init__(self, base: Path, at_most: int) -> None:
        self.base = base
        self._at_most = at_most

    def __repr__(self) -> str:
        return f"<Spill {self.base}{_MARK}*{_ENDING}>"

    def files(self) -> list[Path]:
        """Return the files that wait to be written into the database, oldest first."""
        return waiting_beside(self.base)

    def keep(self, entries: Sequence[ChainEntry], tried: Head | None, now: float) -> Path:
        """Write rows into a new file, down to the disk.

        Raises:
            OSError: that cannot be done; nothing was kept.
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
            part.rename(target)
        except OSError:
            part.unlink(missing_ok=True)
            raise
        return target

    def read(self, file: Path) -> ChainBatch | None:
        """Return the rows of a file; None when another process took it, or it holds no rows and was set aside."""
        try:
            first, *lines = file.read_bytes().splitlines()
            head = json.loads(first)
            entries = [_entry(json.loads(line)) for line in lines]
            if head["rows"] != len(entries):
                raise ValueError("rows are missing")
            return ChainBatch(entries, Head(*head["tried"]) if head["tried"] else None)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            log.error("%s holds no rows of the audit log (%s); it is now %s", file, error, self.refuse(file))
            return None

    def refuse(self, file: Path) -> Path:
        """Set a file aside for good that the database will not take; returns where it is now."""
        target = Path(f"{file}{_REFUSED}")
        file.rename(target)
        return target

    def done(self, file: Path) -> None:
        """Remove a file whose rows are in the database."""
        file.unlink(missing_ok=True)


def waiting_beside(base: Path) -> list[Path]:
    """Return the files that hold rows which are not in the database `base` yet, oldest first."""
    try:
        found = [one for one in base.parent.iterdir() if one.name.startswith(base.name + _MARK)]
    except OSError:
        return []
    return sorted(one for one in found if one.name.endswith(_ENDING))


def _entry(line: Any) -> ChainEntry:
    kind, values = line
    if not isinstance(kind, str) or not all(isinstance(value, str | int | float) for value in values.values()):
        raise ValueError("these are no columns of a row")
    return entry(kind, with_present_names(values))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
