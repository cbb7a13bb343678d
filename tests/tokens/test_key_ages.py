"""The ages of an issuer's keys, by clocks that the tests move: fetched anew while in use, and over after a day."""

import time
from types import SimpleNamespace
from typing import Final

import pytest

from aggregator.identity.tokens import jwks
from aggregator.identity.tokens.rejection import Rejection, Unverified
from aggregator.identity.tokens.verifier import TokenVerifier, VerifiedToken
from tests.authorization.authorization_server import AuthorizationServer, answer_with, authorization_server
from tests.tokens.conftest import AUDIENCE
from tests.tokens.test_issuers import verifier

HOUR: Final = 3600.0
WEEK: Final = 7 * 24 * HOUR


class KeyClocks:
    """Both clocks of the keys, moved by hand."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.moved = 0.0
        began = time.monotonic(), time.time()
        clocks = SimpleNamespace(monotonic=lambda: began[0] + self.moved, time=lambda: began[1] + self.moved)
        patch.setattr(jwks, "time", clocks)
        self._wall = clocks.time

    def wall(self) -> float:
        now: float = self._wall()
        return now


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> KeyClocks:
    return KeyClocks(monkeypatch)


def token(idp: AuthorizationServer, subject: str = "alice") -> str:
    return idp.token(subject, audience=AUDIENCE, lifetime=WEEK)


async def used(tokens: TokenVerifier, text: str) -> None:
    """Verify a token, as its first request does."""
    assert isinstance(await tokens.verify(text), VerifiedToken)


def away(idp: AuthorizationServer) -> None:
    idp.instead["jwks"] = idp.instead["metadata"] = answer_with(500)


@pytest.mark.parametrize(
    ("hours", "counts"), [(0, True), (1, True), (23.9, True), (24.1, False), (48, False)], ids=lambda one: f"{one}"
)
async def test_keys_of_an_issuer_that_is_away_count_for_a_day(clocks: KeyClocks, hours: float, counts: bool) -> None:
    """For a token that comes first then, and for one that was verified before; no later look brings them back."""
    async with authorization_server() as idp:
        tokens = verifier(idp)
        known = token(idp)
        await used(tokens, known)
        away(idp)
        clocks.moved = hours * HOUR
        assert isinstance(await tokens.verify(token(idp, "bob")), VerifiedToken if counts else Unverified)
        for _ in range(2):
            await tokens.refresh()
            assert (tokens.known(known, clocks.wall()) is not None) == counts
        assert isinstance(await tokens.verify(token(idp, "eve")), VerifiedToken if counts else Unverified)
        assert isinstance(await tokens.verify(known), VerifiedToken if counts else Unverified)


async def test_keys_count_again_once_the_issuer_is_back(clocks: KeyClocks) -> None:
    async with authorization_server() as idp:
        tokens = verifier(idp)
        known = token(idp)
        await used(tokens, known)
        away(idp)
        clocks.moved = 25 * HOUR
        await tokens.refresh()
        assert isinstance(await tokens.verify(known), Unverified)
        idp.instead.clear()
        # A failure is not followed by the next question at once.
        clocks.moved += jwks.RETRY_EVERY - 0.5
        assert isinstance(await tokens.verify(known), Unverified)
        clocks.moved += 1.0
        await used(tokens, known)


async def test_a_withdrawn_key_ends_although_no_new_token_comes(clocks: KeyClocks) -> None:
    """One token that is used for hours is no look at the keys: they are fetched anew all the same."""
    async with authorization_server() as idp:
        tokens = verifier(idp)
        known = token(idp)
        await used(tokens, known)
        for _ in range(3):
            fetches = idp.counts["jwks"]
            clocks.moved += jwks.REFRESH_AFTER - 10
            await tokens.refresh()
            assert idp.counts["jwks"] == fetches
            clocks.moved += 20
            await tokens.refresh()
            assert idp.counts["jwks"] == fetches + 1
            assert tokens.known(known, clocks.wall()) is not None
        idp.keys.rotate()
        clocks.moved += jwks.REFRESH_AFTER + 10
        await tokens.refresh()
        assert tokens.known(known, clocks.wall()) is None
        assert isinstance(await tokens.verify(known), Rejection)


async def test_an_issuer_that_is_away_is_not_asked_at_each_look(clocks: KeyClocks) -> None:
    async with authorization_server() as idp:
        tokens = verifier(idp)
        await used(tokens, token(idp))
        away(idp)
        clocks.moved += jwks.REFRESH_AFTER + 10
        await tokens.refresh()
        asked = sum(idp.counts.values())
        for _ in range(3):
            await tokens.refresh()
        assert sum(idp.counts.values()) == asked
        clocks.moved += jwks.REFRESH_AFTER + 10
        await tokens.refresh()
        assert sum(idp.counts.values()) > asked


async def test_keys_that_no_token_uses_are_not_fetched(clocks: KeyClocks) -> None:
    async with authorization_server() as idp:
        tokens = verifier(idp)
        await tokens.refresh()
        assert idp.counts["jwks"] == 0
        await used(tokens, idp.token("alice", audience=AUDIENCE, lifetime=HOUR))
        clocks.moved = 2 * HOUR
        await tokens.refresh()
        fetches = idp.counts["jwks"]
        clocks.moved += HOUR
        await tokens.refresh()
        assert idp.counts["jwks"] == fetches


async def test_unknown_keys_are_asked_for_now_and_then(clocks: KeyClocks) -> None:
    """The pause counts from the last fetch, whoever caused it."""
    async with authorization_server() as idp:
        tokens = verifier(idp)
        await used(tokens, token(idp))
        idp.keys.rotate()
        new = token(idp, "bob")
        for pause, found in ((0.0, Rejection), (jwks.ASK_EVERY - 0.5, Rejection), (1.0, VerifiedToken)):
            clocks.moved += pause
            assert isinstance(await tokens.verify(new), found)
        assert idp.counts["jwks"] == 2


async def test_unknown_keys_of_an_issuer_that_is_away_are_no_fault_of_the_token(clocks: KeyClocks) -> None:
    """It may be a new key: the token is not rejected, and the issuer is not asked each time."""
    async with authorization_server() as idp:
        tokens = verifier(idp)
        await used(tokens, token(idp))
        away(idp)
        idp.keys.rotate()
        clocks.moved += jwks.ASK_EVERY + 1
        for _ in range(3):
            assert isinstance(await tokens.verify(token(idp, "bob")), Unverified)
            clocks.moved += 1.0
        assert idp.counts["jwks"] == 2


async def test_keys_that_have_moved_are_found_by_the_metadata(clocks: KeyClocks) -> None:
    """The address of before is asked first; once it fails, the metadata are read again."""
    async with authorization_server() as idp, authorization_server() as new:
        tokens = verifier(idp)
        await used(tokens, token(idp))
        new.keys = idp.keys
        idp.instead["jwks"] = answer_with(404)
        idp.metadata["jwks_uri"] = f"{new.issuer}/jwks"
        for fetches in (0, 1, 2):
            clocks.moved += jwks.REFRESH_AFTER + 10
            await tokens.refresh()
            assert new.counts["jwks"] == fetches
