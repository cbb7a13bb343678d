"""Sessions over Streamable HTTP: found by an id nobody can guess, bounded in number, ended when idle."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.principal import Principal, TokenFacts
from aggregator.domain.records import ToolRecord
from aggregator.frontends.web.event_stream import EventStream
from aggregator.frontends.web.exchange import Exchange
from aggregator.frontends.web.host_guard import Message
from aggregator.frontends.web.sessions import session_table
from aggregator.frontends.web.sessions.http_session import BatchChannel
from aggregator.frontends.web.sessions.session_ids import SessionIds
from aggregator.frontends.web.sessions.session_table import Sessions
from aggregator.gateway.admission import Admission, TooMany
from aggregator.gateway.host import Host
from aggregator.gateway.revocation import RevocableTasks
from aggregator.gateway.views.list_changed import ListChanges, Seen, notification
from aggregator.replicas.group.clock import GroupClock
from aggregator.replicas.group.shared_key import SharedKey
from aggregator.storage.records import HostSessionChange, HostSessionRecord
from aggregator.wire.codec import decode
from aggregator.wire.peer import NoBackChannel, PeerGone
from tests.polling import until

BOUND = 5
IDLE = 100.0


class Clock:
    """The loop's clock, moved by hand; only what reads it in between notices."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real = asyncio.get_running_loop().time
        self._ahead = 0.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self._real() + self._ahead)

    def pass_by(self, seconds: float) -> None:
        self._ahead += seconds


def _host() -> Host:
    return Host("http", "canonical", version="2025-06-18", initialized=True)


class Lists:
    """Lists that show every host these tools."""

    def __init__(self, tools: Sequence[ToolRecord] = ()) -> None:
        self.tools = tools

    def key_of(self, host: Host) -> str:
        return "all"

    def is_ready(self, host: Host) -> bool:
        return True

    async def prepare(self, host: Host) -> None:
        """Prepare nothing: no list takes long."""

    def lists_of(self, host: Host) -> Seen:
        return {"tools": tuple(self.tools), "prompts": ()}


def _sessions(at_most: int = 2, changes: ListChanges | None = None) -> Sessions:
    # Nothing is asked of these hosts, so the home stays empty.
    room = Admission({"sessions": at_most, "streams": 10, "pending": 10}, 1.0)
    return Sessions(changes or ListChanges(Lists()), RevocableTasks(), Tasks("a test"), room, IDLE)


