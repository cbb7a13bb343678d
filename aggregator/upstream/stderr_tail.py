"""The stderr tail of each server: its last lines, and its last failures; in memory only.

Law: bounded for each server; reading a line removes secrets, as the log does.
"""

import time
from collections import deque
from collections.abc import Collection, Iterator
from typing import Final, Literal, NamedTuple

from aggregator.redaction.beginning import RedactText, beginning

# The most lines and characters of one server; the oldest go first.
LINES: Final = 100
SIZE: Final = 16 * 1024
# Characters of a line to show; more are kept, so that half a secret is never shown (`beginning`).
SHOWN: Final = 1_000
_KEPT: Final = 2 * SHOWN + 1

WordsKind = Literal["stderr", "failure"]


class SpokenLine(NamedTuple):
    """One line: `at` is its time in seconds since 1970; a `failure` is our sentence, `stderr` the server's."""

    at: float
    kind: WordsKind
    text: str


class StderrTail:
    """The last lines of one server. They outlive its connections and restarts, and end with its configuration."""

    def __init__(self) -> None:
        self._lines: deque[SpokenLine] = deque()
        self._size = 0
        self._failed: SpokenLine | None = None

    def __repr__(self) -> str:
        return f"<StderrTail {len(self._lines)} lines>"

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, text: str, kind: WordsKind = "stderr") -> None:
        """Add a line or a failure, now."""
        line = SpokenLine(time.time(), kind, text[:_KEPT])
        if kind == "failure":
            self._failed = line
        self._lines.append(line)
        self._size += len(line.text)
        while len(self._lines) > LINES or self._size > SIZE:
            self._size -= len(self._lines.popleft().text)

    def lines(self, redact: RedactText) -> list[SpokenLine]:
        """Return the lines without secrets, the oldest first."""
        return [_shown(line, redact) for line in self._lines]

    def failure(self, redact: RedactText) -> SpokenLine | None:
        """Return the last failure without secrets, or None."""
        return _shown(self._failed, redact) if self._failed is not None else None


class SpokenByServer:
    """The tails by server id, until `keep_only` drops a server that is no longer configured."""

    def __init__(self) -> None:
        self._of: dict[str, StderrTail] = {}

    def __repr__(self) -> str:
        return f"<SpokenByServer of {len(self._of)} servers>"

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def of(self, server: str) -> StderrTail:
        """Return the tail of a server, by its id."""
        words = self._of.get(server)
        if words is None:
            words = self._of[server] = StderrTail()
        return words

    def keep_only(self, servers: Collection[str]) -> None:
        """Forget all servers but these."""
        for server in self._of.keys() - servers:
            del self._of[server]


def _shown(line: SpokenLine, redact: RedactText) -> SpokenLine:
    return line._replace(text=beginning(line.text, redact, SHOWN))
