"""Skills of several servers, as hosts of each era and frontend get them."""

import base64
import sys
from typing import Any, Final

import pytest

from tests.end_to_end.scripted_host import LEGACY, MODERN, ScriptedHost
from tests.end_to_end.server_harness import FRONTENDS, ROOT
from tests.peers.library import http_app
from tests.peers.serving import BackgroundLoop, serving
from tests.peers.toolbox import Json
from tests.skills.conftest import OpenHarness
from tests.skills.handshake_server import TEXT
from tests.skills.skill_server import EXTENSION, FORMS, LOGO, SkillServer, git_workflow, local, skill_md

COMBINATIONS: Final = [
    (frontend, version)
    for frontend in FRONTENDS
    for version in (LEGACY[-1], MODERN)
    if (frontend, version) != ("sse", MODERN)
]
GIT: Final = "skill://docs/git-workflow"


def two_servers() -> tuple[SkillServer, SkillServer]:
    """Two servers with a skill of the same URI, the second without directories."""
    docs, wiki = SkillServer("docs"), SkillServer("wiki", directories=False)
    docs.add_skill("git-workflow", git_workflow("docs"))
    docs.add_skill("acme/refunds", {"SKILL.md": skill_md("refunds", "Refund what was paid")})
    docs.add_skill("reports/daily", {"SKILL.md": skill_md("daily", "Report of today")}, dynamic=True)
    wiki.add_skill("git-workflow", git_workflow("the wiki"))
    return docs, wiki


async def listed(host: ScriptedHost) -> dict[str, Json]:
    """Every entry, by its URI."""
    found: list[Json] = []
    params: Json = {}
    while True:
        page = await host.ask("skills/list", params).result()
        found += page["skills"]
        if "nextCursor" not in page:
            break
        params = {"cursor": page["nextCursor"]}
    assert len({one["uri"] for one in found}) == len(found)
    return {one["uri"]: one for one in found}


async def content(host: ScriptedHost, uri: str) -> str | bytes:
    """What is read under a URI."""
    (one,) = (await host.ask("resources/read", {"uri": uri}).result())["contents"]
    assert one["uri"] == uri
    return one["text"] if "text" in one else base64.b64decode(one["blob"])


@pytest.mark.parametrize(("frontend", "version"), COMBINATIONS)
async def test_skills_of_two_servers_with_one_uri_are_two_skills(
    open_harness: OpenHarness, frontend: str, version: str
) -> None:
    """Proves: F41, F42"""
    docs, wiki = two_servers()
    harness = open_harness({"docs": local(docs), "wiki": local(wiki)})
    async with harness.host(frontend, version) as host:
        assert host.greeting["capabilities"]["extensions"] == {EXTENSION: {"directoryRead": True}}
        found = await listed(host)
        assert list(found) == [
            f"{GIT}/SKILL.md",
            "skill://docs/acme/refunds/SKILL.md",
            "skill://docs/reports/daily/SKILL.md",
            "skill://wiki/git-workflow/SKILL.md",
        ]
        for server, prefix in ((docs, "docs"), (wiki, "wiki")):
            own = server.skills[0]
            entry = found[f"skill://{prefix}/git-workflow/SKILL.md"]
            assert entry["frontmatter"] == own["frontmatter"]
            assert entry["resources"] == [
                {**one, "uri": one["uri"].replace("skill://", f"skill://{prefix}/")} for one in own["resources"]
            ]
            for file in entry["resources"]:
                own_uri = file["uri"].replace(f"{prefix}/", "", 1)
                assert await content(host, file["uri"]) == server.files[own_uri]
            got = await host.ask("skills/get", {"uri": entry["uri"]}).result()
            assert got["skill"] == entry
            assert ("ttlMs" in got) == ("cacheScope" in got) == host.modern
        assert found["skill://docs/reports/daily/SKILL.md"]["resources"] == "dynamic"
        assert await content(host, f"{GIT}/assets/logo.bin") == LOGO
        page = await host.ask("skills/list").result()
        assert ("ttlMs" in page) == ("cacheScope" in page) == ("resultType" in page) == host.modern


@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
async def test_a_server_over_http(open_harness: OpenHarness, version: str) -> None:
    docs = two_servers()[0]
    with BackgroundLoop() as background:
        harness = open_harness({"docs": {"url": f"{background.open(serving(http_app(docs)))}/mcp"}})
        async with harness.host("http", version) as host:
            assert len(await listed(host)) == 3
            assert await content(host, f"{GIT}/references/FORMS.md") == FORMS
            got = await host.ask("skills/get", {"uri": f"{GIT}/SKILL.md"}).result()
            assert got["skill"]["frontmatter"]["name"] == "git-workflow"
            read = await host.ask("resources/directory/read", {"uri": GIT}).result()
            assert [one["name"] for one in read["resources"]] == ["SKILL.md", "references", "assets"]


