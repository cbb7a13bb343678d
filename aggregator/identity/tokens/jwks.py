"""The keys that an issuer publishes (RFC 7517), fetched when a token needs them and kept while the issuer is away.

Rule 1: an unknown key triggers a new fetch, at most every `ASK_EVERY` seconds. Rule 2: one fetch at a time; later
callers wait for its result. Rule 3: keys are in use as long as a token signed by one of them is valid, however seldom
new tokens arrive. Rule 4: keys that could not be fetched for `KEPT_FOR` seconds count no longer, nor do the tokens
verified with them.
"""

import asyncio
import logging
import time
from typing import Final

from aggregator.accounts.oauth.fetch import FetchFailed, GuardedFetch
from aggregator.accounts.oauth.metadata import read_issuer
from aggregator.config.auth.issuers import IssuerConfig
from aggregator.domain.text.error_text import error_text
from aggregator.identity.tokens.key_set import IssuerKey, KeySet, read_key_set
from aggregator.identity.tokens.rejection import IssuerUnavailable

log = logging.getLogger(__name__)

# Seconds between two fetches for unknown keys, or after a failed fetch without any key.
ASK_EVERY: Final = 10.0
RETRY_EVERY: Final = 3.0
# Seconds after which keys in use are fetched anew, so that a withdrawn key ends, and for which they count at most while
# that fails.
REFRESH_AFTER: Final = 300.0
KEPT_FOR: Final = 24 * 3_600.0
_FOUND: Final = 200


class IssuerKeys:
    """The keys of one issuer. `revision` is another object once they are others."""

    def __init__(self, issuer: IssuerConfig, fetch: GuardedFetch) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._lock = asyncio.Lock()
        self._url: str | None = None
        self._body = b""
        self._keys = KeySet()
        self._fetched = self._tried = float("-inf")
        self._used = False
        # Seconds since 1970 until which a token counts that was verified with these keys.
        self._used_until = 0.0
        self.problem: str | None = None
        self.revision = object()

    def __repr__(self) -> str:
        problem = f", {self.problem}" if self.problem else ""
        return f"<IssuerKeys {len(self._keys.keys)} of {self._issuer.issuer}{problem}>"

    def known(self, kid: str | None, algorithm: str) -> tuple[IssuerKey, ...] | None:
        """Return the keys that may have signed a token, none if there is no such key; None if the issuer has to be
        asked first.
        """
        now = time.monotonic()
        self._used = True
        if now - self._fetched > KEPT_FOR:
            return None
        found = self._keys.for_token(kid, algorithm)
        # A key of that name that does not fit stays unfit: another fetch would not help.
        if found or (kid is not None and self._keys.has(kid)):
            return found
        return () if self.problem is None and now - self._tried < ASK_EVERY else None

    async def ask(self, kid: str | None, algorithm: str) -> tuple[IssuerKey, ...]:
        """Return the keys that may have signed a token, fetched again if necessary and allowed.

        Raises:
            IssuerUnavailable: the keys cannot be fetched now.
        """
        came = time.monotonic()
        async with self._lock:
            found = self.known(kid, algorithm)
            if found is not None:
                return found
            pause = ASK_EVERY if time.monotonic() - self._fetched <= KEPT_FOR else RETRY_EVERY
            if self._tried < came and time.monotonic() - self._tried >= pause:
                await self._refresh()
            if self.problem is not None:
                raise IssuerUnavailable(self.problem)
            return self._keys.for_token(kid, algorithm)

    def verified(self, until: float) -> None:
        """Note that a token which counts until then, in seconds since 1970, was verified with these keys."""
        self._used_until = max(self._used_until, until)

    async def refresh_if_old(self) -> None:
        """Fetch keys that are in use and were not fetched for `REFRESH_AFTER` seconds; a failure is logged."""
        in_use = self._used or time.time() < self._used_until
        if in_use and time.monotonic() - max(self._fetched, self._tried) > REFRESH_AFTER:
            async with self._lock:
                await self._refresh()
            self._used = False
        if self._body and time.monotonic() - self._fetched > KEPT_FOR:
            log.error("the keys of the issuer %s count no longer: they are more than a day old", self._issuer.issuer)
            self._keys, self._body, self.revision = KeySet(), b"", object()

    async def _refresh(self) -> None:
        """Fetch the keys; `problem` says why that failed."""
        self._tried = time.monotonic()
        try:
            await self._fetch_keys()
        except FetchFailed as error:
            self._failed(error.reason)
        except ValueError as error:
            self._failed(f"{self._url or self._issuer.issuer} is no set of keys: {error_text(error)}")
        else:
            if self.problem is not None:
                log.info("the keys of the issuer %s can be had again", self._issuer.issuer)
            self.problem = None
        finally:
            # The pause counts from the end: a fetch may take long.
            self._tried = time.monotonic()

    async def _fetch_keys(self) -> None:
        url = self._url or self._issuer.jwks_url
        fetch = self._fetch.within(self._issuer.issuer)
        if url is None:
            url = (await read_issuer(fetch, self._issuer.issuer)).jwks_uri
            if url is None:
                raise FetchFailed(f"the metadata of {self._issuer.issuer} name no `jwks_uri`: set `jwks_url`")
        elif self._issuer.jwks_url is not None:
            fetch = fetch.within(self._issuer.jwks_url)
        response = await fetch.get(url, {"Accept": "application/jwk-set+json, application/json"})
        if response.status != _FOUND:
            raise FetchFailed(f"{url} answers with status {response.status}", transient=True)
        keys = read_key_set(response.json())
        self._url, self._fetched = url, time.monotonic()
        if response.body != self._body:
            self._keys, self._body, self.revision = keys, response.body, object()
            log.info("the issuer %s has %d keys for tokens", self._issuer.issuer, len(keys.keys))

    def _failed(self, reason: str) -> None:
        # The metadata may name another address by now.
        self._url = None
        if self.problem is None:
            log.error("the keys of the issuer %s cannot be had: %s", self._issuer.issuer, reason)
        self.problem = reason
