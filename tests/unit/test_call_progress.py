"""Progress of one call: what it does to the time limit, and who is told."""

import asyncio
from typing import Any

import pytest

from aggregator.config.server_config import ServerConfig
from aggregator.redaction.redactor import Redactor
from aggregator.upstream.caller import RunningCall
from aggregator.upstream.redaction import server_redaction
from aggregator.upstream.sessions.request import CallProgress, extended_limit
from tests.faults.app_harness import server_config


class FakeClock:
    """The clock of a time limit: where its end was moved to."""

    def __init__(self) -> None:
        self.ends: list[float | None] = []

    def when(self) -> float | None:
        return self.ends[-1] if self.ends else None

    def reschedule(self, when: float | None, /) -> None:
        self.ends.append(when)


def no_note() -> None:
    """Take no note that the server is alive."""


def config(**fields: Any) -> ServerConfig:
    """A server whose time limit is the default unless `fields` say otherwise."""
    given = server_config("s", type="stdio", command="x").model_dump(exclude_unset=True)
    given.pop("timeout")
    return ServerConfig.model_validate({**given, **fields})


EXTENDS: list[tuple[dict[str, Any], float, bool]] = [
    ({}, 30.0, True),
    ({}, 5.0, False),
    ({"timeout": 30}, 30.0, False),
    ({"timeout": 5}, 5.0, False),
    ({"timeout": 5}, 30.0, False),
    ({"limits": {"timeout_resets_on_progress": True}}, 5.0, True),
    ({"timeout": 5, "limits": {"timeout_resets_on_progress": True}}, 5.0, True),
    ({"limits": {"timeout_resets_on_progress": False}}, 30.0, False),
]


@pytest.mark.parametrize(("fields", "limit", "extends"), EXTENDS)
@pytest.mark.parametrize("wanted", [True, False])
async def test_progress_starts_the_default_limit_anew(
    fields: dict[str, Any], limit: float, extends: bool, wanted: bool
) -> None:
    """B4: whether the host wants it or not; a limit that was set holds, unless the setting says otherwise."""
    server, clock = config(**fields), FakeClock()
    heard: list[dict[str, Any]] = []
    alive: list[bool] = []
    running = RunningCall(None, clock)
    redaction = server_redaction(server, Redactor([]))
    handler = CallProgress(
        running,
        extended_limit(running, server, limit, began=1.0),
        heard.append if wanted else None,
        redaction,
        lambda: alive.append(True),
    )
    handler({"progress": 1})
    handler({"progress": 2})
    assert len(alive) == 2
    assert heard == ([{"progress": 1}, {"progress": 2}] if wanted else [])
    assert running.extended is extends
    assert len(clock.ends) == (2 if extends else 0)
    assert running.latest == (1.0 + server.limits.max_timeout if extends else float("inf"))


async def test_progress_does_not_move_the_hard_maximum() -> None:
    """B4"""
    server, clock = config(limits={"max_timeout": 60}), FakeClock()
    running = RunningCall(None, clock)
    # The event loop counts from the start of the machine or later: this call began long before.
    extends = extended_limit(running, server, 30.0, began=-100.0)
    handler = CallProgress(running, extends, None, server_redaction(server, Redactor([])), no_note)
    handler({"progress": 1})
    assert clock.ends == [-40.0]


async def test_a_call_that_goes_on_in_a_task_keeps_its_hard_maximum() -> None:
    """B4"""
    server = config()
    running = RunningCall(None, FakeClock())
    assert extended_limit(running, server, 30.0, began=1.0) == 30.0
    assert extended_limit(running, server, 30.0) == 30.0
    assert running.latest == 1.0 + server.limits.max_timeout


async def test_a_question_stops_the_time_and_the_hard_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    """B4: what was left of both is left after it; of two questions the last one counts, and progress waits for it."""
    loop, now = asyncio.get_running_loop(), 1_000.0
    monkeypatch.setattr(loop, "time", lambda: now)
    clock = FakeClock()
    clock.reschedule(now + 20.0)
    running = RunningCall(None, clock)
    running.latest = now + 50.0
    one, other = (asyncio.Task(asyncio.sleep(0)) for _ in range(2))
    running.hold(one)
    now += 5.0
    running.hold(other)
    assert clock.when() is None
    now += 300.0
    running.go_on(one)
    assert clock.when() is None
    running.go_on(other)
    assert (clock.when(), running.latest) == (now + 20.0, now + 50.0)
    running.hold(one)
    running.extend(80.0)
    now += 7.0
    running.go_on(one)
    running.go_on(one)
    assert (clock.when(), running.latest) == (now + 50.0, now + 50.0)
    await asyncio.gather(one, other)
