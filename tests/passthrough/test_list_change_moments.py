"""Notifications of changed lists, each moment by itself: who is notified of what, and what no change may pass over."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from aggregator.domain.principal import Principal
from aggregator.gateway.host import Host
from aggregator.gateway.views import list_changed
from aggregator.gateway.views.list_changed import LIST_KINDS, ListChanges, ListKind, Seen
from tests.polling import until

BOUND: Final = 5.0


class Lists:
    """The lists of all hosts, which a test changes; while they are late, they are prepared once `go` is set."""

    def __init__(self) -> None:
        self.now: dict[ListKind, object] = {kind: 0 for kind in LIST_KINDS}
        self.late = False
        self.preparing, self.go = asyncio.Event(), asyncio.Event()

    def key_of(self, host: Host) -> str:
        return host.principal.agent_id

    def is_ready(self, host: Host) -> bool:
        return not self.late

    async def prepare(self, host: Host) -> None:
        self.preparing.set()
        await self.go.wait()
        self.late = False

    def lists_of(self, host: Host) -> Seen:
        return {kind: (one,) for kind, one in self.now.items()}

    def change(self, *kinds: ListKind) -> None:
        for kind in kinds:
            self.now[kind] = object()


class Session(Host):
    """A host of the handshake eras, and the methods that it is notified by."""

    def __init__(self, agent: str = "ann", *, initialized: bool = True) -> None:
        super().__init__("sse", "canonical", Principal(agent), "2025-11-25", {}, session="s", initialized=initialized)
        self.told: list[str] = []

    def notify(self, method: str, params: Any) -> None:
        self.told.append(method.removeprefix("notifications/").removesuffix("/list_changed"))


class Observer:
    """What is noted of sessions that are over."""

    def __init__(self) -> None:
        self.left: list[Host] = []
        self.over: list[tuple[Host, float, object]] = []

    def host_left(self, host: Host) -> None:
        self.left.append(host)

    def session_over(self, host: Host, seconds: float, failure: object) -> None:
        self.over.append((host, seconds, failure))


class Here:
    """The changes of lists of one gateway, with a session and a stream."""

    def __init__(self) -> None:
        self.lists, self.observer = Lists(), Observer()
        self.all = ListChanges(self.lists, self.observer)
        self.host = Session()
        self.all.attach(self.host)

    async def told(self, *kinds: ListKind) -> list[str]:
        """Return what the session is told of a change of these lists."""
        self.lists.change(*kinds)
        self.all.announce()
        await self.settled()
        told, self.host.told = self.host.told, []
        return told

    async def settled(self) -> None:
        """Wait until all that was announced has been compared."""
        await until(lambda: self.all._pending is None and (self.all._notifying is None or self.all._notifying.done()))


@pytest.fixture
async def here(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Here]:
    monkeypatch.setattr(list_changed, "COALESCE", 0.0)
    made = Here()
    yield made
    made.all.close()


async def test_a_host_is_told_of_the_lists_that_changed(here: Here) -> None:
    assert await here.told("tools") == ["tools"]
    assert await here.told() == []
    assert await here.told("prompts", "resources") == ["prompts", "resources"]
    here.all.detach(here.host)
    assert await here.told("tools") == []


async def test_what_a_host_was_sent_is_no_news_to_it(here: Here) -> None:
    """A list that it has just got, and one that changed for a reason of its own."""
    here.lists.change("tools")
    here.all.record_sent(here.host, "tools", here.lists.lists_of(here.host)["tools"])
    assert await here.told("prompts") == ["prompts"]
    here.lists.change("tools", "prompts")
    here.all.refresh(here.host)
    assert here.host.told == []
    assert await here.told("resources") == ["resources"]
    assert await here.told("tools") == ["tools"]
    stranger = Session("bob")
    here.all.record_sent(stranger, "tools", ())
    here.all.refresh(stranger)
    assert stranger.told == []


async def test_a_host_is_told_once_it_has_finished_its_handshake(here: Here) -> None:
    early = Session("bob", initialized=False)
    here.all.attach(early)
    await here.told("tools")
    assert early.told == []
    early.initialized = True
    await here.told("prompts")
    assert early.told == ["prompts"]


async def test_a_stream_hears_of_its_kinds_until_it_ends(here: Here) -> None:
    heard: list[str] = []
    with here.all.listen(here.host, ("prompts",), heard.append):
        assert await here.told("tools", "prompts") == ["tools", "prompts"]
        assert heard == ["prompts"]
    await here.told("prompts")
    assert heard == ["prompts"]


async def test_a_change_during_a_comparison_is_compared_too(here: Here) -> None:
    """The comparison waits for a list that takes long, and has seen the others already."""
    here.lists.late = True
    here.lists.change("tools")
    here.all.announce()
    await asyncio.wait_for(here.lists.preparing.wait(), BOUND)
    other = Session("bob")
    here.lists.late = False
    here.all.attach(other)
    here.lists.change("tools", "prompts")
    here.all._notify()
    here.lists.go.set()
    await here.settled()
    assert (sorted(here.host.told), other.told) == (["prompts", "tools"], ["tools", "prompts"])


async def test_who_left_while_its_lists_were_prepared_is_told_nothing(here: Here) -> None:
    heard: list[str] = []
    with here.all.listen(here.host, LIST_KINDS, heard.append):
        here.all.detach(here.host)
        here.lists.late = True
        here.lists.change("tools")
        here.all.announce()
        await asyncio.wait_for(here.lists.preparing.wait(), BOUND)
    here.lists.go.set()
    await here.settled()
    assert heard == here.host.told == []


async def test_nothing_is_told_once_it_is_closed(here: Here) -> None:
    waiting = asyncio.ensure_future(here.all.wait_closed())
    here.lists.change("tools")
    here.all.announce()
    here.all.close()
    await asyncio.wait_for(waiting, BOUND)
    here.all.announce()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert here.all._notifying is None
    assert here.host.told == []


async def test_a_session_counts_from_its_beginning_to_its_last_use(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a session has a length; a host without one leaves too."""
    loop = asyncio.get_running_loop()
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now + 100.0)
    stateless = Session("bob")
    began = here.all._hosts[here.host].began
    here.all.detach(here.host, "unread", idle=30.0)
    here.all.detach(here.host)
    here.all.detach(stateless)
    (one,) = here.observer.over
    assert (one[0], round(one[1], 3), one[2]) == (here.host, round(now + 70.0 - began, 3), "unread")
    assert here.observer.left == [here.host, here.host, stateless]
    assert here.all.sessions() == {}
