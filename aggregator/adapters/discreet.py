"""The aggregator's log inside another program: its handlers, its format, and never a secret of the configuration."""

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from aggregator.redaction.log_messages import message_of
from aggregator.redaction.redactor import Redactor

_HOUSE: Final = "aggregator"


@contextmanager
def discreet(redact: Redactor) -> Iterator[None]:
    """Meanwhile no record of ours holds what this takes out, whichever handlers the program has put where."""
    before = logging.getLogRecordFactory()

    def make(name: str, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = before(name, *args, **kwargs)
        if name.partition(".")[0] == _HOUSE:
            record.msg, record.args = redact(message_of(record, redact)), ()
            if record.exc_info:
                # The exception itself is left out: a handler may write its message anew.
                record.exc_text = redact("".join(traceback.format_exception(*record.exc_info)).rstrip())
                record.exc_info = None
        return record

    logging.setLogRecordFactory(make)
    try:
        yield
    finally:
        # Somebody may have set one since, which goes on through ours.
        if logging.getLogRecordFactory() is make:
            logging.setLogRecordFactory(before)
