"""One lost connection is one transition, over every transport; and only the reconnect loop moves the state."""

import ast
import logging
from pathlib import Path
from typing import Final

import pytest

import aggregator.upstream
from aggregator.upstream.lifecycle import backoff
from aggregator.upstream.lifecycle.state import UpstreamState
from aggregator.upstream.lifecycle.states import Event, State
from tests.faults.app_harness import AppHarness, raw_stdio, running_app, server_config
from tests.faults.raw_http import ReceivedRequest, ReplyWriter, raw_http, raw_sse
from tests.polling import until

# What changes an `UpstreamState`, and the only module that may.
MOVERS: Final = frozenset({"move", "schedule", "attempt", "close"})
OWNER: Final = "lifecycle/reconnect_loop.py"


class Transitions:
    """The events of every upstream, with the state after each, as the state machine took them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.events: list[tuple[Event, State]] = []
        move = UpstreamState.move

        def recorded(state: UpstreamState, event: Event, reason: str = "", pause: float | None = None) -> None:
            move(state, event, reason, pause)
            self.events.append((event, state.state))

        patch.setattr(UpstreamState, "move", recorded)


@pytest.fixture
def transitions(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Transitions:
    """Transitions of upstreams that are not tried again while the test lasts."""
    monkeypatch.setattr(backoff, "FIRST", 600.0)
    monkeypatch.setattr(backoff, "CAP", 600.0)
    caplog.set_level(logging.INFO, "aggregator.upstream.lifecycle.state")
    return Transitions(monkeypatch)


async def lost_once(harness: AppHarness, transitions: Transitions, caplog: pytest.LogCaptureFixture, why: str) -> None:
    """The connection of the one server is gone, and the next attempt is scheduled."""
    state = harness.upstream("one").lifecycle
    await until(lambda: state.current.next_try is not None, "the next attempt is scheduled")
    assert transitions.events == [("connected", "ready"), ("lost", "reconnecting")]
    lines = [line.message for line in caplog.records if line.name == "aggregator.upstream.lifecycle.state"]
    assert lines[0] == "server one is ready"
    assert len(lines) == 2, lines
    assert lines[1].startswith("server one is reconnecting: ")
    assert why in lines[1]
    assert why in state.current.reason
    assert state.current.next_try is not None


async def test_over_stdio(transitions: Transitions, caplog: pytest.LogCaptureFixture) -> None:
    """Proves: D3, C11. Its process ends during a call."""
    async with running_app(raw_stdio("one", limits={"reconnect_wait": 0.01})) as harness:
        await harness.call("one.leave")
        await lost_once(harness, transitions, caplog, "its process ended with exit code 3")


async def test_over_streamable_http(transitions: Transitions, caplog: pytest.LogCaptureFixture) -> None:
    """Proves: D3, C11. A call finds that nothing listens any more."""
    async with (
        raw_http() as raw,
        running_app(server_config("one", type="http", url=raw.url, limits={"reconnect_wait": 0.01})) as harness,
    ):
        await raw.stop()
        await harness.call("one.echo")
        await lost_once(harness, transitions, caplog, "nothing listens there")


async def test_over_sse(transitions: Transitions, caplog: pytest.LogCaptureFixture) -> None:
    """Proves: D3, C11, C2. Its event stream ends while no call is running."""
    async with (
        raw_sse() as raw,
        running_app(server_config("one", type="sse", url=raw.url, limits={"reconnect_wait": 0.01})) as harness,
    ):
        await raw.stop()
        await lost_once(harness, transitions, caplog, "closed its event stream")


@pytest.mark.parametrize("reports", [2, 5])
async def test_several_reports_of_one_loss(
    reports: int, transitions: Transitions, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: C11. Calls, the health check and the connection itself may all find it lost."""
    async with (
        raw_http() as raw,
        running_app(server_config("one", type="http", url=raw.url)) as harness,
    ):
        shared = harness.upstream("one").shared
        session = shared.session
        assert session is not None
        for _ in range(reports):
            shared.lose(session, "it does not answer")
        await lost_once(harness, transitions, caplog, "it does not answer")


async def test_a_refused_attempt(transitions: Transitions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D3. A refusal ends the grace period at once: one event for the attempt, no failure beside it."""

    async def refuse(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await reply.send(401)

    async with (
        raw_http() as raw,
        running_app(server_config("one", type="http", url=raw.url)) as harness,
    ):
        upstream, session = harness.upstream("one"), harness.upstream("one").shared.session
        assert session is not None
        raw.on.update({"server/discover": refuse, "initialize": refuse})
        monkeypatch.setattr(backoff, "FIRST", 0.01)
        upstream.shared.lose(session, "it does not answer")
        await until(lambda: upstream.state == "unavailable", "it is refused")
        assert [event for event, _ in transitions.events] == ["connected", "lost", "gave_up"]


def test_only_the_reconnect_loop_moves_the_state() -> None:
    """Proves: D3. No other module of the package calls what changes an `UpstreamState`."""
    root = Path(aggregator.upstream.__file__).parent
    found = []
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MOVERS:
                holder = ast.unparse(node.func.value)
                if holder.endswith((".lifecycle", "._state")) or (name == OWNER and holder == "self.state"):
                    found.append((name, node.func.attr))
    assert {name for name, _ in found} == {OWNER}
    assert {attr for _, attr in found} == MOVERS
