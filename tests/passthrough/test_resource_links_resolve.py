"""A link in a result leads back to the server that said it, although others have the same URI."""

from typing import Any, Final

import pytest

from tests.access.gateway_harness import LEGACY, MODERN
from tests.end_to_end.scripted_host import ScriptedHost
from tests.passthrough.conftest import OpenHarness
from tests.passthrough.upstreams import listed, local, read
from tests.peers.library import PAGE, Library
from tests.peers.toolbox import Json

# `data://config` is how FastMCP's own examples name a resource. The third is listed by nobody, and fits a template.
URIS: Final = ("data://config", PAGE, "https://example.com/docs/7", "file:///notes/a.txt", "demo://item/7")
FREE: Final = "https://elsewhere.example/x"


def linking(name: str, **more: Any) -> Library:
    """A library whose tool and prompt name all of these."""
    library = Library(name)
    library.lists["resources"] += [{"uri": "data://config", "name": "config"}]
    blocks: list[Json] = [{"type": "resource_link", "uri": uri, "name": "r"} for uri in (*URIS, FREE)]
    blocks += [{"type": "resource", "resource": {"uri": uri, "text": "t"}} for uri in URIS]

    async def called() -> Json:
        return {"content": blocks}

    async def prompted() -> Json:
        return {"messages": [{"role": "user", "content": block} for block in blocks]}

    library.broken.update({"tools/call": called, "prompts/get": prompted})
    return library


async def named(host: ScriptedHost, server: str) -> list[str]:
    """The URIs in what a server's tool and prompt say."""
    result = await host.call(f"{server}.links").result()
    prompt = await host.ask("prompts/get", {"name": f"{server}.greet", "arguments": {"who": "x"}}).result()
    blocks = [*result["content"], *(message["content"] for message in prompt["messages"])]
    return [block["uri"] if "uri" in block else block["resource"]["uri"] for block in blocks]


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_links_lead_back(open_harness: OpenHarness, version: str) -> None:
    """From tools and prompts, of what is listed, what fits a template and what is embedded."""
    harness = open_harness({name: local(linking(name)) for name in ("first", "second")})
    async with harness.host("http", version) as host:
        uris = [one["uri"] for one in await listed(host, "resources/list")]
        assert {"data://first/config", "data://second/config"} < set(uris)
        assert len(uris) == len(set(uris))
        for server in ("first", "second"):
            found = await named(host, server)
            assert len(found) == 2 * (2 * len(URIS) + 1)
            assert found.count(FREE) == 2, "nobody has that: the host may fetch it"
            for uri in set(found) - {FREE}:
                assert (await read(host, uri))["text"].startswith(f"{server}: "), uri
        assert PAGE in await named(host, "first"), "it is the first's, and stays as it is"


async def test_beside_a_server_without_a_prefix(open_harness: OpenHarness) -> None:
    """What nobody lists goes to that one, so that links of others say whose they are."""
    harness = open_harness({"main": local(linking("main"), prefix=""), "side": local(linking("side"))})
    async with harness.host("http", MODERN) as host:
        found = await named(host, "side")
        assert f"mcp://side/{FREE}" in found
        assert FREE not in found
        result = await host.call("links").result()
        assert [block["uri"] for block in result["content"][: len(URIS) + 1]] == [*URIS, FREE]


async def test_very_many_links_are_not_held_against_every_template(
    open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is too much to tell whose a link would be, it says so itself."""
    monkeypatch.setattr("aggregator.gateway.agent_items._LOOKS", 0)
    harness = open_harness({name: local(linking(name)) for name in ("first", "second")})
    async with harness.host("http", MODERN) as host:
        found = await named(host, "second")
        assert f"mcp://second/{FREE}" in found


async def test_what_nobody_names_is_not_sent_to_whoever_takes_anything(open_harness: OpenHarness) -> None:
    """An unlisted `https:` URI reaches a server with a template for any only if that server is trusted."""
    greedy, trusted = Library("greedy"), Library("trusted")
    for library in (greedy, trusted):
        library.lists["resourceTemplates"] = [{"uriTemplate": "https://{+url}", "name": "any"}]
        library.lists["resources"] = [{"uri": FREE, "name": "free"}] if library is trusted else []
    harness = open_harness({"greedy": local(greedy)})
    async with harness.host("http", MODERN) as host:
        missing = await host.ask("resources/read", {"uri": FREE}).error()
        assert missing["data"] == {"uri": FREE}
        assert greedy.read == []
        await host.ask("resources/read", {"uri": f"mcp://greedy/{FREE}"}).error()
        assert [params["uri"] for params in greedy.read] == [FREE], "whoever names it means it"
    other = open_harness({"greedy": local(Library("greedy")), "trusted": local(trusted, trusted=True)})
    async with other.host("http", MODERN) as host:
        trusted.lists["resources"] += [{"uri": "https://any.example/1", "name": "not listed yet"}]
        assert (await read(host, "https://any.example/1"))["text"].startswith("trusted: ")
