"""Writing what one list is to be remembered by, and kept definitions as pins."""

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from aggregator.app.pins.known import seen_of, text_of
from aggregator.app.pins.news import PinNews
from aggregator.catalog.validate import definition_digest
from aggregator.domain.text.unstorable import unstorable
from aggregator.gateway.pins.state import JudgedList
from aggregator.pins.definition import pinned_item
from aggregator.pins.values import PinKind, PinnedItem
from aggregator.upstream.upstream import Upstream

if TYPE_CHECKING:
    from aggregator.storage.opening import Database
    from aggregator.storage.pins import Pins

BY_FIRST_SIGHT: Final = "first sight"
BY_SETTINGS: Final = "on_change"


class PinDatabase(Protocol):
    """The database that keeps pins; `url` is None where there is none."""

    @property
    def url(self) -> str | None: ...

    async def open(self) -> "Database | None": ...


async def write_list(pins: "Pins | None", judged: JudgedList, news: PinNews, *, was_read: bool) -> None:
    """Write what one list is to be remembered by, and tell of what no process told before.

    was_read: the server was asked for the list, so that what is not in it is gone.

    Raises:
        StorageError: the database cannot do it.
    """
    now, server = time.time(), judged.server
    if judged.baseline is not None and pins is not None:
        items = [text_of(item, judged.flagged.get(item.name, ())) for item in judged.baseline]
        rows = await pins.take_baseline(server, items, BY_FIRST_SIGHT, now, [judged.kind])
        ours = [row for row in rows if row.kind == judged.kind and row.approved == now]
        news.baseline(judged, len(ours), await pins.before(server) if ours else 0)
    if judged.adopting and pins is not None:
        await _adopt(pins, judged, news, now)
    noted = seen_of(judged if was_read else replace(judged, removed=()))
    if pins is None:
        news.changed(judged, noted)
        return
    if noted:
        news.changed(judged, await pins.note_seen(server, noted, now))


async def _adopt(pins: "Pins", judged: JudgedList, news: PinNews, now: float) -> None:
    """Pin the items that the settings accept, so that a later change of them is seen as one."""
    rows = await pins.take_baseline(judged.server, map(text_of, judged.adopting), BY_SETTINGS, now)
    known = {(row.kind, row.name): row for row in rows}
    new: list[str] = []
    for item in judged.adopting:
        row = known.get(item.key)
        if row is not None and row.approved == now:
            new.append(item.name)
        elif row is not None and row.digest is None and row.seen_digest == item.digest:
            # It waited under other settings.
            await pins.approve(judged.server, item.kind, item.name, item.digest, BY_SETTINGS, now)
    news.adopted(judged, new)


def items_of(tools: Iterable[Any]) -> list[PinnedItem]:
    """Return kept definitions of tools as pins. Takes a while for a long list: call it in a thread."""
    found: dict[str, PinnedItem] = {}
    for definition in tools:
        name = definition.get("name") if isinstance(definition, dict) else None
        if isinstance(name, str) and name not in found and unstorable((name,)) is None:
            found[name] = pinned_item("tool", name, definition, definition_digest(definition))
    return list(found.values())


def was_read(upstream: Upstream, kind: PinKind) -> bool:
    """Return whether the server was asked for the items of this kind."""
    if kind in ("tool", "prompt", "template", "skill"):
        return upstream.lists.was_read(kind)
    return upstream.negotiated is not None


def error_named(error: Exception) -> str:
    """Return a kind of error: the text of one may hold what stands in a row."""
    return f"{type(error).__name__}; the log says more at level debug"
