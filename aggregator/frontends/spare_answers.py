"""Answers to requests that are not read whole, as bytes: the connection ends with each."""

from typing import Final


def _answer(status: bytes, said: bytes, more: bytes = b"") -> bytes:
    body = b'{"error":"%b"}' % said
    lines = b"connection: close\r\ncontent-type: application/json\r\n%bcontent-length: %d" % (more, len(body))
    return b"HTTP/1.1 %b\r\n%b\r\n\r\n%b" % (status, lines, body)


TOO_SLOW: Final = _answer(b"408 Request Timeout", b"The request did not arrive in time (`http.stall_timeout`).")
TOO_LARGE: Final = _answer(b"431 Request Header Fields Too Large", b"The head of a request may have 64 KiB.")
TOO_MANY: Final = _answer(
    b"503 Service Unavailable",
    b"Your address has as many connections as one may have.",
    b"retry-after: 10\r\n",
)
