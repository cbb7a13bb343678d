"""Addresses that peers name, read strictly: what two programs could read differently is refused.

An address is a URL, or the network address it leads to; a request may reach only some kinds of these. Kinds: the
registries of IANA for special purposes (RFC 6890 and its updates); of IPv6 only 2000::/3 is public.
"""

import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Literal
from urllib.parse import urljoin, urlsplit

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

Address = IPv4Address | IPv6Address

Network = IPv4Network | IPv6Network

# `loopback` is this machine; `private` a network of one's own; `forbidden` has no hosts to talk to, or only those that
# tell machines their own secrets (link-local).
AddressKind = Literal["public", "loopback", "private", "forbidden"]

_TEXTS: Final[tuple[tuple[str, AddressKind], ...]] = (
    ("0.0.0.0/8", "forbidden"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "private"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "forbidden"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "forbidden"),
    ("192.0.2.0/24", "forbidden"),
    ("192.88.99.0/24", "forbidden"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "private"),
    ("198.51.100.0/24", "forbidden"),
    ("203.0.113.0/24", "forbidden"),
    ("224.0.0.0/4", "forbidden"),
    ("240.0.0.0/4", "forbidden"),
)
_KINDS: Final = tuple((IPv4Network(network), kind) for network, kind in _TEXTS)
_PUBLIC: Final = IPv6Network("2000::/3")
_LOCAL: Final = IPv6Network("fc00::/7")
# The address in the last 32 bits is where packets end up: mapped, compatible, NAT64 (RFC 4291, 6052).
_EMBEDDED: Final = tuple(IPv6Network(text) for text in ("::ffff:0:0/96", "::/96", "64:ff9b::/96", "::ffff:0:0:0/96"))
# Teredo and other protocols, documentation, 6to4: no public server is only there.
_NOT_SERVERS: Final = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
# Interface identifiers of ISATAP (RFC 5214), before the IPv4 address.
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})
_LOW_32: Final = 0xFFFFFFFF


def kind_of(address: Address) -> AddressKind:
    """Return the kind of an address; one that carries another is of the other's kind."""
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _KINDS if address in network), "public")
    if address == IPv6Address("::1"):
        return "loopback"
    inner = embedded(address)
    if inner is not None:
        kind = kind_of(inner)
        return kind if kind != "public" or address not in _PUBLIC else _kind_of_v6(address)
    return _kind_of_v6(address)


def _kind_of_v6(address: IPv6Address) -> AddressKind:
    if address in _LOCAL:
        return "private"
    if address not in _PUBLIC or any(address in network for network in _NOT_SERVERS):
        return "forbidden"
    return "public"


def embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address embedded in an IPv6 address, or None."""
    number = int(address)
    if any(address in network for network in _EMBEDDED) or (number >> 32) & _LOW_32 in _ISATAP:
        return IPv4Address(number & _LOW_32)
    return None


class PrivateHosts:
    """The hosts and networks that the operator allows (`auth.private_hosts`): names, addresses, and networks."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._names: set[str] = set()
        self._networks: list[Network] = []
        for host in hosts:
            try:
                self._networks.append(ip_network(host.strip("[]"), strict=False))
            except ValueError:
                self._names.add(host.lower().rstrip("."))

    def names(self, host: str) -> bool:
        """Return True for a name that is listed, and for an address in a network that is."""
        try:
            return self.contains(ip_address(host))
        except ValueError:
            return host in self._names

    def contains(self, address: Address) -> bool:
        """Return True for an address in a listed network."""
        return any(address.version == network.version and address in network for network in self._networks)


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
