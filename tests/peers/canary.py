"""Unique secrets, one for every place that may hold one, and a search for them in any bytes.

The search knows nothing of how the product takes secrets out: it writes each secret in every way it can think of, and
looks for that.
"""

import html
import json
import re
import secrets
import shlex
import sqlite3
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import quote, quote_plus

# What encoders change, in texts that may hold anything; and what a header or an address can carry.
AWKWARD: Final = "\"/\\+=&é 密'<%"
TAME: Final = "/+=-_."
# A piece of a secret this long, whole in a text, is no accident.
_TELLTALE: Final = 12

Encoder = Callable[[str], str]


class Canaries:
    """A maker of secrets that records the place of each."""

    def __init__(self, folder: Path) -> None:
        self.planted: dict[str, str] = {}
        self.environ: dict[str, str] = {}
        self._folder = folder

    def plain(self, place: str) -> str:
        """Letters, digits and little else: for headers, addresses, keys."""
        return self.add(place, f"{secrets.token_urlsafe(9)}{TAME}{secrets.token_urlsafe(12)}")

    def awkward(self, place: str) -> str:
        """Make a secret with characters that every encoder writes in another way."""
        return self.add(place, f"{secrets.token_urlsafe(9)}{AWKWARD}{secrets.token_urlsafe(12)}")

    def add(self, place: str, secret: str) -> str:
        """Register a secret that was made elsewhere."""
        assert place not in self.planted, place
        self.planted[place] = secret
        return secret

    def variable(self, place: str, secret: str | None = None) -> str:
        """A reference to a variable that holds one."""
        name = f"CANARY_{re.sub('[^A-Z]', '_', place.upper())}"
        self.environ[name] = secret if secret is not None else self.plain(place)
        return f"${{{name}}}"

    def file(self, place: str) -> str:
        """A reference to a file that holds one."""
        path = self._folder / f"{place.replace(' ', '-')}.txt"
        path.write_text(f"{self.plain(place)}\n")
        return f"${{file:{path}}}"

    def seen_in(self, data: bytes) -> list[str]:
        """Return the places of the secrets in the data, and the encoding of each."""
        return [f"{place}, {how}" for place, secret in self.planted.items() for how in sightings(data, secret)]


def sightings(data: bytes, secret: str) -> list[str]:
    """Return the encodings in which the data holds a secret; none if it is absent."""
    without_breaks = _without_breaks(data)
    # Most ways of writing a tame secret are the same.
    unique = {written: how for how, written in spellings(secret)}
    found = {how for written, how in unique.items() if written in data or written in without_breaks}
    ends = {secret[:_TELLTALE], secret[-_TELLTALE:]} if len(secret) >= 2 * _TELLTALE else set()
    found |= {"in part" for end in ends if end.encode() in data}
    return sorted(found)


@lru_cache(maxsize=4)
def _without_breaks(data: bytes) -> bytes:
    return re.sub(rb"\\+[rn]|[\r\n]", b"", data)


def spellings(secret: str) -> Iterator[tuple[str, bytes]]:
    """Ways of writing a secret down, as bytes; in base64, what all texts around it have in common."""
    for how, encode in TEXT_ENCODERS.items():
        yield how, encode(secret).encode()
        yield f"{how}, in JSON", in_json(encode(secret)).encode()
    for text in (secret, in_json(secret)):
        for before in range(3):
            yield "base64", in_base64(text.encode(), before, b64encode)
            yield "base64url", in_base64(text.encode(), before, urlsafe_b64encode)
        yield "hex", text.encode().hex().encode()
        yield "HEX", text.encode().hex().upper().encode()


def in_json(text: str) -> str:
    return json.dumps(text)[1:-1]


def in_base64(data: bytes, before: int, encode: Callable[[bytes], bytes]) -> bytes:
    """Return the base64 characters that do not depend on the `before` bytes ahead (modulo 3), or on what follows."""
    one, other = (encode(fill * before + data + fill * 3) for fill in (b"\x00", b"\xff"))
    same = [a == b for a, b in zip(one, other, strict=True)]
    start = same.index(True)
    return one[start : same.index(False, start)]


TEXT_ENCODERS: Final[dict[str, Encoder]] = {
    "plain": str,
    "JSON": in_json,
    "JSON, not ASCII": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON, slashes escaped": lambda text: in_json(text).replace("/", "\\/"),
    "JSON in JSON": lambda text: in_json(in_json(text)),
    "JSON in JSON in JSON": lambda text: in_json(in_json(in_json(text))),
    "JSON for HTML": lambda text: re.sub("[<>&'+]", lambda found: f"\\u{ord(found[0]):04X}", in_json(text)),
    "percent": lambda text: quote(text, safe=""),
    "percent but /": quote,
    "percent, small": lambda text: re.sub("%..", lambda found: found[0].lower(), quote(text, safe="")),
    "percent twice": lambda text: quote(quote(text, safe=""), safe=""),
    "percent in scripts": lambda text: quote(text, safe="-_.!~*'()"),
    "form": quote_plus,
    "form, small": lambda text: re.sub("%..", lambda found: found[0].lower(), quote_plus(text)),
    "HTML": html.escape,
    "HTML, quotes stay": lambda text: html.escape(text, quote=False),
    "XML": lambda text: "".join(c if c.isalnum() and c.isascii() else f"&#{ord(c)};" for c in text),
    "repr": lambda text: repr(text)[1:-1],
    "repr of bytes": lambda text: repr(text.encode())[2:-1],
    "ascii": lambda text: ascii(text)[1:-1],
    "shell": lambda text: shlex.quote(f"{text} ")[1:-2],
    "Markdown": lambda text: re.sub(r"([\\`*_{}\[\]()#+.!-])", r"\\\1", text),
    "latin-1": lambda text: text.encode().decode("latin-1"),
}


def contents(database: Path) -> bytes:
    """Return the contents of an SQLite file: its bytes, those of its log, and every value whole."""
    values = []
    with closing(sqlite3.connect(database)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in connection.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 - the names are the database's own
                values += [value if isinstance(value, bytes) else str(value).encode() for value in row]
    files = [path.read_bytes() for path in database.parent.iterdir() if path.name.startswith(database.name)]
    return b"\n".join([*values, *files])