async def _written(stream: EventStream) -> list[Any]:
    """The messages of a stream that was ended."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async with asyncio.timeout(BOUND):
        await stream.run(send)
    assert sent[-1]["more_body"] is False
    body = b"".join(message.get("body", b"") for message in sent)
    return [decode(line[6:]) for line in body.splitlines() if line.startswith(b"data: ")]


async def test_a_session_is_found_by_its_id_only() -> None:
    """Proves: F1"""
    sessions = _sessions()
    session = sessions.open(_host())
    assert sessions.get(session.id) is session
    assert sessions.get(session.id.lower() + "x") is None
    assert sessions.get("") is None
    assert len(sessions) == 1


_TOKEN = TokenFacts("https://issuer", "ann", "program")
CALLERS = {
    "another agent": Principal("other", key_id="k"),
    "another key": Principal("a", key_id="other"),
    "no key": Principal("a"),
    "a token": Principal("a", token=_TOKEN),
    "another person": Principal("a", token=replace(_TOKEN, subject="bob")),
    "another program": Principal("a", token=replace(_TOKEN, client="other")),
    "another issuer": Principal("a", token=replace(_TOKEN, issuer="https://other")),
}


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("owner", [Principal("a", key_id="k"), CALLERS["a token"], Principal("a")])
async def test_a_session_is_its_own_callers_alone(owner: Principal, in_memory: bool) -> None:
    """Proves: D9. Nobody else finds it or ends it with its id, in memory or not; its caller does."""
    sessions = _sessions()
    session = sessions.open(Host("http", "canonical", owner, version="2025-06-18", initialized=True))
    if not in_memory:
        sessions.let_go(session)
    for caller in CALLERS.values():
        if not owner.is_same_caller(caller):
            assert await sessions.find(session.id, caller) is None
            sessions.was_ended_elsewhere(session.id, caller)
            assert (sessions.get(session.id) is session) is in_memory
    # What is decided about a request depends on the token that it was sent with.
    token = owner.token and replace(owner.token, scopes=frozenset({"read"}))
    later = replace(owner, token=token, tenant="t")
    found = await sessions.find(session.id, later)
    assert found is not None
    assert found.host.principal is (later if token is not None or not in_memory else owner)
    sessions.was_ended_elsewhere(session.id, later)
    assert await sessions.find(session.id, owner) is None


async def test_a_session_that_was_let_go_is_taken_up_and_one_that_was_ended_is_not() -> None:
    """C4, D9: whoever holds the id of an ended session has nothing."""
    sessions = _sessions()
    session = sessions.open(_host())
    sessions.let_go(session)
    again = await sessions.find(session.id, session.host.principal)
    assert again is not None
    assert again.facts == session.facts
    await sessions.end(again)
    assert await sessions.find(session.id, session.host.principal) is None
    assert len(sessions) == 0


async def test_a_session_that_another_replica_ended_is_not_served_from_what_waits_for_it() -> None:
    """C4, D9: the request came before the news of the end, and waits for what is kept of the session."""
    ids, room = SessionIds(SharedKey(), GroupClock()), Admission({"sessions": 2, "streams": 9, "pending": 9}, 1.0)
    kept: Any = SimpleNamespace(listen=lambda _: None, read=lambda _: True, forget=lambda _: None)
    here, there = (
        Sessions(ListChanges(Lists()), RevocableTasks(), Tasks("a test"), room, IDLE, ids=ids, kept=one)
        for one in (kept, None)
    )
    for ended in (True, False):
        session = there.open(_host())
        waits = asyncio.create_task(here.find(session.id, session.host.principal))
        await until(lambda session=session: here.get(session.id) is not None)  # type: ignore[misc]
        if ended:
            here.was_ended(session.facts.name)
        else:
            here.found_state(session.facts.name, HostSessionRecord(session.facts.name, level="debug"))
        found = await waits
        assert (found is None) is ended
        assert found is None or found.host.log_level == "debug"
        there.close()


class Ends:
    """A `HostObserver` that notes the seconds of the sessions that are over, and why."""

    def __init__(self) -> None:
        self.seconds: list[int] = []
        self.failures: list[str | None] = []

    def host_left(self, host: Host) -> None:
        """Keep nothing of a host."""

    def session_over(self, host: Host, seconds: float, failure: str | None) -> None:
        self.failures.append(failure)
        self.seconds.append(round(seconds))


class Kept:
    """What is kept of sessions: noted, and read never."""

    def __init__(self, *, stored: bool = True) -> None:
        self.stored = stored
        self.forgotten: list[str] = []
        self.saved: list[HostSessionChange] = []

    def listen(self, news: object) -> None:
        """Tell nothing."""

    def read(self, name: str) -> bool:
        return self.stored

    def forget(self, name: str) -> None:
        self.forgotten.append(name)

    async def save(self, change: HostSessionChange) -> None:
        self.saved.append(change)


class KeepingSessions:
    """The sessions of a process that keeps something of each."""

    def __init__(self, tasks: Tasks, *, stored: bool = True) -> None:
        self.kept, self.revocable, self.ends = Kept(stored=stored), RevocableTasks(), Ends()
        self.resumed: list[Sequence[str]] = []
        gateway: Any = SimpleNamespace(listening=SimpleNamespace(resume=self._resume))
        room = Admission({"sessions": 2, "streams": 9, "pending": 9}, 1.0)
        kept: Any = self.kept
        changes = ListChanges(Lists(), self.ends)
        self.sessions = Sessions(changes, self.revocable, tasks, room, IDLE, kept=kept, gateway=gateway)

    async def _resume(self, host: Host, uris: Sequence[str]) -> None:
        self.resumed.append(uris)


@pytest.mark.parametrize("end", ["let go", "ended", "revoked"])
async def test_nothing_is_left_of_a_session_that_is_let_go(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """A request that waits for what is kept of it waits no longer, and its place is free."""
    monkeypatch.setattr(session_table, "PATIENCE", 2 * BOUND)
    async with asyncio.timeout(BOUND), Tasks("a test") as tasks:
        it = KeepingSessions(tasks)
        opened = it.sessions.open(_host())
        id_, name = opened.id, opened.facts.name
        it.sessions.let_go(opened)
        assert (it.kept.forgotten, len(it.revocable), name in it.sessions) == ([name], 0, False)
        waits = [asyncio.ensure_future(it.sessions.find(id_, opened.host.principal)) for _ in range(2)]
        await until(lambda: it.sessions.get(id_) is not None)
        again = it.sessions.get(id_)
        assert again is not None
        assert (again.taken_up, again.settled.is_set(), name in it.sessions) == (True, False, True)
        if end == "let go":
            it.sessions.let_go(again)
        elif end == "ended":
            await it.sessions.end(again)
        else:
            it.revocable.review(lambda _: False)
        assert await asyncio.gather(*waits) == [None, None]
        assert (it.kept.forgotten, len(it.revocable), name in it.sessions) == ([name] * 2, 0, False)
        assert it.ends.failures == [None, "revoked" if end == "revoked" else None]
        assert [change.ended is not None for change in it.kept.saved] == [True] * (end == "ended")


async def test_a_request_waits_once_for_what_is_kept_of_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """F1: without the database sessions go on as their ids say."""
    monkeypatch.setattr(session_table, "PATIENCE", 0.0)
    async with asyncio.timeout(BOUND), Tasks("a test") as tasks:
        for stored in (True, False):
            it = KeepingSessions(tasks, stored=stored)
            opened = it.sessions.open(_host())
            it.sessions.let_go(opened)
            found = await it.sessions.find(opened.id, opened.host.principal)
            assert found is not None
            assert found.settled.is_set()
            monkeypatch.setattr(session_table, "PATIENCE", 2 * BOUND)
            assert await it.sessions.find(opened.id, opened.host.principal) is found


async def test_what_was_kept_of_a_session_is_taken_once() -> None:
    async with asyncio.timeout(BOUND), Tasks("a test") as tasks:
        it = KeepingSessions(tasks)
        session = it.sessions.open(_host())
        name = session.facts.name
        for level, uris, expected, resumed in (
            (None, (), None, []),
            ("debug", ("a:1",), "debug", [("a:1",)]),
            ("no level", ("a:1",), "debug", [("a:1",)]),
            ("error", ("a:1", "a:2"), "error", [("a:1",), ("a:1", "a:2")]),
            (None, (), "error", [("a:1",), ("a:1", "a:2"), ()]),
        ):
            session.settled.clear()
            it.sessions.found_state(name, HostSessionRecord(name, level=level, uris=uris))
            await tasks.wait_ended()
            assert (session.host.log_level, it.resumed, session.settled.is_set()) == (expected, resumed, True)
        it.sessions.found_state("another", HostSessionRecord("another", level="debug"))
        assert session.host.log_level == "error"


async def test_what_a_host_sets_is_kept_once() -> None:
    """C4: what is there already is not written again, and what goes takes nothing else with it."""
    async with asyncio.timeout(BOUND), Tasks("a test") as tasks:
        it = KeepingSessions(tasks)
        session = it.sessions.open(_host())
        subscribe, unsubscribe = "resources/subscribe", "resources/unsubscribe"
        for method, params, uris, level, writes in (
            ("logging/setLevel", {}, (), "debug", 1),
            ("logging/setLevel", {}, (), "debug", 1),
            (subscribe, {"uri": "a:1"}, ("a:1",), "debug", 2),
            (subscribe, {"uri": "a:2"}, ("a:1", "a:2"), "debug", 3),
            (subscribe, {"uri": "a:1"}, ("a:1", "a:2"), "debug", 3),
            (unsubscribe, {"uri": "a:3"}, ("a:1", "a:2"), "debug", 3),
            (unsubscribe, {"uri": "a:1"}, ("a:2",), "debug", 4),
            (unsubscribe, {"uri": "a:1"}, ("a:2",), "debug", 4),
            (subscribe, {"uri": 5}, ("a:2",), "debug", 4),
            ("tools/list", {"uri": "a:9"}, ("a:2",), "debug", 4),
        ):
            session.host.log_level = "debug"
            await it.sessions.note_set(session, method, params)
            assert (session.kept.uris, session.kept.level, len(it.kept.saved)) == (uris, level, writes), method
        said = [(change.level, change.added, change.removed) for change in it.kept.saved]
        assert said == [("debug", (), ()), (None, ("a:1",), ()), (None, ("a:2",), ()), (None, (), ("a:1",))]


@pytest.mark.parametrize(
    ("made_by", "there", "told"), [("me", False, False), ("other", True, False), ("other", False, True)]
)
async def test_a_host_reads_its_lists_anew_if_the_process_it_came_from_has_ended(
    made_by: str, there: bool, told: bool
) -> None:
    """C4: that process told it nothing after its end; one that is there still does."""
    sessions, sent = _sessions(), list[str]()
    session = sessions.open(_host())
    session.facts, session.taken_up = replace(session.facts, made_by=made_by), True
    membership: Any = SimpleNamespace(id="me", get=lambda _: object() if there else None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "notify", lambda method, params: sent.append(method))
        for _ in range(2):
            sessions.note_stream(session, membership)
    assert bool(sent) is told
    assert len(sent) == len({*sent}), "once"


async def test_ids_are_unguessable_and_fit_a_header() -> None:
    """L/basic/transports: globally unique, cryptographically secure, visible ASCII."""
    sessions = _sessions(at_most=500)
    ids = {sessions.open(_host()).id for _ in range(500)}
    assert len(ids) == 500
    assert all(len(id_) >= 32 and id_.isascii() and id_.isprintable() and " " not in id_ for id_ in ids)


async def test_their_number_is_bounded() -> None:
    sessions = _sessions(at_most=2)
    first = sessions.open(_host())
    sessions.open(_host())
    with pytest.raises(TooMany):
        sessions.open(_host())
    sessions.let_go(first)
    assert sessions.get(first.id) is None
    sessions.open(_host())


async def test_idle_ones_make_room_and_busy_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    sessions = _sessions(at_most=2)
    busy, idle = sessions.open(_host()), sessions.open(_host())
    with busy, busy:
        clock.pass_by(IDLE + 1)
        sessions.open(_host())
        assert sessions.get(idle.id) is None
        assert sessions.get(busy.id) is busy
        clock.pass_by(IDLE + 1)
        assert busy.idle(asyncio.get_running_loop().time()) == 0
    clock.pass_by(IDLE - 1)
    assert 0 < busy.idle(asyncio.get_running_loop().time()) < IDLE


async def test_a_session_lasts_until_its_last_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D9. Not until it is let go for being idle; one that is ended counts once."""
    clock, ends = Clock(monkeypatch), Ends()
    sessions = _sessions(changes=ListChanges(Lists(), ends))
    idle = sessions.open(_host())
    with idle:
        clock.pass_by(1000)
    ended = sessions.open(_host())
    clock.pass_by(IDLE - 1)
    with ended:
        sessions.let_go(ended)
        sessions.let_go(ended)
    clock.pass_by(2)
    assert sessions._sweep() == 1
    assert (ends.seconds, ends.failures) == ([99, 1000], [None, None])


