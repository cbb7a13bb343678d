"""Audit events of commands that change something."""

import getpass
import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aggregator.audit.single_event import note
from aggregator.cli.runtime.writer import say
from aggregator.domain.call_record import AuditEvent, EventKind
from aggregator.storage.errors import StorageError

if TYPE_CHECKING:
    from aggregator.storage.opening import Database


def operator() -> str:
    """Return the name of the user who runs the command, as far as the system knows it."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, ImportError, OSError):
        if sys.platform == "win32":
            return "cli"
        return f"cli:{os.getuid()}"


async def note_pins(database: "Database", server: str, summary: str, details: Mapping[str, Any]) -> None:
    """Write one audit event about the pins of a server, as `noted` does."""
    await _write(database, AuditEvent("pins", time.time(), summary, server=server, details=dict(details)))


async def noted(database: "Database", kind: EventKind, summary: str, agent: str | None, **details: Any) -> None:
    """Write one audit event. The change has happened, so that a failure to write it is only reported on stderr."""
    known = {name: value for name, value in details.items() if value is not None}
    await _write(database, AuditEvent(kind, time.time(), summary, agent, details=known))


async def _write(database: "Database", event: AuditEvent) -> None:
    try:
        await note(database.audit, event)
    except StorageError as error:
        say(f"It is done, but the audit log does not say so: {error}", file=sys.stderr)
