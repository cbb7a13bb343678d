"""A person connects an account once, in one browser; what comes back otherwise is refused."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from aggregator.accounts.grants.errors import ConnectFailed
from aggregator.accounts.grants.sign_in_attempts import SignInAttempts
from aggregator.accounts.oauth.authorization import LoginAttempt
from aggregator.accounts.oauth.token_response import TokenResponse
from aggregator.accounts.storage.records import digest_of
from aggregator.domain.grant_owner import GrantOwner
from aggregator.domain.principal import Principal, TokenFacts
from tests.grants.harness import REDIRECT, Accounts, Events, owner, process, server_config


async def test_another_process_can_finish_what_one_began(both: Accounts) -> None:
    link = await both.grants.begin(both.config, owner("alice"), Principal("alice", roles=("dev",)))
    async with process(both.url, both.config, Events()) as other:
        page = await other.opened(link.code)
        assert page is not None
        assert (page.owner, page.asked_by, page.issuer) == (
            owner("alice"),
            Principal("alice", roles=("dev",)),
            both.idp.issuer,
        )
        params = await both.agreed(await other.start(link.code, REDIRECT, "browser"), "alice")
        assert (await both.grants.answered(params, "browser")).connected
        assert await other.opened(link.code) is None
        credentials = other.credentials(both.config, owner("alice"))
        await credentials.ready()
        assert credentials.header is not None


@pytest.mark.parametrize("browser", [None, "", "theirs"])
async def test_an_answer_that_another_browser_brought_counts_in_none(here: Accounts, browser: str | None) -> None:
    link = await here.grants.begin(here.config, owner("alice"), Principal("alice"))
    params = await here.agreed(await here.grants.start(link.code, REDIRECT, "mine"), "alice")
    assert not (await here.grants.answered(params, browser)).connected
    # Its address is known to two by now.
    assert not (await here.grants.answered(params, "mine")).connected
    assert here.idp.counts["token"] == 0
    params = await here.agreed(await here.grants.start(link.code, REDIRECT, "mine"), "alice")
    assert (await here.grants.answered(params, "mine")).connected
    assert not (await here.grants.answered(params, "mine")).connected


async def test_an_answer_of_another_issuer_is_refused_without_its_words(here: Accounts) -> None:
    here.idp.answer_issuer = "https://evil.example"
    outcome = await here.connect("alice")
    assert not outcome.connected
    assert "evil" not in outcome.said
    assert here.idp.counts["token"] == 0


async def test_who_declines_can_begin_again_at_the_same_link(here: Accounts) -> None:
    link = await here.grants.begin(here.config, owner("alice"), Principal("alice"))
    here.idp.refuses = "access_denied"
    outcome = await here.answer(await here.grants.start(link.code, REDIRECT, "b"), "alice", "b")
    assert not outcome.connected
    assert "access_denied" in outcome.said
    here.idp.refuses = None
    assert (await here.answer(await here.grants.start(link.code, REDIRECT, "b"), "alice", "b")).connected
    assert here.events.kinds == ["connect_refused", "connected"]


async def test_an_issuer_without_pkce_is_refused_in_words(here: Accounts) -> None:
    here.idp.metadata["code_challenge_methods_supported"] = None
    link = await here.grants.begin(here.config, owner("alice"), Principal("alice"))
    with pytest.raises(ConnectFailed, match="PKCE"):
        await here.grants.start(link.code, REDIRECT, "browser")


async def test_a_device_is_agreed_to_elsewhere(here: Accounts) -> None:
    prompt = await here.grants.begin_device(here.config, owner("alice"), Principal("alice"))
    here.idp.agree(prompt.user_code, "alice")
    assert (await here.grants.finish_device(prompt.code)).connected
    assert await here.header("alice") is not None
    assert not (await here.grants.finish_device(prompt.code)).connected


async def test_who_waits_hears_of_it(both: Accounts) -> None:
    async with process(both.url, both.config, Events()) as other:
        assert not await other.wait(owner("alice"), both.config, 0.01)
        waiting = asyncio.create_task(other.wait(owner("alice"), both.config, 20))
        await asyncio.sleep(0)
        await both.connect("alice")
        assert await waiting


async def test_who_waits_hears_of_a_sign_in_that_is_enough(here: Accounts) -> None:
    """Where the company vouches for its people, they connect nothing: the call goes on once they are signed in."""
    company = "https://company.example"
    config = server_config(here.config.url or "", per="user", idp=company, grant="enterprise")
    ada = GrantOwner("user", (company, "ada"))
    assert not await here.grants.wait(ada, config, 0.01)
    async with asyncio.timeout(10):
        waiting = asyncio.create_task(here.grants.wait(ada, config, 5))
        await asyncio.sleep(0)
        signed_in = TokenFacts(company, "ada", expires=time.time() + 600)
        await here.grants.signed_in("no link", signed_in, TokenResponse("access", id_token="of ada"))
        assert await waiting


async def test_owners_never_swap(here: Accounts) -> None:
    """Links of several people are opened, answered and renewed in each other's midst."""
    names = [f"agent-{number}" for number in range(6)]
    links = {name: await here.grants.begin(here.config, owner(name), Principal(name)) for name in names}
    urls = {name: await here.grants.start(links[name].code, REDIRECT, name) for name in names}
    back = {name: await here.agreed(urls[name], name) for name in reversed(names)}
    for name, other in zip(names[::2], names[1::2], strict=True):
        assert not (await here.grants.answered(back[name], other)).connected
        back[name] = await here.agreed(await here.grants.start(links[name].code, REDIRECT, name), name)
    for name in names[::2] + names[1::2]:
        assert (await here.grants.answered(back[name], name)).connected
    for name in names * 3:
        header = await here.header(name)
        assert header is not None
        assert here.idp.access[header.removeprefix("Bearer ")]["sub"] == name


