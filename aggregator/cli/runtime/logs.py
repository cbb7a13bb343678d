"""The log on stderr, as text or as JSON Lines, with secrets redacted from the messages of every library.

Law: every message reaches stderr through the formatter, an exception during formatting too.
"""

import json
import logging
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Final

from aggregator.domain.call_record import current_call, current_trace
from aggregator.domain.text.error_text import error_text
from aggregator.domain.text.invisible import visible
from aggregator.redaction.log_messages import message_of
from aggregator.redaction.redactor import Redactor

_ROOT_LOGGER: Final = "aggregator"
_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
# Libraries that log every request at level `info`.
_CHATTY: Final = ("uvicorn.error", "aiohttp.access", "mcp", "alembic")
# The longest message or traceback, in characters, and how much more is redacted: a secret may cross the limit.
_LONGEST: Final = 64 * 1024
_BORDER: Final = 8 * 1024
# The fields that say which call a line belongs to, and the prefix of the loggers for the stderr of servers.
_ABOUT: Final = ("agent", "server", "tool")
_SERVER: Final = f"{_ROOT_LOGGER}.server."
_SHORT_ID: Final = 8


def start_logging(
    level: str, as_json: bool, hide: Redactor | Iterable[str], levels: Mapping[str, str] | None = None
) -> logging.Logger:
    """Set up the root logger for the life of the process, and return the logger of the program.

    `hide` has the secrets, or is the redactor. `levels` are the levels of components, by the part after `aggregator.`
    in the names of their loggers: `upstream`, or `server.github` for the stderr of that server.
    """
    handler = _Stderr(sys.stderr)
    handler.setFormatter(LogFormatter(hide, as_json=as_json))
    logging.getLogger().handlers[:] = [handler]
    set_levels(level, levels or {})
    _catch_the_rest()
    return logging.getLogger(_ROOT_LOGGER)


def set_levels(level: str, levels: Mapping[str, str]) -> None:
    """Set the least serious level to log, in general and per component."""
    root = logging.getLogger()
    root.setLevel(max(_LEVELS[level], logging.INFO))
    for name in list(root.manager.loggerDict):
        if name.startswith(f"{_ROOT_LOGGER}."):
            logging.getLogger(name).setLevel(logging.NOTSET)
    logging.getLogger(_ROOT_LOGGER).setLevel(_LEVELS[level])
    for component, own in levels.items():
        logging.getLogger(f"{_ROOT_LOGGER}.{component}").setLevel(_LEVELS[own])
    for chatty in _CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)


def name_worker(number: int) -> None:
    """Add this worker's number to every line."""
    LogFormatter.worker = number


def is_json() -> bool:
    """Return whether the log is in JSON."""
    return any(
        isinstance(one.formatter, LogFormatter) and one.formatter.as_json for one in logging.getLogger().handlers
    )


