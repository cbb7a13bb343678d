"""Writing what one list is to be remembered by, and kept definitions as pins."""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, get_args

from aggregator.catalog.validate import definition_digest
from aggregator.domain.text.unstorable import unstorable
from aggregator.pins.app.known import seen_of, text_of
from aggregator.pins.app.news import PinNews
from aggregator.pins.app.noted import NotedLists
from aggregator.pins.decide.definition import pinned_item
from aggregator.pins.decide.values import PinKind, PinnedItem
from aggregator.pins.gateway.state import JudgedList
from aggregator.upstream.list_kinds import LIST_METHODS, Kind
from aggregator.upstream.upstream import Upstream

if TYPE_CHECKING:
    from aggregator.pins.storage import Pins
    from aggregator.storage.opening import Database
    from aggregator.storage.records import PinRow

# The lists that are kept and pinned.
_Compared = Literal["tool", "prompt", "template"]
_COMPARED: Final[tuple[_Compared, ...]] = get_args(_Compared)

BY_FIRST_SIGHT: Final = "first sight"
BY_SETTINGS: Final = "on_change"
# What a server says of itself is free text.
_VERSION: Final = re.compile(r"v?\d[\w.+-]{0,40}", re.ASCII)


class PinDatabase(Protocol):
    """The database that keeps pins; `url` is None without a database."""

    @property
    def url(self) -> str | None: ...

    async def open(self) -> "Database | None": ...


async def write_list(
    pins: "Pins | None", judged: JudgedList, news: PinNews, lists: NotedLists, *, is_whole: bool, later: bool = False
) -> "list[PinRow] | None":
    """Write the pins and sightings of one list, and report the news that no process reported before.

    Returns the rows of the server, without definitions, if a baseline was written, else None.

    lists: what was written of earlier lists, to which this one is added.
    is_whole: the server answered with the complete list, so that a missing item is gone. later: it was read before
    over the same connection.

    Raises:
        StorageError: the database failed.
    """
    now, server = time.time(), judged.server
    rows: list[PinRow] | None = None
    if judged.baseline is not None and pins is not None:
        items = [text_of(item, judged.flagged.get(item.name, ())) for item in judged.baseline]
        rows = await pins.take_baseline(server, items, BY_FIRST_SIGHT, now, [judged.baseline_kind])
        ours = [row for row in rows if row.kind == judged.kind and row.approved == now]
        news.baseline(judged, len(ours), await pins.before(server) if ours else 0)
    if judged.adopting and pins is not None:
        await _adopt(pins, judged, news, now)
    noted = seen_of(judged if is_whole else replace(judged, removed=(), forgotten=()), later=later)
    if pins is None:
        news.changed(judged, noted)
        return None
    if noted:
        said, read_at = lists.said(judged, noted), lists.read_at(judged)
        news.changed(judged, await pins.note_seen(server, noted, now, read_at=read_at, said=said))
        lists.keep(judged, noted)
    return rows


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


def items_of(lists: Mapping[Kind, Iterable[Any]]) -> dict[PinKind, list[PinnedItem]]:
    """Return kept lists as pins, by kind. Takes a while for a long list: call it in a thread."""
    return {kind: list(_items_of(kind, lists[kind])) for kind in _COMPARED if kind in lists}


def _items_of(kind: _Compared, definitions: Iterable[Any]) -> Iterator[PinnedItem]:
    found: set[str] = set()
    for definition in definitions:
        name = definition.get(LIST_METHODS[kind].named_by) if isinstance(definition, dict) else None
        if isinstance(name, str) and name not in found and unstorable((name,)) is None:
            found.add(name)
            yield pinned_item(kind, name, definition, definition_digest(definition))


def was_read(upstream: Upstream, kind: PinKind) -> bool:
    """Tell whether the server was asked for the items of this kind."""
    if kind in ("tool", "prompt", "template", "skill"):
        return upstream.lists.was_read(kind)
    return upstream.negotiated is not None


def is_whole(upstream: Upstream, kind: PinKind) -> bool:
    """Tell whether the server was asked for the items of this kind, and sent all of them."""
    return was_read(upstream, kind) and (kind == "instructions" or upstream.lists.is_whole(kind))


def version_of(server_info: Mapping[str, Any]) -> str:
    """Return the version that a server says of itself; empty if it says none, or no version at all."""
    version = server_info.get("version")
    return version if isinstance(version, str) and _VERSION.fullmatch(version) else ""


def error_named(error: Exception) -> str:
    """Return a kind of error: the text of one may hold what stands in a row."""
    return f"{type(error).__name__}; the log says more at level debug"
