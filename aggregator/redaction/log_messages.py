"""The message of a log record without secrets. A value that its format cuts (`%.200r`) is searched before it is cut."""

import logging
import re
from typing import Any, Final

from aggregator.redaction.beginning import beginning
from aggregator.redaction.redactor import Redactor

_CUTS: Final = re.compile(r"%(?:\(\w+\))?[-#0 +]*\d*\.\d+[ars]")
# The longest cut of a format.
_LONGEST: Final = 8 * 1024


def message_of(record: logging.LogRecord, redact: Redactor) -> str:
    """Return the message as it may be written, but for secrets that only show in the whole of it.

    Raises:
        TypeError, ValueError: its arguments do not fit its format.
    """
    message, values = str(record.msg), record.args
    if not values or not _CUTS.search(message):
        return record.getMessage()
    if isinstance(values, tuple):
        return str(message % tuple(_whole(value, redact) for value in values))
    # A single mapping supplies the values by name.
    return str(message % _whole(dict(values), redact))


def _whole(value: Any, redact: Redactor) -> Any:
    if isinstance(value, bytes | bytearray):
        value = bytes(value[: 2 * _LONGEST + 1]).decode("utf-8", "replace")
    if isinstance(value, str):
        return beginning(value, redact, _LONGEST)
    return redact.value(value) if isinstance(value, dict | list) else value
