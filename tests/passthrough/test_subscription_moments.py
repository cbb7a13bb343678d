"""Subscriptions to resources, each moment by itself: who is told of what, and what is left of one that ends."""

from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.domain.errors import METHOD_NOT_FOUND, HostError, UpstreamError, UpstreamRpcError
from aggregator.gateway.reads import subscriptions
from aggregator.gateway.reads.subscriptions import Subscriber, Subscriptions
from tests.peers.toolbox import Json

A, B, C = "file:///a", "file:///b", "file:///a/c"
AWAY: Final = UpstreamError("one", "it is away")
REFUSED: Final = UpstreamRpcError("one", -32001, "no", None)


class Server:
    """An upstream: the resources that are wanted of it, and how it takes a subscription."""

    def __init__(self, name: str = "one", **resources: Any) -> None:
        self.config: Any = SimpleNamespace(id=name, prefix=name, timeout=1.0)
        self.negotiated: Any = SimpleNamespace(capabilities={"resources": {"subscribe": True, **resources}})
        self.wanted: list[str] = []
        self.subscriptions = SimpleNamespace(want=self.wanted.append, unwant=self.wanted.remove)
        self.takes: BaseException | None = None

    async def wait_subscribed(self, own: str, patience: float) -> None:
        if self.takes is not None:
            raise self.takes


class Notified:
    """A host: the URIs that it is told of."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def notify(self, method: str, params: Json) -> None:
        self.told.append(params["uri"])


class Here:
    """The subscriptions of a gateway with one server, at which a host may read all but `denied`."""

    def __init__(self) -> None:
        self.server: Any = Server()
        self.upstreams: dict[str, Any] = {"one": self.server}
        self.denied: set[str] = set()
        lookup: Any = SimpleNamespace(may_read=lambda host, upstream, uri: uri not in self.denied)
        self.all = Subscriptions(self.upstreams, lookup)
        self.host: Any = Notified()

    def found(self, own: str, requested: str | None = None) -> Any:
        return SimpleNamespace(upstream=self.server, own=own, requested=requested or f"{own}?", name=own)

    def change(self, uri: str, *watched: str, server: Any = None) -> list[str]:
        """Return what the host is told of a change."""
        self.host.told.clear()
        self.all.resource_updated(server or self.server, list(watched or (uri,)), uri)
        if self.all._timer is not None:
            self.all._timer.cancel()
            self.all._notify()
        return list(self.host.told)


def _another() -> Any:
    return Notified()


async def test_a_host_is_told_under_its_own_uri_of_what_it_may_read() -> None:
    """Of a resource below a watched one under ours; nothing of either if one of the two is denied by now."""
    here = Here()
    await here.all.subscribe(here.host, here.found(A, "A"))
    assert (here.change(A), here.change(B)) == (["A"], [])
    assert here.change(C, A) == ["file://one//a/c"]
    for denied in (A, C):
        here.denied = {denied}
        assert here.change(C, A) == []
    here.denied = set()
    assert here.change(A, server=Server()) == [], "of a server that was replaced"
    here.all.resource_updated(here.server, [A], A)
    here.all.unsubscribe(here.host, "A", None)
    assert here.all._timer is not None
    here.all._timer.cancel()
    here.all._notify()
    assert here.host.told == [], "the subscription ended in between"


@pytest.mark.parametrize("takes", [REFUSED, AWAY, KeyboardInterrupt()])
async def test_nothing_is_left_of_a_subscription_that_failed(takes: BaseException) -> None:
    here = Here()
    here.server.takes = takes
    with pytest.raises(HostError if takes is REFUSED else type(takes)):
        await here.all.subscribe(here.host, here.found(A))
    assert (here.server.wanted, len(here.all), here.change(A)) == ([], 0, [])


@pytest.mark.parametrize(("takes", "agreed"), [(None, [A]), (REFUSED, []), (AWAY, [A])])
async def test_a_stream_waits_for_no_server_that_is_away(takes: Exception | None, agreed: list[str]) -> None:
    here = Here()
    here.server.takes = takes
    told: list[str] = []
    subscriber = Subscriber(here.host, told.append)
    assert [one.own for one in await here.all.subscribe_stream(subscriber, [here.found(A)])] == agreed
    assert here.server.wanted == agreed
    here.all.end(subscriber)
    assert (here.server.wanted, len(here.all)) == ([], 0)


async def test_a_server_without_subscriptions_is_not_asked() -> None:
    here = Here()
    offered: list[Json] = [{}, {"resources": {}}, {"resources": {"subscribe": False}}, {"resources": True}]
    for capabilities in offered:
        here.server.negotiated.capabilities = capabilities
        with pytest.raises(HostError) as refused:
            await here.all.subscribe(here.host, here.found(A))
        assert refused.value.code == METHOD_NOT_FOUND
    here.server.negotiated = None
    await here.all.subscribe(here.host, here.found(A))


async def test_a_host_has_as_many_as_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that it has already counts once; another host has its own."""
    monkeypatch.setattr(subscriptions, "MOST", 2)
    here, another = Here(), _another()
    for own in (A, B, A):
        await here.all.subscribe(here.host, here.found(own))
    with pytest.raises(HostError, match="At most 2"):
        await here.all.subscribe(here.host, here.found(C))
    await here.all.subscribe(another, here.found(C))
    assert here.server.wanted == [A, B, C]


async def test_what_ends_a_subscription() -> None:
    """Its URI, the resource that the URI means now, the host, and a session that goes on with others."""
    here, another = Here(), _another()
    ends: list[Any] = [
        lambda: here.all.unsubscribe(here.host, "A", None),
        lambda: here.all.unsubscribe(here.host, "another spelling", here.found(A)),
        lambda: here.all.resume(here.host, [], []),
        lambda: here.all.resume(here.host, [here.found(B, "B")], ["B"]),
        lambda: here.all.remove_host(here.host),
    ]
    for end in ends:
        await here.all.subscribe(here.host, here.found(A, "A"))
        end()
        assert A not in here.server.wanted
        assert here.change(A) == []
    here.all.unsubscribe(another, "A", here.found(A))
    await here.all.subscribe(here.host, here.found(A, "A"))
    here.all.unsubscribe(here.host, "unknown", None)
    here.all.resume(here.host, [here.found(B, "B")], ["A", "B"])
    assert (here.change(A), here.change(B)) == (["A"], ["B"])
    here.all.unsubscribe(here.host, "A", here.found(B))
    assert (here.change(A), here.change(B)) == ([], ["B"]), "the one that it named so"


async def test_subscriptions_go_with_the_server_that_is_configured_now() -> None:
    """One that was replaced is asked anew, one that stayed is not, and of one that is gone nothing is left."""
    here = Here()
    await here.all.subscribe(here.host, here.found(A, "A"))
    here.all.reconfigure()
    assert here.server.wanted == [A]
    here.upstreams["one"] = after = Server()
    for _ in range(2):
        here.all.reconfigure()
        assert after.wanted == [A]
    assert here.change(A, server=after) == ["A"]
    del here.upstreams["one"]
    here.all.reconfigure()
    assert len(here.all) == 0
    assert here.all._hosts[here.host].uris == {}


async def test_a_resource_is_told_under_the_uri_that_its_host_gave_last() -> None:
    """It is one subscription however it is spelled; nothing is kept for a host that is gone."""
    here = Here()
    for requested in ("A", "a"):
        await here.all.subscribe(here.host, here.found(A, requested))
        assert (here.server.wanted, here.change(A)) == ([A], [requested])
    here.all.remove_host(here.host)
    assert (here.server.wanted, len(here.all._hosts)) == ([], 0)
