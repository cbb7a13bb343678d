"""Draining a paged list, with an end to it whatever the upstream does (S/server/utilities/pagination)."""

import asyncio
from typing import Any, Final, NamedTuple

from aggregator.domain.bounds.result_memory import MemoryTotal, summed
from aggregator.domain.errors import UpstreamBadAnswer
from aggregator.domain.freshness import Freshness, least, said
from aggregator.upstream.connection import AnswerTooDeep, Connection

PAGE_LIMIT: Final = 1_000
ITEM_LIMIT: Final = 20_000
# All pages together, as JSON.
BYTES_LIMIT: Final = 128 * 1024 * 1024


class DrainedList(NamedTuple):
    """Every item of every page, in the upstream's order; `fresh` is what the pages say of themselves, if they do."""

    items: list[Any]
    fresh: Freshness | None


async def drain(server: str, connection: Connection, method: str, key: str, meta: dict[str, Any]) -> DrainedList:
    """The whole list.

    Raises:
        UpstreamBadAnswer: a page without the list, a cursor seen before, or no end in sight.
    """
    with summed() as total:
        return await _drain(server, connection, method, key, meta, total)


async def _drain(
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
        # Some servers count their pages: the number comes back to them as it is.
        if not isinstance(cursor, str | int | float) or isinstance(cursor, bool):
            raise UpstreamBadAnswer(server, f"{server} answered `{method}` with a `nextCursor` that is no text.")
        if cursor in seen:
            # Which one is not said: it may hold anything.
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
        # One bottomless schema costs the tool it is in, not the list.
        return await asyncio.to_thread(error.readable)
