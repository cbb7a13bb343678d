"""Bodies that a server compressed although it was asked not to: decoded a bounded piece at a time."""

import zlib
from collections.abc import Iterator
from typing import Final

from aggregator.upstream.transports.http_clients.port import HttpFailure

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
    """Return the decoder for a `Content-Encoding` in lower case; None where the body is to be read as it is.

    Raises:
        HttpFailure: there is no decoder for it.
    """
    if encoding in _ENCODED:
        return Decoder(encoding)
    if "," in encoding or encoding in _UNREADABLE:
        raise HttpFailure(f"the body has a content encoding that was not asked for ({encoding:.40})")
    return None
