"""The log of the aggregator inside another program: its handlers and format, without secrets of the configuration."""

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from aggregator.redaction.log_messages import message_of
from aggregator.redaction.redactor import Redactor

_ROOT_LOGGER: Final = "aggregator"


@contextmanager
def redacted_log(redact: Redactor) -> Iterator[None]:
    """Redact the log records of the aggregator when they are created, before any handler of the program sees them."""
    before = logging.getLogRecordFactory()

    def make(name: str, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = before(name, *args, **kwargs)
        if name.partition(".")[0] == _ROOT_LOGGER:
            record.msg, record.args = redact(message_of(record, redact)), ()
            if record.exc_info:
                # The exception itself is removed: a handler may format its message again.
                record.exc_text = redact("".join(traceback.format_exception(*record.exc_info)).rstrip())
                record.exc_info = None
        return record

    logging.setLogRecordFactory(make)
    try:
        yield
    finally:
        # A factory that the program has set since then calls ours, and stays.
        if logging.getLogRecordFactory() is make:
            logging.setLogRecordFactory(before)
