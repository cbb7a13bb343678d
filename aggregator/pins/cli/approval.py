"""`aggregator pins approve|reset`: approves the current definitions of a server, or forgets the approved ones."""

import sys
import time
from pathlib import Path
from typing import Any

from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.record_change import note_pins, operator
from aggregator.cli.runtime.writer import say
from aggregator.domain.errors import OperatorError
from aggregator.pins.cli.difference import print_open
from aggregator.pins.cli.open_items import OpenItem, looked_for, open_items
from aggregator.pins.cli.pin_files import PinFiles, label, pin_files, served_under, shown


def approve(
    path: Path | None, server: str | None, names: list[str], every: bool = False, digest: str | None = None
) -> int:
    """Approve items as a running aggregator saw them; return 1 if one was seen otherwise meanwhile.

    If no change of a named server waits, the command asks the server and shows its changes. It approves none of them
    before the user has seen it.

    Raises:
        OperatorError: it is not said what to approve, there is no such item, its digest is not `digest`, or a file or
            the database cannot be used.
    """
    files = pin_files(path)
    if names and (every or server is None):
        raise OperatorError("Name the items, or approve all with --all; not both.")
    if digest is not None and len(names) != 1:
        raise OperatorError("--digest is of one item: name that item.")
    found = run_loop(open_items(files, server, names))
    if not names and not every and server is None:
        waiting = ", ".join(label(one.row.server, one.row.kind, one.row.name) for one in found) or "nothing"
        raise OperatorError(f"Name a server, or give --all. What differs now: {waiting}.")
    for one in found:
        if digest is not None and digest != one.row.seen_digest:
            called = label(one.row.server, one.row.kind, one.row.name)
            raise OperatorError(f"{called} has the digest {one.row.seen_digest} by now: look at it again.")
    if found:
        return run_loop(_approve(files, found))
    if not (unseen := looked_for(files, server)):
        return 0
    print_open(files, unseen)
    say("\nThis was not seen before, and nothing is approved yet: give the command again to approve it.")
    return 1


async def _approve(files: PinFiles, found: list[OpenItem]) -> int:
    by, audit = operator(), files.loaded.config.audit
    approved: list[OpenItem] = []
    async with files.database() as database:
        for one in found:
            row, called = one.row, label(one.row.server, one.row.kind, one.row.name)
            if not await database.pins.approve(row.server, row.kind, row.name, row.seen_digest, by, time.time()):
                say(f"{called} is another one by now, and was not approved: look at it again.", file=sys.stderr)
                continue
            approved.append(one)
            say(f"Approved {called}: {one.change.sentence}.")
            if audit.enabled:
                details: dict[str, Any] = {"what": "approved", "kind": row.kind, "item": row.name, "by": by}
                details |= {"digest": row.seen_digest, "pinned": row.digest, "classes": sorted(one.change.classes)}
                said = f"{row.server}: {row.kind} {row.name!r:.80} is approved by {by}: {one.change.sentence}"
                await note_pins(database, row.server, said, details)
    _lock(files, approved)
    return 1 if len(approved) < len(found) else 0


def _lock(files: PinFiles, approved: list[OpenItem]) -> None:
    """Write the approved definitions into the lock file, for the servers in it."""
    locked = {server: dict(pins) for server, pins in files.locked.items()}
    written = [one for one in approved if one.row.server in locked]
    for one in written:
        pins = locked[one.row.server]
        if (before := served_under(one.row)) is not None:
            # Its server does not list this name.
            pins.pop((one.change.kind, before), None)
        pins[one.change.key] = one.change.after
    if written:
        files.write({server: pins.values() for server, pins in locked.items()})
        say(f"Wrote {shown(files.lock)}.")


def reset(path: Path | None, server: str) -> int:
    """Forget the pins of a server, so that its next definitions become its baseline.

    Raises:
        OperatorError: there is no such server, or the database cannot be written.
    """
    files = pin_files(path, lock_counts=False)
    name = files.server(server).id
    count = run_loop(_reset(files, name))
    say(f"Forgot {count} pins of {name}: what it says next is pinned.")
    if name in files.locked:
        say(
            f"{shown(files.lock)} has {name}, and counts before the database. `aggregator pins check {name} --write` "
            "writes there what the server says now."
        )
    return 0


async def _reset(files: PinFiles, server: str) -> int:
    by, audit = operator(), files.loaded.config.audit
    async with files.database() as database:
        count = await database.pins.reset(server)
        if audit.enabled:
            said = f"{server}: {count} pins are forgotten by {by}"
            await note_pins(database, server, said, {"what": "reset", "items": count, "by": by})
        return count
