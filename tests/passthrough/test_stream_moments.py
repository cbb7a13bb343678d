"""Streams of `subscriptions/listen`, each condition by itself: what they tell of, to whom, and from when on."""

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.domain.uris.exposed import wrapped
from aggregator.gateway.host import Host
from aggregator.upstream.sessions.negotiate import Negotiated
from tests.access.gateway_harness import LEGACY, MODERN
from tests.passthrough.test_read_moments import NOTE, OPEN, SCOPED, Desk, scoped
from tests.peers.back_channel import FakeBackChannel
from tests.peers.toolbox import Json
from tests.polling import until


class Stream:
    """A `subscriptions/listen` of a host, which hears of changes until it is closed."""

    def __init__(self, desk: Desk, host: Host, wanted: Any) -> None:
        self.channel = FakeBackChannel()
        self.task = asyncio.ensure_future(
            desk.ask(host, "subscriptions/listen", {"notifications": wanted}, self.channel)
        )

    async def honoured(self) -> Any:
        """Return what was acknowledged, which comes first."""
        await until(lambda: self.channel.notifications or self.task.done())
        method, params = self.channel.notifications[0]
        assert method == "notifications/subscriptions/acknowledged"
        return params["notifications"]

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


def telling(folder: Path, rules: Json | None = None) -> Desk:
    """Two servers with resources, of which `a` tells of their changes."""
    desk = Desk(folder, rules)
    for name, upstream in desk.app.upstreams.items():
        can = {"resources": {"subscribe": name == "a"}, "prompts": {}}
        upstream.shared.negotiated = Negotiated(LEGACY, {}, can, None)
    return desk


URIS: Final = [wrapped("a", NOTE), wrapped("b", NOTE), "demo://none/1"]
WANTED: Final[dict[str, tuple[Json, Json]]] = {
    "lists": (
        {"toolsListChanged": True, "promptsListChanged": 1, "resourcesListChanged": "yes"},
        {"toolsListChanged": True},
    ),
    "resources": ({"resourceSubscriptions": [*URIS, 7, None]}, {"resourceSubscriptions": URIS[:1]}),
    "a text for a list": ({"resourceSubscriptions": URIS[0]}, {}),
    "an object for a list": ({"resourceSubscriptions": {URIS[0]: True}}, {}),
    "nothing": ({}, {}),
    "no list": ({"toolsListChanged": False, "resourceSubscriptions": None}, {}),
}


@pytest.mark.parametrize("case", WANTED)
async def test_a_stream_says_what_it_tells_of(tmp_path: Path, case: str) -> None:
    """What it cannot tell of is left out; nothing of it is left at its end."""
    wanted, honoured = WANTED[case]
    desk = telling(tmp_path)
    stream = Stream(desk, desk.host("one", MODERN), wanted)
    assert await stream.honoured() == honoured
    assert len(desk.gateway._subscriptions) == len(honoured.get("resourceSubscriptions", ()))
    await stream.close()
    assert len(desk.gateway._subscriptions) == 0
    assert desk.gateway.list_changes._streams == set()


async def test_a_stream_tells_of_what_its_agent_may_read_alone(tmp_path: Path) -> None:
    """By the rules, and by the scopes of its token."""
    desk = telling(tmp_path, {"one": OPEN, "two": {**OPEN, "deny": ["resource:a.*"]}})
    wanted = {"resourceSubscriptions": URIS}
    hosts = [desk.host("one", MODERN), desk.host("two", MODERN)]
    streams = [Stream(desk, host, wanted) for host in hosts]
    heard = [(await stream.honoured()).get("resourceSubscriptions") for stream in streams]
    desk.set_policies(SCOPED)
    streams += [Stream(desk, scoped(scope), wanted) for scope in ("other", "files")]
    heard += [(await stream.honoured()).get("resourceSubscriptions") for stream in streams[2:]]
    assert heard == [URIS[:1], None, None, URIS[:1]]
    for stream in streams:
        await stream.close()


async def test_a_stream_tells_of_nothing_before_it_is_acknowledged(tmp_path: Path) -> None:
    """S/basic/patterns/subscriptions: the acknowledgement is the first message."""
    desk = telling(tmp_path)
    upstream = desk.app.upstreams["a"]
    told = asyncio.Event()

    async def agree(*_: Any) -> None:
        desk.gateway._subscriptions.resource_updated(upstream, [NOTE], NOTE)
        desk.gateway._subscriptions._notify()
        told.set()

    upstream.wait_subscribed = agree  # type: ignore[method-assign, assignment]
    stream = Stream(desk, desk.host("one", MODERN), {"resourceSubscriptions": URIS})
    assert await stream.honoured() == {"resourceSubscriptions": URIS[:1]}
    assert told.is_set()
    assert len(stream.channel.notifications) == 1
    desk.gateway._subscriptions.resource_updated(upstream, [NOTE], NOTE)
    desk.gateway._subscriptions._notify()
    assert stream.channel.notifications[1][1]["uri"] == URIS[0]
    await stream.close()


async def test_who_lost_a_scope_hears_of_the_resource_no_more(tmp_path: Path) -> None:
    """A rule that came later wants a scope that the token of a listening host lacks."""
    desk = telling(tmp_path, {})
    desk.set_policies({**SCOPED, "defaults": OPEN})
    stream = Stream(desk, scoped("other"), {"resourceSubscriptions": URIS})
    assert await stream.honoured() == {"resourceSubscriptions": URIS[:1]}
    heard = []
    for rules in ({**SCOPED, "defaults": OPEN}, SCOPED):
        desk.set_policies(rules)
        desk.gateway._subscriptions.resource_updated(desk.app.upstreams["a"], [NOTE], NOTE)
        desk.gateway._subscriptions._notify()
        heard.append(len(stream.channel.notifications) - 1)
    assert heard == [1, 1]
    await stream.close()
