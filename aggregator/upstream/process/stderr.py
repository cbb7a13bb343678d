"""The stderr of a child: logged up to a rate; its last lines are kept to explain its end."""

import asyncio
import logging
import re
from collections import deque
from math import ceil
from typing import Final

from aggregator.domain.bounds.token_bucket import TokenBucket
from aggregator.domain.reasons import SAID_KEPT
from aggregator.upstream.stderr_tail import StderrTail

LINES_KEPT: Final = 20
# Lines that are logged a minute, also in one burst; the rest is counted.
LINES_PER_MINUTE: Final = 600
# Characters of a line that are logged.
LINE_LIMIT: Final = 8192
# More are read than shown, since redaction does not recognise half a secret (`aggregator.redaction.beginning`).
_LINE_READ: Final = 2 * LINE_LIMIT + 1
_BYTES_READ: Final = 4 * _LINE_READ
# Bytes of one line of the rate: a longer line counts as several.
_LINE: Final = 1024
# Bytes a second that are read; a child that writes more has to wait.
_READ_RATE: Final = 2**20
# Bytes that a line counts as beyond its own.
_EACH: Final = 32
# Seconds after which the number of lines left out is logged.
_LOG_AFTER: Final = 5.0
# What servers with version 1 of the Python SDK write about our probe, which is the first request that they get: this
# line, and for each kind of request that it is not the name of a field and indented lines, with the method in the
# first.
_REPORT: Final = re.compile(r"Failed to validate request: \d+ validation errors? for ")
_OF_REPORT: Final = re.compile(r"  |\w+\.[\w.]+$")
_PROBE: Final = "input_value='server/discover'"
_PROBE_WITHIN: Final = 3
_REPORT_LINES: Final = 300


class ProbeReport:
    """The report of one child that it does not know our probe. This class decides which lines are of it.

    Law: only the first report counts, only if it names the probe, and so many lines at most.
    """

    def __init__(self) -> None:
        self._held: list[str] = []
        self._lines = 0
        self._named = False
        self._over = False

    def own_words(self, line: str) -> list[str]:
        """Return the lines that are the server's own words, given the next one; those in doubt come later."""
        if self._over or not (self._lines or _REPORT.search(line)):
            return [line]
        if self._lines and (self._lines == _REPORT_LINES or not _OF_REPORT.match(line)):
            return [*self.rest(), line]
        self._lines += 1
        self._named = self._named or _PROBE in line
        self._held = [] if self._named else [*self._held, line]
        return self.rest() if len(self._held) == _PROBE_WITHIN else []

    def rest(self) -> list[str]:
        """Return the lines in doubt, which are the server's own words: the report has ended."""
        self._over = True
        held, self._held = self._held, []
        return held


class StderrLog:
    """The stderr of one child, without a report about our probe: `LINES_PER_MINUTE` are logged. `tail` holds the last
    lines.

    words: the last words of the server, which all its children write.
    """

    def __init__(self, server: str, words: StderrTail | None = None) -> None:
        self._words = words if words is not None else StderrTail()
        self.tail: deque[str] = deque(maxlen=LINES_KEPT)
        self._loop = asyncio.get_running_loop()
        self._log = logging.getLogger(f"aggregator.server.{server}")
        self._lines = TokenBucket(LINES_PER_MINUTE / 60, LINES_PER_MINUTE)
        self._bytes = TokenBucket(_READ_RATE, _READ_RATE)
        self._unfinished = b""
        self._report = ProbeReport()
        self._dropped = 0
        self._dropped_timer: asyncio.TimerHandle | None = None

    def take(self, data: bytes) -> float:
        """Take the next bytes; return the seconds for which reading should pause."""
        *lines, unfinished = (self._unfinished + data).split(b"\n")
        # The rest of a long line is dropped.
        self._unfinished = unfinished[:_BYTES_READ]
        now = self._loop.time()
        for line in lines:
            self._line(line, now)
        return self._bytes.charge(len(data) + _EACH * len(lines), now)

    def end(self) -> None:
        """Log the rest: the child has closed its stderr."""
        if self._unfinished:
            self._line(self._unfinished, self._loop.time())
            self._unfinished = b""
        for own in self._report.rest():
            self._own(own, self._loop.time())
        self._log_dropped()

    def _line(self, line: bytes, now: float) -> None:
        text = line[:_BYTES_READ].decode("utf-8", "replace")[:_LINE_READ].rstrip()
        if not text:
            return
        for own in self._report.own_words(text):
            self._own(own, now)

    def _own(self, text: str, now: float) -> None:
        self.tail.append(text[:SAID_KEPT])
        self._words.add(text)
        if self._lines.allows(min(ceil(min(len(text), LINE_LIMIT) / _LINE), LINES_PER_MINUTE), now):
            self._log.info(f"%.{LINE_LIMIT}s", text)
            return
        self._dropped += 1
        if self._dropped_timer is None:
            self._dropped_timer = self._loop.call_later(_LOG_AFTER, self._log_dropped)

    def _log_dropped(self) -> None:
        if self._dropped_timer is not None:
            self._dropped_timer.cancel()
            self._dropped_timer = None
        if self._dropped:
            self._log.warning(
                "%d lines of its stderr are left out here: more than %d a minute",
                self._dropped,
                LINES_PER_MINUTE,
            )
            self._dropped = 0
