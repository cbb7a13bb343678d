"""Tokens as plain values, and the credentials of one owner over a source that the test answers for: whose token it is,
when it is renewed, and what a second refusal means.
"""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.accounts.grants import credentials, machine
from aggregator.accounts.grants import renewal as renewal_module
from aggregator.accounts.grants.account import Account, account_id
from aggregator.accounts.grants.credentials import GrantCredentials
from aggregator.accounts.grants.failures import TokenFailed
from aggregator.accounts.grants.issuers import Issuers
from aggregator.accounts.grants.machine import MachineTokens
from aggregator.accounts.grants.ports import GrantSettings
from aggregator.accounts.grants.renewal import Renewal, _Unstored
from aggregator.accounts.grants.tokens import AccessToken, GrantTokens, access_token
from aggregator.accounts.oauth.challenges import Challenge
from aggregator.accounts.oauth.metadata import IssuerMetadata
from aggregator.accounts.oauth.registration import Registration
from aggregator.accounts.oauth.token_response import TokenResponse
from aggregator.config.auth.issuers import AuthConfig
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import UpstreamUnavailable
from aggregator.domain.grant_owner import GrantOwner
from aggregator.domain.missing import LoginRequired
from aggregator.domain.principal import TokenFacts
from tests.grants.harness import owner, server_config

URL: Final = "http://127.0.0.1:1/mcp"
IDP: Final = "https://idp"
NOW: Final = 10_000.0


