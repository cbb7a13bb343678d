"""A message that a server writes over several lines, as programs print JSON for people. Decides alone; no I/O.

Law: lines are joined only from a line on that can begin a message, and a whole message on a line of its own ends that.
"""

import re
from typing import Final

from aggregator.wire.values import outside_strings

# A text that begins a message, or the first lines of one: its first key is a message's.
_BEGINS: Final = re.compile(
    rb'\s*+(?:\[\s*+)?(?:\{\s*+(?:"(?:jsonrpc|id|result|error|method|params)"\s*:.*)?)?', re.DOTALL
)
# Lines within which the first key has to come: two brackets and the key.
_FIRST: Final = 3


class SpreadMessage:
    """The lines of a message so far; of more than `limit` bytes none is kept."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # One text: many short lines would take many times their size.
        self._text = bytearray()
        self._lines = self._depth = 0
        self._indented = False

    @property
    def is_open(self) -> bool:
        """Tell whether a message has begun."""
        return self._lines > 0

    def take(self, line: bytes) -> bytes | None:
        """Take a line that is no message; return the text of a message that ends with it."""
        if self._lines and self._indented and line[:1] in (b"{", b"["):
            # The lines inside are indented, so the message before this one was cut off.
            self.drop()
        self._text += line
        self._text += b"\n"
        self._lines += 1
        if self._lines <= _FIRST:
            self._indented = self._indented or line[:1] in (b" ", b"\t")
            if _BEGINS.fullmatch(self._text) is None:
                self.drop()
                return None
        self._depth += _depth_of(line)
        if self._depth > 0 and len(self._text) <= self._limit:
            return None
        # What is whole on one line was looked at before it came here.
        text = bytes(self._text) if self._lines > 1 and self._depth <= 0 else None
        self.drop()
        return text

    def drop(self) -> None:
        """Forget the lines so far."""
        self._text = bytearray()
        self._lines = self._depth = 0
        self._indented = False


def _depth_of(line: bytes) -> int:
    """Return how many brackets a line opens and does not close; a string does not go over its end."""
    return sum(
        block.count(b"{") + block.count(b"[") - block.count(b"}") - block.count(b"]") for block in outside_strings(line)
    )
