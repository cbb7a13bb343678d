"""One connection of the HTTP/1.1 client for `http://`: requests one after another, and the responses to them.

Law: every byte that comes belongs to the response of the one request that waits, within the bounds below. A connection
that brought anything else, or less, is never used again. (RFC 9112; the parser is llhttp, by way of httptools.)
"""

import asyncio
from typing import Any, Final, Protocol, cast

import httptools

from aggregator.domain.connection_causes import CAUSES, cause_of_beginning
from aggregator.domain.text.error_text import error_text
from aggregator.upstream.transports.http_clients.plain_response import (
    LARGEST_HEAD,
    KnownHeads,
    PlainResponse,
    ResponseHead,
)

# Bytes that may come without any of a body among them, such as a head, and fields in a head.
HEAD_LIMIT: Final = 64 * 1024
FIELDS_AT_MOST: Final = 256
# Request bodies up to this size are copied behind their head, so that they leave in one piece.
_COPIED: Final = 64 * 1024
# Bytes of an unreadable answer that are searched for the cause.
_TELLING: Final = 200
_TOO_LARGE: Final = "the head of the answer is too large"
_END_OF_HEAD: Final = b"\r\n\r\n"
# Responses that have no body, also where their head gives it a length (RFC 9110, section 6.4.1).
_FIRST_STATUS: Final = 100
_SWITCHING: Final = 101
_BODILESS: Final = frozenset({_SWITCHING, 204, 304})


class ConnectionOwner(Protocol):
    """The owner of connections: told when one is idle, and when one has ended."""

    known_heads: KnownHeads

    def idle(self, connection: "PlainConnection", seconds: float) -> None:
        """Take a connection back that may be used again within so many seconds."""
        ...

    def lost(self, connection: "PlainConnection") -> None:
        """Forget a connection."""
        ...


