"""An account that is ended, or connected anew, while a token is got for it: what comes late counts for nobody.

The clock of the credentials is moved, so that no failure is waited out.
"""

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Final

import pytest

from aggregator.accounts.grants import credentials
from aggregator.accounts.grants.account import Account
from aggregator.accounts.grants.credentials import GrantCredentials
from aggregator.accounts.grants.failures import TokenFailed, login_required, unavailable
from aggregator.accounts.grants.store import StoredGrant
from aggregator.accounts.grants.tokens import AccessToken
from aggregator.accounts.oauth.challenges import Challenge
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import UpstreamUnavailable
from aggregator.domain.missing import LoginRequired
from aggregator.domain.principal import Principal
from aggregator.storage.errors import StorageError
from tests.authorization.authorization_server import answer_with
from tests.grants.harness import REDIRECT, Accounts, Events, owner, process, server_config
from tests.polling import until

HOUR: Final = 3600.0
OLD: Final = AccessToken("Bearer before", 1, time.time() + HOUR, time.time() + HOUR, renewable=True, asked=("mcp",))
NEW: Final = AccessToken("Bearer now", 2, time.time() + HOUR, time.time() + HOUR, renewable=True)
LASTING: Final = TokenFailed(login_required("docs", owner("alice"), "it was ended"))
PASSING: Final = TokenFailed(unavailable("docs", "its issuer is away"), passes=True, retry_after=30.0)
ENDS: Final[dict[str, AccessToken | Exception | None]] = {
    "a token": OLD,
    "no account": None,
    "a failure that lasts": LASTING,
    "a failure that passes": PASSING,
    "a failure of the database": StorageError("no database"),
    "a failure of ours": ZeroDivisionError("a bug"),
}


class HeldSource:
    """A source of tokens whose every answer waits until the test gives it."""

    asks_person = True

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[AccessToken | None]] = []

    async def token(
        self, account: Account, held: AccessToken | None, challenge: Challenge | None, *, forced: bool
    ) -> AccessToken | None:
        future: asyncio.Future[AccessToken | None] = asyncio.get_running_loop().create_future()
        self.asked.append(future)
        return await future

    async def wait_asked(self, times: int) -> None:
        await until(lambda: len(self.asked) >= times, "it is asked")

    def answer(self, number: int, end: AccessToken | Exception | None) -> None:
        if isinstance(end, Exception):
            self.asked[number].set_exception(end)
        else:
            self.asked[number].set_result(end)


async def outcome(waiting: "asyncio.Task[None]") -> str:
    """Return how `ready` ended."""
    try:
        await waiting
    except (LoginRequired, UpstreamUnavailable) as error:
        return type(error).__name__
    return "ready"


@pytest.mark.parametrize("late", ENDS)
@pytest.mark.parametrize("first", ["the late one", "the new one"])
async def test_what_was_asked_before_a_change_is_not_kept(late: str, first: str) -> None:
    """Neither a token, nor the lack of one, nor the pause after a failure goes over to the account of now."""
    source = HeldSource()
    async with Tasks("test") as tasks:
        found = GrantCredentials(Account(server_config("http://127.0.0.1:1/mcp"), owner("alice")), source, tasks)
        before = asyncio.create_task(found.ready())
        await source.wait_asked(1)
        found.changed()
        after = asyncio.create_task(found.ready())
        # It asks for itself, and does not wait for what was asked about the account before.
        await source.wait_asked(2)
        ends = [(0, ENDS[late]), (1, NEW)]
        for number, end in ends if first == "the late one" else ends[::-1]:
            source.answer(number, end)
            await outcome(before if number == 0 else after)
            assert found.header in (None, NEW.header)
        assert await outcome(after) == "ready"
        assert found.header == NEW.header
        await found.ready()
        assert len(source.asked) == 2


