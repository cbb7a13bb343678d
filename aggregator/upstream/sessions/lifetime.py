"""The lifetime of a session with an upstream, reported once when the session ends."""

import time
from typing import Literal, Protocol

# The connection or its program ended by itself; we abandoned it since it did not work; the server forgot the session.
EndFailure = Literal["connection_lost", "given_up", "session_expired"]


class SessionOver(Protocol):
    """Handles the end of a session: its revision, its seconds, and the error that ended it or None."""

    def __call__(self, version: str, seconds: float, failure: str | None, /) -> None: ...


class SessionLifetime:
    """The lifetime of the sessions of one connection: of the first, and of those that replace one which expired."""

    __slots__ = ("_began", "_over", "_report", "_version")

    def __init__(self, version: str = "", report: SessionOver | None = None) -> None:
        self._version = version
        self._report = report
        self._began = time.monotonic()
        self._over = False

    def over(self, failure: EndFailure | None = None) -> None:
        """Report the end of the session; the first report counts."""
        if self._report is not None and not self._over:
            self._over = True
            self._report(self._version, time.monotonic() - self._began, failure)

    def renewed(self, version: str) -> None:
        """Report that the server forgot the session, and begin the lifetime of the next one."""
        self.over("session_expired")
        self._version, self._began, self._over = version, time.monotonic(), False