class PlainConnection(asyncio.Protocol):
    """One connection to a server.

    idle_until: when an idle connection is too old to be used, by the clock of the event loop.
    """

    def __init__(self, owner: ConnectionOwner) -> None:
        self.idle_until = 0.0
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._response: PlainResponse | None = None
        self._paused = False
        self._ending = False
        # Bytes of the body that are still to come, if the head was a known one; the parser has no part in it.
        self._left: int | None = None
        # About the response that the parser reads.
        self._lines: list[tuple[bytes, bytes]] = []
        self._lines_size = 0
        self._blind = 0
        self._informational = False
        self._fault = ""
        # Something came that belongs to no response.
        self._surplus = False

    @property
    def usable(self) -> bool:
        """True if a request can be sent."""
        return self._transport is not None and self._response is None and not self._transport.is_closing()

    def send(self, head: bytes, body: bytes = b"") -> PlainResponse:
        """Send a request on a usable connection, and return what will be its response."""
        transport = self._transport
        assert transport is not None
        self._response = response = PlainResponse(self)
        self._left = None
        if len(body) <= _COPIED:
            transport.write(head + body)
        else:
            transport.write(head)
            transport.write(body)
        return response

    def resume(self) -> None:
        """Read on."""
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close the connection at once, without sending or reading the rest."""
        self._response = None
        if self._transport is not None:
            self._transport.abort()

    def end(self) -> None:
        """Close the connection; a response that is not complete fails."""
        self._ending = True
        if self._transport is not None:
            self._transport.abort()

    def abort_if_idle(self) -> None:
        """Close the connection, unless it has another request already."""
        if self._response is None:
            self.abort()

    # -- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        response = self._response
        if response is None:
            # No request is open: it could pass for the response to the next one.
            self.abort()
            return
        if not response.began:
            response.began = True
            self._begin(response, data)
        elif self._left is None:
            self._parse(data)
        else:
            self._add(response, data, self._left)
        if response.complete:
            self._finish(response)
        elif response.too_much() and not self._paused and self._transport is not None and self._response is response:
            self._paused = True
            self._transport.pause_reading()
        response.changed()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.lost(self)
        response, self._response = self._response, None
        # The parser and this object refer to each other.
        self._parser = self._transport = None
        if response is None:
            return
        if exc is None and not self._ending and response.head is not None and response.head.until_end:
            response.complete = True
        else:
            early = CAUSES["ended"].words
            response.failure = "the connection ended in the middle of the answer" if response.began else early
        response.changed()

    # -- what comes

    def _begin(self, response: PlainResponse, data: bytes) -> None:
        """Read the first bytes of a response. If its head is a known one, that is not parsed again."""
        end = data.find(_END_OF_HEAD) + len(_END_OF_HEAD)
        if end < len(_END_OF_HEAD) or end > LARGEST_HEAD:
            self._parse(data)
            return
        raw = data[:end]
        known = self._owner.known_heads.get(raw)
        if known is not None:
            response.head, response.length = known
            self._add(response, data[end:], known[1])
            return
        # The head is known from now on if it ends with its very last byte, and is all that was parsed.
        self._parse(raw[:-1])
        early = response.head is not None
        self._parse(raw[-1:])
        if not early and response.head is not None and not self._surplus:
            self._owner.known_heads.add(raw, response.head)
        if len(data) > end:
            self._parse(data[end:])

    def _add(self, response: PlainResponse, data: bytes, left: int) -> None:
        """Take bytes of a body of which so many are left."""
        more = len(data) - left
        if more > 0:
            self._surplus = True
            data = data[:left]
        if data:
            response.add(data)
        self._left = left - len(data)
        response.complete = more >= 0

    def _parse(self, data: bytes) -> None:
        response = self._response
        if response is None:
            # An earlier part of the same bytes was refused.
            return
        if response.complete:
            self._surplus = True
            return
        if self._parser is None:
            self._parser = httptools.HttpResponseParser(self)
            # Servers have been read so leniently by aiohttp. What makes the end of a body uncertain stays an error.
            self._parser.set_dangerous_leniencies(
                lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
            )
        self._blind += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Only with 101, which was not asked for.
            response.complete = self._surplus = True
        except httptools.HttpParserError as error:
            if response.complete:
                self._surplus = True
            else:
                cause = (cause_of_beginning(data[:_TELLING]) if response.head is None else None) or CAUSES["not_http"]
                self._fail(f"{cause.words} ({error_text(error)})"[:400])
            return
        if self._blind > HEAD_LIMIT and not response.complete:
            self._fault = _TOO_LARGE
        if self._fault:
            self._fail(self._fault)

    def _fail(self, why: str) -> None:
        response = self._response
        assert response is not None
        response.failure = why
        self.abort()

    def _finish(self, response: PlainResponse) -> None:
        """Make the connection free for the next request, or close it."""
        transport, head = self._transport, response.head
        self._response = None
        if transport is None or head is None:
            return
        # The server may have answered before it had the whole request.
        if not head.keep or self._surplus or transport.is_closing() or transport.get_write_buffer_size():
            transport.abort()
            return
        self.resume()
        self._blind = 0
        self._owner.idle(self, head.keep)

    # -- called by the parser

    def on_message_begin(self) -> None:
        if self._response is None or self._response.complete:
            self._surplus = True

    def on_header(self, name: bytes, value: bytes) -> None:
        # Behind the head it is a trailer field, which nothing here uses.
        if self._response is None or self._response.head is not None:
            return
        self._lines_size += len(name) + len(value)
        if self._lines_size > HEAD_LIMIT or len(self._lines) >= FIELDS_AT_MOST:
            self._fault = _TOO_LARGE
        elif b"\0" in value:
            self._fault = "the answer is not HTTP (NUL in a header)"
        else:
            self._lines.append((name, value))

    def on_headers_complete(self) -> None:
        response, lines = self._response, self._lines
        self._lines, self._lines_size = [], 0
        status = self._parser.get_status_code()
        self._informational = 100 <= status < 200 and status != _SWITCHING
        if response is None or response.head is not None or self._informational or self._fault:
            return
        if status < _FIRST_STATUS:
            self._fault = "the answer is not HTTP (a status without a meaning)"
            return
        self._blind = 0
        response.head = head = ResponseHead(status, lines, self._parser.should_keep_alive())
        response.length = head.length
        if status in _BODILESS:
            response.complete = True
            self._surplus = status == _SWITCHING or not (head.until_end or head.length == 0)

    def on_body(self, data: bytes) -> None:
        response = self._response
        if response is not None and response.head is not None and not response.complete:
            self._blind = 0
            response.add(data)

    def on_message_complete(self) -> None:
        if self._informational:
            self._informational = False
        elif self._response is not None and self._response.head is not None:
            self._response.complete = True
