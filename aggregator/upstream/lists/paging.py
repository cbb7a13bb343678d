"""Reading all pages of a list, within bounds for any upstream (S/server/utilities/pagination).

Law: what came before a fault is kept; only a fault of the first page costs the list.
"""

import asyncio
from collections.abc import Collection
from math import inf
from typing import Any, Final, NamedTuple

from aggregator.domain.bounds.result_memory import MemoryTotal, summed
from aggregator.domain.errors import RpcError, UpstreamBadAnswer
from aggregator.domain.freshness import Freshness, least, said
from aggregator.upstream.connection import AnswerTooDeep, Connection
from aggregator.wire.codec import encode_or_none

PAGE_LIMIT: Final = 1_000
ITEM_LIMIT: Final = 100_000
# Bytes of all pages together, as JSON.
BYTES_LIMIT: Final = 128 * 1024 * 1024
# Empty pages in a row after which a list counts as read: some servers have a few in between.
EMPTY_PAGES: Final = 100


class DrainedList(NamedTuple):
    """A list as far as it could be read.

    items: of all pages, in the order of the upstream.
    fresh: the freshness that the pages state; None unless each does.
    fault: the fault of its pages, as a sentence of ours without its subject; None if nothing was.
    cut: a page could not be read, so that items are missing that may come another time.
    whole: all pages came, so that what is not among the items is not there.
    """

    items: list[Any]
    fresh: Freshness | None
    fault: str | None = None
    cut: bool = False
    whole: bool = True


async def read_pages(
    server: str,
    connection: Connection,
    method: str,
    key: str,
    meta: dict[str, Any],
    named_by: str = "name",
    patience: float = inf,
) -> DrainedList:
    """Read all pages of a list.

    key: the member of each page that has its items.
    meta: the `_meta` of each request.
    named_by: the member that distinguishes the items.
    patience: the seconds that a page after the first may take. What came before one that takes longer is the list.

    Raises:
        UpstreamBadAnswer: the first page has no list.
        RpcError: the server refuses the first page.
    """
    with summed() as total:
        return await _read_pages(server, connection, method, key, meta, named_by, patience, total)


async def _read_pages(
    server: str,
    connection: Connection,
    method: str,
    key: str,
    meta: dict[str, Any],
    named_by: str,
    patience: float,
    total: MemoryTotal,
) -> DrainedList:
    items: list[Any] = []
    names: set[str | bytes] = set()
    hints: list[Freshness | None] = []
    params: dict[str, Any] = {"_meta": meta} if meta else {}
    # The cursors of the pages after the first, in order.
    seen: dict[Any, None] = {}
    empty, again, cut = 0, 0, False
    fault: str | None = None
    while fault is None:
        try:
            page = await _page(connection, method, params, patience if seen else inf)
            part = page.get(key)
            # An empty list is null in the JSON of some languages.
            part = [] if part is None and key in page else part
            if not isinstance(part, list):
                raise UpstreamBadAnswer(server, f"{server} answered `{method}` without a list of {key}.")
        except _LatePage:
            cut = True
            fault = f"did not send page {len(seen) + 1} of `{method}` within {patience:g} s"
            break
        except (RpcError, UpstreamBadAnswer):
            if not seen:
                raise
            # To some servers an empty cursor means nothing: the list has ended.
            cut = next(reversed(seen)) != ""
            fault = f"answered page {len(seen) + 1} of `{method}` with an error or without a list"
            break
        new = _new_items(part, names, named_by)
        items += new
        again += len(part) - len(new)
        hints.append(said(page))
        cursor = page.get("nextCursor")
        if cursor is None:
            break
        empty = 0 if part else empty + 1
        fault = _paging_fault(method, key, cursor, seen, nothing_new=bool(part) and not new, empty=empty)
        if fault is None and (len(items) > ITEM_LIMIT or total.size > BYTES_LIMIT or len(seen) + 1 >= PAGE_LIMIT):
            fault = f"does not stop paging its `{method}`: {len(items)} {key} on {len(seen) + 1} pages"
        if fault is None:
            seen[cursor] = None
        params = {**params, "cursor": cursor}
    whole = fault is None
    if fault is None and again:
        fault = f"lists {again} of its {key} on two pages"
    elif fault is not None:
        fault += "; what came until then is used"
    known = [hint for hint in hints if hint is not None]
    return DrainedList(items, least(known) if len(known) == len(hints) else None, fault, cut, whole)


def _paging_fault(
    method: str, key: str, cursor: Any, seen: Collection[Any], *, nothing_new: bool, empty: int
) -> str | None:
    """Return why the page of a cursor is not asked for, or None. `seen` are the cursors of the pages before.

    No fault quotes a cursor: it may hold anything.
    """
    # Some servers number their pages: the number is sent back as it is.
    if not isinstance(cursor, str | int | float) or isinstance(cursor, bool):
        return f"answered `{method}` with a `nextCursor` that is no text"
    if cursor in seen:
        return f"pages in circles: its `{method}` names a cursor again"
    if nothing_new:
        return f"does not stop paging: a page of its `{method}` brought no new {key}"
    if empty >= EMPTY_PAGES:
        return f"does not stop paging: {empty} pages of its `{method}` in a row were empty"
    return None


def _new_items(part: list[Any], names: set[str | bytes], named_by: str) -> list[Any]:
    """Return the items of a page that stood on no earlier page, and add the names of this one.

    Items without a name are compared as JSON. An item that nests too deeply for that counts as new.
    """
    new: list[Any] = []
    here: set[str | bytes] = set()
    for item in part:
        name = item.get(named_by) if isinstance(item, dict) else None
        known = name if isinstance(name, str) else encode_or_none(item)
        if known in names:
            continue
        if known is not None:
            here.add(known)
        new.append(item)
    names |= here
    return new


class _LatePage(Exception):
    """A page that did not come in time."""


async def _page(connection: Connection, method: str, params: dict[str, Any], patience: float) -> dict[str, Any]:
    try:
        async with asyncio.timeout(patience if patience < inf else None) as wait:
            return await connection.request(method, params)
    except TimeoutError:
        if wait.expired():
            raise _LatePage from None
        raise
    except AnswerTooDeep as error:
        # A schema that nests too deeply costs the tool it belongs to, not the list.
        return await asyncio.to_thread(error.readable)
