"""Small downloads over HTTP: bounded in size and time, over TLS or from this machine, and always checked by the caller.

Law: only `https://` is allowed, and `http://` to a loopback address if the caller permits it; without `elsewhere` a
redirection leads to the same host or nowhere.
"""

import asyncio
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import urljoin, urlsplit

import aiohttp

from aggregator.packages.errors import PackageError

_REDIRECTIONS: Final = 5
_PIECE: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    """The limits of one download: bytes, seconds for all of it, and its allowed destinations.

    `loopback`: plain HTTP to this machine is allowed. `elsewhere`: a redirection may name another host.
    """

    size: int
    seconds: float
    loopback: bool = False
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class Downloaded:
    """A response: its status and its body."""

    status: int
    body: bytes


def is_loopback(address: str) -> bool:
    """Return whether an address is one of this machine."""
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return False
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def checked_address(address: str, limits: DownloadLimits, what: str) -> str:
    """Return an address that may be fetched. Raises PackageError for any other; `what` names it for users."""
    try:
        parts = urlsplit(address)
        usable = bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc and address.isprintable()
    except ValueError:
        usable, parts = False, urlsplit("")
    if not usable or " " in address:
        raise PackageError(f"The address of {what} cannot be used. Write one such as https://HOST/PATH.")
    if parts.scheme == "https" or (parts.scheme == "http" and limits.loopback and is_loopback(address)):
        return address
    raise PackageError(f"The address of {what} does not begin with https://, so it is not asked.")


async def download(address: str, limits: DownloadLimits, what: str) -> Downloaded:
    """Return what stands at an address; `what` names it in errors.

    Raises:
        PackageError: it cannot be fetched within the limits.
    """
    checked_address(address, limits, what)
    timeout = aiohttp.ClientTimeout(total=limits.seconds)
    try:
        async with (
            asyncio.timeout(limits.seconds),
            aiohttp.ClientSession(
                timeout=timeout,
                trust_env=not is_loopback(address),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"Accept": "application/json, application/octet-stream"},
            ) as session,
        ):
            return await _followed(session, address, limits, what)
    except TimeoutError:
        raise PackageError(f"{what} did not answer within {limits.seconds:g} seconds. Try again later.") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise PackageError(f"{what} cannot be reached: {_reason(error)}. Is this machine online?") from None


async def _followed(session: aiohttp.ClientSession, address: str, limits: DownloadLimits, what: str) -> Downloaded:
    for _ in range(_REDIRECTIONS):
        async with session.get(address, allow_redirects=False) as response:
            target = response.headers.get("Location")
            if response.status not in (301, 302, 303, 307, 308) or target is None:
                return Downloaded(response.status, await _body(response, limits, what))
        following = checked_address(urljoin(address, target), limits, f"the redirection of {what}")
        if not limits.elsewhere and urlsplit(following).netloc != urlsplit(address).netloc:
            raise PackageError(f"{what} redirects to another host, which is not followed.")
        address = following
    raise PackageError(f"{what} redirects too often.")


async def _body(response: aiohttp.ClientResponse, limits: DownloadLimits, what: str) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_chunked(_PIECE):
        body += piece
        if len(body) > limits.size:
            raise PackageError(f"{what} answers with more than {limits.size >> 10:,} KiB, which is refused.")
    return bytes(body)


def _reason(error: Exception) -> str:
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    said = cause.strerror if isinstance(cause, OSError) and cause.strerror else type(cause).__name__
    return said[:200]
