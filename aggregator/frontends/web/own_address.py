"""The address of the web frontends as hosts know it: accepted `Host` and `Origin` values, and the prefix of paths."""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from aggregator.config.settings import HttpConfig
from aggregator.domain.uris.addresses import (
    Network,
    address_in,
    bracketed,
    is_loopback,
    parse_address,
    parse_network,
    without_port,
)

_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
# An absolute path of plain segments; `//` would begin the name of a host.
_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,=:@%-]+){1,32}")
_LONGEST_PREFIX: Final = 512
# What is served besides Streamable HTTP; tests/unit/test_public_path.py holds the list to the routes.
OWN_PATHS: Final = (
    *("/sse", "/messages", "/v1", "/console", "/connect", "/oauth", "/healthz", "/readyz", "/metrics", "/.well-known"),
)


class OwnAddress:
    """The names, origins and proxies that follow from the configuration."""

    def __init__(self, http: HttpConfig) -> None:
        public = urlsplit(http.public_url) if http.public_url is not None else None
        self.trusted: Sequence[Network] = tuple(map(parse_network, http.trusted_proxies))
        self.public_url = http.public_url.rstrip("/") if http.public_url is not None else None
        # Its beginning: scheme, host and port, as browsers write them.
        self.public_origin = _origin(public.scheme, public.netloc) if public is not None else None
        self.public_host = bracketed(public.hostname or "") if public is not None else None
        self._path = public.path.rstrip("/") if public is not None else ""
        # The path of `public_url` where requests may come with it: not where it is the beginning of a path of ours.
        ours = any(f"{path}/".startswith(f"{self._path}/") for path in (http.path, *OWN_PATHS))
        self.passed_on = self._path if self._path and not ours else None
        self._hosts = {name.lower() for name in (*_LOOPBACK_NAMES, bracketed(http.host), *http.allowed_hosts)}
        self._origins = {origin.lower().rstrip("/") for origin in http.allowed_origins}
        if public is not None and self.public_host is not None:
            self._hosts.add(self.public_host)
            self._origins.add(_origin(public.scheme, public.netloc))

    @property
    def hosts(self) -> list[str]:
        """The accepted names of a `Host` header, in order."""
        return sorted(self._hosts)

    def speaks_for_many(self, address: str) -> bool:
        """Return whether many senders may stand behind the address of a connection: this machine, a trusted proxy."""
        parsed = parse_address(address)
        return is_loopback(address) or (parsed is not None and any(parsed in network for network in self.trusted))

    def accepts_host(self, host: str, arrived_at: str | None) -> bool:
        """Return whether a `Host` header names this server. The address that the request arrived at is accepted too.

        Pages whose own name resolves to this machine (DNS rebinding) are not.
        """
        host = host.lower()
        if host in self._hosts or without_port(host) in self._hosts:
            return True
        named = address_in(host)
        return named is not None and named == parse_address(arrived_at or "")

    def accepts_origin(self, origin: str, host: str) -> bool:
        """Return whether a page's `Origin` is accepted: it has the authority of the request, or is in the
        configuration.
        """
        origin = origin.lower().rstrip("/")
        scheme, separator, authority = origin.partition("://")
        ours = bool(separator) and scheme in ("http", "https") and authority == host.lower() != ""
        return ours or origin in self._origins

    def prefix(self, host: str, sent: Sequence[str], *, forwarded: bool, by_trusted: bool) -> str:
        """Return the prefix of our paths as the sender of a request sees them. `sent`: values of
        `X-Forwarded-Prefix`.
        """
        if by_trusted and sent:
            given = sent[0].strip().rstrip("/")
            if len(sent) == 1 and len(given) <= _LONGEST_PREFIX and (not given or _is_prefix(given)):
                return given
        public = self.public_host is not None and without_port(host.lower()) == self.public_host
        return self._path if forwarded or public else ""


def _is_prefix(path: str) -> bool:
    return _PREFIX.fullmatch(path) is not None and not {".", ".."} & set(path.split("/"))


def _origin(scheme: str, netloc: str) -> str:
    """Return the `Origin` of pages at an address, without the default port of the scheme (RFC 6454, section 6.2)."""
    usual = {"http": ":80", "https": ":443"}[scheme]
    return f"{scheme}://{netloc.lower().removesuffix(usual)}"