class LogFormatter(logging.Formatter):
    """A formatter of one line per event; an exception adds lines below, or a field of the JSON object.

    A line names the trace of its call; in JSON also agent, server and tool, as far as they are known (from `extra`, or
    from the call of the running task). `worker` is the number of this process, if it is one of several workers.
    """

    worker: int | None = None

    def __init__(self, hide: Redactor | Iterable[str], *, as_json: bool) -> None:
        super().__init__()
        self.as_json = as_json
        self._redact = hide if isinstance(hide, Redactor) else Redactor(hide)

    def format(self, record: logging.LogRecord) -> str:
        record = _with_reasons(record)
        message = self._shown(message_of(record, self._redact))
        trace = self._shown(self._below(record))
        at = time.localtime(record.created)
        if self.as_json:
            event = {
                "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', at)}.{int(record.msecs):03d}{time.strftime('%z', at)}",
                "level": record.levelname.lower(),
                "logger": record.name,
                **({"worker": self.worker} if self.worker is not None else {}),
                "message": message,
                **_about(record),
            }
            return visible(json.dumps(event | ({"exception": trace} if trace else {}), ensure_ascii=False))
        clock = f"{time.strftime('%H:%M:%S', at)}.{int(record.msecs):03d}"
        trace_id = _about(record).get("trace_id", "")[:_SHORT_ID]
        of_call = f" [trace {trace_id}]" if trace_id else ""
        of_worker = f" [worker {self.worker}]" if self.worker is not None else ""
        logger = record.name.removeprefix(f"{_ROOT_LOGGER}.")
        line = f"{clock} {record.levelname:<7} {logger}{of_worker}{of_call}: {message}"
        line = visible(line.replace("\r\n", "\n")).replace("\n", "\\n")
        # A traceback keeps its line breaks.
        return f"{line}\n{visible(trace)}" if trace else line

    def _below(self, record: logging.LogRecord) -> str:
        """Return the exception and the stack of a record; an empty text if it has none."""
        trace = self.formatException(record.exc_info) if record.exc_info else record.exc_text or ""
        return "\n".join(filter(None, (trace, record.stack_info)))

    def _shown(self, text: str) -> str:
        if len(text) <= _LONGEST:
            return self._redact(text)
        return f"{self._redact(text[: _LONGEST + _BORDER])[:_LONGEST]}... ({len(text)} characters)"


class _Stderr(logging.StreamHandler[Any]):
    """A handler that reports a message it cannot write, without repeating the content."""

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exception()
        if isinstance(error, OSError):
            return  # the other end of stderr is closed
        text = f"a message of {record.name} could not be written ({type(error).__name__}): {record.msg}"
        if record.name != __name__:
            self.handle(logging.LogRecord(__name__, logging.ERROR, __file__, 0, text, (), None))


def _with_reasons(record: logging.LogRecord) -> logging.LogRecord:
    """Return a record whose text names every exception in it: one without a text of its own by its type."""
    args = record.args
    if not isinstance(args, tuple) or not any(isinstance(one, BaseException) for one in args):
        return record
    named = tuple(error_text(one) if isinstance(one, BaseException) and not str(one).strip() else one for one in args)
    return logging.makeLogRecord({**record.__dict__, "args": named})


def _about(record: logging.LogRecord) -> dict[str, str]:
    """Return the known fields of the call that a record belongs to."""
    call = current_call.get()
    trace = call.trace if call is not None else current_trace.get()
    found = {"trace_id": trace.trace_id, "span_id": trace.span_id} if trace is not None else {}
    for name in _ABOUT:
        value = getattr(record, name, None) or (getattr(call, name) if call is not None else None)
        if name == "server" and record.name.startswith(_SERVER):
            value = record.name.removeprefix(_SERVER)
        if value:
            found[name] = str(value)
    return found


def _catch_the_rest() -> None:
    """Send to the log what Python itself would print, unless a hook is set already."""
    logging.captureWarnings(True)
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _uncaught
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _uncaught_in_thread
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _unraisable


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
    else:
        logging.getLogger(_ROOT_LOGGER).critical("stopped by a bug", exc_info=(kind, error, trace))


def _uncaught_in_thread(thrown: threading.ExceptHookArgs) -> None:
    if thrown.exc_value is not None and not issubclass(thrown.exc_type, SystemExit):
        name = thrown.thread.name if thrown.thread is not None else "unknown"
        error = (thrown.exc_type, thrown.exc_value, thrown.exc_traceback)
        logging.getLogger(_ROOT_LOGGER).error("the thread %s was stopped by a bug", name, exc_info=error)


def _unraisable(thrown: "sys.UnraisableHookArgs") -> None:
    if thrown.exc_value is not None:
        error = (thrown.exc_type, thrown.exc_value, thrown.exc_traceback)
        logging.getLogger(_ROOT_LOGGER).error("%s", thrown.err_msg or "an exception was ignored", exc_info=error)