@pytest.mark.parametrize("when", ["before it begins", "while a person agrees"])
@pytest.mark.parametrize("change", ["another address", "no auth", "gone"])
async def test_a_server_that_is_another_one_meanwhile_gets_no_account(here: Accounts, change: str, when: str) -> None:
    """The person agreed to what the link said."""
    link = await here.grants.begin(here.config, owner("alice"), Principal("alice"))
    begun = when == "while a person agrees"
    params = await here.agreed(await here.grants.start(link.code, REDIRECT, "b"), "alice") if begun else []
    other = {
        "another address": here.config.model_copy(update={"url": "https://evil.example/mcp"}),
        "no auth": here.config.model_copy(update={"auth": None}),
        "gone": here.config.model_copy(update={"id": "other"}),
    }[change]
    async with process(here.url, other, Events()) as later:
        if begun:
            outcome = await later.answered(params, "b")
            assert not outcome.connected
            said = outcome.said
        else:
            with pytest.raises(ConnectFailed) as refused:
                await later.start(link.code, REDIRECT, "b")
            said = str(refused.value)
    assert ("was changed since" if change == "another address" else "any more") in said
    assert here.idp.counts["token"] == 0


class Links:
    """The store of one link, whose state is taken once."""

    def __init__(self) -> None:
        self.record = SimpleNamespace(id="link")
        self.kept: dict[str, Any] | None = {"server": "docs", "code": "", "browser": None}
        self.state: str | None = None
        self.connects = self

    async def connect(self, code: str) -> Any:
        return (self.record, self.kept) if self.kept is not None and code == "code" else None

    async def change_connect(self, id: str, kept: dict[str, Any], state: str) -> bool:
        self.kept, self.state = kept, state
        return True

    async def connect_of_state(self, state: str) -> Any:
        return (self.record, self.kept) if self.kept is not None and state == self.state else None

    async def vault(self) -> Any:
        return self

    async def take_state(self, id: str, digest: str) -> bool:
        taken, self.state = self.state is not None and digest == digest_of(self.state), None
        return taken

    async def remove(self, id: str) -> None:
        self.kept = None


@pytest.mark.parametrize(
    ("params", "browser", "good"),
    [
        ([("state", "mine"), ("code", "c")], "browser", True),
        ({"state": "mine", "code": "c"}, "browser", True),
        ([("state", "mine"), ("code", "c")], "theirs", False),
        ([("state", "mine"), ("code", "c")], None, False),
        ([("state", "mine"), ("code", "c")], "", False),
        ([("state", "other"), ("code", "c")], "browser", False),
        ([("state", "mine"), ("state", "mine")], "browser", False),
        ([("state", "mine"), ("state", "other")], "browser", False),
        ([("code", "mine")], "browser", False),
        ([], "browser", False),
    ],
)
async def test_which_answer_belongs_to_a_sign_in(params: Any, browser: str | None, good: bool) -> None:
    """One state, of one browser, once."""
    links = Links()
    attempts = SignInAttempts(links)  # type: ignore[arg-type]
    attempt = LoginAttempt("https://idp", "us", REDIRECT, None, None, True, "mine", "verifier", "https://idp/a")
    with pytest.raises(ConnectFailed):
        await attempts.begin("no such code", attempt, "browser")
    await attempts.begin("code", attempt, "browser")
    if not good:
        with pytest.raises(ConnectFailed):
            await attempts.answered(params, browser)
        return
    assert await attempts.answered(params, browser) == ("code", attempt)
    with pytest.raises(ConnectFailed):
        await attempts.answered(params, browser)
