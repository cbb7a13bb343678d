"""Skills for models whose hosts do not know them: found, described and read by the meta tools."""

import json
from typing import Final

import pytest

from aggregator.catalog.search import index
from aggregator.catalog.search.document import Document, document
from aggregator.domain.records import ToolRecord
from tests.end_to_end.scripted_host import LEGACY, MODERN, ScriptedHost
from tests.peers.toolbox import Json
from tests.skills.conftest import OpenHarness
from tests.skills.skill_server import FORMS, SkillServer, git_workflow, local, skill_md

GIT: Final = "skill:docs.git-workflow"
SEARCH: Final[Json] = {"expose": "search"}


def two_servers() -> tuple[SkillServer, SkillServer]:
    docs, wiki = SkillServer("docs"), SkillServer("wiki")
    docs.add_skill("git-workflow", git_workflow("the docs"))
    docs.add_skill("acme/refunds", {"SKILL.md": skill_md("refunds", "Refund customers what they paid"), "a b.md": "x"})
    docs.add_skill("daily", {"SKILL.md": skill_md("daily", "Report of today")}, dynamic=True)
    docs.files["skill://daily/data.md"] = "fresh"
    wiki.add_skill("git-workflow", git_workflow("the wiki"))
    return docs, wiki


async def said(host: ScriptedHost, tool: str, **arguments: object) -> str:
    result = await host.call(tool, arguments).result()
    assert "isError" not in result, result
    (block,) = result["content"]
    text: str = block["text"]
    return text


@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
async def test_a_model_finds_and_reads_a_skill(open_harness: OpenHarness, version: str) -> None:
    """Proves: F45"""
    docs, wiki = two_servers()
    harness = open_harness({"docs": local(docs), "wiki": local(wiki)}, **SEARCH)
    async with harness.host("http", version) as host:
        found = await said(host, "search_tools", query="git conventions")
        assert f"{GIT}: Follow the Git conventions of the docs" in found
        assert "skill:wiki.git-workflow: Follow the Git conventions of the wiki" in found
        assert "refunds" not in found
        assert "call_tool" in found
        result = await host.call("call_tool", {"name": GIT}).result()
        tag, text = result["content"]
        assert tag["text"].startswith("[SKILL.md of skill:docs.git-workflow, written by server docs,")
        assert text == {"type": "text", "text": docs.files["skill://git-workflow/SKILL.md"]}
        for arguments in ({"arguments": {"file": "references/FORMS.md"}}, {"file": "./references/FORMS.md"}):
            result = await host.call("call_tool", {"name": GIT, **arguments}).result()
            assert result["content"][1]["text"] == FORMS
        logo = await host.call("call_tool", {"name": GIT, "arguments": {"file": "assets/logo.bin"}}).result()
        assert logo["content"][1]["resource"]["uri"] == "skill://docs/git-workflow/assets/logo.bin"
        result = await host.call("call_tool", {"name": "skill:wiki.git-workflow"}).result()
        assert "the wiki" in result["content"][1]["text"]
    rows = [row for row in await harness.rows(6) if row["tool_name"] == "resources/read"]
    assert {(row["server_id"], row["status"]) for row in rows} == {("docs", "ok"), ("wiki", "ok")}
    assert len(rows) == 5


async def test_a_skill_is_described_and_counted(open_harness: OpenHarness) -> None:
    docs, wiki = two_servers()
    harness = open_harness({"docs": local(docs), "wiki": local(wiki)}, **SEARCH)
    async with harness.host("http", MODERN) as host:
        body = json.loads(await said(host, "describe_tools", names=[GIT, "docs.search", "skill:docs.nothing"]))
        (skill,) = body["skills"]
        assert skill["frontmatter"] == docs.skills[0]["frontmatter"]
        sizes = [file["size"] for file in docs.skills[0]["resources"]]
        assert skill["files"] == dict(zip(git_workflow(), sizes, strict=True))
        assert [tool["name"] for tool in body["tools"]] == ["docs.search"]
        assert "skill:docs.nothing" in body["missing"]
        lines = await said(host, "describe_tools", names=[GIT], level=1)
        assert lines == f"{GIT}: Follow the Git conventions of the docs"
        servers = await said(host, "list_servers")
        assert "docs (ready, local, 1 tool, 1 resource, 3 prompts, 3 skills)" in servers
        assert "wiki (ready, local, 1 tool, 1 resource, 3 prompts, 1 skill)" in servers


