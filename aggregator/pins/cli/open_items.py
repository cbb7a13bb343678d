"""Open items: items that differ from their approved definitions, found by the names that a user gives."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.running import find_running, running_folder
from aggregator.cli.runtime.tables import one_line
from aggregator.cli.runtime.writer import say
from aggregator.domain.errors import OperatorError
from aggregator.pins.cli.connected import look
from aggregator.pins.cli.pin_files import PinFiles, by_key, label, served_under
from aggregator.pins.decide.values import ItemChange, exact_word
from aggregator.storage.errors import StorageError
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


def looked_for(files: PinFiles, server: str | None) -> list[OpenItem]:
    """Return the open items of a server that no host has seen yet, after asking the server; say so if there are none.

    A session that ended before the server had answered has seen nothing of an upgrade.

    Raises:
        OperatorError: the database cannot be used.
    """
    config = files.server(server) if server is not None else None
    if config is None or not config.enabled or _is_served(files):
        ask = "" if server is not None else " `aggregator pins check` asks the servers now."
        say(f"Nothing differs from what was approved, as the servers were seen last.{ask}")
        return []
    problem = run_loop(look(files.loaded, config.id))
    found = run_loop(open_items(files, server, ()))
    if not found:
        asked = f"{config.id} was asked now" if problem is None else f"{config.id} cannot be asked now: {problem}"
        say(f"Nothing differs from what was approved; {one_line(asked)}.")
    return found


def _is_served(files: PinFiles) -> bool:
    """Return whether a process serves this configuration, which sees each change itself."""
    with suppress(OSError, StorageError):
        return any(one.config == str(files.loaded.path) for one in find_running(running_folder(os.environ)))
    return False


def _named(items: Sequence[OpenItem], server: str, prefix: str, name: str) -> OpenItem:
    # A server may call a tool `prompt:x`, or `instructions`.
    exact = [item for item in items if name == exact_word(item.row.kind, item.row.name)]
    fitting = exact or [item for item in items if name in _spellings(item.row, server, prefix)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        kinds = " or ".join(f"`{exact_word(item.row.kind, item.row.name)}`" for item in fitting)
        raise OperatorError(f"{server} has several items {name!r:.80}: write {kinds}.")
    nothing = f"nothing that was seen; `aggregator pins diff {server}` asks the server now"
    waiting = ", ".join(label(server, item.row.kind, item.row.name) for item in items) or nothing
    raise OperatorError(f"{server} has no item {name!r:.80} that differs from what was approved. There is: {waiting}.")


def _spellings(row: PinRow, server: str, prefix: str) -> set[str]:
    if row.kind == "instructions":
        return {"instructions"}
    # What is served under its approved name is found by that too.
    names = {row.name, served_under(row) or row.name}
    full = {f"{one}{sign}{name}" for name in names for one in (server, prefix) if one for sign in (".", "__")}
    return {*names, *(f"{row.kind}:{name}" for name in names), *full}
