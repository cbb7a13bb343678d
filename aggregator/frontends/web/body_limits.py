"""What one request, and all hosts together, may take at the web doors; every refusal is counted where hosts are."""

from dataclasses import dataclass, field
from typing import Final

from aggregator.config.settings import HttpConfig
from aggregator.frontends.web.event_stream import StreamFull
from aggregator.frontends.web.host_guard import BodyCut, BodyTooLarge, Receive, Scope, header, read_body
from aggregator.gateway.admission import Admission

# What is read of a message even when there is no room: it may be one that makes some.
SMALL: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """`max_body` in bytes."""

    room: Admission
    unread: StreamFull = field(default_factory=StreamFull)
    max_body: int = 4 * 2**20

    async def read(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body of a request.

        Raises:
            BodyRefused: it is too large, or ends too early.
        """
        try:
            return await read_body(scope, receive, self.max_body)
        except BodyTooLarge:
            self.room.refused["body_size"] += 1
            said = f"A message may have {self.max_body} bytes at most (`http.max_body_bytes`)."
            raise BodyRefused(413, said) from None
        except BodyCut:
            raise BodyRefused(400, "The request ended before its body did.") from None


def is_small(scope: Scope) -> bool:
    """Whether a request is, by its own word."""
    declared = header(scope, b"content-length")
    return declared is not None and declared.isdigit() and int(declared) <= SMALL


class BodyRefused(Exception):
    """`status` and what is said with it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def bounds_of(config: HttpConfig, room: Admission) -> BodyLimits:
    """As configured."""

    def unread() -> None:
        room.refused["unread"] += 1

    return BodyLimits(room, StreamFull(config.max_unread_bytes, unread), config.max_body_bytes)
