"""Newline-delimited messages (stdio) out of bytes cut anywhere. Of a line past the limit only its two ends are kept.

The two ends are enough to say which request such a message is, or answers, so that the request can be failed at once.
"""

import json
import re
from collections.abc import Sequence
from typing import Final

WINDOW: Final = 1024

_VERSION: Final = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_ID: Final = rb'"id"\s*:\s*(-?\d{1,18}|"(?:[^"\\]|\\.){0,200}+")\s*'
_OPENING: Final = rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?"
# Anchored at the message's own braces: an id further in is data and names no request.
_LAST: Final = re.compile(rb",\s*" + _ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*\Z")


def _pair(keys: bytes, before_id: bytes = b"") -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    key = rb'"(?:' + keys + rb')"\s*:'
    id_first = _OPENING + before_id + _ID + rb",\s*(?:" + _VERSION + rb",\s*)?" + key
    return re.compile(id_first), re.compile(_OPENING + key)


_ANSWER: Final = _pair(rb"result|error")
_REQUEST: Final = _pair(rb"method|params", rb'(?:"method"\s*:\s*"[^"\\]*"\s*,\s*)?')


def answered_by(head: bytes, tail: bytes) -> str | int | None:
    """Return the id of the request that a message answers; None if its ends do not show it, or it is no answer."""
    return _id_of(*_ANSWER, head, tail)


def asked_by(head: bytes, tail: bytes) -> str | int | None:
    """Return the id of a request; None if its ends do not show it, or it is no request."""
    return _id_of(*_REQUEST, head, tail)


def _id_of(id_first: re.Pattern[bytes], id_last: re.Pattern[bytes], head: bytes, tail: bytes) -> str | int | None:
    found = id_first.match(head) or (_LAST.search(tail) if id_last.match(head) else None)
    if found is None:
        return None
    try:
        request_id: str | int = json.loads(found[1])
    except ValueError:
        return None
    return request_id


def _ends(parts: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Return the beginning and the end of a line in parts, without joining it: it may be that no memory is left."""
    head = tail = b""
    for part in parts:
        head += part[: WINDOW - len(head)]
        if len(head) == WINDOW:
            break
    for part in reversed(parts):
        tail = part[-(WINDOW - len(tail)) :] + tail
        if len(tail) == WINDOW:
            break
    return head, tail


class LineReader:
    """A splitter of bytes into lines: `take` gets chunks, and calls `take_line` and `take_oversized`.

    A line that fails, by an error of ours or for lack of memory, costs itself alone: see `fail_line`.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._partial: list[bytes] = []
        self._size = 0  # of the line whose end has not come yet
        self._head = self._tail = b""

    def take(self, data: bytes) -> None:
        """Take the next bytes, cut anywhere."""
        *lines, rest = data.split(b"\n")
        for piece in lines:
            if not self._size and len(piece) <= self._limit:
                # Most lines come whole.
                if piece:
                    try:
                        self.take_line(piece)
                    except Exception as error:
                        self.fail_line(piece[:WINDOW], piece[-WINDOW:], error)
                continue
            self._grow(piece)
            if self._size > self._limit:
                self.take_oversized(self._head, self._tail, ended=True)
            else:
                try:
                    self.take_line(b"".join(self._partial))
                except Exception as error:
                    self.fail_line(*_ends(self._partial), error)
            self._partial.clear()
            self._size = 0
        self._grow(rest)

    def take_line(self, line: bytes) -> None:
        """Take a whole line, without its end."""
        raise NotImplementedError

    def fail_line(self, head: bytes, tail: bytes, error: Exception) -> None:
        """Take the ends of a line that `take_line` could not take: what waits for it has to hear of that."""
        raise NotImplementedError

    def take_oversized(self, head: bytes, tail: bytes, *, ended: bool) -> None:
        """Take the ends of a line past the limit: once when it grows past it, and again with its tail at its end."""
        raise NotImplementedError

    def _grow(self, piece: bytes) -> None:
        if not piece:
            return
        before = self._size
        self._size += len(piece)
        if self._size <= self._limit:
            self._partial.append(piece)
            return
        if before <= self._limit:
            self._partial.append(piece)
            line = b"".join(self._partial)
            self._partial.clear()
            self._head, self._tail = line[:WINDOW], line[-WINDOW:]
            self.take_oversized(self._head, b"", ended=False)
        else:
            self._tail = (self._tail + piece[-WINDOW:])[-WINDOW:]
