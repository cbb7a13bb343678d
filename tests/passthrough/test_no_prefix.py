"""A server without a prefix: its names and URIs as they are, and nobody else's taken for them."""

import logging
from pathlib import Path

import pytest

from tests.access.gateway_harness import GatewayHarness, make_config, tool
from tests.end_to_end.scripted_host import MODERN
from tests.passthrough.conftest import OpenHarness
from tests.passthrough.upstreams import first_update, listed, local, read, subscribed_to
from tests.peers.library import FILE, LINKS, PROMPTS, RESOURCES, TEMPLATES, TOOLS, Library

VERSIONS = ("2025-11-25", MODERN)


@pytest.mark.parametrize("frontend", ["http", "stdio"])
@pytest.mark.parametrize("version", VERSIONS)
async def test_alone_everything_is_as_it_came(open_harness: OpenHarness, frontend: str, version: str) -> None:
    """Every list, call, read, prompt and change under the server's own names, at every frontend."""
    harness = open_harness({"only": local(Library("only"), prefix="")})
    async with harness.host(frontend, version) as host, subscribed_to(host, resourceSubscriptions=[FILE]):
        tools = await host.list()
        if frontend == "http":
            assert tools == TOOLS
            assert await listed(host, "prompts/list") == PROMPTS
        assert [one["name"] for one in tools] == [one["name"] for one in TOOLS]
        assert await listed(host, "resources/list") == RESOURCES
        assert await listed(host, "resources/templates/list") == TEMPLATES
        assert (await host.call("links").result())["content"] == LINKS
        for uri in (FILE, "https://example.com/page", "urn:isbn:1", "demo://item/9", "https://example.com/docs/a"):
            assert (await read(host, uri))["uri"] == uri
        got = await host.ask("prompts/get", {"name": "embed", "arguments": {"uri": "a:b"}}).result()
        assert got["messages"][0]["content"]["resource"]["uri"] == "a:b"
        assert (await host.ask("prompts/get", {"name": "a.b"}).result())["messages"]
        ref = {"ref": {"type": "ref/resource", "uri": "demo://item/{id}"}, "argument": {"name": "id", "value": "p"}}
        assert "demo://item/{id}" in (await host.ask("completion/complete", ref).result())["completion"]["values"]
        await host.call("touch", {"uri": FILE}).result()
        await first_update(host, FILE)
        assert (await host.call("nothing").error())["code"] == -32602
        assert "only" in (await host.call("list_servers").result())["content"][0]["text"]


async def test_beside_others_what_reads_as_theirs_is_left_out(
    open_harness: OpenHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """Names and URIs that could be another server's, and those of our own tools, are left out with a warning."""
    main, side = Library("main"), Library("side")
    main.lists["tools"] = [tool(name) for name in ("plain", "side.x", "side_x", "side__x", "list_servers", "sidecar")]
    main.lists["resources"] = [{"uri": uri, "name": "r"} for uri in (FILE, "file://side/x", "https://example.com/page")]
    main.lists["prompts"] = [{"name": "side.greet"}, {"name": "hello"}]
    with caplog.at_level(logging.WARNING):
        harness = open_harness({"side": local(side), "main": local(main, prefix="")})
    async with harness.host("http", MODERN) as host:
        names = [one["name"] for one in await host.list()]
        assert names == [*(f"side.{one['name']}" for one in TOOLS), "plain", "sidecar"]
        uris = [one["uri"] for one in await listed(host, "resources/list")]
        assert FILE in uris
        assert "file://side/x" not in uris
        assert (await read(host, FILE))["text"] == f"main: {FILE}"
        assert (await read(host, f"file://side/{FILE.removeprefix('file://')}"))["text"] == f"side: {FILE}"
        assert (await read(host, "https://example.com/page"))["text"].startswith("side:"), "the first in config order"
        prompts = [one["name"] for one in await listed(host, "prompts/list")]
        assert prompts[-1] == "hello"
        assert prompts.count("side.greet") == 1
        assert "side (ready" in (await host.call("list_servers").result())["content"][0]["text"], "it is ours"
    warned = [record.getMessage() for record in caplog.records if "without a prefix" in record.getMessage()]
    assert len(warned) == 6
    assert any("'list_servers'" in line and "tool of the aggregator" in line for line in warned)


@pytest.mark.parametrize(("fields", "own"), [({}, "off"), ({"prefix": "p"}, "p"), ({"prefix": ""}, None)])
async def test_a_disabled_server_is_known_by_its_prefix(
    open_harness: OpenHarness, fields: dict[str, str], own: str | None
) -> None:
    """What is asked of it is answered with its state; without a prefix every unknown name would seem to be its own."""
    harness = open_harness({"on": local(Library("on")), "off": local(Library("off"), enabled=False, **fields)})
    async with harness.host("http", MODERN) as host:
        for prefix in ("off", "p", None):
            dot, slash = (f"{prefix}.", f"{prefix}/") if prefix is not None else ("", "")
            answers = [
                await host.ask("tools/call", {"name": f"{dot}links"}).message(),
                await host.ask("prompts/get", {"name": f"{dot}a.b"}).message(),
                await host.ask("resources/read", {"uri": f"file://{slash}/none.txt"}).message(),
            ]
            told = ["off is disabled" in str(answer) for answer in answers]
            assert told == [prefix is not None and prefix == own] * 3, answers


async def test_policies_know_it_by_its_id(tmp_path: Path) -> None:
    """A pattern needs a server's name; one without a prefix goes by its id."""
    harness = GatewayHarness(
        make_config(tmp_path, {"only": {"command": "played", "prefix": ""}}),
        {"only": [tool("get"), tool("wipe")]},
        {"agents": {"one": {"allow": ["only.get", "resource:only.file:*"]}}},
    )
    host = harness.host("one")
    assert [one["name"] for one in await harness.listed(host)] == ["get"]
    assert "result" in await harness.call(host, "get")
    assert (await harness.call(host, "wipe"))["result"]["_meta"]["aggregator/error"]["code"] == "tool_not_allowed"