@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
async def test_a_server_of_a_handshake_era_that_declares_the_extension(open_harness: OpenHarness, version: str) -> None:
    """Over pipes, in a process of its own."""
    program = {"command": sys.executable, "args": ["-m", "tests.skills.handshake_server"], "cwd": str(ROOT)}
    harness = open_harness({"old": program})
    async with harness.host("http", version) as host:
        uri = "skill://old/old/SKILL.md"
        assert list(await listed(host)) == [uri]
        assert (await host.ask("skills/get", {"uri": uri}).result())["skill"]["uri"] == uri
        assert await content(host, uri) == TEXT
        inside = await host.ask("resources/directory/read", {"uri": "skill://old/old"}).result()
        assert inside["resources"] == [{"uri": uri, "name": "SKILL.md", "mimeType": "text/markdown"}]


async def test_a_server_that_declares_nothing_is_not_asked(open_harness: OpenHarness) -> None:
    docs = two_servers()[0]
    docs.declares = False
    harness = open_harness({"docs": local(docs)})
    async with harness.host("http", MODERN) as host:
        assert await listed(host) == {}
        error = await host.ask("skills/get", {"uri": f"{GIT}/SKILL.md"}).error()
        assert error["code"] == -32602
        assert await content(host, f"{GIT}/SKILL.md") == docs.files["skill://git-workflow/SKILL.md"]
    assert ("skills/list", None) not in docs.requests


@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
@pytest.mark.parametrize(
    "uri",
    [
        "skill://docs/nothing/SKILL.md",
        "skill://nowhere/git-workflow/SKILL.md",
        f"{GIT}/references/FORMS.md",
        "file://docs//notes/a.txt",
        "skill://docs",
        "x",
    ],
)
async def test_what_is_no_skill_is_told_with_32602(open_harness: OpenHarness, version: str, uri: str) -> None:
    docs, wiki = two_servers()
    harness = open_harness({"docs": local(docs), "wiki": local(wiki)})
    async with harness.host("http", version) as host:
        error = await host.ask("skills/get", {"uri": uri}).error()
        assert (error["code"], error["data"]["uri"]) == (-32602, uri)


async def test_a_uri_without_a_server_means_the_only_skill_that_has_it(open_harness: OpenHarness) -> None:
    """A skill of one server never answers for another's."""
    docs, wiki = two_servers()
    harness = open_harness({"docs": local(docs), "wiki": local(wiki)})
    async with harness.host("http", MODERN) as host:
        got = await host.ask("skills/get", {"uri": "skill://acme/refunds/SKILL.md"}).result()
        assert got["skill"]["uri"] == "skill://docs/acme/refunds/SKILL.md"
        assert await content(host, "skill://acme/refunds/SKILL.md") == docs.files["skill://acme/refunds/SKILL.md"]
        for method in ("skills/get", "resources/read"):
            error = await host.ask(method, {"uri": "skill://git-workflow/SKILL.md"}).error()
            assert error["code"] == -32602


@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
async def test_directories_of_a_server_that_has_them_and_of_one_that_has_not(
    open_harness: OpenHarness, version: str
) -> None:
    """The aggregator declares `directoryRead`, so it answers for every skill that has a manifest."""
    docs, wiki = two_servers()
    wiki.add_skill("daily", {"SKILL.md": skill_md("daily", "x")}, dynamic=True)
    harness = open_harness({"docs": local(docs), "wiki": local(wiki)})

    async def directory(host: ScriptedHost, uri: str) -> list[tuple[str, str, Any]]:
        result = await host.ask("resources/directory/read", {"uri": uri}).result()
        assert ("resultType" in result) == host.modern
        return [(one["uri"], one["name"], one.get("mimeType")) for one in result["resources"]]

    async with harness.host("http", version) as host:
        for prefix, kind in (("docs", None), ("wiki", "text/markdown")):
            root = f"skill://{prefix}/git-workflow"
            assert await directory(host, root) == [
                (f"{root}/SKILL.md", "SKILL.md", kind),
                (f"{root}/references", "references", "inode/directory"),
                (f"{root}/assets", "assets", "inode/directory"),
            ]
            assert await directory(host, f"{root}/references/") == [
                (f"{root}/references/FORMS.md", "FORMS.md", kind),
            ]
            for wrong in (f"{root}/SKILL.md", f"{root}/nothing", f"skill://{prefix}", "skill://no/x", f"{root}/../x"):
                error = await host.ask("resources/directory/read", {"uri": wrong}).error()
                assert (error["code"], error["data"]["uri"]) == (-32602, wrong)
        error = await host.ask("resources/directory/read", {"uri": "skill://wiki/daily"}).error()
        assert error["code"] == -32602
    assert "resources/directory/read" not in {method for method, _ in wiki.requests}


