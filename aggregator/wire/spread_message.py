"""A message that a server writes over several lines, as programs print JSON for people. Decides alone; no I/O.

Law: lines are joined only from a line on that can begin a message, and a whole message on a line of its own ends that.
"""

import re
from typing import Final

# A text that begins a message, or the first lines of one: its first key is a message's.
_BEGINS: Final = re.compile(
    rb'\s*(?:\[\s*)?(?:\{\s*(?:"(?:jsonrpc|id|result|error|method|params)"\s*:.*)?)?', re.DOTALL
)
# Strings, whose brackets do not count, and brackets. A string does not go over the end of a line.
_TOKENS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]')
# Lines within which the first key has to come: two brackets and the key.
_FIRST: Final = 3
_DEPTHS: Final = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}


class SpreadMessage:
    """The lines of a message so far; of more than `limit` bytes none is kept."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lines: list[bytes] = []
        self._size = self._depth = 0
        self._indented = False

    @property
    def is_open(self) -> bool:
        """Tell whether a message has begun."""
        return bool(self._lines)

    def take(self, line: bytes) -> bytes | None:
        """Take a line that is no message; return the text of a message that ends with it."""
        if self._lines and self._indented and line[:1] in (b"{", b"["):
            # The lines inside are indented, so the message before this one was cut off.
            self.drop()
        self._lines.append(line)
        self._size += len(line) + 1
        if len(self._lines) <= _FIRST:
            self._indented = self._indented or line[:1] in (b" ", b"\t")
            if _BEGINS.fullmatch(b"\n".join(self._lines)) is None:
                self.drop()
                return None
        self._depth += sum(_DEPTHS.get(token, 0) for token in _TOKENS.findall(line))
        if self._depth > 0 and self._size <= self._limit:
            return None
        # What is whole on one line was looked at before it came here.
        text = b"\n".join(self._lines) if len(self._lines) > 1 and self._depth <= 0 else None
        self.drop()
        return text

    def drop(self) -> None:
        """Forget the lines so far."""
        self._lines.clear()
        self._size = self._depth = 0
        self._indented = False
