"""What tools are called: as listed, as called, and when there is no such tool."""

import re

import pytest

from tests.end_to_end.conftest import OpenHarness
from tests.end_to_end.scripted_host import MODERN, VERSIONS
from tests.end_to_end.server_harness import FRONTENDS, ServerHarness, local_entry
from tests.peers.toolbox import DEFINITIONS

COMPATIBLE = re.compile(r"[A-Za-z0-9_-]{1,47}")


@pytest.mark.parametrize("frontend", FRONTENDS)
@pytest.mark.parametrize("name", ["sse.echo", "sse__echo", "sse/echo", "sse:echo"])
async def test_calls_accept_every_spelling(harness: ServerHarness, frontend: str, name: str) -> None:
    """F2: `a.b`, `a__b`, `a/b` and `a:b` mean the same tool at every frontend; the upstream hears its own name."""
    async with harness.host(frontend, MODERN) as host:
        result = await host.call(name).result()
    assert result["structuredContent"]["received"]["name"] == "echo"


@pytest.mark.parametrize("name", ["local_modern.deep.nested", "local_modern__deep.nested", "local_modern/deep.nested"])
async def test_a_dot_in_the_tools_own_name_is_no_separator(harness: ServerHarness, name: str) -> None:
    """B5, F2: the first separator counts, through a map."""
    async with harness.host("http", MODERN) as host:
        result = await host.call(name).result()
    assert result["structuredContent"]["received"]["name"] == "deep.nested"


async def test_the_stdio_frontend_lists_names_every_host_takes(harness: ServerHarness) -> None:
    """F2: `server__tool` in the narrow alphabet, short enough for a host's prefix; each of them callable as listed."""
    async with harness.host("stdio", "2025-11-25") as host:
        names = [tool["name"] for tool in await host.list()]
        assert "sse__echo" in names
        assert all(COMPATIBLE.fullmatch(name) for name in names)
        assert len({name.replace(".", "_") for name in names}) == len(names)
        (dotted,) = (name for name in names if name.startswith("sse__deep"))
        result = await host.call(dotted).result()
    assert result["structuredContent"]["received"]["name"] == "deep.nested"


@pytest.mark.parametrize("frontend", ["http", "sse"])
async def test_a_web_frontend_told_to_lists_compatible_names(open_harness: OpenHarness, frontend: str) -> None:
    """F2: `names: compatible`, per frontend, and a name cut to the limit stays one tool's own and can be called."""
    long = "a-server-with-quite-a-long-name-for-a-server"
    harness = open_harness({long: local_entry()}, **{frontend: {"names": "compatible"}})
    async with harness.host(frontend, MODERN) as host:
        names = [tool["name"] for tool in await host.list()]
        assert len(set(names)) == len(names)
        assert all(COMPATIBLE.fullmatch(name) for name in names)
        for name in names:
            if name not in (f"{long}__echo", f"{long}__deep.nested"):
                continue
            assert (await host.call(name).result())["content"]
        result = await host.call(f"{long}.echo").result()
    assert result["structuredContent"]["received"]["name"] == "echo"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("frontend", FRONTENDS)
async def test_a_miss_names_what_was_meant(harness: ServerHarness, frontend: str, version: str) -> None:
    """F2: unknown tool: -32602, and the nearest names as this frontend lists them, in the text and for machines."""
    async with harness.host(frontend, version) as host:
        error = await host.call("sse.ecko").error()
        own_name = await host.call("picture").error()
    assert error["code"] == -32602
    separator = "__" if frontend == "stdio" else "."
    assert f"sse{separator}echo" in error["message"]
    assert f"sse{separator}echo" in error["data"]["nearest"]
    assert own_name["data"]["nearest"]
    assert all(name.endswith(f"{separator}picture") for name in own_name["data"]["nearest"])


async def test_no_two_names_become_one_when_dots_are_read_as_underscores(open_harness: OpenHarness) -> None:
    """F2: `a` beside `a_deep`: Claude Code, Codex and VS Code read `.` as `_`, and no tool may vanish."""
    harness = open_harness({"a": local_entry(), "a_deep": local_entry(), "x": local_entry(prefix="a_b")})
    async with harness.host("http", MODERN) as host:
        tools = await host.list()
        names = [tool["name"] for tool in tools]
        assert len({name.replace(".", "_") for name in names}) == len(names) == 3 * len(DEFINITIONS)
        for name in names:
            if name.endswith(("echo", "nested")):
                await host.call(name).result()


@pytest.mark.parametrize("frontend", FRONTENDS)
async def test_calls_that_are_none(harness: ServerHarness, frontend: str) -> None:
    """C13: a missing name, and arguments that are no object, are refused with words."""
    async with harness.host(frontend, "2025-11-25") as host:
        nameless = await host.ask("tools/call", {"arguments": {}}).error()
        listed = await host.ask("tools/call", {"name": "sse.echo", "arguments": [1]}).error()
        unknown = await host.ask("no/such/method").error()
    assert (nameless["code"], listed["code"], unknown["code"]) == (-32602, -32602, -32601)
    assert "name" in nameless["message"]
    assert "arguments" in listed["message"]
