"""The network side of a hop: what spans and metrics say of the way to a server, or of the way from a host.

Source: OpenTelemetry semantic conventions for MCP, "Recording MCP transport".
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}


class NetworkHop(NamedTuple):
    """One network hop of messages; None for unknown parts."""

    transport: str | None = None
    protocol: str | None = None
    address: str | None = None
    port: int | None = None


PIPE: Final = NetworkHop("pipe")
INSIDE: Final = NetworkHop()
HTTP: Final = NetworkHop("tcp", "http")
# The frontends that are not reached over HTTP.
OF_FRONTEND: Final[Mapping[str, NetworkHop]] = {"stdio": PIPE, "cli": INSIDE, "inprocess": INSIDE}

# Returns the way to a server; called in the thread that makes spans, too.
FindHop = Callable[[str], NetworkHop]


def nowhere(server: str) -> NetworkHop:
    """Return an unknown way."""
    return INSIDE


def hop_to(url: str | None, command: str | None) -> NetworkHop:
    """Return the hop to a server with this address or command; without either, the server runs in this process. Only
    host and port of an address are shown: the rest may be secret.
    """
    if url is None:
        return PIPE if command is not None else INSIDE
    try:
        parts = urlsplit(url)
        return HTTP._replace(address=parts.hostname, port=parts.port or _PORTS.get(parts.scheme))
    except ValueError:
        return HTTP
