"""What is kept of a session of a host, when several changes of it are written as one."""

import asyncio
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.frontends.web.sessions import kept_sessions
from aggregator.frontends.web.sessions.kept_sessions import KeptSessions
from aggregator.storage.errors import StorageBusy
from aggregator.storage.records import HostSessionChange
from tests.polling import until

_URIS = st.frozensets(st.sampled_from("abc"))
_CHANGES = st.builds(
    lambda added, removed, level, ended: HostSessionChange(
        "s", "ada", 9.0, ended, level, tuple(sorted(added)), tuple(sorted(removed - added))
    ),
    _URIS,
    _URIS,
    st.sampled_from([None, "error", "debug"]),
    st.sampled_from([None, 1.0, 2.0]),
)


def _after(before: frozenset[str], change: HostSessionChange) -> frozenset[str]:
    return before - {*change.removed} | {*change.added}


@given(_URIS, _CHANGES, _CHANGES)
def test_two_changes_are_one_that_does_the_same(
    before: frozenset[str], first: HostSessionChange, second: HostSessionChange
) -> None:
    both = first.then(second)
    assert _after(before, both) == _after(_after(before, first), second)
    assert not {*both.added} & {*both.removed}
    assert len(both.added) == len({*both.added})
    assert both.level == (second.level or first.level)
    assert both.ended == (first.ended or second.ended)


class _Woken(asyncio.Event):
    """An event that is waited for so often at most: work that finds nothing to do may not begin again at once."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    async def wait(self) -> Literal[True]:
        self._most -= 1
        assert self._most >= 0, "it never rests"
        return await super().wait()


@pytest.mark.parametrize("event", ["_reading", "_writing"])
async def test_without_sessions_nothing_is_done(event: str) -> None:
    """Those that were to be read are forgotten, or were written with the page before."""
    group: Any = SimpleNamespace(stored=True, enabled=False)
    kept = KeptSessions(group)
    kept.read("s")
    kept.forget("s")
    woken = _Woken(3)
    setattr(kept, event, woken)
    woken.set()
    running = asyncio.create_task(kept.run())
    await until(lambda: not woken.is_set())
    assert not running.done()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_what_could_not_be_written_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database was away for a moment: a host need not change something again, and all that it set is there."""
    monkeypatch.setattr(kept_sessions, "_AFTER_A_FAULT", 0.0)
    written: list[HostSessionChange] = []
    tries = 0

    async def write(changes: list[HostSessionChange], now: float, told: object) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise StorageBusy("The database is away.")
        written.extend(changes)

    async def database() -> Any:
        return SimpleNamespace(host_sessions=SimpleNamespace(write=write))

    clock = SimpleNamespace(now=time.time)
    group: Any = SimpleNamespace(stored=True, enabled=False, database=database, clock=clock)
    kept = KeptSessions(group)
    running = asyncio.create_task(kept.run())
    await kept.save(HostSessionChange("s", "ada", 9.0, level="error"))
    assert [(one.id, one.level) for one in written] == [("s", "error")]
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
