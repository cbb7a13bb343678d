"""Private keys in text (RFC 7468), whole, cut off, or line by line."""

import re
from collections.abc import Iterator
from typing import Final

from aggregator.redaction.spans import Span

_HEADER: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_FOOTER: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_LONGEST: Final = 16 * 1024
# Lines of base64 with their possible separators: escaped line breaks, quotes, a margin.
_BETWEEN: Final = r"(?:\\+[rn]|[\s\"'>|,+])*+"
_BODY: Final = re.compile(
    rf"(?:{_BETWEEN}[A-Za-z0-9+/]{{20,76}}+={{0,2}})++(?:{_BETWEEN}[A-Za-z0-9+/]{{1,19}}+={{0,2}})?"
)
# What a server prints arrives line by line.
_LINE: Final = re.compile(r"^[A-Za-z0-9+/]{64}$", re.MULTILINE)
_IN_A_ROW: Final = b"a" * 64
_RUNS: Final = bytes(97 if chr(byte).isalnum() or byte in b"+/" else 32 for byte in range(128)) + b" " * 128
_DIGIT: Final = re.compile(r"[0-9]")


def private_key_spans(text: str) -> Iterator[Span]:
    """Yield where private keys stand, and lines that look like lines of one; unordered."""
    if (len(text) == 64 or "\n" in text) and _IN_A_ROW in text.encode("ascii", "replace").translate(_RUNS):
        yield from (found.span() for found in _LINE.finditer(text) if is_random(found[0]))
    if "-----BEGIN " not in text:
        return
    footer: re.Match[str] | None = None
    searched_from = -1
    for header in _HEADER.finditer(text):
        if searched_from < 0 or (footer is not None and footer.start() < header.end()):
            searched_from = header.end()
            footer = _FOOTER.search(text, searched_from)
        if footer is not None and footer.end() - header.start() <= _LONGEST:
            yield header.start(), footer.end()
        elif (body := _BODY.match(text, header.end())) is not None:
            yield header.start(), body.end()


def is_random(text: str) -> bool:
    """Return whether base64 looks like random bytes, as opposed to a number, a hexadecimal digest or a word."""
    return _DIGIT.search(text) is not None and not text.isupper() and not text.islower()
