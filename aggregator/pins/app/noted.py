"""What this process stored of each list of a server since the list was read.

Several processes may have servers of different versions, and each sees something else: so that none of them overwrites
another for ever, each stores what it sees once for each list that it reads.
"""

import time
from collections.abc import Iterable

from aggregator.pins.gateway.state import JudgedList
from aggregator.storage.records import SeenItem

_Stored = tuple[str | None, str | None]
"""The digest of an item, None for a removed one, and the digest of the pin that it was compared with."""


class NotedLists:
    """The items that were stored of each list, by server and kind."""

    def __init__(self) -> None:
        self._read_at: dict[tuple[str, str], float] = {}
        self._stored: dict[tuple[str, str], dict[str, _Stored]] = {}

    def read(self, server: str, kinds: Iterable[str]) -> None:
        """Take note that these lists of a server were read now."""
        for kind in kinds:
            self._read_at[server, kind] = time.time()
            self._stored.pop((server, kind), None)

    def read_at(self, judged: JudgedList) -> float:
        """Return when a list was read, in seconds since 1970; now if that is unknown."""
        return self._read_at.get((judged.server, judged.kind)) or time.time()

    def said(self, judged: JudgedList, noted: Iterable[SeenItem]) -> frozenset[tuple[str, str]]:
        """Return the kinds and names of the items of which the same was stored since the list was read."""
        stored, now = self._stored.get((judged.server, judged.kind), {}), _compared(judged)
        return frozenset(
            (one.kind, one.name) for one in noted if stored.get(one.name) == (one.digest, now.get(one.name))
        )

    def keep(self, judged: JudgedList, noted: Iterable[SeenItem]) -> None:
        """Note the stored items of a list."""
        now = _compared(judged)
        found = self._stored.setdefault((judged.server, judged.kind), {})
        found.update((one.name, (one.digest, now.get(one.name))) for one in noted)


def _compared(judged: JudgedList) -> dict[str, str | None]:
    before = {one.change.name: one.change.before for one in judged.changes}
    return {name: pin.digest if pin is not None else None for name, pin in before.items()}
