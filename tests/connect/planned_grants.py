"""Grants with links and answers that a test plans: the pages alone are what it looks at.

It may not fake what a grant is, only which links there are and who came back with which cookie.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlencode

from aggregator.accounts.grants.errors import ConnectFailed
from aggregator.accounts.grants.values import ConnectOutcome, ConnectPage
from aggregator.accounts.oauth.authorization import LoginAttempt
from aggregator.accounts.oauth.token_response import TokenResponse
from aggregator.domain.grant_owner import GrantOwner, owner_of
from aggregator.domain.principal import LOCAL, Principal, TokenFacts

CODE = "c" * 43
ISSUER = "https://login.example.com"


def page(asked_by: Principal = LOCAL, owner: GrantOwner | None = None) -> ConnectPage:
    """The subject of a link for a server named `wiki`."""
    whose = owner or owner_of(asked_by, "agent")
    return ConnectPage("wiki", whose, asked_by, ISSUER, "https://wiki.example.com/mcp", ("pages:read",), 2e9)


class PlannedGrants:
    """Links by code. `started` are the redirect addresses and browsers that the way to the issuer began with."""

    def __init__(self, **links: ConnectPage) -> None:
        self.links = {CODE: page(), **links}
        self.started: list[tuple[str, str]] = []
        self.at_issuer: str | None = None
        self.fails: ConnectFailed | None = None

    async def opened(self, code: str) -> ConnectPage | None:
        return self.links.get(code)

    async def begin_sign_in(self, code: str, attempt: LoginAttempt, browser: str) -> None:
        raise AssertionError("no page here leads to a sign-in")

    async def sign_in_answered(
        self, params: Mapping[str, str] | Sequence[tuple[str, str]], browser: str | None
    ) -> tuple[str, LoginAttempt]:
        raise ConnectFailed("This sign-in was used already, or has expired.")

    async def signed_in(self, code: str, person: TokenFacts, tokens: TokenResponse) -> None:
        raise AssertionError("no one signs in here")

    async def start(self, code: str, redirect_uri: str, browser: str) -> str:
        if self.fails is not None:
            raise self.fails
        self.started.append((redirect_uri, browser))
        answer = f"{redirect_uri}?{urlencode({'state': code, 'code': 'x'})}"
        return self.at_issuer or answer

    async def answered(
        self, params: Mapping[str, str] | Sequence[tuple[str, str]], browser: str | None
    ) -> ConnectOutcome:
        given = dict(params)
        about = self.links.get(given.get("state", ""))
        if about is None or browser is None or browser not in {one for _, one in self.started}:
            return ConnectOutcome(False, "This answer does not belong to this browser.")
        self.links.pop(given["state"])
        if "error" in given:
            return ConnectOutcome(False, f"{about.issuer} did not agree.", about.server, about.owner)
        return ConnectOutcome(True, f"{about.server} is connected for {about.owner}.", about.server, about.owner)

    def again(self) -> None:
        self.links[CODE] = replace(page(), again=True)
