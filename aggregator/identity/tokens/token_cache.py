"""Verified tokens, cached so that the next request with one costs a look-up.

Rule: the key of an entry is a digest of the token, so that timing reveals no part of a token.
"""

from hashlib import sha256
from typing import Final

from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.principal import TokenFacts

MOST: Final = 10_000
# Characters of all tokens together.
_CHARACTERS: Final = 32 * 2**20


class VerifiedToken:
    """A verified token. until: seconds since 1970 after which it must be verified again.

    principal: the principal made from it by `gateway/access.py`; valid with the `terms` that it was made under.
    """

    __slots__ = ("facts", "principal", "terms", "until")

    def __init__(self, facts: TokenFacts, until: float) -> None:
        self.facts = facts
        self.until = until
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
        return entry if entry is not None and now < entry.until else None

    def put(self, facts: TokenFacts, until: float) -> VerifiedToken:
        """Remember a token that was verified."""
        digest, entry = sha256(facts.text.encode()).digest(), VerifiedToken(facts, until)
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
