"""Hosts that refuse dots in names, recognised by their client info, get `server__tool` on every frontend."""

import re
from pathlib import Path
from typing import Final

import pytest

from aggregator.gateway.dotless_hosts import refuses_dots
from tests.end_to_end import scripted_host
from tests.end_to_end.conftest import OpenHarness
from tests.end_to_end.scripted_host import MODERN, VERSIONS, ScriptedHost
from tests.end_to_end.server_harness import ServerHarness, local_entry
from tests.peers.toolbox import Json

REFUSING: Final = [
    "semantic-kernel", "Semantic Kernel", "SemanticKernel", "claude-ai", "Anthropic/ClaudeAI", "Anthropic",
    "Cursor", "cursor-vscode", "Cursor 2.1", "copilot", "github-copilot-developer", "GitHubCopilot",
    "JetBrains-IU-copilot-intellij", "Xcode-copilot-xcode", "openai-mcp", "ChatGPT", "mcporter",
]  # fmt: skip
TAKING: Final = [
    "journey", "claude-code", "Visual Studio Code", "codex-mcp-client", "Codex", "precursors", "mcp", "Zed", "goose",
    "",
]  # fmt: skip


@pytest.fixture
def call_itself(monkeypatch: pytest.MonkeyPatch) -> "ClientInfoRewriter":
    return ClientInfoRewriter(monkeypatch)


class ClientInfoRewriter:
    """A setter of the client name that the next host or 2026-07-28 request sends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def __call__(self, name: object) -> None:
        self._patch.setitem(scripted_host.CLIENT_INFO, "name", name)


def separators(names: list[Json]) -> set[str]:
    """Return the separators in the exposed names of two tools."""
    return {found[1] for one in names if (found := re.fullmatch(r"local_modern(\.|__)(echo|hold)", one["name"]))}


@pytest.mark.parametrize("name", REFUSING)
def test_who_refuses_dots(name: str) -> None:
    assert refuses_dots({"name": name})


@pytest.mark.parametrize("name", [*TAKING, None, 5, ["cursor"], {"name": "cursor"}, "x" * 200 + "copilot"])
def test_who_is_not_known_to(name: object) -> None:
    assert not refuses_dots({"name": name})


def test_the_page_names_them() -> None:
    page = (Path(__file__).parents[2] / "docs" / "hosts-and-servers.md").read_text(encoding="utf-8")
    table = page.partition("\n## What hosts accept\n")[2].partition("| host |")[2].partition("\n\n")[0]
    rows = [row.split("|") for row in table.splitlines() if row.startswith("| ") and row.endswith(" |")]
    named = [name for row in rows[1:] for name in re.findall(r"`([^`]+)`", row[3])]
    assert len(named) > 6
    assert [name for name in named if not refuses_dots({"name": name})] == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("frontend", ["http", "sse"])
async def test_names_are_spelled_as_the_host_takes_them(
    harness: ServerHarness, call_itself: ClientInfoRewriter, frontend: str, version: str
) -> None:
    """F2: tools, prompts, and the names that an error suggests; calls accept every spelling all the same."""
    for name, separator in (("cursor-vscode", "__"), ("journey", ".")):
        call_itself(name)
        async with harness.host(frontend, version) as host:
            assert separators(await host.list()) == {separator}
            error = await host.call("local_modern.ecko").error()
            assert f"local_modern{separator}echo" in error["data"]["nearest"]
            for spelled in ("local_modern.echo", "local_modern__echo"):
                assert "isError" not in await host.call(spelled).result()


async def test_what_a_host_is_called_changes_no_list(harness: ServerHarness, call_itself: ClientInfoRewriter) -> None:
    """F2: it is told of no change because its names are spelled otherwise, though it has not listed anything yet."""
    call_itself("claude-ai")

    async def tell() -> None:
        harness.app.gateway.list_changes._notify()

    async with harness.host("sse", VERSIONS[1]) as host:
        # Its greeting is over once it is answered.
        await host.ask("ping").result()
        await harness.background.elsewhere(tell())
        await host.ask("ping").result()
        assert [one for one in host.inbox.messages if "list_changed" in one.get("method", "")] == []


@pytest.mark.parametrize("names", ["canonical", "compatible"])
@pytest.mark.parametrize("version", VERSIONS)
async def test_what_is_configured_wins(
    open_harness: OpenHarness, call_itself: ClientInfoRewriter, names: str, version: str
) -> None:
    """F2: for the frontend, whatever a host calls itself."""
    harness = open_harness({"local_modern": local_entry()}, http={"names": names}, sse={"names": names})
    for name in ("claude-ai", "journey"):
        call_itself(name)
        for frontend in ("http", "sse"):
            async with harness.host(frontend, version) as host:
                assert separators(await host.list()) == {"." if names == "canonical" else "__"}


async def test_kept_lists_do_not_mix_spellings(open_harness: OpenHarness, call_itself: ClientInfoRewriter) -> None:
    """F2: hosts of 2026-07-28 that take turns, page by page; and nobody on the way keeps one's list for another."""
    harness = open_harness({"local_modern": local_entry()})
    async with harness.host("http", MODERN) as host:
        for _ in range(2):
            for name, separator in (("GitHubCopilot", "__"), ("journey", "."), ("", ".")):
                call_itself(name)
                result = await host.ask("tools/list").result()
                assert separators(result["tools"]) == {separator}
                assert result["cacheScope"] == "private"
        call_itself(None)
        assert separators(await host.list()) == {"."}
    # Definitions differ by host too, unless the dialect is set.
    harness = open_harness({"local_modern": local_entry()}, http={"names": "canonical", "schemas": "original"})
    async with harness.host("http", MODERN) as host:
        assert (await host.ask("tools/list").result())["cacheScope"] == await _scope_of_resources(host)


async def _scope_of_resources(host: ScriptedHost) -> str:
    scope: str = (await host.ask("resources/list").result())["cacheScope"]
    return scope


@pytest.mark.parametrize("name", ["claude-ai", "journey"])
async def test_stdio_lists_what_every_host_takes(
    harness: ServerHarness, call_itself: ClientInfoRewriter, name: str
) -> None:
    """F2: as before, unless it is configured."""
    call_itself(name)
    async with harness.host("stdio", MODERN) as host:
        assert separators(await host.list()) == {"__"}
