"""The sending of hops: one signed request to another replica, straight to it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from aggregator.domain.errors import AggregatorError
from aggregator.domain.text.error_text import error_text
from aggregator.replicas.group.hops import HEADER, HopSigner
from aggregator.replicas.group.membership import Membership

if TYPE_CHECKING:
    import aiohttp

# Seconds to connect to another replica.
_CONNECTING: Final = 3.0
_PART: Final = 64 * 1024


class HopFailed(AggregatorError):
    """The other replica is gone, cannot be reached, or did not take the request; the text says which.

    `sent` is False if it is certain that the other replica got nothing.
    """

    def __init__(self, why: str, *, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


class HopResponse:
    """The answer of another replica, with a streamed body."""

    def __init__(self, response: "aiohttp.ClientResponse") -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the parts of the body as they come.

        Raises:
            HopFailed: it ended in the middle.
        """
        import aiohttp

        try:
            async for part in self._response.content.iter_any():
                yield part
        except (aiohttp.ClientError, OSError) as error:
            raise HopFailed(f"the answer of the other replica ended: {error_text(error)}", sent=True) from error

    async def read(self) -> bytes:
        """Return the whole body.

        Raises:
            HopFailed: it ended in the middle.
        """
        return b"".join([part async for part in self.parts()])


class HopClient:
    """The connections to other replicas. Closed with `close`."""

    def __init__(self, membership: Membership, signer: HopSigner) -> None:
        self._membership = membership
        self._signer = signer
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"<HopClient of {self._membership.id}>"

    @asynccontextmanager
    async def request(
        self,
        target: str,
        path: str,
        body: bytes = b"",
        claims: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "POST",
    ) -> AsyncIterator[HopResponse]:
        """Yield the answer of the replica `target`. Leaving ends the request. The answer may take any time.

        Raises:
            HopFailed: it is gone, cannot be reached, or does not take the request.
        """
        import aiohttp

        replica = self._membership.reachable(target)
        if replica is None or replica.address is None:
            raise HopFailed(f"the replica {target} is gone", sent=False)
        if self._session is None:
            limits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECTING)
            # A replica that was started again under the same name may have another address at once.
            connector = aiohttp.TCPConnector(limit=0, use_dns_cache=False)
            self._session = aiohttp.ClientSession(
                timeout=limits, connector=connector, read_bufsize=_PART, auto_decompress=False
            )
        signed = self._signer.sign(target, method, path, body, claims or {})
        given = {**(headers or {}), HEADER: signed}
        url = f"{replica.address}{path}"
        try:
            response = await self._session.request(
                method, url, data=BytesIO(body), headers=given, allow_redirects=False
            )
        except aiohttp.ClientConnectorError as error:
            raise HopFailed(f"the replica {target} cannot be reached: {error.strerror or error}", sent=False) from error
        except aiohttp.ConnectionTimeoutError as error:
            raise HopFailed(f"the replica {target} cannot be reached: it does not answer", sent=False) from error
        except (aiohttp.ClientError, OSError) as error:
            why = error_text(error)
            raise HopFailed(f"the replica {target} did not answer: {why}", sent=True) from error
        async with response:
            if response.status == 403:
                raise HopFailed(f"the replica {target} refused the request; do the keys differ?", sent=False)
            yield HopResponse(response)

    async def close(self) -> None:
        """End every connection."""
        if self._session is not None:
            await self._session.close()
