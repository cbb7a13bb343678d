"""What a command changed, told to the audit log."""

import getpass
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from aggregator.audit.single_event import note
from aggregator.domain.call_record import AuditEvent, EventKind
from aggregator.storage.errors import StorageError

if TYPE_CHECKING:
    from aggregator.storage.opening import Database


def operator() -> str:
    """Who runs the command, as far as the system knows."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, ImportError, OSError):
        return f"cli:{os.getuid()}"


async def noted(database: "Database", kind: EventKind, summary: str, agent: str, **details: Any) -> None:
    """One event. What it tells of is done by now, so that a log which does not take it is only told on stderr."""
    known = {name: value for name, value in details.items() if value is not None}
    try:
        await note(database.audit, AuditEvent(kind, time.time(), summary, agent, details=known))
    except StorageError as error:
        print(f"It is done, but the audit log does not say so: {error}", file=sys.stderr)
