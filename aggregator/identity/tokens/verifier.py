"""The verification of access tokens: at once if the issuer's keys are cached, else after asking the issuer.

Rule 1: a verified token is cached, and costs a look-up until it expires or its issuer's keys change. Rule 2: the cost
that strangers can cause is bounded: one signature check each, and an occasional fetch of keys.
"""

import asyncio
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from aggregator.accounts.oauth.fetch import GuardedFetch
from aggregator.config.auth.issuers import AuthConfig, IssuerConfig
from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.principal import TokenFacts
from aggregator.identity.tokens.claims import facts_of
from aggregator.identity.tokens.introspection import Introspection
from aggregator.identity.tokens.jwks import IssuerKeys
from aggregator.identity.tokens.jws import LONGEST_TOKEN, ReadToken, check_header, is_jwt, is_signed_by, read_token
from aggregator.identity.tokens.key_set import IssuerKey
from aggregator.identity.tokens.rejection import IssuerUnavailable, Rejection, TokenRejected, Unverified

# Owners of tokens whose latest one is known, and tokens withdrawn before they expired.
_OWNERS: Final = 10_000
_WITHDRAWN: Final = 10_000
# Opaque tokens that were not active, and the seconds for which their issuer is not asked again.
_INACTIVE: Final = 10_000
_INACTIVE_FOR: Final = 10.0
# Seconds by which a clock is corrected in passing.
_SLEW: Final = 5.0
# Tokens that wait for their issuers.
_WAITING: Final = 1_000
_OTHER_ISSUER: Final = Rejection("This token is of no issuer that is accepted here.", guessed=True)
_OPAQUE: Final = Rejection(
    "This is neither a key nor an access token of an issuer that is accepted here.", guessed=True
)
_NO_KEY: Final = "This token is signed with a key that its issuer does not publish."
_FORGED: Final = "The signature of this token is wrong."
MOST: Final = 10_000
# Characters of all tokens together.
_CHARACTERS: Final = 32 * 2**20


class VerifiedToken:
    """A verified token. until: seconds since 1970 after which it must be verified again; since: as long as the clock
    shows a time before it, it was set back, and the token must be verified again too.

    principal: its principal, built by `gateway/access.py`; valid under the `terms` of that moment.
    """

    __slots__ = ("facts", "principal", "since", "terms", "until")

    def __init__(self, facts: TokenFacts, until: float, since: float = 0.0) -> None:
        self.facts = facts
        self.until = until
        self.since = since
        self.principal: object = None
        self.terms: object = None


class TokenCache:
    """The verified tokens of all issuers: at most `most`, the one used longest ago is forgotten first."""

    def __init__(self, most: int = MOST) -> None:
        self._entries: LruCache[bytes, VerifiedToken] = LruCache(most)
        self._characters = 0

    def __repr__(self) -> str:
        return f"<TokenCache {len(self._entries)} tokens>"

    def get(self, text: str, now: float) -> VerifiedToken | None:
        """Return a token that counts as verified at the wall-clock time `now`."""
        entry = self._entries.get(sha256(text.encode()).digest())
        return entry if entry is not None and entry.since <= now < entry.until else None

    def put(self, facts: TokenFacts, until: float, since: float = 0.0) -> VerifiedToken:
        """Remember a token that was verified."""
        digest, entry = sha256(facts.text.encode()).digest(), VerifiedToken(facts, until, since)
        self._forget(self._entries.pop(digest))
        self._characters += len(facts.text)
        self._forget(self._entries.put(digest, entry))
        while self._characters > _CHARACTERS and len(self._entries) > 1:
            self._forget(self._entries.pop_oldest())
        return entry

    def drop(self, text: str) -> VerifiedToken | None:
        """Remove an invalid token; return its entry."""
        entry = self._entries.pop(sha256(text.encode()).digest())
        self._forget(entry)
        return entry

    def clear(self) -> None:
        """Remove all tokens after a change of keys or settings."""
        self._entries.clear()
        self._characters = 0

    def _forget(self, entry: VerifiedToken | None) -> None:
        if entry is not None:
            self._characters -= len(entry.facts.text)


