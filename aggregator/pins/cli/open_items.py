"""Open items: items that differ from their approved definitions, found by the names that a user gives."""

from collections.abc import Sequence
from dataclasses import dataclass

from aggregator.domain.errors import OperatorError
from aggregator.pins.cli.pin_files import PinFiles, by_key, label
from aggregator.pins.decide.values import ItemChange
from aggregator.storage.records import PinRow


@dataclass(frozen=True, slots=True)
class OpenItem:
    """An item that waits for an approval, or would wait under other settings."""

    row: PinRow
    change: ItemChange


async def open_items(files: PinFiles, server: str | None, names: Sequence[str]) -> list[OpenItem]:
    """Return the open items of a server by their names, all of it without names, or of all servers.

    Raises:
        OperatorError: there is no such server or item, a name means several, or the database cannot be read.
    """
    only = files.server(server) if server is not None else None
    rows = by_key(await files.rows(only.id if only is not None else None))
    configured = {one.id for one in files.loaded.config.servers}
    found = [
        OpenItem(row, change)
        for name, own in rows.items()
        if name in configured
        for row in own.values()
        if (change := files.change(row, own)) is not None
    ]
    if only is None or not names:
        return found
    return [_named(found, only.id, only.prefix, name) for name in names]


def _named(items: Sequence[OpenItem], server: str, prefix: str, name: str) -> OpenItem:
    fitting = [item for item in items if name in _spellings(item.row, server, prefix)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        kinds = " or ".join(f"`{item.row.kind}:{item.row.name}`" for item in fitting)
        raise OperatorError(f"{server} has several items {name!r:.80}: write {kinds}.")
    waiting = ", ".join(label(server, item.row.kind, item.row.name) for item in items) or "nothing"
    raise OperatorError(f"{server} has no item {name!r:.80} that differs from what was approved. There is: {waiting}.")


def _spellings(row: PinRow, server: str, prefix: str) -> set[str]:
    if row.kind == "instructions":
        return {"instructions"}
    full = {f"{one}{sign}{row.name}" for one in (server, prefix) if one for sign in (".", "__")}
    return {row.name, f"{row.kind}:{row.name}", *full}
