"""The response to one request of the HTTP/1.1 client for `http://`: its state, its body, and the tasks that wait for
it.

A body that a server compressed although it was asked not to is decoded a bounded piece at a time.
"""

import asyncio
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Final, Protocol, Self

from aggregator.upstream.transports.http_clients.port import KEEP_ALIVE, HttpFailure

# Heads that are remembered for one server, and the bytes of the largest of them.
_HEADS: Final = 64
LARGEST_HEAD: Final = 2048
# Bytes of a body that wait to be read: with more, reading pauses until there are fewer.
_HIGH: Final = 128 * 1024
_LOW: Final = 32 * 1024
# The part of a server's own keep-alive time for which an idle connection is used.
_SAFE_SHARE: Final = 0.8
_KEPT_FOR: Final = re.compile(r"(?i)\btimeout\s*=\s*([0-9]{1,9})\b")
# As servers write it. Any other spelling is for the parser. It begins with fixed bytes, which are found fast.
_LENGTH: Final = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: (0|[1-9][0-9]{0,9})(?=\r\n)")
# Two tokens (RFC 9110, sections 5.6.2 and 8.3.1).
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+/[a-z0-9!#$%&'*+.^_`|~-]+")
# Fields whose lines count as one list; of others the first line counts.
_LISTS: Final = frozenset({"transfer-encoding", "connection", "content-encoding", "www-authenticate"})
# Bytes that are decoded at a time, however few they are on the wire.
_PIECE: Final = 64 * 1024
# Compressed texts in one body, one after another (RFC 1952, section 2.2).
_MEMBERS: Final = 16
_GZIP: Final = 16 + zlib.MAX_WBITS
_ENCODED: Final = frozenset({"gzip", "x-gzip", "deflate"})
# What no decoder is here for. Any other word is ignored, since some servers name a character set there.
_UNREADABLE: Final = frozenset({"br", "zstd", "compress", "x-compress"})


class Decoder:
    """The decoder of one body. `ended` is False while more has to come."""

    def __init__(self, encoding: str) -> None:
        self.ended = True
        self._encoding = encoding
        self._zlib = None if encoding == "deflate" else zlib.decompressobj(_GZIP)
        self._members = 1

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what these bytes of the body stand for, in pieces.

        Raises:
            HttpFailure: they cannot be decoded.
        """
        try:
            while data:
                if self._zlib is None:
                    # Some servers leave out the header that belongs to `deflate`, whose method is 8 (RFC 1950).
                    self._zlib = zlib.decompressobj(zlib.MAX_WBITS if data[0] & 0xF == 8 else -zlib.MAX_WBITS)
                elif self._zlib.eof:
                    self._members += 1
                    if self._members > _MEMBERS or self._encoding == "deflate":
                        raise HttpFailure("the body goes on behind the end of its content encoding")
                    self._zlib = zlib.decompressobj(_GZIP)
                self.ended = False
                while (piece := self._zlib.decompress(data, _PIECE)) or self._zlib.unconsumed_tail:
                    data = self._zlib.unconsumed_tail
                    yield piece
                self.ended = self._zlib.eof
                data = self._zlib.unused_data
        except zlib.error:
            raise HttpFailure(f"the body is not what its content encoding says ({self._encoding})") from None


def decoder_for(encoding: str) -> Decoder | None:
    """Return the decoder for a `Content-Encoding` in lower case; None if the body is not encoded.

    Raises:
        HttpFailure: there is no decoder for it.
    """
    if encoding in _ENCODED:
        return Decoder(encoding)
    if "," in encoding or encoding in _UNREADABLE:
        raise HttpFailure(f"the body has a content encoding that was not asked for ({encoding:.40})")
    return None


class ResponseHead:
    """The head of a response.

    length: of the body, if the head says it. It counts for this response only, even if others have the same head.
    until_end: the body ends with the connection.
    keep: seconds for which the connection may be idle afterwards; 0 if it has to be closed.
    encoding: the encoding of the body; empty for none.
    json: it is a good answer in JSON, with no encoding.
    """

    __slots__ = ("content_type", "encoding", "headers", "json", "keep", "length", "status", "until_end")

    def __init__(self, status: int, lines: list[tuple[bytes, bytes]], keep_alive: bool) -> None:
        headers: dict[str, str] = {}
        for raw_name, raw_value in lines:
            name = raw_name.decode("utf-8", "surrogateescape").lower()
            value = raw_value.decode("utf-8", "surrogateescape").strip(" \t")
            if name not in headers:
                headers[name] = value
            elif name in _LISTS:
                headers[name] += f", {value}"
        self.status = status
        self.headers: Mapping[str, str] = headers
        said = headers.get("content-type", "").partition(";")[0].strip().lower()
        self.content_type = said if _MEDIA_TYPE.fullmatch(said) else "application/octet-stream"
        encoding = headers.get("content-encoding", "").lower()
        self.encoding = "" if encoding == "identity" else encoding
        length, transfer = headers.pop("content-length", None), headers.get("transfer-encoding")
        self.length = int(length) if length is not None and transfer is None else None
        chunked = transfer is not None and transfer.rpartition(",")[2].strip().lower() == "chunked"
        self.until_end = not chunked and self.length is None
        self.json = status == 200 and self.content_type == "application/json" and not self.encoding
        self.keep = KEEP_ALIVE if keep_alive else 0.0
        if keep_alive and (told := _KEPT_FOR.search(headers.get("keep-alive", ""))) is not None:
            self.keep = min(KEEP_ALIVE, int(told[1]) * _SAFE_SHARE)


class KnownHeads:
    """The heads of earlier responses of a server, by their bytes before and behind the digits of the length.

    The same bytes mean the same. Only heads of good answers with a length, on a connection that is kept.
    """

    def __init__(self) -> None:
        self._heads: dict[tuple[bytes, bytes], ResponseHead] = {}

    def get(self, data: bytes) -> tuple[ResponseHead, int] | None:
        """Return what the bytes of a head mean, and the length that they name; None if they are not known."""
        digits = _LENGTH.search(data)
        if digits is None:
            return None
        start, end = digits.span(1)
        head = self._heads.get((data[:start], data[end:]))
        return (head, int(digits[1])) if head is not None else None

    def add(self, data: bytes, head: ResponseHead) -> None:
        """Remember a head, if it is one of those."""
        digits = _LENGTH.search(data)
        if digits is not None and head.json and head.length is not None and head.keep and len(data) <= LARGEST_HEAD:
            if len(self._heads) >= _HEADS:
                # They differ by their date, so that old ones do not come again.
                self._heads.clear()
            start, end = digits.span(1)
            self._heads[data[:start], data[end:]] = head


class ResponseSource(Protocol):
    """The connection that a response comes on."""

    def resume(self) -> None:
        """Read on."""
        ...

    def abort(self) -> None:
        """Close the connection at once, without sending or reading the rest."""
        ...

    def abort_if_idle(self) -> None:
        """Close the connection, unless it has another request already."""
        ...


class PlainResponse:
    """The response to one request, from when that was sent.

    head: None until it has come.
    length: of the body, where the head says it.
    complete: all of it has come.
    failure: why it never will, or not whole.
    began: something of it has come.
    """

    __slots__ = (
        "_connection",
        "_parts",
        "_size",
        "_waiter",
        "began",
        "complete",
        "failure",
        "head",
        "length",
        "on_change",
    )

    def __init__(self, connection: ResponseSource) -> None:
        self.head: ResponseHead | None = None
        self.length: int | None = None
        self.complete = False
        self.failure = ""
        self.began = False
        self.on_change: Callable[[], None] | None = None
        self._connection = connection
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None

    # -- the reader of the response

    @property
    def started(self) -> Self:
        """See `HttpExchange`."""
        return self

    @property
    def status(self) -> int:
        return self._known.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._known.headers

    @property
    def content_type(self) -> str:
        return self._known.content_type

    @property
    def _known(self) -> ResponseHead:
        assert self.head is not None
        return self.head

    def whole_json(self, most: int) -> bytes | None:
        if self.complete and self.head is not None and self.head.json and self._size <= most:
            return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        return None

    def may_be_small_json(self, most: int) -> bool:
        if self.failure or self._size > most:
            return False
        return self.head is None or (self.head.json and (self.length or 0) <= most)

    async def headed(self) -> None:
        """Wait for the head.

        Raises:
            HttpFailure: it does not come.
        """
        while self.head is None:
            if self.failure:
                raise HttpFailure(self.failure)
            await self._wait()

    def parts(self) -> "BodyParts":
        return BodyParts(self, decoder_for(self._known.encoding))

    async def next_part(self) -> bytes | None:
        """Return the next bytes of the body as they came; None behind the last ones.

        Raises:
            HttpFailure: the body has not come whole.
        """
        while not self._parts:
            if self.failure:
                raise HttpFailure(self.failure)
            if self.complete:
                return None
            await self._wait()
        part = self._parts.popleft()
        self._size -= len(part)
        if self._size < _LOW and not self.complete:
            self._connection.resume()
        return part

    def refuse(self) -> None:
        """Use the connection for no other request, since its content cannot be read."""
        self._connection.abort_if_idle()

    def release(self) -> None:
        """Give up the rest of the response, and the connection with it."""
        if not self.complete and not self.failure:
            self.failure = "given up"
            self._connection.abort()

    async def __aenter__(self) -> Self:
        try:
            await self.headed()
        except BaseException:
            self.release()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    async def _wait(self) -> None:
        self._waiter = waiter = asyncio.get_running_loop().create_future()
        try:
            await waiter
        finally:
            self._waiter = None

    # -- called by the connection

    def add(self, data: bytes) -> None:
        """Take a part of the body."""
        self._parts.append(data)
        self._size += len(data)

    def too_much(self) -> bool:
        """Return True if reading has to pause."""
        return self._size > _HIGH

    def changed(self) -> None:
        """Tell the one that waits that something has come."""
        if self.on_change is not None:
            self.on_change()
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class BodyParts:
    """The parts of a body, decoded if it has an encoding."""

    __slots__ = ("_decoder", "_pieces", "_response")

    def __init__(self, response: PlainResponse, decoder: Decoder | None) -> None:
        self._response = response
        self._decoder = decoder
        self._pieces: Iterator[bytes] = iter(())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._decoder is not None:
            return await self._decoded(self._decoder)
        part = await self._response.next_part()
        if part is None:
            raise StopAsyncIteration
        return part

    async def _decoded(self, decoder: Decoder) -> bytes:
        try:
            while (piece := next(self._pieces, None)) is None:
                part = await self._response.next_part()
                if part is None:
                    if decoder.ended:
                        raise StopAsyncIteration
                    raise HttpFailure("the body ends before its content encoding does")
                self._pieces = decoder.feed(part)
        except HttpFailure:
            self._response.refuse()
            raise
        # A few bytes may stand for very many.
        await asyncio.sleep(0)
        return piece
