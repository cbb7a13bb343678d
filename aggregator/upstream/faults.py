"""The faults of a server that do not end its connection: in its lists, single items and messages."""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

log = logging.getLogger(__name__)

# The most different faults of messages to remember.
_MOST: Final = 20
# The words with which a warning about one item states its outcome.
LEFT_OUT: Final = "is left out"
MENDED: Final = "was mended"
# The whole of a warning, behind the name of the server, about a configuration that takes none of a server's tools.
NONE_TAKEN: Final = "`tools.include` and `tools.exclude` in its config take none of its tools"
# The same for several items.
_MANY: Final = " more were mended: "
_OUTCOMES: Final = (("left out", LEFT_OUT), ("mended", MENDED))


class ServerFaults:
    """The faults of one server. Each is logged once while it lasts.

    Law: `for_agents` has our own words alone. Only operators see text of the server, such as the name of a tool.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._lists: dict[str, str] = {}
        self._items: dict[str, tuple[str, ...]] = {}
        self._messages: dict[str, None] = {}

    def __repr__(self) -> str:
        return f"<ServerFaults of {self._server}: {len(self.for_operators())}>"

    def for_operators(self) -> list[str]:
        """Return a sentence for each fault, with the names of the items that were left out or repaired."""
        own = [f"{self._server} {said}" for said in (*self._lists.values(), *self._messages)]
        return [*(warning for warnings in self._items.values() for warning in _joined(warnings)), *own]

    def for_agents(self) -> tuple[str, ...]:
        """Return a few words for each fault, without the subject and without text of the server."""
        return (*self._counts(), *self._lists.values(), *self._messages)

    def _counts(self) -> Iterator[str]:
        for kind, warnings in self._items.items():
            if any(warning.startswith(f"{self._server}: {NONE_TAKEN}") for warning in warnings):
                yield NONE_TAKEN
            for outcome, words in _OUTCOMES if warnings else ():
                if number := sum(words in warning for warning in warnings):
                    yield f"{number} {kind}{'s' if number > 1 else ''} {outcome}: faulty as listed"

    def note_list(self, method: str, fault: str | None) -> None:
        """Record the fault of a list, in words that follow its name; None if it has none."""
        if fault is None:
            self._lists.pop(method, None)
        elif self._lists.get(method) != fault:
            self._lists[method] = fault
            log.warning("%s %s", self._server, fault)

    def note_items(self, kind: str, warnings: Iterable[str]) -> None:
        """Replace the warnings about the items of a list."""
        known, self._items[kind] = self._items.get(kind, ()), tuple(warnings)
        for warning in _joined(one for one in self._items[kind] if one not in known):
            log.warning("%s", warning)

    def note_message(self, fault: str) -> None:
        """Record the fault of a message, in words that follow "sends"."""
        said = f"sends {fault}"
        if said not in self._messages and len(self._messages) < _MOST:
            self._messages[said] = None
            log.warning("%s %s", self._server, said)

    def forget_messages(self) -> None:
        """Forget the faults of messages, for a new connection."""
        self._messages.clear()


def is_mend(warning: str) -> bool:
    """Return whether a warning says only that items were mended, so that all of them can be used."""
    return (f" {MENDED}: " in warning or _MANY in warning) and f" {LEFT_OUT}" not in warning


def _joined(warnings: Iterable[str]) -> list[str]:
    """Return the warnings, with one for all items of a list that were mended in the same way."""
    ways: dict[str, list[str]] = {}
    joined: list[str] = []
    for warning in warnings:
        item, mended, way = warning.partition(f" {MENDED}: ")
        if not mended:
            joined.append(warning)
        elif way in ways:
            ways[way].append(item)
        else:
            ways[way] = [item]
    for way, items in ways.items():
        mended = f" and {len(items) - 1}{_MANY}" if len(items) > 1 else f" {MENDED}: "
        joined.append(f"{items[0]}{mended}{way}")
    return joined
