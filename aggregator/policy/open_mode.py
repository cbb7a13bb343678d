"""The ruling without policy files: everything allowed. The frontends then stay on loopback, or ask for a key."""

from typing import Final

from aggregator.domain.decision import Decision
from aggregator.domain.records import ToolRecord
from aggregator.policy.annotations import claimed_annotations
from aggregator.policy.limits import Limits
from aggregator.policy.rulebook import TRUSTED_CLAIM, Ruling

OPEN: Final = Ruling(Decision("allow", "open", "there are no policy files: everything is allowed"), (), Limits(), None)
# What is decided about a tool of a trusted server which claims that its calls may be repeated without harm.
OPEN_REPEATABLE: Final = OPEN._replace(retry=TRUSTED_CLAIM)


def open_ruling(tool: ToolRecord, *, trusted: bool) -> Ruling:
    """Return the ruling on a tool without policy files: a trusted server's claims count as they do with them."""
    return OPEN_REPEATABLE if trusted and claimed_annotations(tool.definition, trusted=True).idempotent else OPEN
