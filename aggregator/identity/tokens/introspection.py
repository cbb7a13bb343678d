"""Opaque tokens, introspected by their issuer (RFC 7662).

Rule: a token is sent only to its own issuer's endpoint, in the body of a request over TLS.
"""

import asyncio
import base64
import logging
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote_plus

from aggregator.accounts.oauth.fetch import FetchFailed, GuardedFetch
from aggregator.accounts.oauth.metadata import read_issuer
from aggregator.config.auth.issuers import IntrospectionConfig, IssuerConfig
from aggregator.identity.tokens.rejection import IssuerUnavailable, TokenRejected

log = logging.getLogger(__name__)

# Questions that are under way at once.
_AT_ONCE: Final = 16
_FOUND: Final = 200
_BEARER: Final = "bearer"


class Introspection:
    """The endpoint of one issuer."""

    def __init__(self, issuer: IssuerConfig, config: IntrospectionConfig, fetch: GuardedFetch) -> None:
        self._issuer = issuer
        self._config = config
        self._fetch = fetch.within(issuer.issuer)
        if config.url is not None:
            self._fetch = self._fetch.within(config.url)
        self._url = config.url
        self._places = asyncio.Semaphore(_AT_ONCE)
        self.problem: str | None = None

    def __repr__(self) -> str:
        return f"<Introspection at {self._issuer.issuer}{f', {self.problem}' if self.problem else ''}>"

    @property
    def lasts(self) -> float:
        """The seconds for which an answer counts."""
        return self._config.cache

    async def ask(self, text: str) -> Mapping[str, Any]:
        """Return the claims of an active token, as the issuer says.

        Raises:
            TokenRejected: the token is not active.
            IssuerUnavailable: the issuer did not answer as it should.
        """
        try:
            async with self._places:
                claims = await self._ask(text)
        except FetchFailed as error:
            if self.problem is None:
                log.error("the issuer %s cannot be asked about tokens: %s", self._issuer.issuer, error.reason)
            self.problem = error.reason
            raise IssuerUnavailable(error.reason) from None
        if self.problem is not None:
            log.info("the issuer %s can be asked about tokens again", self._issuer.issuer)
        self.problem = None
        kind = claims.get("token_type")
        if claims.get("active") is not True:
            raise TokenRejected("This token is not active, or not of an issuer that is accepted here.", guessed=True)
        if kind is not None and (not isinstance(kind, str) or kind.lower() != _BEARER):
            raise TokenRejected("This is no bearer token, and no other is taken here.")
        return claims

    async def _ask(self, text: str) -> dict[str, Any]:
        if self._url is None:
            self._url = (await read_issuer(self._fetch, self._issuer.issuer)).introspection_endpoint
        if self._url is None:
            raise FetchFailed(f"the metadata of {self._issuer.issuer} name no `introspection_endpoint`: set `url`")
        # RFC 6749, 2.3.1: both parts are form-encoded before they are joined.
        pair = f"{quote_plus(self._config.client_id)}:{quote_plus(self._config.client_secret)}"
        headers = {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}", "Accept": "application/json"}
        form = {"token": text, "token_type_hint": "access_token"}
        response = await self._fetch.post_form(self._url, form, headers)
        if response.status != _FOUND:
            hint = ": it does not accept `client_id` and `client_secret`" if response.status in (401, 403) else ""
            raise FetchFailed(f"{self._url.partition('?')[0]} answers with status {response.status}{hint}")
        return response.json()
