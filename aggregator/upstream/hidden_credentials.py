"""Credentials of an account that redaction learns before any request carries them.

Law: redaction knows every header that leaves here.
"""

import asyncio
from collections.abc import Sequence

from aggregator.domain.grant_owner import GrantOwner, credentials_source
from aggregator.upstream.credentials import Credentials
from aggregator.upstream.redaction import ServerRedaction


class HiddenCredentials:
    """The `Credentials` of one owner for one server, known to the server's redaction."""

    def __init__(self, credentials: Credentials, server: str, owner: GrantOwner, redaction: ServerRedaction) -> None:
        self._credentials = credentials
        self._source = credentials_source(server, owner)
        self._redaction = redaction
        self._hidden: str | None = None

    def __repr__(self) -> str:
        return f"<HiddenCredentials of {self._credentials!r}>"

    @property
    def header(self) -> str | None:
        """See `Credentials`."""
        header = self._credentials.header
        if header is not None and header != self._hidden:
            # `ready` and the source of a token teach most of them; this takes some milliseconds.
            self._redaction.learn_header(self._source, header)
            self._hidden = header
        return header

    async def ready(self) -> None:
        """See `Credentials`."""
        await self._credentials.ready()
        await self._learn_ahead()

    async def refused(self, sent: str | None, status: int, challenges: Sequence[str]) -> bool:
        """See `Credentials`."""
        again = await self._credentials.refused(sent, status, challenges)
        await self._learn_ahead()
        return again

    async def _learn_ahead(self) -> None:
        header = self._credentials.header
        if header is not None and header != self._hidden:
            await asyncio.to_thread(self._redaction.learn_header, self._source, header)
            self._hidden = header
