"""The kinds of network addresses, and which of them a request to a peer-named address may reach. This file decides.

Networks of the registries of IANA for special purposes (RFC 6890 and its updates); of IPv6 only 2000::/3 is public.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Literal

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
