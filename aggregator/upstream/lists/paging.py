"""Reading all pages of a list, within bounds for any upstream (S/server/utilities/pagination)."""

import asyncio
from typing import Any, Final, NamedTuple

from aggregator.domain.bounds.result_memory import MemoryTotal, summed
from aggregator.domain.errors import UpstreamBadAnswer
from aggregator.domain.freshness import Freshness, least, said
from aggregator.upstream.connection import AnswerTooDeep, Connection

PAGE_LIMIT: Final = 1_000
ITEM_LIMIT: Final = 100_000
# Bytes of all pages together, as JSON.
BYTES_LIMIT: Final = 128 * 1024 * 1024


class DrainedList(NamedTuple):
    """A whole list.

    items: of all pages, in the order of the upstream.
    fresh: the freshness that the pages state; None unless each does.
    """

    items: list[Any]
    fresh: Freshness | None


async def read_pages(server: str, connection: Connection, method: str, key: str, meta: dict[str, Any]) -> DrainedList:
    """Read all pages of a list.

    key: the member of each page that has its items.
    meta: the `_meta` of each request.

    Raises:
        UpstreamBadAnswer: a page without the list, a cursor for the second time, or more than the bounds allow.
    """
    with summed() as total:
        return await _read_pages(server, connection, method, key, meta, total)


async def _read_pages(
    server: str, connection: Connection, method: str, key: str, meta: dict[str, Any], total: MemoryTotal
) -> DrainedList:
    items: list[Any] = []
    hints: list[Freshness | None] = []
    params: dict[str, Any] = {"_meta": meta} if meta else {}
    seen: set[str | int | float] = set()
    for _ in range(PAGE_LIMIT):
        page = await _page(connection, method, params)
        part = page.get(key)
        if not isinstance(part, list):
            raise UpstreamBadAnswer(server, f"{server} answered `{method}` without a list of {key}.")
        items += part
        hints.append(said(page))
        cursor = page.get("nextCursor")
        if cursor is None:
            known = [hint for hint in hints if hint is not None]
            return DrainedList(items, least(known) if len(known) == len(hints) else None)
        # Some servers number their pages: the number is sent back as it is.
        if not isinstance(cursor, str | int | float) or isinstance(cursor, bool):
            raise UpstreamBadAnswer(server, f"{server} answered `{method}` with a `nextCursor` that is no text.")
        if cursor in seen:
            # The message leaves the cursor out: it may hold anything.
            raise UpstreamBadAnswer(server, f"{server} pages in circles: its `{method}` names a cursor again.")
        if len(items) > ITEM_LIMIT or total.size > BYTES_LIMIT:
            break
        seen.add(cursor)
        params = {**params, "cursor": cursor}
    raise UpstreamBadAnswer(server, f"{server} does not stop paging: {len(items)} {key} after {len(seen)} pages.")


async def _page(connection: Connection, method: str, params: dict[str, Any]) -> dict[str, Any]:
    try:
        return await connection.request(method, params)
    except AnswerTooDeep as error:
        # A schema that nests too deeply costs the tool it belongs to, not the list.
        return await asyncio.to_thread(error.readable)
