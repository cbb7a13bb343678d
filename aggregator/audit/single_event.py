"""One event for the log, from a program that runs no gateway: a command that changes a key, or answers an approval."""

from typing import TYPE_CHECKING

from aggregator.audit.capture import Capture
from aggregator.audit.rows import row
from aggregator.domain.call_record import AuditEvent
from aggregator.redaction.redactor import Redactor
from aggregator.storage.audit.chain import ChainBatch

if TYPE_CHECKING:
    from aggregator.storage.audit.log import AuditRows


async def note(rows: "AuditRows", event: AuditEvent) -> None:
    """Write an event into the log now.

    Raises:
        StorageError: the database does not take the event.
    """
    await rows.append(ChainBatch([row(event, Capture("none", Redactor().value, 0))]))
