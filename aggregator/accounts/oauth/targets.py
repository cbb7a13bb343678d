"""Addresses (URLs) that peers name, read strictly: what two programs could read differently is refused."""

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import Final
from urllib.parse import urljoin, urlsplit

from aggregator.accounts.oauth.addresses import Address, kind_of

_LONGEST: Final = 2048
_SHAPE: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[!-\"$->@-\[\]-~]*)?(?P<query>\?[!-\"$-\[\]-~]*)?",
    re.IGNORECASE | re.ASCII,
)
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_PORTS: Final = {"http": 80, "https": 443}
_LARGEST_PORT: Final = 65535
_NAME_AT_MOST: Final = 253


class BadTarget(ValueError):
    """A text that is no valid address. reason: its fault, without the text itself."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class FetchTarget:
    """A host and the rest of an address. host is in lower case, without brackets; literal: the host, if an address."""

    url: str
    scheme: str
    host: str
    port: int
    literal: Address | None

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def is_here(self) -> bool:
        """True for a host that is this machine by its very name."""
        return self.host == "localhost" or (self.literal is not None and kind_of(self.literal) == "loopback")

    def __str__(self) -> str:
        """Return the address for display: without its query, which may contain secrets."""
        return without_query(self.url)


@dataclass(frozen=True, slots=True)
class PinnedRequest:
    """A request, and the only addresses that it may be sent to."""

    verb: str
    target: FetchTarget
    addresses: tuple[str, ...]
    headers: Mapping[str, str] = field(repr=False)
    data: bytes | None = field(repr=False)
    proxy: str | None = field(repr=False)
    tls: ssl.SSLContext | None = None


def read_target(url: str) -> FetchTarget:
    """Return the target of a URL.

    Raises:
        BadTarget: programs may disagree about its host.
    """
    if len(url) > _LONGEST:
        raise BadTarget("the address is too long")
    shape = _SHAPE.fullmatch(url)
    if shape is None:
        raise BadTarget(_complaint(url))
    scheme = shape["scheme"].lower()
    host = shape["host"].lower()
    port = int(shape["port"]) if shape["port"] else _PORTS[scheme]
    if not 0 < port <= _LARGEST_PORT:
        raise BadTarget("the port of the address is out of range")
    literal = _literal(host)
    return FetchTarget(url, scheme, host.strip("[]"), port, literal)


def absolute(url: str, base: str) -> str:
    """Return an address that may be a relative reference, resolved against the address that it stands under."""
    try:
        return url if urlsplit(url).scheme else urljoin(base, url)
    except ValueError:
        # The reader of the address reports its fault.
        return url


def without_query(url: str) -> str:
    """Return a URL for display: without user, query and fragment, and no longer than a line."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that cannot be read"
    said = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return "".join(char if char.isascii() and char.isprintable() else "?" for char in said[:200])


def _literal(host: str) -> Address | None:
    """Return the address that a host is, None for a name."""
    if host.startswith("["):
        try:
            return IPv6Address(host[1:-1])
        except ValueError:
            raise BadTarget("the host of the address is no IPv6 address") from None
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        # Programs read 127.1, 0x7f.0.0.1 and 2130706433 as addresses, in ways of their own (inet_aton).
        try:
            return IPv4Address(host)
        except ValueError:
            raise BadTarget("the host of the address is a number, but no IPv4 address with four parts") from None
    if len(host) > _NAME_AT_MOST or not all(_LABEL.fullmatch(label) for label in labels):
        raise BadTarget("the host of the address is no name of a host")
    return None


def _complaint(url: str) -> str:
    """Return the fault of a text that has not the form of an address."""
    scheme, separator, rest = url.partition("://")
    authority = re.split(r"[/?#\\]", rest, maxsplit=1)[0]
    if not separator or scheme.lower() not in _PORTS:
        return "it is no https:// address"
    if "@" in authority:
        return "the address has a user in it"
    if not url.isascii():
        return "the address has characters beyond ASCII; a name of that kind has to be written as xn--..."
    if "#" in url:
        return "the address has a fragment"
    return "the address has characters that do not belong in one"