async def test_a_search_without_words_lists_skills_and_one_for_something_else_none(open_harness: OpenHarness) -> None:
    docs, wiki = two_servers()
    harness = open_harness({"docs": local(docs), "wiki": local(wiki)}, **SEARCH)
    async with harness.host("http", MODERN) as host:
        every = await said(host, "search_tools")
        assert every.count("skill:") == 4
        mine = await said(host, "search_tools", server="wiki")
        assert mine.count("skill:") == 1
        assert "skill:" not in await said(host, "search_tools", query="weather in Paris tomorrow")
        body = json.loads(await said(host, "search_tools", query="search wiki pages", level=3))
        assert body["tools"][0]["name"].endswith(".search")
        only = await said(host, "search_tools", query="refund customers")
        assert "skill:docs.acme/refunds" in only


async def test_skills_alone_do_not_hide_that_tools_could_not_be_searched(
    open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: F5. The tool that the model needs may be one of those."""

    def broken(tool: ToolRecord, text: str) -> Document:
        if not tool.name.startswith("skill:"):
            raise RuntimeError("a fault of ours")
        return document(tool, text)

    monkeypatch.setattr(index, "document", broken)
    docs, wiki = two_servers()
    harness = open_harness({"docs": local(docs), "wiki": local(wiki)}, **SEARCH)
    async with harness.host("http", MODERN) as host:
        found = await said(host, "search_tools", query="refund customers")
        assert "skill:docs.acme/refunds" in found
        # "yet" until each server was tried, then "now".
        assert "cannot be found by words" in found


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"name": GIT, "arguments": {"file": "../x"}}, "has no file '../x'"),
        ({"name": GIT, "arguments": {"file": "nothing.md"}}, "It has SKILL.md, references/FORMS.md"),
        ({"name": GIT, "arguments": {"file": 7}}, "takes `file` alone"),
        ({"name": GIT, "arguments": {"path": "x"}}, "takes `file` alone"),
        ({"name": "skill:docs.daily", "arguments": {"file": "../git-workflow/SKILL.md"}}, "is no file"),
        ({"name": "skill:docs.daily", "arguments": {"file": "%2e%2e/x"}}, "is no file"),
        ({"name": "skill:docs.daily", "arguments": {"file": "file:///etc/passwd"}}, "is no file"),
        ({"name": "skill:docs.daily", "arguments": {"file": "/etc"}}, "is no file"),
        ({"name": "skill:docs.daily", "arguments": {"file": "nothing"}}, "not found"),
        ({"name": "skill:docs.refunds"}, "Did you mean skill:docs.acme/refunds?"),
        ({"name": "skill:x"}, "Find names with search_tools."),
    ],
)
async def test_what_is_wrong_is_told_to_the_model(open_harness: OpenHarness, arguments: Json, told: str) -> None:
    docs, wiki = two_servers()
    harness = open_harness({"docs": local(docs), "wiki": local(wiki)}, **SEARCH)
    async with harness.host("http", MODERN) as host:
        result = await host.call("call_tool", arguments).result()
        assert result["isError"] is True
        assert told in result["content"][0]["text"]
    assert ("resources/read", "skill://git-workflow/SKILL.md") not in docs.requests


async def test_names_as_their_files_have_them_or_as_people_write_them(open_harness: OpenHarness) -> None:
    docs = SkillServer()
    docs.add_skill("odd", {"SKILL.md": skill_md("odd", "Odd"), "my%20notes.md": "mine", "your notes.md": "yours"})
    docs.add_skill("daily", {"SKILL.md": skill_md("daily", "x"), "data.md": "fresh"}, dynamic=True)
    harness = open_harness({"docs": local(docs)}, **SEARCH)
    async with harness.host("http", MODERN) as host:
        for file in ("my%20notes.md", "my notes.md"):
            result = await host.call("call_tool", {"name": "skill:docs.odd", "file": file}).result()
            assert result["content"][1]["text"] == "mine"
        result = await host.call("call_tool", {"name": "skill:docs.odd", "file": "your notes.md"}).result()
        assert result["content"][1]["text"] == "yours"
        result = await host.call("call_tool", {"name": "skill:docs.daily", "file": "data.md"}).result()
        assert result["content"][1]["text"] == "fresh"


async def test_a_mismatch_is_an_error_without_the_bytes(open_harness: OpenHarness) -> None:
    docs, wiki = two_servers()
    docs.files["skill://git-workflow/SKILL.md"] = "EVIL"
    harness = open_harness({"docs": local(docs), "wiki": local(wiki)}, **SEARCH)
    async with harness.host("http", MODERN) as host:
        result = await host.call("call_tool", {"name": GIT}).result()
        assert result["isError"] is True
        assert result["_meta"]["aggregator/error"]["code"] == "skill_mismatch"
        assert "EVIL" not in str(result)


@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
async def test_denied_skills_are_neither_found_nor_described_nor_read(open_harness: OpenHarness, version: str) -> None:
    """Proves: F44"""
    docs, wiki = two_servers()
    policy = "agents:\n  local:\n    allow: ['server:docs', 'server:wiki']\n    deny: ['skill:docs.git-workflow']\n"
    harness = open_harness({"docs": local(docs), "wiki": local(wiki)}, policy, **SEARCH)
    async with harness.host("stdio", version) as host:
        for query in ("git conventions of the docs", "git-workflow", GIT, ""):
            assert GIT not in await said(host, "search_tools", query=query)
        assert "skill:wiki.git-workflow" in await said(host, "search_tools", query="git conventions")
        body = json.loads(await said(host, "describe_tools", names=[GIT]))
        assert "skills" not in body
        result = await host.call("call_tool", {"name": GIT}).result()
        assert result["_meta"]["aggregator/error"]["code"] == "unknown_tool"
        assert "3 skills" not in await said(host, "list_servers")
    assert ("resources/read", "skill://git-workflow/SKILL.md") not in docs.requests


async def test_a_person_is_asked_on_the_way(open_harness: OpenHarness) -> None:
    docs, wiki = two_servers()
    policy = "agents:\n  local:\n    allow: ['server:*']\n    confirm: ['skill:docs.git-workflow']\n"
    harness = open_harness({"docs": local(docs), "wiki": local(wiki)}, policy, **SEARCH)
    async with harness.host("stdio", MODERN, capabilities={"elicitation": {"form": {}}}) as host:
        params: Json = {"name": "call_tool", "arguments": {"name": GIT}}
        asked = await host.ask("tools/call", params).result()
        (key,) = asked["inputRequests"]
        answers = {key: {"action": "accept", "content": {"allow": True}}}
        params |= {"inputResponses": answers, "requestState": asked["requestState"]}
        result = await host.ask("tools/call", params).result()
        assert "Git conventions" in result["content"][1]["text"]


async def test_a_large_file_is_shown_in_part_and_read_on(open_harness: OpenHarness) -> None:
    docs = SkillServer()
    docs.add_skill("long", {"SKILL.md": skill_md("long", "Long"), "big.md": "word " * 50_000})
    harness = open_harness({"docs": local(docs)}, results={"max_tokens": 2_000}, **SEARCH)
    async with harness.host("http", MODERN) as host:
        result = await host.call("call_tool", {"name": "skill:docs.long", "file": "big.md"}).result()
        assert len(str(result)) < 20_000
        assert "read_result" in str(result)


async def test_names_of_skills_are_no_tools_for_a_host(open_harness: OpenHarness) -> None:
    docs, wiki = two_servers()
    harness = open_harness({"docs": local(docs), "wiki": local(wiki)}, **SEARCH)
    async with harness.host("http", MODERN) as host:
        assert (await host.call(GIT).error())["code"] == -32602