class _Issuer:
    """One issuer with its keys and state."""

    __slots__ = ("config", "introspection", "keys")

    def __init__(self, config: IssuerConfig, fetch: GuardedFetch) -> None:
        self.config = config
        self.keys = IssuerKeys(config, fetch)
        asked = config.introspection
        self.introspection = Introspection(config, asked, fetch) if asked is not None else None


class TokenVerifier:
    """The tokens of all issuers of the configuration."""

    def __init__(self, config: AuthConfig, fetch: GuardedFetch | None = None, before: "TokenVerifier | None" = None):
        """Create the verifier; issuers with unchanged settings keep the keys that `before` has."""
        self.config = config
        self._fetch = fetch or GuardedFetch(config.private_hosts)
        self._issuers: Mapping[str, _Issuer] = {
            issuer.issuer: _taken_over(issuer, config, before) or _Issuer(issuer, self._fetch)
            for issuer in config.issuers
        }
        self._opaque = next((one for one in self._issuers.values() if one.introspection is not None), None)
        self._cache = TokenCache()
        self._inactive: LruCache[bytes, float] = LruCache(_INACTIVE)
        self._latest: LruCache[tuple[str, str, str | None], TokenFacts] = LruCache(_OWNERS)
        self._withdrawn: LruCache[bytes, bool] = LruCache(_WITHDRAWN)
        self._asking: dict[bytes, asyncio.Lock] = {}
        self._of_keys: tuple[object, ...] = ()
        self._revision = self._cached_under = object()

    def __repr__(self) -> str:
        return f"<TokenVerifier of {', '.join(self._issuers) or 'no issuer'}; {self._cache!r}>"

    @property
    def revision(self) -> object:
        """An object that is another one once the keys of an issuer are others."""
        keys = tuple([issuer.keys.revision for issuer in self._issuers.values()])
        if keys != self._of_keys:
            self._of_keys, self._revision = keys, object()
        return self._revision

    def known(self, text: str, now: float) -> VerifiedToken | None:
        """Return a token that was verified before and still counts; nothing is checked again."""
        if self.revision is not self._cached_under:
            # A key may have been withdrawn.
            self._cached_under = self.revision
            self._cache.clear()
        return self._cache.get(text, now)

    def good_until(self, facts: TokenFacts) -> float:
        """Return from when on a token has expired, in seconds since 1970; 0 if its issuer is not accepted any more."""
        issuer = self._issuers.get(facts.issuer)
        return facts.expires + issuer.config.leeway if issuer is not None else 0.0

    def check(self, text: str, now: float) -> VerifiedToken | Rejection | None:
        """Return the verified token, or its rejection; None if its issuer must answer first (`verify`)."""
        try:
            if not is_jwt(text):
                return self._check_opaque(text, now)
            token, issuer = self._read(text)
            if issuer is None:
                return _OTHER_ISSUER
            keys = issuer.keys.known(token.kid, token.algorithm)
            return self._verified(text, token, issuer, keys, now) if keys is not None else None
        except TokenRejected as rejected:
            return rejected.rejection

    async def verify(self, text: str) -> VerifiedToken | Rejection | Unverified:
        """Return the verified token, or its rejection, after asking its issuer."""
        if len(self._asking) >= _WAITING:
            return Unverified(f"{_WAITING} tokens wait for their issuers already")
        digest = sha256(text.encode()).digest()
        lock = self._asking.setdefault(digest, asyncio.Lock())
        try:
            async with lock:
                known: VerifiedToken | Rejection | None = self.known(text, time.time())
                # Waiting callers get the result of the first.
                return known or self.check(text, time.time()) or await self._ask(text, digest)
        except TokenRejected as rejected:
            return rejected.rejection
        except IssuerUnavailable as error:
            return Unverified(str(error))
        finally:
            if not lock.locked():
                self._asking.pop(digest, None)

    def still(self, facts: TokenFacts, now: float) -> TokenFacts | None:
        """Return the facts that keep the work of a token's owner alive: its own or, after its end, the facts of the
        token that replaced it; None if there are none.
        """
        if self._counts(facts, now):
            return facts
        latest = self._latest.peek(facts.bearer)
        return latest if latest is not None and self._counts(latest, now) else None

    def note(self, facts: TokenFacts) -> None:
        """Take note of a token that was verified, here or by another replica: it may take the place of an older one."""
        before = self._latest.get(facts.bearer)
        if before is None or before.expires <= facts.expires or not self._counts(before, time.time()):
            self._latest.put(facts.bearer, facts)

    async def refresh(self) -> None:
        """Fetch those keys anew that are in use and were fetched some time ago."""
        for issuer in self._issuers.values():
            await issuer.keys.refresh_if_old()

    def problems(self) -> dict[str, str]:
        """Return the current failures of issuers, by issuer."""
        found = {}
        for name, issuer in self._issuers.items():
            asked = issuer.introspection.problem if issuer.introspection is not None else None
            problem = issuer.keys.problem or asked
            if problem is not None:
                found[name] = problem
        return found

    def _counts(self, facts: TokenFacts, now: float) -> bool:
        withdrawn = bool(facts.text) and self._withdrawn.peek(sha256(facts.text.encode()).digest())
        return now < self.good_until(facts) and not withdrawn

    async def _ask(self, text: str, digest: bytes) -> VerifiedToken | Rejection:
        if is_jwt(text):
            token, issuer = self._read(text)
            if issuer is None:
                return _OTHER_ISSUER
            keys = await issuer.keys.ask(token.kid, token.algorithm)
            return self._verified(text, token, issuer, keys, time.time())
        issuer = self._opaque
        if issuer is None or issuer.introspection is None:
            return _OPAQUE
        try:
            claims = await issuer.introspection.ask(text)
            now = time.time()
            facts = facts_of(claims, issuer.config, now, text, signed=False)
        except TokenRejected:
            self._inactive.put(digest, time.time() + _INACTIVE_FOR)
            if self._cache.drop(text) is not None:
                self._withdrawn.put(digest, True)
            raise
        until = min(now + issuer.introspection.lasts, facts.expires + issuer.config.leeway)
        # What its issuer said counts for a while, and not for as long as the clock was set back.
        return self._kept(facts, until, now - _SLEW)

    def _check_opaque(self, text: str, now: float) -> Rejection | None:
        if self._opaque is None or len(text) > LONGEST_TOKEN:
            return _OPAQUE
        until = self._inactive.get(sha256(text.encode()).digest()) or 0.0
        return _OPAQUE if now < until <= now + _INACTIVE_FOR else None

    def _read(self, text: str) -> tuple[ReadToken, _Issuer | None]:
        token = read_token(text)
        issuer = self._issuers.get(token.issuer or "")
        if issuer is not None:
            check_header(token, issuer.config)
        return token, issuer

    def _verified(
        self, text: str, token: ReadToken, issuer: _Issuer, keys: tuple[IssuerKey, ...], now: float
    ) -> VerifiedToken:
        """Return a token whose signature and claims are good.

        Raises:
            TokenRejected: they are not.
        """
        if not keys:
            raise TokenRejected(_NO_KEY, guessed=True)
        if not is_signed_by(token, keys):
            raise TokenRejected(_FORGED, guessed=True)
        facts = facts_of(token.claims, issuer.config, now, text, signed=True)
        until = facts.expires + issuer.config.leeway
        issuer.keys.verified(until)
        return self._kept(facts, until)

    def _kept(self, facts: TokenFacts, until: float, since: float = 0.0) -> VerifiedToken:
        # If the keys have changed meanwhile, this first drops tokens verified with the old ones.
        self.known(facts.text, 0.0)
        self.note(facts)
        return self._cache.put(facts, until, since)


def _taken_over(issuer: IssuerConfig, config: AuthConfig, before: TokenVerifier | None) -> _Issuer | None:
    if before is None or before.config.private_hosts != config.private_hosts:
        return None
    known = before._issuers.get(issuer.issuer)
    return known if known is not None and known.config == issuer else None
