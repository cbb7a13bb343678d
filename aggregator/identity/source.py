"""The source of a request: this machine itself, or another one, perhaps through proxies.

Rule 1: a request that was forwarded is never local, even if its headers name a local client.
Rule 2: forwarding headers are believed as far as trusted proxies wrote them. They decide whose wrong keys are counted
and which address the log names, and nothing else.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from aggregator.domain.uris.addresses import Network, is_loopback, parse_address, without_port

Headers = Iterable[tuple[bytes, bytes]]

# Headers that only proxies, tunnels and CDNs add. Compared in lower case, with `_` read as `-`.
_MARKS: Final = frozenset(
    {b"forwarded", b"via", b"x-real-ip", b"cdn-loop", b"x-client-ip", b"client-ip", b"x-cluster-client-ip"}
    | {b"x-original-for", b"x-original-host", b"x-original-forwarded-for", b"x-remote-ip", b"x-remote-addr"}
    | {b"true-client-ip", b"proxy-client-ip", b"wl-proxy-client-ip", b"fly-client-ip", b"fastly-client-ip"}
    | {b"x-proxyuser-ip", b"x-appengine-user-ip", b"x-azure-clientip", b"x-azure-socketip", b"x-azure-fdid"}
)
_FAMILIES: Final = (b"x-forwarded", b"cf-", b"x-envoy-", b"tailscale-")
# Headers that nearly every request has, so that most headers cost one look-up.
_ORDINARY: Final = frozenset(
    {b"host", b"accept", b"accept-encoding", b"accept-language", b"authorization", b"connection", b"content-length"}
    | {b"content-type", b"user-agent", b"x-api-key", b"mcp-session-id", b"mcp-protocol-version", b"mcp-method"}
    | {b"mcp-name", b"traceparent", b"origin"}
)
# More characters than any of the marks has.
_SHORT: Final = 64

# Hops that are followed, and bytes of a header that are read: more than any real chain has.
_MOST_HOPS: Final = 32
_LONGEST: Final = 8_192

# RFC 7239, section 4: pairs by `;`, elements by `,`; a value is a token or a quoted string.
_PAIR: Final = re.compile(r"""\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)=("(?:[^"\\]|\\.)*"|[^\s",;]*)\s*([;,]|$)""")


@dataclass(frozen=True, slots=True)
class ClientSource:
    """The sender of a request: its address, as far as it is certain.

    `forwarded`: a proxy forwarded the request; `by_trusted`: a trusted one did. `named_here`: the request was sent to a
    loopback name; with any other name it reached this machine through a proxy or a tunnel.
    """

    address: str | None = None
    forwarded: bool = True
    by_trusted: bool = False
    named_here: bool = False

    local: bool = field(init=False)
    """Whether the request comes from this machine itself."""

    def __post_init__(self) -> None:
        local = self.named_here and not self.forwarded and is_loopback(self.address)
        object.__setattr__(self, "local", local)


# The source of requests that came over no network.
NOWHERE: Final = ClientSource()


def source_of(
    peer: str | None, host: str | None, http_version: str, headers: Headers, trusted: Sequence[Network] = ()
) -> ClientSource:
    """Return the source of a request that came from the address `peer` and names `host`.

    HTTP/1.0 counts as forwarded: no MCP client speaks it, and some proxies do without adding a header.
    """
    forwarded = http_version == "1.0"
    names = dict(headers)
    if not forwarded and not names.keys() <= _ORDINARY:
        forwarded = any(is_mark(name) for name in names.keys() - _ORDINARY)
    if not forwarded and host is not None and len(host) < _SHORT:
        return _direct(peer, host)
    by_trusted = forwarded and bool(trusted) and _is_trusted(peer, trusted)
    address = _client(peer, headers, trusted) if by_trusted else peer
    return ClientSource(address, forwarded, by_trusted, names_this_machine(host))


def is_mark(name: bytes) -> bool:
    """Return whether a header of this name, in lower case, shows that the request was forwarded."""
    return _is_mark(name[:_SHORT])


def names_this_machine(host: str | None) -> bool:
    """Return whether a `Host` header is `localhost` or a loopback address, with or without a port."""
    return host is not None and len(host) < _SHORT and _names_this_machine(host)


@lru_cache(maxsize=1_024)
def _direct(peer: str | None, host: str) -> ClientSource:
    return ClientSource(peer, forwarded=False, named_here=names_this_machine(host))


@lru_cache(maxsize=1_024)
def _is_mark(name: bytes) -> bool:
    name = name.replace(b"_", b"-")
    return name in _MARKS or name.startswith(_FAMILIES)


@lru_cache(maxsize=1_024)
def _names_this_machine(host: str) -> bool:
    return is_loopback(without_port(host.lower()))


def _is_trusted(address: str | None, trusted: Sequence[Network]) -> bool:
    parsed = parse_address(address or "")
    return parsed is not None and any(parsed in network for network in trusted)


def _client(peer: str | None, headers: Headers, trusted: Sequence[Network]) -> str | None:
    """Return the rightmost hop that is no trusted proxy, or the last known one if the chain breaks off.

    A proxy writes one of the two headers and forwards the other unchanged, so neither is trusted if they differ.
    """
    listed = [value for name, value in headers if name == b"x-forwarded-for"]
    standard = [value for name, value in headers if name == b"forwarded"]
    found = set()
    if listed:
        found.add(_rightmost(peer, _listed_hops(listed), trusted))
    if standard:
        found.add(_rightmost(peer, _standard_hops(standard), trusted))
    return found.pop() if len(found) == 1 else peer


def _rightmost(peer: str | None, hops: Sequence[str | None], trusted: Sequence[Network]) -> str | None:
    known = peer
    for hop in reversed(hops[-_MOST_HOPS:]):
        if hop is None:
            break
        known = hop
        if not _is_trusted(hop, trusted):
            break
    return known


def _listed_hops(values: Iterable[bytes]) -> list[str | None]:
    """Return the hops of `X-Forwarded-For`, over all its lines; None for each that is no address."""
    text = b",".join(values).decode("latin-1")
    if len(text) > _LONGEST:
        return [None]
    return [_hop(part.strip(' \t"')) for part in text.split(",") if part.strip()]


def _standard_hops(values: Iterable[bytes]) -> list[str | None]:
    """Return the hops of `Forwarded`; None for `unknown`, for hidden names, and for a header that cannot be read."""
    text = b",".join(values).decode("latin-1")
    if len(text) > _LONGEST:
        return [None]
    hops: list[str | None] = []
    hop: str | None = None
    at = 0
    while at < len(text):
        pair = _PAIR.match(text, at)
        if pair is None:
            return [None]
        if pair[1].lower() == "for":
            hop = _hop(re.sub(r"\\(.)", r"\1", pair[2][1:-1]) if pair[2].startswith('"') else pair[2])
        if pair[3] != ";":
            hops.append(hop)
            hop = None
        at = pair.end()
    return hops


def _hop(text: str) -> str | None:
    """Return the address of a hop, without its port if any: `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80`."""
    if text.startswith("["):
        inside, bracket, port = text[1:].partition("]")
        text = inside if bracket and (not port or port.startswith(":")) else ""
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    address = parse_address(text)
    return str(address) if address is not None else None
