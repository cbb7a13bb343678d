"""Server-sent events as bytes (WHATWG HTML, section 9.2): one function to write them, one class to read them."""

import re
from dataclasses import dataclass
from typing import Final

KEEP_ALIVE: Final = b": ping\r\n\r\n"

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


# An id comes back in a header, where longer ones and control characters have no place.
_ID_LIMIT: Final = 4096
_NO_ID: Final = re.compile(rb"[\x00-\x1f\x7f]")
# A day in milliseconds has eight digits.
_RETRY_DIGITS: Final = 10


class EventTooLarge(ValueError):
    """One event grew past the limit."""


@dataclass(frozen=True, slots=True)
class Event:
    """One dispatched event; `retry` is in milliseconds."""

    event: str
    data: bytes
    id: str | None = None
    retry: int | None = None


def format_event(data: bytes, event: str = "message", *, id: str | None = None, retry: int | None = None) -> bytes:
    """Return the bytes of one event; `data` holds no line break, which JSON of `encode` never does.

    The peer may return `id` to get the events after it, after `retry` milliseconds.
    """
    frame = b"event: %b\r\ndata: %b\r\n\r\n" % (event.encode(), data)
    if id is not None:
        frame = b"id: %b\r\n%b" % (id.encode(), frame)
    return frame if retry is None else b"retry: %d\r\n%b" % (retry, frame)


class EventReader:
    """A reader of events from chunks: any line ending, comments ignored, at most `limit` bytes in one event."""

    def __init__(self, limit: int) -> None:
        self.lines = 0  # that have ended, of every kind
        self._limit = limit
        self._line: list[bytes] = []  # the pieces of a line whose end has not come yet
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._id: str | None = None
        self._retry: int | None = None
        self._at_start = True
        self._after_return = False

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that `chunk` completes.

        Raises:
            EventTooLarge: an event grows past the limit.
        """
        if not chunk:
            return []
        if self._after_return:
            chunk = chunk.removeprefix(b"\n")
        self._after_return = chunk.endswith(b"\r")
        head, *lines = _LINE_END.split(chunk)
        self.lines += len(lines)
        self._line.append(head)
        self._grow(len(head))
        events: list[Event] = []
        for line in lines:
            self._take(b"".join(self._line), events)
            self._line = [line]
            self._grow(len(line))
        return events

    def unended(self) -> bytes:
        """Return the data of an event without an end; the standard ignores it."""
        events: list[Event] = []
        line, self._line = b"".join(self._line), []
        if line:
            self._take(line, events)
        return b"" if events else b"\n".join(self._data)

    def _take(self, line: bytes, events: list[Event]) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            if self._data or self._id is not None or self._retry is not None:
                events.append(Event(self._event or "message", b"\n".join(self._data), self._id, self._retry))
            self._data, self._size, self._event, self._id, self._retry = [], 0, "", None, None
        elif field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._event = value.decode("utf-8", "replace")
        elif field == b"id" and len(value) <= _ID_LIMIT and not _NO_ID.search(value):
            self._id = value.decode("utf-8", "replace")
        elif field == b"retry" and value.isdigit() and len(value) < _RETRY_DIGITS:
            self._retry = int(value)

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > self._limit:
            raise EventTooLarge(f"an event of more than {self._limit} bytes")
