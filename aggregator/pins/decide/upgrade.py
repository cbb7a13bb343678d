"""What waits of one server after an upgrade, in words. This file decides; it awaits nothing."""

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from aggregator.storage.records import ADDED_LATER, SERVED, TAKES_LESS

_WORKS: Final = "nothing that was approved is broken"
_RESPELLED: Final = "under the approved name, which the server spells otherwise"
_REFUSED: Final = "the server no longer takes, which are refused"
ADDS_TOOLS: Final = "added tools while it was connected, and such tools wait for an approval"
SHOW_NEW: Final = 'if it does so by design, write `"on_new": "show"` in its entry'
_LATER: Final = f"the server added {{}} while it was connected, which is no upgrade: {SHOW_NEW}"


class OpenCounts(NamedTuple):
    """The items of one server that wait for an approval, by their state.

    served: as they were approved. new, renamed: not shown. broken: not shown, since approved calls would fail. later:
    new ones that the server added while it was connected. less: served ones of which the server does not take all.
    respelled: served ones whose names the server spells otherwise now.
    """

    served: int = 0
    new: int = 0
    renamed: int = 0
    broken: int = 0
    later: int = 0
    less: int = 0
    respelled: int = 0

    @classmethod
    def of(cls, classes: Iterable[Collection[str]]) -> "OpenCounts":
        """Count items by their classes."""
        served = new = renamed = broken = later = less = respelled = 0
        for one in classes:
            if SERVED in one:
                served += 1
                less += TAKES_LESS in one
                respelled += "renamed" in one
            elif "new" in one:
                new += 1
                later += ADDED_LATER in one
            elif "renamed" in one:
                renamed += 1
            else:
                broken += 1
        return cls(served, new, renamed, broken, later, less, respelled)

    def words(self) -> str:
        """Return the counts as one sentence without an end."""
        fails = f"{self.broken} held, since approved calls of {'them' if self.broken > 1 else 'it'} would fail"
        parts = [
            f"{self.served} served as approved while newer definitions wait" if self.served else "",
            f"{self.respelled} of them {_RESPELLED}" if self.respelled else "",
            f"{self.less} of them with calls that {_REFUSED}" if self.less else "",
            f"{self.new} new and held" if self.new else "",
            f"{self.renamed} renamed and held" if self.renamed else "",
            fails if self.broken else "" if self.renamed or self.less else _WORKS,
            # A server that also changed others was upgraded where it runs.
            _LATER.format("it" if self.later == 1 else "them") if self.later == sum(self[:4]) else "",
        ]
        return ", ".join(filter(None, parts))


def between(before: str, version: str) -> str:
    """Return two versions of a server as `1.0 -> 1.1`, or the one that is known."""
    return f"{before} -> {version}" if before and version and before != version else version
