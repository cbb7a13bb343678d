"""What goes wrong on the other side, how long things hold, and what servers say of themselves."""

import asyncio
import logging
from typing import Final

import pytest
from mcp.shared.exceptions import MCPError

from aggregator.upstream.lists import lists
from tests.end_to_end.scripted_host import MODERN
from tests.passthrough.conftest import OpenHarness
from tests.passthrough.upstreams import LISTS, listed, local, read
from tests.peers.library import FILE, PROMPTS, RESOURCES, TOOLS, Library
from tests.peers.toolbox import Json
from tests.polling import until

LEGACY: Final = "2025-11-25"


async def never() -> Json:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


async def refused() -> Json:
    raise MCPError(-32000, "not today")


async def unknown() -> Json:
    raise MCPError(-32601, "Method not found")


async def nonsense() -> Json:
    return {"x": 1}


@pytest.mark.parametrize("protocol", ["modern", "legacy"])
async def test_a_list_that_cannot_be_had_costs_itself(
    open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    """Proves: E4. The server is there with everything else, and soon: an error, nonsense, or no answer at all."""
    monkeypatch.setattr(lists, "OTHERS_WAIT", 0.05)
    libraries = {trouble.__name__: Library(trouble.__name__) for trouble in (never, refused, unknown, nonsense)}
    for trouble in (never, refused, unknown, nonsense):
        libraries[trouble.__name__].broken["resources/list"] = trouble
    harness = open_harness(
        {
            name: local(library, protocol=protocol, limits={"connect_timeout": "5s"})
            for name, library in libraries.items()
        }
    )
    async with harness.host("http", MODERN) as host:
        assert len(await host.list()) == 4 * len(TOOLS)
        await until(lambda: len(harness.app.gateway.resources.prompts) == 4 * len(PROMPTS))
        assert await listed(host, "resources/list") == []
        assert len(await listed(host, "resources/templates/list")) == 8
        for name in libraries:
            assert (await read(host, f"file://{name}//notes/a.txt"))["text"] == f"{name}: {FILE}"


async def test_a_list_that_failed_is_tried_again(open_harness: OpenHarness, caplog: pytest.LogCaptureFixture) -> None:
    """Where there was no answer of the server's own; what it had before stays until then."""
    library = Library("box")
    library.broken["prompts/list"] = nonsense
    with caplog.at_level(logging.WARNING):
        harness = open_harness({"box": local(library)})
        async with harness.host("http", MODERN) as host:
            assert await listed(host, "prompts/list") == []
            del library.broken["prompts/list"]
            await until(lambda: len(harness.app.gateway.resources.prompts) == len(PROMPTS))
            library.broken["prompts/list"] = nonsense
            await host.call("box.add", {"kind": "prompt", "name": "more"}).result()
            before = library.asked.count("prompts/list")
            await until(lambda: library.asked.count("prompts/list") > before)
            assert len(await listed(host, "prompts/list")) == len(PROMPTS)
            del library.broken["prompts/list"]
            await until(lambda: len(harness.app.gateway.resources.prompts) == len(PROMPTS) + 1)
    assert any("its prompts could not be listed" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_a_read_that_gets_no_answer(open_harness: OpenHarness, version: str) -> None:
    """Proves: D7. The server is slow, or away: an error that says which, whether to try again, and nothing else."""
    slow = Library("slow")
    slow.broken["resources/read"] = slow.broken["prompts/get"] = never
    harness = open_harness(
        {
            "slow": local(slow, timeout="0.1s"),
            "away": {"command": "/nowhere/at/all"},
            "off": {**local(Library("off")), "enabled": False},
        }
    )
    async with harness.host("http", version) as host:
        for method, params in (
            ("resources/read", {"uri": "file://slow//notes/a.txt"}),
            ("prompts/get", {"name": "slow.greet"}),
        ):
            error = await host.ask(method, params).error()
            assert error["code"] == -32603
            assert (error["data"]["code"], error["data"]["server"]) == ("upstream_timeout", "slow")
            assert error["data"]["retryable"] is True, "a read does no harm"
        for server in ("away", "off"):
            error = await host.ask("resources/read", {"uri": f"file://{server}//x"}).error()
            assert (error["code"], error["data"]["code"]) == (-32603, "upstream_unavailable"), server
            error = await host.ask("prompts/get", {"name": f"{server}__greet"}).error()
            assert (error["code"], error["data"]["code"]) == (-32603, "upstream_unavailable"), server


@pytest.mark.parametrize(
    ("hints", "tells", "expected"),
    [
        ({"ttlMs": 60_000, "cacheScope": "public"}, True, {"ttlMs": 5_000, "cacheScope": "public"}),
        ({"ttlMs": 1_000, "cacheScope": "public"}, True, {"ttlMs": 1_000, "cacheScope": "public"}),
        ({"ttlMs": 0, "cacheScope": "private"}, True, {"ttlMs": 0, "cacheScope": "private"}),
        ({}, True, {"ttlMs": 5_000, "cacheScope": "private"}),
        ({"ttlMs": 0, "cacheScope": "public"}, False, {"ttlMs": 0, "cacheScope": "public"}),
    ],
)
async def test_how_long_a_list_holds(open_harness: OpenHarness, hints: Json, tells: bool, expected: Json) -> None:
    """The least of what the servers say and of what we say; for everybody only where all of them say so."""
    harness = open_harness(
        {"box": local(Library("box", hints=hints, tells=tells))}, http={"names": "canonical", "schemas": "original"}
    )
    async with harness.host("http", MODERN) as host:
        for method in (*LISTS, "tools/list"):
            result = await host.ask(method).result()
            assert {key: result[key] for key in expected} == expected, method
        read = await host.ask("resources/read", {"uri": "file://box//notes/a.txt"}).result()
        own = {"ttlMs": hints.get("ttlMs", 0), "cacheScope": hints.get("cacheScope", "private")}
        assert {key: read[key] for key in own} == own
        assert host.greeting["cacheScope"] == "private"
    async with harness.host("http", LEGACY) as host:
        for method in (*LISTS, "tools/list"):
            assert not expected.keys() & (await host.ask(method).result()).keys()


async def test_two_servers_hold_together_as_long_as_the_shorter(open_harness: OpenHarness) -> None:
    """And are for everybody only when both are; one of the handshake eras never says so."""
    harness = open_harness(
        {
            "one": local(Library("one", hints={"ttlMs": 900, "cacheScope": "public"})),
            "two": local(Library("two", hints={"ttlMs": 2_000, "cacheScope": "public"})),
        },
        http={"names": "canonical"},
    )
    async with harness.host("http", MODERN) as host:
        result = await host.ask("prompts/list").result()
        assert (result["ttlMs"], result["cacheScope"]) == (900, "public")
    harness = open_harness(
        {
            "one": local(Library("one", hints={"ttlMs": 900, "cacheScope": "public"})),
            "two": local(Library("two"), protocol="legacy"),
        },
        http={"names": "canonical"},
    )
    async with harness.host("http", MODERN) as host:
        result = await host.ask("prompts/list").result()
        assert (result["ttlMs"], result["cacheScope"]) == (900, "private")


async def test_lists_that_are_spelled_by_host_are_for_that_host(open_harness: OpenHarness) -> None:
    """Without `names` set: those of tools and prompts, which have names; others are as before."""
    harness = open_harness({"box": local(Library("box", hints={"ttlMs": 900, "cacheScope": "public"}))})
    async with harness.host("http", MODERN) as host:
        scopes = {method: (await host.ask(method).result())["cacheScope"] for method in (*LISTS, "tools/list")}
    assert scopes == {
        "resources/list": "public",
        "resources/templates/list": "public",
        "prompts/list": "private",
        "tools/list": "private",
    }


async def test_a_server_that_tells_nothing_is_looked_at_again(open_harness: OpenHarness) -> None:
    """Once its list no longer holds by its own word, whoever lists gets the old one, and has it read anew."""
    library = Library("box", hints={"ttlMs": 0, "cacheScope": "public"}, tells=False)
    harness = open_harness({"box": local(library)})
    async with harness.host("http", MODERN) as host:
        library.lists["prompts"] = [*library.lists["prompts"], {"name": "quiet"}]

        async def there() -> bool:
            return "box.quiet" in [one["name"] for one in await listed(host, "prompts/list")]

        await until(there)
    assert library.asked.count("prompts/list") < 20


async def test_a_long_list_comes_in_pages(open_harness: OpenHarness) -> None:
    """Of resources and prompts too; the cursors are ours, and one that is not is refused."""
    library = Library("box")
    padding = "x" * 10_000
    library.lists["resources"] = [{"uri": f"a:{at}", "name": "r", "description": padding} for at in range(150)]
    library.lists["prompts"] = [{"name": f"p{at}", "description": padding} for at in range(150)]
    harness = open_harness({"box": local(library)})
    async with harness.host("http", MODERN) as host:
        page = await host.ask("resources/list").result()
        assert len(page["resources"]) < 150
        assert [one["uri"] for one in await listed(host, "resources/list")] == [
            f"mcp://box/a:{at}" for at in range(150)
        ]
        assert [one["name"] for one in await listed(host, "prompts/list")] == [f"box.p{at}" for at in range(150)]
        for cursor in ("nothing", 7):
            assert (await host.ask("resources/list", {"cursor": cursor}).error())["code"] == -32602


async def test_what_servers_say_of_themselves(open_harness: OpenHarness) -> None:
    """In short with the greeting, under their names, where the operator lets them; in full when it is asked for."""
    talker, mute = Library("talker"), Library("mute")
    talker.instructions = "First. " + "Then a good deal more than anybody reads. " * 20 + "The end."
    mute.instructions = "Never heard."
    harness = open_harness(
        {"talker": local(talker, description="Talks a lot"), "mute": local(mute, instructions=False)}, expose="search"
    )
    async with harness.host("http", LEGACY) as host:
        told = host.greeting["instructions"]
        assert "- talker: Talks a lot" in told
        assert "- talker: First. Then a good deal" in told
        assert "The end." not in told
        assert "Never heard." not in told
        assert len(told) < 4_000
        whole = (await host.call("list_servers", {"server": "talker"}).result())["content"][0]["text"]
        assert whole.endswith("The end.")
        assert f"{len(TOOLS)} tools, {len(RESOURCES)} resources, {len(PROMPTS)} prompts" in whole
        assert MODERN in whole
        assert "Never heard." in (await host.call("list_servers", {"server": "mute"}).result())["content"][0]["text"]
        wrong = (await host.call("list_servers", {"server": "nobody"}).result())["content"][0]["text"]
        assert wrong == "There is no server 'nobody'. Servers: talker, mute."
        lines = (await host.call("list_servers").result())["content"][0]["text"].splitlines()
        assert [line.partition(" ")[0] for line in lines] == ["talker", "mute"]


async def test_the_pause_between_two_readings(open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that says at every turn that its list changed is not read at every turn."""
    monkeypatch.setattr(lists, "REFRESH_PAUSE", 60.0)
    library = Library("box")
    harness = open_harness({"box": local(library)})
    async with harness.host("http", MODERN) as host:
        for number in range(5):
            await host.call("box.add", {"kind": "prompt", "name": f"p{number}"}).result()
        await until(lambda: library.asked.count("prompts/list") == 2)
        await listed(host, "prompts/list")
        assert library.asked.count("prompts/list") == 2
