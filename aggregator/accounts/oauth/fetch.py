"""Guarded fetches from addresses named by peers: over TLS from public hosts, or from more if the operator allows it.

Law: an address is resolved once, every answer is checked, and the connection goes to a checked one. No redirect is
followed, no cookie is stored, no proxy of the environment is used; bytes and seconds have bounds.
"""

import asyncio
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlencode, urljoin

from aggregator.accounts.oauth.targets import (
    Address,
    BadTarget,
    FetchTarget,
    PinnedRequest,
    PrivateHosts,
    kind_of,
    read_target,
    without_query,
)
from aggregator.config.client_tls import ServerTlsConfig, UnusableTlsFile, client_context
from aggregator.domain.text.error_text import error_text

BODY_AT_MOST: Final = 256 * 1024
SECONDS_AT_MOST: Final = 10.0
_ADDRESSES_AT_MOST: Final = 32
_REDIRECTS: Final = frozenset({300, 301, 302, 303, 305, 307, 308})
_FORM: Final = "application/x-www-form-urlencoded"
_ALLOW: Final = "list it in `auth.private_hosts` if that is meant"

# Have credentials hidden, by their names, before they are sent or used.
LearnCredentials = Callable[[Mapping[str, str]], Awaitable[None]]
# Resolve a host: its addresses, as texts.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


async def _learn_nothing(named: Mapping[str, str]) -> None:
    """Hide nothing: for commands that write nothing down."""