@pytest.mark.parametrize("known", ENDS)
async def test_what_was_known_before_a_change_is_forgotten(known: str) -> None:
    """The token of before is on no request, the lack of one is looked at anew, and no pause goes on."""
    source = HeldSource()
    async with Tasks("test") as tasks:
        found = GrantCredentials(Account(server_config("http://127.0.0.1:1/mcp"), owner("alice")), source, tasks)
        before = asyncio.create_task(found.ready())
        await source.wait_asked(1)
        source.answer(0, ENDS[known])
        await outcome(before)
        assert found.header == (OLD.header if ENDS[known] is OLD else None)
        # Until something changes, it is not asked for again.
        await outcome(asyncio.create_task(found.ready()))
        assert len(source.asked) == 1
        found.changed()
        assert found.header is None
        after = asyncio.create_task(found.ready())
        await source.wait_asked(2)
        source.answer(1, NEW)
        assert await outcome(after) == "ready"
        assert found.header == NEW.header


@pytest.mark.parametrize("late", ENDS)
async def test_an_account_that_was_ended_has_no_token(late: str) -> None:
    """The next request asks anew, at once."""
    source = HeldSource()
    async with Tasks("test") as tasks:
        found = GrantCredentials(Account(server_config("http://127.0.0.1:1/mcp"), owner("alice")), source, tasks)
        before = asyncio.create_task(found.ready())
        await source.wait_asked(1)
        found.changed()
        source.answer(0, ENDS[late])
        await outcome(before)
        assert found.header is None
        assert found.asked == ()
        after = asyncio.create_task(found.ready())
        await source.wait_asked(2)
        source.answer(1, None)
        assert await outcome(after) == "ready"
        assert found.header is None


