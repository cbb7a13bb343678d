"""Flow rules over skills: entries, files and directories bring labels, and are refused after what was read."""

from typing import Final

import pytest

from tests.end_to_end.scripted_host import LEGACY, MODERN, ScriptedHost
from tests.flow.flow_harness import outcome_of
from tests.kept_results.conftest import handle_of
from tests.peers.toolbox import Json
from tests.skills.conftest import OpenHarness
from tests.skills.skill_server import SkillServer, local, skill_md

ROOT: Final = "skill://docs/acme/refunds"
WAYS: Final[dict[str, tuple[str, Json]]] = {
    "get": ("skills/get", {"uri": f"{ROOT}/SKILL.md"}),
    "file": ("resources/read", {"uri": f"{ROOT}/notes/a.md"}),
    "directory": ("resources/directory/read", {"uri": ROOT}),
    "call": ("tools/call", {"name": "call_tool", "arguments": {"name": "skill:docs.acme/refunds"}}),
}
POLICY: Final = """
labels: {untrusted: ['%s'], outward: ['%s']}
flow: [{after: untrusted, calls: outward, then: deny}]
agents: {local: {allow: ['server:docs', 'server:other'], expose: all}}
"""
OTHER: Final = "skill://other/free/SKILL.md"


def docs() -> SkillServer:
    served = SkillServer()
    served.add_skill("acme/refunds", {"SKILL.md": skill_md("refunds", "About refunds"), "notes/a.md": "a"})
    return served


def other() -> SkillServer:
    served = SkillServer()
    served.add_skill("free", {"SKILL.md": skill_md("free", "Free")})
    return served


async def outcome(host: ScriptedHost, method: str, params: Json) -> str:
    return outcome_of(await host.ask(method, params).message())


@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("pattern", ["skill:docs.acme/*", "server:docs"])
async def test_what_is_read_of_a_skill_brings_its_labels(
    open_harness: OpenHarness, version: str, way: str, pattern: str
) -> None:
    harness = open_harness({"docs": local(docs()), "other": local(other())}, POLICY % (pattern, "server:other"))
    async with harness.host("stdio", version) as host:
        assert await outcome(host, "resources/read", {"uri": OTHER}) == "ok"
        assert await outcome(host, *WAYS[way]) == "ok"
        assert await outcome(host, "resources/read", {"uri": OTHER}) == "flow_denied"


@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
@pytest.mark.parametrize("pattern", ["skill:docs.acme/*", "server:docs", "resource:docs.*"])
async def test_a_skill_is_refused_after_what_was_read(open_harness: OpenHarness, version: str, pattern: str) -> None:
    harness = open_harness({"docs": local(docs()), "other": local(other())}, POLICY % ("server:other", pattern))
    async with harness.host("stdio", version) as host:
        for way in WAYS.values():
            assert await outcome(host, *way) == "ok"
        assert await outcome(host, "skills/get", {"uri": OTHER}) == "ok"
        for way in WAYS.values():
            assert await outcome(host, *way) == "flow_denied", way


async def test_a_kept_file_of_a_skill_has_its_labels(open_harness: OpenHarness) -> None:
    """Another conversation that reads on in it has read it."""
    served = docs()
    served.add_skill("acme/long", {"SKILL.md": skill_md("long", "About much. " * 20_000)})
    harness = open_harness({"docs": local(served), "other": local(other())}, POLICY % ("skill:docs.*", "server:other"))
    async with harness.host("http", LEGACY[-1]) as reader, harness.host("http", LEGACY[-1]) as second:
        await second.list()
        arguments: Json = {"name": "skill:docs.acme/long"}
        shown = await reader.call("call_tool", arguments).result()
        await outcome(reader, "resources/read", {"uri": f"{ROOT}/notes/a.md"})
        assert await outcome(second, "resources/read", {"uri": OTHER}) == "ok"
        read = {"name": "read_result", "arguments": {"handle": handle_of(shown)}}
        assert await outcome(second, "tools/call", read) == "ok"
        assert await outcome(second, "resources/read", {"uri": OTHER}) == "flow_denied"