class Time:
    """The clocks of a module, moved by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def time(self) -> float:
        return self.now

    monotonic = time


# -- values


def tokens(*, expires: float | None = 1_100.0, refresh: str | None = "r") -> GrantTokens:
    issuer = IssuerMetadata(IDP)
    return GrantTokens("a", refresh, "id", issuer, Registration(IDP, "c"), URL, ("read",), ("read",), 1_000.0, expires)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (TokenResponse("a2"), ("a2", "r", "id", ("read",), None)),
        (TokenResponse("a2", "r2", "id2", 9.0, ("write",)), ("a2", "r2", "id2", ("write",), 9.0)),
        (TokenResponse("a2", "r2"), ("a2", "r2", "id", ("read",), None)),
        (TokenResponse("a2", scopes=()), ("a2", "r", "id", (), None)),
    ],
)
def test_what_a_renewal_leaves_out_stays(answer: TokenResponse, expected: tuple[object, ...]) -> None:
    """Most issuers give no new refresh token: without the old one a person connects again each hour."""
    found = tokens().renewed(answer, 5_000.0)
    assert (found.access, found.refresh, found.id_token, found.scopes, found.expires) == expected
    assert (found.since, found.asked, found.resource) == (5_000.0, ("read",), URL)
    assert GrantTokens.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("expires", "usable_until", "due_from"),
    [(1_100.0, 1_095.0, 1_080.0), (1_010.0, 1_009.0, 1_008.0), (1_000.0, 1_000.0, 1_000.0), (None, math.inf, math.inf)],
)
@pytest.mark.parametrize("renewable", [True, False])
def test_a_token_is_renewed_before_its_end_and_not_used_at_it(
    expires: float | None, usable_until: float, due_from: float, renewable: bool
) -> None:
    found = access_token(tokens(expires=expires), 7, renewable=renewable)
    assert (found.usable_until, found.renewed_from) == (usable_until, due_from)
    if expires is not None:
        assert (found.usable(usable_until - 0.1), found.usable(usable_until)) == (True, False)
        assert (found.due(due_from - 0.1), found.due(due_from)) == (False, renewable)
    assert (found.header, found.version) == ("Bearer a", 7)


def test_each_owner_and_server_and_issuer_has_a_row_of_its_own() -> None:
    owners = [owner("alice"), owner("bob"), GrantOwner("user", ("", "alice")), GrantOwner("agent", ("t", "alice"))]
    assert len({account_id(server, one) for one in owners for server in ("docs", "mail")}) == 8
    rows = [
        Account(server_config(url), one).row_id(i) for url in (URL, f"{URL}2") for one in owners for i in ("x", "y")
    ]
    assert len(set(rows)) == len(rows)


# -- credentials


class Source:
    """A source that gives what the test says next, and keeps what it was asked."""

    def __init__(self, *answers: AccessToken | Exception | None, asks_person: bool = True) -> None:
        self.asks_person = asks_person
        self.answers = list(answers)
        self.asked: list[tuple[str | None, bool, Challenge | None]] = []

    async def token(
        self, account: Account, held: AccessToken | None, challenge: Challenge | None, *, forced: bool
    ) -> AccessToken | None:
        self.asked.append((held.header if held is not None else None, forced, challenge))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def token(name: str, *, ends: float = 3600.0, asked: tuple[str, ...] = ("read",)) -> AccessToken:
    return AccessToken(f"Bearer {name}", 1, NOW + ends, NOW + ends, renewable=True, asked=asked)


def of_alice(source: Source, tasks: Tasks) -> GrantCredentials:
    return GrantCredentials(Account(server_config(URL), owner("alice")), source, tasks)


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> Time:
    found = Time()
    monkeypatch.setattr(credentials, "time", found)
    monkeypatch.setattr(machine, "time", found)
    return found


@pytest.mark.parametrize(("back", "due"), [(0.0, False), (4.0, False), (6.0, True), (10_800.0, True)])
def test_a_token_is_due_after_the_clock_was_set_back(back: float, due: bool) -> None:
    """Its end is later then than its issuer means."""
    held = replace(token("held"), since=NOW)
    assert held.due(NOW - back) == due
    assert held.usable(NOW - back), "an issuer may give no other"


@pytest.mark.parametrize(("later", "again"), [(0.0, False), (59.9, False), (60.0, True)])
async def test_a_new_token_that_is_refused_at_once_is_not_replaced_again(
    moved: Time, later: float, again: bool
) -> None:
    """A server that refuses every token must not cost a renewal with each call; later, it may have ended."""
    async with Tasks("test") as tasks:
        source = Source(token("one"), token("two"), token("three"))
        found = of_alice(source, tasks)
        await found.ready()
        assert await found.refused("Bearer one", 401, ["Bearer"])
        assert found.header == "Bearer two"
        moved.now += later
        if again:
            assert await found.refused("Bearer two", 401, ["Bearer"])
            assert found.header == "Bearer three"
        else:
            with pytest.raises(LoginRequired):
                await found.refused("Bearer two", 401, ["Bearer"])
        assert len(source.asked) == (3 if again else 2)
        assert [forced for _, forced, _ in source.asked] == [False, True, True][: len(source.asked)]


@pytest.mark.parametrize(("sent", "ends", "asks"), [("Bearer old", 3600.0, 1), ("Bearer one", 3600.0, 2)])
async def test_a_request_with_an_older_token_is_sent_again_with_the_one_of_now(
    moved: Time, sent: str, ends: float, asks: int
) -> None:
    """Many calls are refused at one time: one renewal serves them all."""
    async with Tasks("test") as tasks:
        source = Source(token("one", ends=ends), token("two"))
        found = of_alice(source, tasks)
        await found.ready()
        assert await found.refused(sent, 401, ["Bearer"])
        assert len(source.asked) == asks


async def test_a_token_that_has_ended_is_no_newer_one(moved: Time) -> None:
    async with Tasks("test") as tasks:
        source = Source(token("one", ends=10.0), token("two"))
        found = of_alice(source, tasks)
        await found.ready()
        moved.now += 10.0
        assert found.header is None
        assert await found.refused("Bearer old", 401, ["Bearer"])
        assert len(source.asked) == 2
        assert found.header == "Bearer two"


async def test_a_refused_token_is_renewed_though_another_attempt_only_looked(moved: Time) -> None:
    due = replace(token("one"), renewed_from=NOW + 5.0)
    async with Tasks("test") as tasks:
        source = Source(due, due, token("two"))
        found = of_alice(source, tasks)
        await found.ready()
        moved.now += 5.0
        # It is due, so a look begins beside its use.
        assert found.header == "Bearer one"
        assert await found.refused("Bearer one", 401, ["Bearer"])
        assert found.header == "Bearer two"
        assert [forced for _, forced, _ in source.asked] == [False, False, True]


INSUFFICIENT: Final = 'Bearer error="insufficient_scope", scope="{}"'


@pytest.mark.parametrize(
    ("challenge", "asks_person", "result"),
    [
        (INSUFFICIENT.format("write"), True, ("read", "write")),
        (INSUFFICIENT.format("write"), False, "sent again"),
        (INSUFFICIENT.format("read"), True, "stays refused"),
        (INSUFFICIENT.format("read"), False, "stays refused"),
        ('Bearer error="insufficient_scope"', True, "stays refused"),
        ('Bearer error="invalid_token", scope="write"', True, "stays refused"),
        ('Basic realm="x"', True, "stays refused"),
    ],
)
async def test_more_rights_are_asked_for_once_and_by_whom_they_are_given(
    moved: Time, challenge: str, asks_person: bool, result: object
) -> None:
    async with Tasks("test") as tasks:
        source = Source(token("one"), token("two", asked=("read", "write")), asks_person=asks_person)
        found = of_alice(source, tasks)
        await found.ready()
        if isinstance(result, tuple):
            with pytest.raises(LoginRequired) as error:
                await found.refused("Bearer one", 403, [challenge])
            assert error.value.scopes == result
        else:
            assert await found.refused("Bearer one", 403, [challenge]) is (result == "sent again")
        if result == "sent again":
            _, forced, asked = source.asked[-1]
            assert forced
            assert asked is not None
            assert asked.scopes == ("read", "write")
            assert found.header == "Bearer two"
        else:
            assert len(source.asked) == 1
            assert found.header == "Bearer one"


async def test_a_request_that_lacked_rights_is_sent_again_with_a_token_of_now(moved: Time) -> None:
    """The person agreed while it was under way."""
    async with Tasks("test") as tasks:
        source = Source(token("one"))
        found = of_alice(source, tasks)
        await found.ready()
        assert await found.refused("Bearer old", 403, [INSUFFICIENT.format("write")])
        assert len(source.asked) == 1


async def test_a_server_that_needs_no_account_is_asked_without_until_it_refuses(moved: Time) -> None:
    async with Tasks("test") as tasks:
        source = Source(None)
        found = of_alice(source, tasks)
        for _ in range(3):
            await found.ready()
        assert len(source.asked) == 1
        with pytest.raises(LoginRequired):
            await found.refused(None, 401, ["Bearer"])
        with pytest.raises(LoginRequired):
            await found.ready()
        # Another process connected it.
        source.answers = [token("one")]
        await found.ready()
        assert found.header == "Bearer one"


# -- tokens without a person at a browser


def vouching() -> MachineTokens:
    config = server_config(URL)

    async def complete(server: object) -> object:
        return server

    settings = GrantSettings({config.id: config}.get, complete, AuthConfig())  # type: ignore[arg-type]
    return MachineTokens(settings, Issuers(settings, None))  # type: ignore[arg-type]


def person(name: str, issuer: str = IDP) -> GrantOwner:
    return GrantOwner("user", (issuer, name))


def facts(text: str, expires: float) -> TokenFacts:
    return TokenFacts(IDP, "ada", expires=expires, text=text)


@pytest.mark.parametrize(
    ("of", "later", "found"),
    [
        (person("ada"), 0.0, True),
        (person("ada"), 99.9, True),
        (person("ada"), 100.0, False),
        (person("bob"), 0.0, False),
        (person("ada", "https://other"), 0.0, False),
        (GrantOwner("agent", (IDP, "ada")), 0.0, False),
    ],
)
def test_a_sign_in_vouches_for_its_person_while_it_lasts(
    moved: Time, of: GrantOwner, later: float, found: bool
) -> None:
    here = vouching()
    here.signed_in(person("ada"), "id token of ada", NOW + 100.0)
    here.signed_in(person("eve", "https://evil"), "id token of eve", NOW + 100.0)
    moved.now += later
    account = Account(server_config(URL, idp=IDP, grant="enterprise"), of)
    assert (here.sign_in_of(of) is not None) is found
    if found:
        assert here._id_token(account, IDP) == "id token of ada"
    else:
        with pytest.raises(TokenFailed):
            here._id_token(account, IDP)
    assert here.any_signed_in(IDP) == (person("ada") if later < 100.0 else None)
    assert here.any_signed_in("https://unknown") is None


def test_who_signed_in_elsewhere_is_vouched_for_there_alone(moved: Time) -> None:
    here = vouching()
    eve = person("eve", "https://evil")
    here.signed_in(eve, "id token of eve", NOW + 100.0)
    with pytest.raises(TokenFailed):
        here._id_token(Account(server_config(URL, idp=IDP, grant="enterprise"), eve), IDP)


@pytest.mark.parametrize(
    ("of", "text", "later", "found"),
    [
        (person("ada"), "token of ada", 0.0, True),
        (person("ada"), "token of ada", 100.0, False),
        (person("ada"), "", 0.0, False),
        (person("bob"), "token of ada", 0.0, False),
    ],
)
def test_a_callers_token_is_exchanged_for_its_person_while_it_lasts(
    moved: Time, of: GrantOwner, text: str, later: float, found: bool
) -> None:
    here = vouching()
    here.saw(person("ada"), facts(text, NOW + 100.0))
    moved.now += later
    account = Account(server_config(URL, grant="token_exchange"), of)
    if found:
        assert here._callers_token(account) == text
    else:
        with pytest.raises(TokenFailed):
            here._callers_token(account)


async def test_the_account_of_the_aggregator_is_not_got_before_the_server_asks(moved: Time) -> None:
    auth = {"grant": "client_credentials", "per": "shared", "client_id": "c", "client_secret": "s" * 8}
    account = Account(server_config(URL, **auth), owner("alice"))
    assert await vouching().token(account, None, None, forced=False) is None


async def test_a_failure_that_passes_leaves_the_token_of_now_in_use(moved: Time) -> None:
    """The issuer is away when a token is due: it is good for a while, and the issuer is asked again later."""
    failure = TokenFailed(lambda: UpstreamUnavailable("docs", "away"), passes=True, retry_after=30.0)
    due = replace(token("one"), renewed_from=NOW + 5.0)
    async with Tasks("test") as tasks:
        source = Source(due, failure)
        found = of_alice(source, tasks)
        await found.ready()
        moved.now += 5.0
        for _ in range(3):
            assert found.header == "Bearer one"
            await tasks.wait_ended()
        assert len(source.asked) == 2
        moved.now += 30.0
        source.answers = [token("two")]
        assert found.header == "Bearer one"
        await tasks.wait_ended()
        assert found.header == "Bearer two"


@pytest.mark.parametrize(("version", "written"), [(1, ["late"]), (2, [])])
async def test_tokens_that_could_not_be_stored_replace_no_newer_ones(version: int, written: list[str]) -> None:
    """The database was away when they came, and another process may have renewed the grant since then."""
    found: Any = SimpleNamespace(record=SimpleNamespace(id="g", version=version))
    put = list[object]()

    async def find(_: object) -> object:
        return found

    async def renew(_: object, tokens: object) -> bool:
        put.append(tokens)
        return True

    store: Any = SimpleNamespace(find=find, renew=renew)
    nothing: Any = None
    renewal = Renewal(store, nothing, nothing, 15.0)
    late: Any = "late"
    renewal._unstored["g"] = _Unstored(1, late)
    for _ in range(2):
        assert await renewal._stored(nothing) is found
    assert put == written


@pytest.mark.parametrize(
    ("stays", "there", "ended"), [(True, True, []), (False, True, []), (False, False, ["r2"])], ids=str
)
async def test_tokens_that_came_too_late_are_not_used(
    monkeypatch: pytest.MonkeyPatch, stays: bool, there: bool, ended: list[str]
) -> None:
    """The account was ended, or another person connected it, while its issuer was asked; only an ended one is ended."""
    gone, row = list[str](), object() if there else None

    async def answer(*_: object, **__: object) -> TokenResponse:
        return TokenResponse("a2", "r2")

    async def end(_: object, __: object, ___: object, text: str) -> None:
        gone.append(text)

    async def renew(*_: object) -> bool:
        return stays

    async def get(_: object) -> object:
        return row

    async def vault() -> object:
        return SimpleNamespace(grants=SimpleNamespace(get=get))

    monkeypatch.setattr(renewal_module, "refresh", answer)
    monkeypatch.setattr(renewal_module, "revoke", end)
    store: Any = SimpleNamespace(renew=renew, vault=vault)
    issuers: Any = SimpleNamespace(fetch=lambda _: None, current_client=lambda *given: given[2])
    events: Any = SimpleNamespace(token_event=lambda *_: None)
    stored: Any = SimpleNamespace(record=SimpleNamespace(id="g", version=4, issuer=IDP), tokens=tokens())
    account = Account(server_config(URL), owner("alice"))
    found = await Renewal(store, issuers, events, 15.0)._renew(account, stored, "me")
    assert (found is not None) is stays
    assert found is None or (found.header, found.version) == ("Bearer a2", 5)
    assert gone == ended