async def test_a_long_directory_comes_in_pages_of_ours(open_harness: OpenHarness) -> None:
    docs = SkillServer()
    files: dict[str, str | bytes] = {"SKILL.md": skill_md("big", "x"), **{f"f{n:02}.md": "x" for n in range(99)}}
    docs.add_skill("big", files)
    harness = open_harness({"docs": local(docs)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aggregator.skills.reads._SHOWN", 40)
        async with harness.host("http", MODERN) as host:
            names: list[str] = []
            params: Json = {"uri": "skill://docs/big"}
            while True:
                result = await host.ask("resources/directory/read", params).result()
                names += [one["name"] for one in result["resources"]]
                if "nextCursor" not in result:
                    break
                params = {**params, "cursor": result["nextCursor"]}
            assert names == list(files)
            for cursor in ("2", 2):
                error = await host.ask("resources/directory/read", {**params, "cursor": cursor}).error()
                assert error["code"] == -32602


async def test_a_skill_in_no_list_is_got_by_its_uri_and_its_files_are_compared(open_harness: OpenHarness) -> None:
    docs = SkillServer()
    docs.add_skill("hidden/gem", {"SKILL.md": skill_md("gem", "Rare"), "a.md": "text"}, listed=False)
    harness = open_harness({"docs": local(docs)})
    async with harness.host("http", MODERN) as host:
        assert await listed(host) == {}
        got = await host.ask("skills/get", {"uri": "skill://docs/hidden/gem/SKILL.md"}).result()
        assert got["skill"]["uri"] == "skill://docs/hidden/gem/SKILL.md"
        assert await content(host, "skill://docs/hidden/gem/a.md") == "text"
        docs.files["skill://hidden/gem/a.md"] = "evil"
        error = await host.ask("resources/read", {"uri": "skill://docs/hidden/gem/a.md"}).error()
        assert error["data"]["code"] == "skill_mismatch"


async def test_hosts_hear_of_changed_skills_and_get_the_new_ones(open_harness: OpenHarness) -> None:
    """A change of skills is a change of resources."""
    docs = two_servers()[0]
    harness = open_harness({"docs": local(docs)})
    async with harness.host("http", MODERN) as host:
        listening = host.ask("subscriptions/listen", {"notifications": {"resourcesListChanged": True}})
        await host.inbox.named("notifications/subscriptions/acknowledged")
        before = await listed(host)
        docs.add_skill("new", {"SKILL.md": skill_md("new", "Just made")})
        await harness.background.elsewhere(docs.changed())
        await host.inbox.named("notifications/resources/list_changed")
        assert (await listed(host)).keys() - before.keys() == {"skill://docs/new/SKILL.md"}
        await host.wire.cancel(listening)


async def test_what_a_server_changed_without_a_word_is_seen_by_who_gets_it(open_harness: OpenHarness) -> None:
    docs = two_servers()[0]
    docs.tells = False
    harness = open_harness({"docs": local(docs, on_change="warn")})
    async with harness.host("http", MODERN) as host:
        before = (await listed(host))[f"{GIT}/SKILL.md"]
        docs.skills = docs.skills[1:]
        docs.add_skill("git-workflow", {"SKILL.md": skill_md("git-workflow", "Other words")})
        got = await host.ask("skills/get", {"uri": f"{GIT}/SKILL.md"}).result()
        assert got["skill"]["frontmatter"]["description"] == "Other words"
        assert got["skill"] != before
        assert (await listed(host))[f"{GIT}/SKILL.md"] == got["skill"]


async def test_reads_and_gets_leave_a_row_each(open_harness: OpenHarness) -> None:
    docs = two_servers()[0]
    harness = open_harness({"docs": local(docs)})
    async with harness.host("http", MODERN) as host:
        for method, uri in (
            ("skills/get", f"{GIT}/SKILL.md"),
            ("resources/directory/read", GIT),
            ("resources/read", f"{GIT}/SKILL.md"),
        ):
            await host.ask(method, {"uri": uri}).result()
    rows = await harness.rows(3)
    assert [(row["server_id"], row["tool_name"], row["status"]) for row in rows] == [
        ("docs", "skills/get", "ok"),
        ("docs", "resources/directory/read", "ok"),
        ("docs", "resources/read", "ok"),
    ]


@pytest.mark.parametrize("second", ["none", "skills", "disabled", "away"])
@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
async def test_skills_are_declared_if_a_server_has_some_or_may_have(
    open_harness: OpenHarness, version: str, second: str
) -> None:
    """A server that was not reached yet may have skills; one that is switched off, or declares none, has none."""
    plain = SkillServer("plain")
    plain.declares = False
    servers = {"plain": local(plain)}
    if second in ("skills", "disabled"):
        servers["docs"] = {**local(two_servers()[0]), "enabled": second == "skills"}
    elif second == "away":
        servers["docs"] = {"command": sys.executable, "args": ["-c", "exit"]}
    harness = open_harness(servers)
    async with harness.host("http", version) as host:
        declared = host.greeting["capabilities"].get("extensions")
        assert declared == ({EXTENSION: {"directoryRead": True}} if second in ("skills", "away") else None)
        assert await listed(host) == {} or second == "skills"
