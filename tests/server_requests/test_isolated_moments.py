"""Which connection a call gets beside the shared one, each condition by itself, over plain values."""

import asyncio
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.accounts.config import ServerAuthConfig
from aggregator.domain.abilities import EVERYTHING, NOTHING
from aggregator.upstream.current_config import CurrentConfig
from aggregator.upstream.sessions.back_channel import AskingHabit
from aggregator.upstream.sessions.isolation import OWN_PAUSE, SILENT_AT_MOST, IsolatedSessions
from aggregator.upstream.sessions.side_connection import SideConnections
from tests.faults.app_harness import server_config

LEGACY: Final[Any] = SimpleNamespace(era="legacy")
MODERN: Final[Any] = SimpleNamespace(era="modern")


class Here:
    """The isolated sessions of one server; `single`: it serves one host only."""

    def __init__(self, *, single: bool = False, habit: AskingHabit | None = None, **fields: Any) -> None:
        asks = habit or AskingHabit(asks=True, in_calls=True, separates=True)
        connector: Any = SimpleNamespace(habit=asks)
        clients: Any = SimpleNamespace(single=single)
        config = server_config("s", type="stdio", command="x", **fields)
        self.read = 0
        self.sessions = IsolatedSessions(CurrentConfig(config), connector, clients, lambda *_: None, self._read)

    def _read(self) -> None:
        self.read += 1


def caller(**more: Any) -> Any:
    given = {"session": "one", "identity": "one", "era": "legacy", "abilities": EVERYTHING, "sent_over": None}
    return SimpleNamespace(**given | more, account=lambda per: f"account per {per}")


def base(*, transport: str = "stdio", era: Any = LEGACY, doubtful: bool = True) -> Any:
    asked = SimpleNamespace(doubtful=lambda _: doubtful)
    return SimpleNamespace(cheap=transport == "http", transport=transport, negotiated=era, back_channel=asked)


@pytest.mark.parametrize(
    ("here", "host", "shared", "separate"),
    [
        ({}, "legacy", {}, True),
        ({"habit": AskingHabit(asks=True, separates=True)}, "legacy", {}, False),
        ({"habit": AskingHabit(asks=True, in_calls=True)}, "legacy", {}, False),
        ({}, "legacy", {"transport": "http"}, False),
        ({}, "legacy", {"era": MODERN}, False),
        ({}, "legacy", {"doubtful": False}, False),
        ({"single": True}, "legacy", {}, False),
        ({"single": True}, "modern", {}, True),
        ({"single": True}, "modern", {"transport": "http"}, False),
        ({"single": True}, "modern", {"doubtful": False}, False),
    ],
)
async def test_who_needs_another_connection(
    here: dict[str, Any], host: str, shared: dict[str, Any], separate: bool
) -> None:
    """B4: only if a question could not be told from one for another call, over a server that asks in calls."""
    assert Here(**here).sessions.separate(caller(era=host), base(**shared)) is separate


async def test_after_a_failure_hosts_share_a_connection_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, here, now = asyncio.get_running_loop(), Here(), 1_000.0
    monkeypatch.setattr(loop, "time", lambda: now)
    here.sessions._shared_until = now + OWN_PAUSE
    assert not here.sessions.separate(caller(), base())
    now += OWN_PAUSE
    assert here.sessions.separate(caller(), base())


@pytest.mark.parametrize(
    ("per", "account"), [(None, None), ("shared", None), ("user", "account per user"), ("agent", "account per agent")]
)
async def test_whose_account_a_call_uses(per: Any, account: str | None) -> None:
    """D9: the shared connection has the account that all share."""
    auth = ServerAuthConfig(per=per) if per is not None else None
    here = Here(auth=auth)
    found: Any = here.sessions._account(caller())
    assert found == account


@pytest.mark.parametrize(
    ("host", "shared", "protocol", "era"),
    [
        ({}, MODERN, "auto", "legacy"),
        ({"era": "modern"}, MODERN, "auto", "modern"),
        ({"abilities": NOTHING}, MODERN, "auto", "modern"),
        ({}, LEGACY, "auto", "legacy"),
        ({"era": "modern"}, LEGACY, "auto", "legacy"),
        ({}, MODERN, "modern", "modern"),
    ],
)
async def test_the_era_of_a_call(host: dict[str, Any], shared: Any, protocol: str, era: str) -> None:
    """That of its host, if the server speaks both and may ask the host something."""
    here = Here(protocol=protocol)
    assert here.sessions._era(caller(**host), base(era=shared)) == era


@pytest.mark.parametrize("idle", [True, False])
async def test_a_connection_that_is_silent_too_often_in_a_row_is_closed(idle: bool) -> None:
    """C18: an answer begins anew, and a connection in use is left alone."""
    here, ended = Here(), list[str]()
    side = SimpleNamespace(unanswered=0, idle=idle, close=lambda: ended.append("closed"))
    session: Any = SimpleNamespace(lost=lambda: ended.append("lost"))
    here.sessions._sides = SimpleNamespace(of=lambda _: side)  # type: ignore[assignment]
    for _ in range(2):
        for _ in range(SILENT_AT_MOST - 1):
            here.sessions.unanswered(session)
        here.sessions.answered(session)
    assert ended == []
    for _ in range(SILENT_AT_MOST):
        here.sessions.unanswered(session)
    assert ended == (["lost", "closed"] if idle else [])


async def test_a_new_connection_of_the_server_ends_what_was_known_of_the_one_before() -> None:
    """It may allow several sessions now, and both eras; its lists are read over a new session."""
    here, closed = Here(), list[str]()
    sides = [SimpleNamespace(lists=lists, close=lambda name=name: closed.append(name)) for name, lists in
             (("lists", True), ("host", False))]  # fmt: skip
    here.sessions._sides = sides  # type: ignore[assignment]
    here.sessions._one_session_only, here.sessions._one_era_until = True, float("inf")
    here.sessions.begin(server_config("s", type="stdio", command="x"))
    assert not here.sessions._one_session_only
    assert here.sessions._era(caller(), base(era=MODERN)) == "legacy"
    assert closed == ["lists"]


def test_the_connection_that_was_idle_for_longest_makes_room() -> None:
    """D7: one in use stays, and so does the one that lists are read over."""
    sides, closed = SideConnections(), list[str]()

    def add(name: str, used: float, *, idle: bool = True, lists: bool = False) -> None:
        key: Any = name
        side: Any = SimpleNamespace(key=key, used=used, kept_until=0.0, idle=idle, lists=lists, session=None)
        side.close = lambda: closed.append(name)
        sides.add(side)

    wanted: Any = SimpleNamespace(at_most=4)
    add("lists", 1.0, lists=True)
    add("busy", 2.0, idle=False)
    add("late", 4.0)
    assert sides.has_room(wanted)
    assert closed == []
    add("old", 3.0)
    assert sides.has_room(wanted)
    assert (closed, len(sides)) == (["old"], 3)
    add("busy too", 0.0, idle=False)
    assert sides.has_room(wanted)
    add("busy three", 0.0, idle=False)
    assert not sides.has_room(wanted)
    assert closed == ["old", "late"]
