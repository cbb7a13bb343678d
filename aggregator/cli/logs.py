"""The log: stderr, for people or as JSON lines, with known secrets taken out of everything."""

import json
import logging
import re
import sys
import time
from collections.abc import Iterable
from typing import Final

from aggregator.domain.redact import Redactor

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
# What could forge a line or move a terminal's cursor; a traceback keeps its line breaks.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_BUT_BREAKS: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def start_logging(level: str, as_json: bool, secrets: Iterable[str]) -> logging.Logger:
    """Set up the root logger for the life of the process; returns the program's own."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines(secrets, as_json=as_json))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(_LEVELS[level], logging.INFO))
    log = logging.getLogger("aggregator")
    log.setLevel(_LEVELS[level])
    for chatty in ("uvicorn.error", "aiohttp.access", "mcp"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    return log


class Lines(logging.Formatter):
    """One line per event; an exception adds its own below, or in the JSON object."""

    def __init__(self, secrets: Iterable[str], *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self._redact = Redactor(secrets)

    def format(self, record: logging.LogRecord) -> str:
        message = self._redact(record.getMessage())
        trace = self._redact(self.formatException(record.exc_info)) if record.exc_info else ""
        at = time.localtime(record.created)
        if self._as_json:
            event = {
                "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', at)}.{int(record.msecs):03d}{time.strftime('%z', at)}",
                "level": record.levelname.lower(),
                "logger": record.name,
                "message": message,
            }
            return json.dumps(event | ({"exception": trace} if trace else {}), ensure_ascii=False)
        clock = f"{time.strftime('%H:%M:%S', at)}.{int(record.msecs):03d}"
        line = f"{clock} {record.levelname:<7} {record.name.removeprefix('aggregator.')}: {message}"
        line = _CONTROL.sub(_escaped, line)
        return f"{line}\n{_CONTROL_BUT_BREAKS.sub(_escaped, trace)}" if trace else line


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
