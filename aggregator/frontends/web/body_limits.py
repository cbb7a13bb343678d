"""The limits of the web frontends on one request and on all hosts; refusals are counted by admission control."""

from dataclasses import dataclass, field
from typing import Final

from aggregator.config.settings import HttpConfig
from aggregator.domain.errors import HostError
from aggregator.frontends.web.event_stream import UnreadBytes
from aggregator.frontends.web.host_guard import BodyCut, BodyTooLarge, Receive, Scope, header, read_body
from aggregator.gateway.admission import Admission
from aggregator.wire.responses import error_message

# Bytes of a message that is read even without a free slot: it may be one that frees a slot, such as a cancellation.
SMALL: Final = 64 * 1024
# What may wait on one event stream for a host that does not read it. `UnreadBytes` bounds what waits on all of them.
UNREAD_BYTES: Final = 16 * 2**20


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """The limits. `max_body` is in bytes."""

    admission: Admission
    unread: UnreadBytes = field(default_factory=UnreadBytes)
    max_body: int = 4 * 2**20

    async def read(self, scope: Scope, receive: Receive) -> bytes:
        """Return the whole body of a request.

        Raises:
            BodyRefused: it is too large, or ends too early.
        """
        try:
            return await read_body(scope, receive, self.max_body)
        except BodyTooLarge:
            self.admission.refused["body_size"] += 1
            said = f"A message may have {self.max_body} bytes at most (`http.max_body_bytes`)."
            raise BodyRefused(413, said) from None
        except BodyCut:
            raise BodyRefused(400, "The request ended before its body did.") from None


def is_small(scope: Scope) -> bool:
    """Return whether a request declares a body of at most `SMALL` bytes."""
    declared = header(scope, b"content-length")
    return declared is not None and declared.isdigit() and int(declared) <= SMALL


class BodyRefused(Exception):
    """The refusal of a body, with its HTTP status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def limits_of(config: HttpConfig, admission: Admission) -> BodyLimits:
    """Return the configured limits."""
    return BodyLimits(admission, UnreadBytes(UNREAD_BYTES, admission.refused), config.max_body_bytes)


class UnreadableMessage(Exception):
    """A post whose message cannot be read: the HTTP status and the JSON body to answer with."""

    def __init__(self, status: int, why: HostError | dict[str, str]) -> None:
        super().__init__(status)
        self.status = status
        self.body = error_message(None, why) if isinstance(why, HostError) else why