async def test_a_session_is_in_use_until_its_last_request_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    session = _sessions().open(_host())
    now = asyncio.get_running_loop().time
    with session:
        with session:
            pass
        clock.pass_by(IDLE + 1)
        assert session.idle(now()) == 0
    clock.pass_by(1)
    assert 0 < session.idle(now()) < IDLE


async def test_answers_are_kept_for_a_host_until_its_session_ends() -> None:
    sessions = _sessions()
    session = sessions.open(_host())
    stream = session.streams.open(7)
    stream.push(b"{}")
    stream.end()
    assert len(session.streams) == 1
    sessions.let_go(session)
    assert len(session.streams) == 0


async def test_a_request_is_dealt_with_as_one_of_its_own_token_and_level() -> None:
    """D9: whatever the request before it in the session was sent with."""
    one, other = (Principal("a", token=replace(_TOKEN, scopes=frozenset({scope}))) for scope in ("read", "write"))
    session = _sessions().open(Host("http", "canonical", one, version="2025-06-18", initialized=True))
    for principal, level in ((one, None), (other, None), (other, "debug"), (one, "error")):
        session.host.log_level = level
        for _ in range(2):
            host = session.host_of("tools/call", principal)
            assert (host.principal, host.log_level) == (principal, level)


async def test_ending_twice_is_harmless() -> None:
    sessions = _sessions()
    session = sessions.open(_host())
    sessions.let_go(session)
    sessions.let_go(session)
    assert len(sessions) == 0