class FetchFailed(Exception):
    """A fetch that was refused here, or failed.

    reason: one sentence for users, without secrets and queries of addresses. transient: trying later may help.
    redirect: the target of the peer's redirect, without query.
    """

    def __init__(self, reason: str, *, transient: bool = False, redirect: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.transient = transient
        self.redirect = redirect


@dataclass(frozen=True, slots=True)
class Fetched:
    """A response: names of headers are in lower case, and values of one name are joined with `, `."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    def json(self) -> dict[str, Any]:
        """Return the body, which has to be a JSON object.

        Raises:
            FetchFailed: it is none.
        """
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError):
            raise FetchFailed(f"the answer (status {self.status}) is not JSON") from None
        if not isinstance(value, dict):
            raise FetchFailed(f"the answer (status {self.status}) is not a JSON object")
        return value


async def ask_name_service(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host as this machine knows them.

    Raises:
        OSError: it has none.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(frozen=True, slots=True)
class _Trust:
    """The places beyond public hosts that a fetch may go to."""

    private: PrivateHosts
    http_allowed_here: bool
    here: bool = False
    origins: frozenset[tuple[str, str, int]] = frozenset()
    proxy: str | None = None
    tls: ServerTlsConfig | None = field(default=None, repr=False)
    tls_origin: tuple[str, str, int] | None = None

    def context(self, target: FetchTarget) -> ssl.SSLContext | None:
        """Return the TLS settings for a request, read from their files; our certificate is for the server alone.

        Raises:
            UnusableTlsFile: a file cannot be used.
        """
        if self.tls is None or target.scheme != "https":
            return None
        return client_context(self.tls, with_certificate=target.origin == self.tls_origin)


class GuardedFetch:
    """A way to fetch for one purpose; `within` also allows the addresses that follow from a configured one.

    private_hosts: `auth.private_hosts`. http_allowed_here: False to refuse http:// even on this machine. resolve and
    tls: in place of the machine's name service and certificate authorities. learn: called with the credentials of each
    request and answer.
    """

    def __init__(
        self,
        private_hosts: Sequence[str] = (),
        http_allowed_here: bool = True,
        *,
        resolve: Resolve = ask_name_service,
        tls: ssl.SSLContext | None = None,
        learn: LearnCredentials | None = None,
    ) -> None:
        self.learn: LearnCredentials = learn or _learn_nothing
        self._trust = _Trust(PrivateHosts(private_hosts), http_allowed_here)
        self._resolve = resolve
        self._tls = tls

    def within(self, url: str, proxy: str | None = None, tls: ServerTlsConfig | None = None) -> "GuardedFetch":
        """Return fetches for a server or an issuer that the operator configured at `url`.

        They may go to that host and port in a private network too and, if it is this machine, to this machine, by
        http:// as well. proxy, tls: those that the operator configured for that server.
        """
        widened = GuardedFetch(resolve=self._resolve, tls=self._tls, learn=self.learn)
        try:
            configured = read_target(url)
        except BadTarget:
            widened._trust = replace(self._trust, proxy=proxy or self._trust.proxy)
            return widened
        widened._trust = replace(
            self._trust,
            here=self._trust.here or configured.is_here,
            origins=self._trust.origins | {configured.origin},
            proxy=proxy or self._trust.proxy,
            tls=tls or self._trust.tls,
            tls_origin=configured.origin if tls is not None else self._trust.tls_origin,
        )
        return widened

    def learning(self, learn: LearnCredentials) -> "GuardedFetch":
        """Return the same fetches, which tell `learn` of credentials."""
        same = GuardedFetch(resolve=self._resolve, tls=self._tls, learn=learn)
        same._trust = self._trust
        return same

    def admit(self, url: str) -> str:
        """Return an address if its text alone does not forbid a request.

        Raises:
            FetchFailed: it does.
        """
        self._read(url)
        return url

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> Fetched:
        """GET. Any status but a redirect is returned.

        Raises:
            FetchFailed: the request is not allowed, or the answer is invalid.
        """
        return await self._send("GET", url, headers, None)

    async def post_form(self, url: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Fetched:
        """POST a form (`application/x-www-form-urlencoded`); as `get`."""
        return await self._send("POST", url, {"Content-Type": _FORM, **(headers or {})}, urlencode(form).encode())

    async def post_json(self, url: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Fetched:
        """POST a JSON object; as `get`."""
        data = json.dumps(body).encode()
        return await self._send("POST", url, {"Content-Type": "application/json", **(headers or {})}, data)

    def _read(self, url: str) -> FetchTarget:
        """Return the target of an address if its text alone does not forbid a request."""
        try:
            target = read_target(url)
        except BadTarget as error:
            raise FetchFailed(f"{without_query(url)} is not asked: {error.reason}") from None
        trust = self._trust
        if target.scheme != "https" and not self._plain_allowed(target):
            raise FetchFailed(f"{target} is not asked: it is not https://")
        if target.literal is not None:
            self._check(target, target.literal)
        elif target.host == "localhost" and not (trust.here or trust.private.names(target.host)):
            raise FetchFailed(f"{target} is not asked: it leads to this machine; {_ALLOW}")
        return target

    def _plain_allowed(self, target: FetchTarget) -> bool:
        trust = self._trust
        return trust.private.names(target.host) or (
            trust.http_allowed_here and ((trust.here and target.is_here) or target.origin in trust.origins)
        )

    def _check(self, target: FetchTarget, address: Address) -> None:
        """Refuse an address that the host must not lead to."""
        kind, trust = kind_of(address), self._trust
        if trust.private.contains(address) or (kind == "public" and self._public_allowed(target)):
            return
        if kind == "loopback" and trust.here and target.is_here:
            return
        if kind in ("private", "loopback") and trust.private.names(target.host):
            return
        if kind == "private" and target.origin in trust.origins:
            return
        where = {
            "public": "another machine, not this one",
            "loopback": f"this machine ({address}); {_ALLOW}",
            "private": f"a private network ({address}); {_ALLOW}",
            "forbidden": f"an address that no server has ({address})",
        }[kind]
        raise FetchFailed(f"{target} is not asked: it leads to {where}")

    def _public_allowed(self, target: FetchTarget) -> bool:
        """Return False for names of this machine that resolve elsewhere, and for unencrypted requests."""
        return target.host != "localhost" and (
            target.scheme == "https" or target.origin in self._trust.origins or self._trust.private.names(target.host)
        )

    async def addresses(self, url: str) -> tuple[str, ...]:
        """Return the addresses of a URL's host, each of them checked.

        Raises:
            FetchFailed: a request is not allowed, or the name is unknown.
        """
        return await self._addresses(self._read(url))

    async def _addresses(self, target: FetchTarget) -> tuple[str, ...]:
        if target.literal is not None:
            return (str(target.literal),)
        try:
            found = await self._resolve(target.host, target.port)
        except (OSError, UnicodeError):
            if self._trust.proxy is not None and "." in target.host:
                # Only the proxy resolves names then, and decides which addresses to allow.
                return ()
            raise FetchFailed(f"{target}: the name {target.host} is not known", transient=True) from None
        if not found:
            raise FetchFailed(f"{target}: the name {target.host} has no address", transient=True)
        for text in found:
            self._check(target, _address(target, text))
        return tuple(found[:_ADDRESSES_AT_MOST])

    async def _send(self, verb: str, url: str, headers: Mapping[str, str] | None, data: bytes | None) -> Fetched:
        target = self._read(url)
        # Imported here: aiohttp takes 100 ms, which a start without OAuth must not wait for.
        from aggregator.accounts.oauth.pinned import send_pinned

        try:
            async with asyncio.timeout(SECONDS_AT_MOST):
                addresses = await self._addresses(target)
                sent = {"Accept": "application/json", **(headers or {})}
                proxy = self._trust.proxy
                tls = self._tls or await asyncio.to_thread(self._trust.context, target)
                request = PinnedRequest(verb, target, addresses, sent, data, proxy, tls)
                response = Fetched(*await send_pinned(request, BODY_AT_MOST))
        except TimeoutError:
            raise FetchFailed(f"{target} did not answer within {SECONDS_AT_MOST:g} s", transient=True) from None
        except UnusableTlsFile as error:
            raise FetchFailed(f"{target} is not asked: {error}", transient=True) from None
        except OSError as error:
            raise FetchFailed(f"{target} cannot be reached: {error_text(error)}", transient=True) from None
        except ValueError as error:
            raise FetchFailed(f"{target}: {error_text(error)}") from None
        if response.status in _REDIRECTS:
            where = without_query(urljoin(url, response.headers.get("location", "")))
            raise FetchFailed(f"{target} leads on to {where}, which is not followed", redirect=where)
        return response


def _address(target: FetchTarget, text: str) -> Address:
    try:
        return ip_address(text)
    except ValueError:
        raise FetchFailed(f"{target} is not asked: it leads to an address of a single link") from None
