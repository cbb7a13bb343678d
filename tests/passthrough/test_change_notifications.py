"""Changes of lists and of resources, from every kind of upstream to every kind of host that wants to hear of them."""

from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

import pytest

from tests.end_to_end.scripted_host import MODERN
from tests.end_to_end.server_harness import FRONTENDS, ServerHarness
from tests.passthrough.conftest import OpenHarness
from tests.passthrough.upstreams import LISTS, first_update, listed, local, subscribed_to, updates
from tests.peers.library import FILE, Library
from tests.peers.toolbox import Json
from tests.polling import until

VERSIONS: Final = ("2025-11-25", MODERN)
every_era = pytest.mark.parametrize("version", VERSIONS)
ALL: Final = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


def changed(kind: str) -> str:
    return f"notifications/{kind}/list_changed"


@every_era
async def test_only_what_was_asked_for_is_told(open_harness: OpenHarness, version: str) -> None:
    """A 2026-07-28 host hears of the lists it named; every host hears only of lists that are others than before."""
    library = Library("box")
    harness = open_harness({"box": local(library)})
    async with harness.host("sse", version) as host, subscribed_to(host, promptsListChanged=True) as acknowledged:
        assert acknowledged == {"promptsListChanged": True}
        await host.call("box.add", {"kind": "resource", "name": "r"}).result()
        await host.call("box.add", {"kind": "prompt", "name": "p"}).result()
        await host.inbox.named(changed("prompts"))
        heard = {m["method"] for m in host.inbox.messages} - {"notifications/subscriptions/acknowledged"}
        assert heard == ({changed("prompts")} if host.modern else {changed("prompts"), changed("resources")})


# Two on a machine that has nothing else to do.
FEW: Final = 8


async def test_a_storm_is_a_few_words(open_harness: OpenHarness) -> None:
    """A hundred changes of a list at once are read and told a few times at most, however slow the machine is."""
    library = Library("box")
    harness = open_harness({"box": local(library)})
    uri = "file://box//notes/a.txt"
    async with harness.host("sse", MODERN) as host, subscribed_to(host, **ALL, resourceSubscriptions=[uri]):
        before = library.asked.count("prompts/list")

        async def storm() -> None:
            for number in range(100):
                await library.add("prompt", f"p{number}")
                await library.touch(FILE)

        await harness.background.elsewhere(storm())
        last = "box.p99"
        await until(lambda: harness.app.gateway.catalog is not None and last in prompts(harness))
        await first_update(host, uri)
        assert library.asked.count("prompts/list") - before <= FEW
        assert len([m for m in host.inbox.messages if m["method"] == changed("prompts")]) <= FEW
        assert len(updates(host)) <= FEW


def prompts(harness: ServerHarness) -> set[str]:
    return {record.listed["canonical"] for record in harness.app.gateway.resources.prompts.records}


@pytest.mark.parametrize("frontend", FRONTENDS)
@every_era
async def test_who_subscribed_to_what(open_harness: OpenHarness, frontend: str, version: str) -> None:
    """Two hosts, servers with the same URI: each hears of its own, under our URI, until it no longer wants to."""
    harness = open_harness({era: local(Library(era), protocol=era) for era in ("legacy", "modern")})
    upstreams = list(harness.app.upstreams)
    uris = [f"file://{upstream}//notes/a.txt" for upstream in upstreams]
    others = [f"ui://{upstream}/view/main.html" for upstream in upstreams]
    async with (
        harness.host(frontend, version) as one,
        harness.host(frontend, version) as two,
        subscribed_to(one, resourceSubscriptions=uris) as honoured,
        subscribed_to(two, resourceSubscriptions=others),
    ):
        assert honoured == {"resourceSubscriptions": uris}
        for upstream in upstreams:
            for own in (FILE, "ui://view/main.html"):
                await one.call(f"{upstream}.touch", {"uri": own}).result()
        for host, subscribed in ((one, uris), (two, others)):
            for uri in subscribed:
                await first_update(host, uri)
            assert set(updates(host)) == set(subscribed)
        if not one.modern:
            await one.ask("resources/unsubscribe", {"uri": uris[0]}).result()
            host.inbox.messages.clear()
            for _ in range(2):
                await one.call(f"{upstreams[0]}.touch", {"uri": FILE}).result()
                await one.call(f"{upstreams[1]}.touch", {"uri": FILE}).result()
                await first_update(one, uris[1])
            assert uris[0] not in updates(one)[len(uris) :]
    for upstream in upstreams:
        await until(partial(until_unwatched, harness, upstream))


def until_unwatched(harness: ServerHarness, upstream: str) -> bool:
    return watch_of(harness, upstream) == "0 of 0"


def watch_of(harness: ServerHarness, upstream: str) -> str:
    return repr(harness.app.upstreams[upstream].subscriptions).partition(": ")[2].rstrip(">")


async def test_an_upstream_is_asked_once_and_let_go_last(open_harness: OpenHarness) -> None:
    """However many hosts want it, in whatever era; a host that leaves without a word wants nothing any more."""
    library = Library("box")
    harness = open_harness({"box": local(library, protocol="legacy")})
    uri = "file://box//notes/a.txt"
    async with AsyncExitStack() as hosts:
        for frontend, version in (("sse", "2025-11-25"), ("http", MODERN), ("http", "2025-11-25")):
            host = await hosts.enter_async_context(harness.host(frontend, version))
            await hosts.enter_async_context(subscribed_to(host, resourceSubscriptions=[uri]))
            if frontend == "sse":
                assert await host.ask("resources/subscribe", {"uri": uri}).result() == {}
            await host.call("box.touch", {"uri": FILE}).result()
            await first_update(host, uri)
        assert library.event_log == [f"subscribe {FILE}"]
    await until(lambda: library.event_log == [f"subscribe {FILE}", f"unsubscribe {FILE}"])


