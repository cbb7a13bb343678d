"""First lists that are shown before they are pinned, in files beside the database.

Rule: a first list is in its file before a host sees it. The database is slow to load, and a process that is killed
meanwhile leaves the file: the next process, or one beside it, compares its own first list with this one.
"""

import asyncio
import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Final

from aggregator.pins.decide.definition import text_digest
from aggregator.pins.decide.values import PIN_KINDS, PinKind, PinnedItem
from aggregator.pins.gateway.book import PinBook
from aggregator.pins.gateway.state import JudgedList
from aggregator.upstream.upstream import Upstream
from aggregator.wire.codec import decode, encode

log = logging.getLogger(__name__)

_MARK: Final = ".first-"
# Seconds after which no process comes back to a list that was never pinned.
_KEPT: Final = 90 * 86_400.0
# Files of lists that were never pinned; beyond this the oldest go.
_MOST: Final = 2_000


class FirstLists:
    """The files beside `base`, the path of the database; without it nothing is kept. `there` has the known files."""

    def __init__(self, base: Path | None) -> None:
        self._base = base
        self._there: set[Path] = set()
        # Those that this process has written, or compared its own first list with.
        self._settled: set[Path] = set()

    def __repr__(self) -> str:
        return f"<FirstLists {self._base}{_MARK}*>"

    async def keep_shown(self, book: PinBook, upstream: Upstream, judged: Iterable[JudgedList]) -> bool:
        """Keep those of the lists of a server, which it has just sent, that are first lists.

        Return True if another first list was kept before: the book has it now, and the lists are to be judged again.
        Hosts do not wait for a full disk: what cannot be kept is shown.
        """
        if self._base is None:
            return False
        server, others = upstream.config.id, False
        for one in judged:
            if not one.baseline or (one.kind != "instructions" and not upstream.lists.is_whole(one.kind)):
                continue
            file = _file(self._base, server, upstream.config.entry, one.kind)
            if file in self._settled:
                continue
            try:
                kept = await asyncio.to_thread(_keep, file, one.kind, one.baseline)
            except OSError as error:
                log.debug("%s: its first %ss are not kept before they are pinned: %s", server, one.kind, error)
                continue
            self._there.add(file)
            self._settled.add(file)
            if _digests(kept) != _digests(one.baseline):
                others |= book.saw_before(server, one.kind, kept)
        return others

    async def read(self, book: PinBook, entries: Mapping[str, str]) -> dict[str, dict[PinKind, list[PinnedItem]]]:
        """Return the first lists of other processes by server and kind, and remove those that are pinned by now.

        entries: the keys of the servers' entries.
        """
        if self._base is None:
            return {}
        self._there |= await asyncio.to_thread(_beside, self._base)
        found: dict[str, dict[PinKind, list[PinnedItem]]] = {}
        for server, entry in entries.items() if self._there else ():
            for kind in PIN_KINDS:
                if kind in book.of(server).taken:
                    await self.forget(server, entry, kind)
                elif (file := _file(self._base, server, entry, kind)) in self._there - self._settled:
                    items = await asyncio.to_thread(_read, file, kind)
                    if items is not None:
                        found.setdefault(server, {})[kind] = items
        return found

    async def forget(self, server: str, entry: str, kind: PinKind) -> None:
        """Remove the file of a list that is pinned now."""
        file = _file(self._base, server, entry, kind) if self._base is not None else None
        if file is not None and file in self._there:
            self._there.discard(file)
            with suppress(OSError):
                await asyncio.to_thread(file.unlink, missing_ok=True)


def _file(base: Path, server: str, entry: str, kind: PinKind) -> Path:
    name = sha256(f"{entry}\0{server}".encode("utf-8", "backslashreplace")).hexdigest()[:32]
    return base.with_name(f"{base.name}{_MARK}{name}-{kind}")


def _keep(file: Path, kind: PinKind, items: Sequence[PinnedItem]) -> Sequence[PinnedItem]:
    """Write a first list, unless another is there; return the one that is there now."""
    text = encode([[item.name, item.definition] for item in items])
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        kept = _read(file, kind)
        if kept is not None:
            return kept
        # Its process was killed while it wrote, and has shown nothing of it.
        descriptor = os.open(file, os.O_WRONLY | os.O_TRUNC)
    with open(descriptor, "wb") as written:
        written.write(text)
    return items


def _read(file: Path, kind: PinKind) -> list[PinnedItem] | None:
    """Return the items in a file; None if it is not whole, or is gone."""
    try:
        rows = decode(file.read_bytes(), inf)
        return [PinnedItem(kind, name, text_digest(text), "", text) for name, text in rows]
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _beside(base: Path) -> set[Path]:
    """Return the files that are there, and remove old ones, and those beyond `_MOST`, the oldest first: their servers
    have left the configuration since.
    """
    try:
        files = [one for one in base.parent.iterdir() if one.name.startswith(f"{base.name}{_MARK}")]
    except OSError:
        return set()
    written: list[tuple[float, Path]] = []
    for one in files:
        with suppress(OSError):
            written.append((one.stat().st_mtime, one))
    written.sort(reverse=True)
    oldest = time.time() - _KEPT
    kept = {one for at, one in written[:_MOST] if at > oldest}
    for _, one in written:
        if one not in kept:
            with suppress(OSError):
                one.unlink()
    return kept


def _digests(items: Iterable[PinnedItem]) -> set[tuple[str, str]]:
    return {(one.name, one.digest) for one in items}
