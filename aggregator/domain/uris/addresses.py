"""IP addresses, networks and the names in `Host` headers, read from text of unknown origin."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# No address and no name is longer; nothing longer is kept in memory.
_LONGEST = 255


def parse_address(text: str) -> Address | None:
    """Return an IP address without its zone, and an IPv4 address in IPv6 form as IPv4; None for anything else."""
    return _parsed(text) if len(text) <= _LONGEST else None


def parse_network(text: str) -> Network:
    """Return an address, or a network such as `10.0.0.0/8`.

    Raises:
        ValueError: it is neither.
    """
    text = text.strip()
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        raise ValueError("expected an IP address or a network such as 10.0.0.0/8") from None
    if "/" in text and ip_address(text.partition("/")[0]) != network.network_address:
        raise ValueError(f"expected a whole network, such as {network}, or an address alone")
    return network


def is_loopback(host: str | None) -> bool:
    """Return whether an address, or `localhost`, can only be reached from this machine."""
    if host == "localhost":
        return True
    address = parse_address((host or "").removeprefix("[").removesuffix("]"))
    return address is not None and address.is_loopback


def without_port(host: str) -> str:
    """Return the name or the bracketed address of `host` or `host:port`."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() and not name.endswith(":") else host


def bracketed(host: str) -> str:
    """Return an address as URLs and `Host` headers have it."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def address_in(host: str) -> Address | None:
    """Return the address that a `Host` header names; None if it names anything else."""
    name = without_port(host)
    if name.startswith("["):
        return parse_address(name[1:-1]) if name.endswith("]") else None
    return parse_address(name) if ":" not in name else None


@lru_cache(maxsize=4_096)
def _parsed(text: str) -> Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