async def test_a_part_of_a_resource_is_told_to_who_subscribed_to_the_whole(open_harness: OpenHarness) -> None:
    """The URI that was told is the part's (S/server/resources, Subscriptions); a name that begins alike is no part."""
    harness = open_harness({"box": local(Library("box"), protocol="legacy")})
    async with (
        harness.host("sse", "2025-11-25") as host,
        subscribed_to(host, resourceSubscriptions=["file://box//notes/a.txt"]),
    ):
        await host.call("box.touch", {"uri": f"{FILE}/page/1"}).result()
        await first_update(host, "file://box//notes/a.txt/page/1")
        assert len(updates(host)) == 1


@every_era
async def test_hosts_that_normalise_uris(open_harness: OpenHarness, version: str) -> None:
    """The prefix is found in lower case too, and what comes back is spelled as the host spelled it."""
    harness = open_harness({"Box": local(Library("Box"))})
    asked = "file://box//notes/a.txt"
    async with harness.host("sse", version) as host, subscribed_to(host, resourceSubscriptions=[asked]):
        result = await host.ask("resources/read", {"uri": asked}).result()
        assert result["contents"][0]["uri"] == asked
        assert result["contents"][0]["text"] == f"Box: {FILE}"
        await host.call("Box.touch", {"uri": FILE}).result()
        await first_update(host, asked)


async def test_what_cannot_be_subscribed_to(open_harness: OpenHarness) -> None:
    """An error in the handshake eras, left out of what is acknowledged in 2026-07-28."""
    harness = open_harness(
        {
            "box": local(Library("box"), protocol="legacy"),
            "mute": local(Library("mute", tells=False)),
        }
    )
    refused, mute, nobody = "file://box//refused", "file://mute//notes/a.txt", "file://nobody//x"
    async with harness.host("sse", "2025-11-25") as host:
        for uri, code in ((refused, -32602), (mute, -32601), (nobody, -32002)):
            error = await host.ask("resources/subscribe", {"uri": uri}).error()
            assert error["code"] == code, error
        assert await host.ask("resources/unsubscribe", {"uri": nobody}).result() == {}
    async with (
        harness.host("sse", MODERN) as host,
        subscribed_to(host, resourceSubscriptions=[mute, nobody, 7, "file://box//a"], tools=True) as honoured,
    ):
        assert honoured == {"resourceSubscriptions": ["file://box//a"]}
        for method in ("resources/subscribe", "resources/unsubscribe"):
            assert (await host.ask(method, {"uri": "file://box//a"}).error())["code"] == -32601
        assert (await host.ask("subscriptions/listen", {"notifications": []}).error())["code"] == -32602
    await until(lambda: watch_of(harness, "box") == "0 of 0")


async def test_after_a_reconnect_it_is_subscribed_again(open_harness: OpenHarness) -> None:
    """The connection breaks and comes back: who subscribed is told that it may have changed, and hears on.

    Proves: C11
    """
    libraries = {era: Library(era) for era in ("legacy", "modern")}
    harness = open_harness({era: local(library, protocol=era) for era, library in libraries.items()})
    uris = [f"file://{era}//notes/a.txt" for era in libraries]
    async with (
        harness.host("sse", "2025-11-25") as one,
        harness.host("http", MODERN) as two,
        subscribed_to(one, resourceSubscriptions=uris),
        subscribed_to(two, resourceSubscriptions=uris),
    ):

        async def break_off() -> None:
            for upstream in harness.app.upstreams.values():
                assert upstream.shared.session is not None
                connection: Any = upstream.shared.session.connection
                connection.end("a test wants it")

        await harness.background.elsewhere(break_off())
        for host in (one, two):
            for uri in uris:
                await first_update(host, uri)
            host.inbox.messages.clear()
        for era, uri in zip(libraries, uris, strict=True):
            await one.call(f"{era}.touch", {"uri": FILE}).result()
            await first_update(one, uri)
            await first_update(two, uri)
        assert libraries["legacy"].event_log == [f"subscribe {FILE}"] * 2
    assert [upstream.reconnects for upstream in harness.app.upstreams.values()] == [1, 1]


async def test_a_stream_ends_gracefully(open_harness: OpenHarness) -> None:
    """When we stop: the listen is answered, under its own id, after what it was to hear."""
    harness = open_harness({"box": local(Library("box"))})
    async with harness.host("stdio", MODERN) as host:
        listening = host.ask("subscriptions/listen", {"notifications": ALL})
        await host.inbox.named("notifications/subscriptions/acknowledged")

        async def close() -> None:
            harness.app.gateway.list_changes.close()

        await harness.background.elsewhere(close())
        result: Json = await listening.result()
        assert result["_meta"]["io.modelcontextprotocol/subscriptionId"] == listening.id
        assert result["resultType"] == "complete"


async def test_a_silent_host_is_notified_of_nothing(open_harness: OpenHarness) -> None:
    """Neither what it did not subscribe to, nor in 2026-07-28 what it did not listen for."""
    library = Library("box")
    harness = open_harness({"box": local(library)})
    wanted = {"resourcesListChanged": True, "resourceSubscriptions": ["file://box//notes/a.txt"]}
    async with (
        harness.host("sse", MODERN) as silent,
        harness.host("sse", MODERN) as other,
        subscribed_to(other, **wanted),
    ):
        await other.call("box.touch", {"uri": FILE}).result()
        await first_update(other, "file://box//notes/a.txt")
        await other.call("box.add", {"kind": "resource", "name": "r"}).result()
        await other.inbox.named(changed("resources"))
        await listed(silent, next(iter(LISTS)))
        assert silent.inbox.messages == []