async def test_a_session_has_one_standing_stream_at_a_time() -> None:
    session = _sessions().open(_host())
    first = session.open_stream()
    assert first is not None
    assert session.open_stream() is None
    session.stream_closed(EventStream())
    assert session.open_stream() is None, "another stream's end freed this one's place"
    session.stream_closed(first)
    assert session.open_stream() is not None


async def test_what_belongs_to_no_request_goes_to_the_standing_stream() -> None:
    host = _host()
    session = _sessions().open(host)
    assert host.connection is session
    host.notify("notifications/lost", {})
    stream = session.open_stream()
    assert stream is not None
    host.notify(notification("tools"), {"a": 1})
    session.end()
    host.notify("notifications/late", {})
    assert await _written(stream) == [{"jsonrpc": "2.0", "method": notification("tools"), "params": {"a": 1}}]


async def _notified(changes: ListChanges) -> None:
    changes._notify()
    assert changes._notifying is not None
    await changes._notifying


async def test_an_open_session_is_notified_of_changes_and_an_ended_one_is_not() -> None:
    """Proves: C5"""
    seen: list[ToolRecord] = []
    changes = ListChanges(Lists(seen))
    sessions = _sessions(changes=changes)
    staying, ending = sessions.open(_host()), sessions.open(_host())
    streams = staying.open_stream(), ending.open_stream()
    assert all(streams)
    sessions.let_go(ending)
    await _notified(changes)
    seen.append(ToolRecord("s", "s", "t", {}, {}, 1.0))
    await _notified(changes)
    sessions.close_streams()
    assert [await _written(stream) for stream in streams if stream is not None] == [
        [{"jsonrpc": "2.0", "method": notification("tools"), "params": {}}],
        [],
    ]


