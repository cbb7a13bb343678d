"""The room for connections of hosts, under the operating system's limit of open files.

Rule: connections leave a part of that limit free, so that calls, the database and starting servers never run into it.
At the limit a new connection waits in the queue of the system; idle ones make room, those of the busiest sender first.
"""

import asyncio
import errno
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

if sys.platform != "win32":
    import resource

from aggregator.identity.throttle import peer_group

log = logging.getLogger(__name__)

# The part of the limit that connections leave free, and its least and most files.
_FREE_PART: Final = 8
_LEAST_FREE, _MOST_FREE = 32, 512
# Seconds without a request after which a connection may make room for another.
_IDLE_FOR: Final = 1.0
_LOG_AGAIN: Final = 60.0
# Connections on Windows, which has no limit of open files.
_MOST_ON_WINDOWS: Final = 16_384
# What is counted: a connection that had to wait, one that made room, and one that a sender had too many of.
WAITED, MADE_ROOM, OF_SENDER = "connections", "idle_connection", "connections_of_sender"


class ConnectionAdmission:
    """The open connections by sender. A sender may hold `share` of the room, unless it speaks for many.

    `refused` counts by word; `speaks_for_many` tells of an address whether other senders may stand behind it.
    """

    def __init__(
        self,
        refused: Counter[str] | None = None,
        share: float = 1.0,
        speaks_for_many: Callable[[str], bool] = lambda address: True,
    ) -> None:
        self._refused = refused if refused is not None else Counter()
        self._share = share
        self._speaks_for_many = speaks_for_many
        self._senders: dict[object, str] = {}
        self._of_sender: Counter[str] = Counter()
        self._logged: float | None = None
        self._waits = False

    def __len__(self) -> int:
        return len(self._senders)

    def enter(self, connection: object, address: str) -> None:
        """Count a connection."""
        sender = peer_group(address)
        self._senders[connection] = sender
        self._of_sender[sender] += 1

    def leave(self, connection: object) -> None:
        """Count a connection no longer; it may be called for one that is not counted."""
        sender = self._senders.pop(connection, None)
        if sender is not None:
            self._of_sender[sender] -= 1
            if not self._of_sender[sender]:
                del self._of_sender[sender]

    def has_share_left(self, address: str) -> bool:
        """Return whether a sender may have a further connection; count the refusal, if not."""
        most = max(1, int(_most() * self._share))
        if self._of_sender[peer_group(address)] < most or self._speaks_for_many(address):
            return True
        self._refused[OF_SENDER] += 1
        return False

    def is_full(self, bound: int) -> bool:
        """Return whether a further file would be in the part of the limit that stays free. `bound` is any open one."""
        if sys.platform == "win32":
            # Handles have no numbers in a row, and no limit of their own.
            return len(self) >= _most()
        try:
            lowest_free = os.dup(bound)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            return True
        os.close(lowest_free)
        full = lowest_free >= _most()
        self._waits &= full
        return full

    def make_room(self) -> None:
        """Close the connection that has been idle longest, of the sender with the most: another waits for its place."""
        now = asyncio.get_running_loop().time()
        if not self._waits:
            self._waits = True
            self._refused[WAITED] += 1
            self._log(now)
        idle = [
            (-self._of_sender[sender], since, connection)
            for connection, sender in self._senders.items()
            if (since := getattr(connection, "quiet_since", None)) is not None and now - since >= _IDLE_FOR
        ]
        if idle:
            self._refused[MADE_ROOM] += 1
            connection: Any = min(idle, key=lambda one: one[:2])[2]
            connection.give_way()

    def _log(self, now: float) -> None:
        if self._logged is None or now - self._logged >= _LOG_AGAIN:
            self._logged = now
            log.warning(
                "no room for a further connection: %d are open, and the limit of open files (`ulimit -n`) is %d, of "
                "which %d stay free; new ones wait until others end, and idle ones are closed. Raise the limit.",
                len(self),
                _limit(),
                _limit() - _most(),
            )


def _limit() -> int:
    if sys.platform != "win32":
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST_ON_WINDOWS


def _most() -> int:
    """Return the number of open files from which on connections wait."""
    limit = _limit()
    return limit - min(_MOST_FREE, max(_LEAST_FREE, limit // _FREE_PART))
