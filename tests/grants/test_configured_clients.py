"""Accounts whose client id the operator configured: what an issuer's refusal means then, and for the aggregator's own
account, which no person connects.
"""

from typing import Any, Final

import pytest
from starlette.requests import Request
from starlette.responses import Response

from aggregator.domain.errors import UpstreamUnavailable
from aggregator.domain.grant_owner import SHARED
from aggregator.domain.missing import LoginRequired
from tests.authorization.authorization_server import answer_with
from tests.authorization.issued import Refused
from tests.grants.harness import REDIRECT, Accounts, Events, accounts, process, server_config

CLIENT: Final[dict[str, Any]] = {"client_id": "robot", "client_secret": "robots-own-secret"}
# What the issuer answers to a renewal; with a client id of ours, and with one that the operator configured, what
# callers see, and whether the grant is over.
REFUSALS: Final = {
    "invalid_grant": (("login", True), ("login", True)),
    "invalid_client": (("login", True), ("for the operator", False)),
    "unauthorized_client": (("login", True), ("for the operator", False)),
    "invalid_request": (("unavailable", False), ("unavailable", False)),
    "slow_down": (("unavailable", False), ("unavailable", False)),
}


def refusing(error: str) -> Any:
    async def refuse(_: Request) -> Response:
        raise Refused(error, "no", 400)

    return refuse


async def ended(here: Accounts) -> str:
    """Return what a caller sees."""
    try:
        await here.header("alice")
    except LoginRequired:
        return "login"
    except UpstreamUnavailable as error:
        return "unavailable" if error.retryable else "for the operator"
    return "a token"


@pytest.mark.parametrize("configured", [False, True], ids=["own client", "configured client"])
@pytest.mark.parametrize("error", REFUSALS)
async def test_what_a_refused_renewal_means(sqlite_url: str, error: str, configured: bool) -> None:
    """A client id that is wrong is for the operator to mend: no person has to connect again for it."""
    async with accounts(sqlite_url, **(CLIENT if configured else {})) as here:
        here.idp.add_client("robot", CLIENT["client_secret"], redirect_uris=[REDIRECT])
        here.idp.lifetime = 0.0
        assert (await here.connect("alice")).connected
        here.idp.lifetime = 3600.0
        here.idp.instead["token"] = refusing(error)
        seen, over = REFUSALS[error][configured]
        assert await ended(here) == seen
        assert [one.state for one in await here.grants.list()] == ["broken" if over else "connected"]
        del here.idp.instead["token"]
        # Once the issuer accepts it, a grant that is not over works without a person.
        async with process(here.url, here.config, Events()) as later:
            here.grants = later
            assert await ended(here) == ("login" if over else "a token")


async def test_a_secret_that_was_changed_is_used_for_the_next_renewal(sqlite_url: str) -> None:
    """The grant was got with the one of before."""
    async with accounts(sqlite_url, **CLIENT) as here:
        client = here.idp.add_client("robot", CLIENT["client_secret"], redirect_uris=[REDIRECT])
        here.idp.lifetime = 0.0
        assert (await here.connect("alice")).connected
        here.idp.lifetime = 3600.0
        client.secret = "another-secret-of-the-robot"
        assert await ended(here) == "for the operator"
        here.config = server_config(here.server.url, **{**CLIENT, "client_secret": client.secret})
        async with process(here.url, here.config, Events()) as later:
            here.grants = later
            assert await ended(here) == "a token"


async def test_the_account_of_the_aggregator_itself(sqlite_url: str) -> None:
    """`client_credentials`: a token is got once the server has refused a request, anew once it is refused, and after a
    failure that the operator mends; what is ended meanwhile is on no request.
    """
    async with accounts(sqlite_url, per="shared", grant="client_credentials", **CLIENT) as here:
        here.idp.add_client("robot", "not-that-secret")
        found = here.grants.credentials(here.config, SHARED)
        await found.ready()
        assert found.header is None
        challenge = [f'Bearer resource_metadata="{here.server.address}/.well-known/oauth-protected-resource/mcp"']
        with pytest.raises(UpstreamUnavailable) as refused:
            await found.refused(None, 401, challenge)
        assert not refused.value.retryable
        here.idp.add_client("robot", CLIENT["client_secret"])
        found.changed()
        assert await found.refused(None, 401, challenge)
        first = found.header
        assert here.idp.access[str(first).removeprefix("Bearer ")]["client_id"] == "robot"
        # What the server wants is in its challenge: it is not asked for another one.
        assert here.server.seen == []
        await found.ready()
        assert found.header == first
        assert await found.refused(first, 401, challenge)
        assert found.header not in (None, first)
        found.changed()
        assert found.header is None
        await found.ready()
        assert found.header is not None


@pytest.mark.parametrize("away", ["token", "metadata", "the server"])
async def test_an_issuer_that_is_away_is_said_and_asked_again(sqlite_url: str, away: str) -> None:
    """The account of the aggregator: a failure that passes is one of the issuer's, in words, whatever was asked."""
    async with accounts(sqlite_url, per="shared", grant="client_credentials", **CLIENT) as here:
        here.idp.add_client("robot", CLIENT["client_secret"])
        challenge = [f'Bearer resource_metadata="{here.server.address}/.well-known/oauth-protected-resource/mcp"']
        if away == "the server":
            challenge = ['Bearer resource_metadata="http://127.0.0.1:1/.well-known/oauth-protected-resource"']
        else:
            here.idp.instead[away] = answer_with(503, b"<html>private</html>")
        found = here.grants.credentials(here.config, SHARED)
        with pytest.raises(UpstreamUnavailable) as refused:
            await found.refused(None, 401, challenge)
        assert refused.value.retryable
        assert "private" not in str(refused.value)
        assert found.header is None
        here.idp.instead.clear()
        async with process(here.url, here.config, Events()) as later:
            credentials = later.credentials(here.config, SHARED)
            challenge = [f'Bearer resource_metadata="{here.server.address}/.well-known/oauth-protected-resource/mcp"']
            assert await credentials.refused(None, 401, challenge)
            assert credentials.header is not None


@pytest.mark.parametrize("challenges", [[], ["Basic realm=docs"], ["Bearer"]])
async def test_a_refusal_that_does_not_say_what_is_wanted(sqlite_url: str, challenges: list[str]) -> None:
    """The server's well-known address says which issuer it trusts."""
    async with accounts(sqlite_url, per="shared", grant="client_credentials", **CLIENT) as here:
        here.idp.add_client("robot", CLIENT["client_secret"])
        found = here.grants.credentials(here.config, SHARED)
        assert await found.refused(None, 401, challenges)
        first = found.header
        assert await found.refused(first, 401, challenges)
        assert found.header not in (None, first)