async def test_ending_a_session_cancels_what_runs_in_it() -> None:
    sessions = _sessions()
    session = sessions.open(_host())
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def answer(exchange: Exchange) -> bool:
        async with exchange:
            await asyncio.Event().wait()
        return exchange.succeeded

    async with asyncio.timeout(BOUND), Tasks("a test") as tasks:
        exchange = session.running["a"] = Exchange("a", receive, send, tasks, modern=False)
        running = tasks.start(answer(exchange))
        await asyncio.sleep(0)
        assert "1 running" in repr(session)
        sessions.close()
        assert await running is False
    assert len(sessions) == 0
    assert b"result" not in b"".join(message.get("body", b"") for message in sent)


async def test_sweeping_goes_on_until_it_is_cancelled() -> None:
    sweeping = asyncio.ensure_future(_sessions().sweep())
    await asyncio.sleep(0)
    assert not sweeping.done()
    sweeping.cancel()
    with suppress(asyncio.CancelledError):
        await sweeping
    assert sweeping.cancelled()


async def test_a_session_that_ends_fails_what_was_asked_of_its_host() -> None:
    sessions = _sessions()
    session = sessions.open(_host())
    stream = session.open_stream()
    assert stream is not None
    async with asyncio.timeout(BOUND):
        asked = asyncio.ensure_future(session.peer.request("elicitation/create", {}))
        await asyncio.sleep(0)
        sessions.let_go(session)
        with pytest.raises(PeerGone, match="the session ended"):
            await asked
    assert [message["method"] for message in await _written(stream)] == ["elicitation/create"]


async def test_a_request_in_a_batch_has_no_way_back() -> None:
    channel = BatchChannel("a")
    channel.notify("notifications/progress", {})
    assert channel.request_id == "a"
    with pytest.raises(NoBackChannel):
        await channel.ask("elicitation/create", {})
