"""What a child says on stderr: into the log, at no more than a rate; its last lines are kept to explain its end."""

import asyncio
import logging
from collections import deque
from math import ceil
from typing import Final

from aggregator.domain.bounds.token_bucket import TokenBucket

LINES_KEPT: Final = 20
LINE_LIMIT: Final = 8192
# What one line of the rate may hold: a longer one counts as several.
_LINE: Final = 1024
# Bytes a second that are read at all; a child that writes more waits for us.
_READ_RATE: Final = 2**20
# What a line costs beside its bytes.
_EACH: Final = 32
# After how long the lines that were left out are told of.
_TELL_AFTER: Final = 5.0


class StderrLog:
    """`per_minute` lines are logged, as many of them at once as may be."""

    def __init__(self, server: str, per_minute: int) -> None:
        self.tail: deque[str] = deque(maxlen=LINES_KEPT)
        self._loop = asyncio.get_running_loop()
        self._log = logging.getLogger(f"aggregator.server.{server}")
        self._per_minute = per_minute
        self._lines = TokenBucket(per_minute / 60, per_minute)
        self._bytes = TokenBucket(_READ_RATE, _READ_RATE)
        self._rest = b""
        self._left_out = 0
        self._telling: asyncio.TimerHandle | None = None

    def take(self, data: bytes) -> float:
        """Bytes as they come; for how many seconds the next ones should be left where they are."""
        *lines, rest = (self._rest + data).split(b"\n")
        # Of a line without an end only the last part is kept.
        self._rest = rest[-LINE_LIMIT:]
        now = self._loop.time()
        for line in lines:
            self._line(line, now)
        return self._bytes.charge(len(data) + _EACH * len(lines), now)

    def end(self) -> None:
        """The child has nothing more to say."""
        if self._rest:
            self._line(self._rest, self._loop.time())
            self._rest = b""
        self._tell()

    def _line(self, line: bytes, now: float) -> None:
        text = line[:LINE_LIMIT].decode("utf-8", "replace").rstrip()
        if not text:
            return
        self.tail.append(text)
        if self._lines.allows(min(ceil(len(text) / _LINE), self._per_minute), now):
            self._log.info("%s", text)
            return
        self._left_out += 1
        if self._telling is None:
            self._telling = self._loop.call_later(_TELL_AFTER, self._tell)

    def _tell(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        if self._left_out:
            self._log.warning(
                "%d lines of its stderr are left out here: more than %d a minute (`stderr_per_minute` in its config)",
                self._left_out,
                self._per_minute,
            )
            self._left_out = 0