async def test_a_grant_that_is_ended_while_it_is_read_is_not_used(
    here: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the real database: the row was read, then the account was ended; the token is on no later request."""
    await here.connect("alice")
    found, store = here.credentials("alice"), here.grants._store
    read, go_on, find = asyncio.Event(), asyncio.Event(), store.find

    async def held(account: Account) -> StoredGrant | None:
        stored = await find(account)
        read.set()
        await go_on.wait()
        return stored

    monkeypatch.setattr(store, "find", held)
    waiting = asyncio.create_task(found.ready())
    await read.wait()
    monkeypatch.setattr(store, "find", find)
    assert await here.grants.revoke("docs", owner("alice"))
    go_on.set()
    await waiting
    assert found.header is None
    await found.ready()
    assert found.header is None
    with pytest.raises(LoginRequired):
        await found.refused(None, 401, ["Bearer"])


@pytest.mark.parametrize("heard", [True, False], ids=["ended at the issuer", "the issuer does not end it"])
async def test_a_grant_that_is_connected_anew_while_it_is_renewed(both: Accounts, heard: bool) -> None:
    """The late answer, tokens or a refusal, is for the person of before: it neither replaces nor ends the new grant."""
    both.idp.lifetime = 0.0
    assert (await both.connect("alice")).connected
    both.idp.lifetime = HOUR
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        asked.set()
        await go_on.wait()

    both.idp.before["token"] = hold
    if not heard:
        both.idp.instead["revoke"] = answer_with(200)
    found = both.credentials("alice")
    waiting = asyncio.create_task(found.ready())
    await asked.wait()
    del both.idp.before["token"]
    assert await both.grants.revoke("docs", owner("alice"))
    link = await both.grants.begin(both.config, owner("alice"), Principal("alice"))
    start = await both.grants.start(link.code, REDIRECT, "browser")
    assert (await both.answer(start, "someone", "browser")).connected
    go_on.set()
    await outcome(waiting)
    for _ in range(2):
        await found.ready()
        assert both.idp.access[str(found.header).removeprefix("Bearer ")]["sub"] == "someone"
        # As another process reads it.
        async with process(both.url, both.config, Events(), lease=2.0) as other:
            read = other.credentials(both.config, owner("alice"))
            await read.ready()
            assert both.idp.access[str(read.header).removeprefix("Bearer ")]["sub"] == "someone"
    assert [one.state for one in await both.grants.list()] == ["connected"]


class _Clock:
    """The clock of the credentials, moved by hand."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.moved = 0.0
        clock = SimpleNamespace(monotonic=lambda: 1000.0 + self.moved, time=lambda: time.time() + self.moved)
        patch.setattr(credentials, "time", clock)


@pytest.mark.parametrize(
    ("failures", "retry_after", "pause"), [(1, None, 1), (2, None, 2), (4, None, 8), (9, None, 60), (1, 30.0, 30)]
)
async def test_a_failure_is_told_without_asking_for_a_while(
    monkeypatch: pytest.MonkeyPatch, failures: int, retry_after: float | None, pause: float
) -> None:
    """A second at first, twice as long each time, a minute at most, or as long as the issuer says."""
    clock, source = _Clock(monkeypatch), HeldSource()
    async with Tasks("test") as tasks:
        found = GrantCredentials(Account(server_config("http://127.0.0.1:1/mcp"), owner("alice")), source, tasks)

        async def asks() -> Callable[[AccessToken | Exception | None], None]:
            number = len(source.asked)
            waiting = asyncio.create_task(found.ready())
            await source.wait_asked(number + 1)

            def answer(end: AccessToken | Exception | None) -> None:
                source.answer(number, end)

            ended.append(waiting)
            return answer

        ended: list[asyncio.Task[None]] = []
        for _ in range(failures):
            clock.moved += 100.0
            (await asks())(TokenFailed(unavailable("docs", "away"), passes=True, retry_after=retry_after))
            assert await outcome(ended[-1]) == "UpstreamUnavailable"
        clock.moved += pause - 0.1
        with pytest.raises(UpstreamUnavailable):
            await found.ready()
        assert len(source.asked) == failures
        clock.moved += 0.2
        (await asks())(NEW)
        assert await outcome(ended[-1]) == "ready"
        assert found.header == NEW.header


@pytest.mark.parametrize("between", ["a change", "a token"])
async def test_the_pause_begins_anew(monkeypatch: pytest.MonkeyPatch, between: str) -> None:
    """After a change of the account, or a token that was got, a failure is told for a second again; what is due at that
    moment is renewed at once.
    """
    clock, source = _Clock(monkeypatch), HeldSource()
    away = TokenFailed(unavailable("docs", "away"), passes=True)
    due = AccessToken("Bearer due", 1, time.time() + HOUR, time.time() - 1, renewable=True)
    async with Tasks("test") as tasks:
        found = GrantCredentials(Account(server_config("http://127.0.0.1:1/mcp"), owner("alice")), source, tasks)

        async def asks(end: AccessToken | Exception) -> str:
            waiting = asyncio.create_task(found.ready())
            number = len(source.asked)
            await source.wait_asked(number + 1)
            source.answer(number, end)
            return await outcome(waiting)

        for _ in range(5):
            assert await asks(away) == "UpstreamUnavailable"
            clock.moved += 20.0
        clock.moved -= 20.0
        if between == "a change":
            found.changed()
        else:
            clock.moved += 20.0
        assert await asks(due) == "ready"
        assert found.header == due.header
        await source.wait_asked(7)
        source.answer(6, away)
        await until(lambda: found._getting is None, "the attempt is over")
        clock.moved += 1.1
        assert found.header == due.header
        await source.wait_asked(8)
        source.answer(7, NEW)


async def test_a_token_that_is_due_is_renewed_beside_its_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on being sent meanwhile; a failure costs it only once it is over, and one attempt runs at a time."""
    clock, source = _Clock(monkeypatch), HeldSource()
    due = AccessToken("Bearer due", 1, time.time() + HOUR, time.time() - 1, renewable=True)
    async with Tasks("test") as tasks:
        found = GrantCredentials(Account(server_config("http://127.0.0.1:1/mcp"), owner("alice")), source, tasks)
        waiting = asyncio.create_task(found.ready())
        await source.wait_asked(1)
        source.answer(0, due)
        await waiting
        assert [found.header, found.header] == [due.header, due.header]
        await source.wait_asked(2)
        assert len(source.asked) == 2
        source.answer(1, PASSING)
        await until(lambda: found._getting is None, "the attempt is over")
        assert found.header == due.header
        # The pause of the failure holds for it too.
        await asyncio.sleep(0)
        assert len(source.asked) == 2
        clock.moved += 31.0
        assert found.header == due.header
        await source.wait_asked(3)
        source.answer(2, LASTING)
        await until(lambda: found._getting is None, "the attempt is over")
        assert found.header is None
