"""One HTTP request to addresses that were checked before, by way of aiohttp."""

import socket
import ssl
import zlib
from collections.abc import Mapping
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from aggregator.accounts.oauth.targets import PinnedRequest
from aggregator.domain.connection_causes import CAUSES, cause_of

_HEADERS_AT_MOST: Final = 100
# zlib and gzip, told apart by their first bytes.
_ANY_WRAPPER: Final = 32 + zlib.MAX_WBITS


class CheckedAddresses(AbstractResolver):
    """A resolver for one host, which returns only the checked addresses."""

    def __init__(self, host: str, addresses: tuple[str, ...]) -> None:
        self._host = host
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the checked addresses."""
        if host != self._host or not self._addresses:
            raise OSError(f"{host} was not checked")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        """Hold nothing that would have to be closed."""


async def send_pinned(request: PinnedRequest, body_at_most: int) -> tuple[int, Mapping[str, str], bytes]:
    """Send a request and return status, headers and body of the response, a redirect too.

    Raises:
        OSError: no connection, or it ended.
        ValueError: the response is not HTTP, or larger than it may be.
    """
    target = request.target
    url = URL(target.url, encoded=True)
    if url.raw_host != target.host or url.port != target.port or url.scheme != target.scheme:
        raise ValueError("the address is read in two ways")
    connector = aiohttp.TCPConnector(
        # A proxy is the operator's own, and not asked by a name that a peer gave.
        resolver=None if request.proxy else CheckedAddresses(target.host, request.addresses),
        use_dns_cache=False,
        force_close=True,
        ssl=request.tls or True,
    )
    try:
        async with (
            aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None),
            ) as session,
            session.request(
                request.verb,
                url,
                headers={"Accept-Encoding": "identity", "User-Agent": "aggregator", **request.headers},
                data=request.data,
                allow_redirects=False,
                proxy=request.proxy,
            ) as response,
        ):
            body = await _read(response, body_at_most)
            return response.status, _headers(response), body
    except aiohttp.ClientError as error:
        raise _failure(error) from None
    except ssl.SSLError as error:
        raise OSError(_reason(error)) from None


async def _read(response: aiohttp.ClientResponse, at_most: int) -> bytes:
    """Return the body, decoded."""
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise ValueError("the answer has a content encoding that was not asked for")
    raw = bytearray()
    async for part in response.content.iter_any():
        raw += part
        if len(raw) > at_most:
            raise ValueError(f"the answer is larger than {at_most // 1024} KiB")
    if encoding in ("", "identity") or not raw:
        return bytes(raw)
    try:
        decoded = zlib.decompressobj(_ANY_WRAPPER).decompress(raw, at_most + 1)
    except zlib.error:
        raise ValueError("the answer is not what its content encoding says") from None
    if len(decoded) > at_most:
        raise ValueError(f"the answer is larger than {at_most // 1024} KiB")
    return decoded


def _headers(response: aiohttp.ClientResponse) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name, value in list(response.headers.items())[:_HEADERS_AT_MOST]:
        lower = name.lower()
        found[lower] = f"{found[lower]}, {value}" if lower in found else value
    return found


def _failure(error: aiohttp.ClientError) -> Exception:
    """Return the meaning of an aiohttp error, without the address in it."""
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientSSLError):
        return OSError(_reason(error))
    if isinstance(error, aiohttp.InvalidURL):
        return ValueError("it is no address")
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return OSError(CAUSES["ended"].words)
    if isinstance(error, aiohttp.ClientResponseError):
        return ValueError("the answer is not HTTP")
    return OSError(_reason(error))


def _reason(error: Exception) -> str:
    cause = cause_of(error)
    if cause is not None:
        return cause.words
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
