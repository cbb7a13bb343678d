"""Policies over skills, through the gateway: what is listed can be read, and what is denied is in no answer."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.end_to_end.scripted_host import LEGACY, MODERN, ScriptedHost
from tests.peers.toolbox import Json
from tests.skills.conftest import OpenHarness
from tests.skills.skill_server import SkillServer, local, skill_md

SECRET: Final = "TOP SECRET"


def server() -> SkillServer:
    docs = SkillServer()
    for path in ("public", "acme/refunds", "acme/secret"):
        name = path.rpartition("/")[2]
        said = SECRET if name == "secret" else f"About {name}"
        docs.add_skill(path, {"SKILL.md": skill_md(name, said), "notes/a.md": f"{said} a"})
    docs.add_skill("hidden/secret", {"SKILL.md": skill_md("secret", SECRET), "a.md": SECRET}, listed=False)
    return docs


def spellings(uri: str) -> Iterator[str]:
    """Spellings of a URI that some server may take for the same."""
    scheme, _, rest = uri.partition("://")
    docs, _, own = rest.partition("/")
    yield uri
    yield f"mcp://{docs}/{scheme}://{own}"
    yield f"{scheme}://{own}"
    yield uri.replace("secret", "%73ecret")
    yield uri.replace("secret", "%2573ecret")
    yield uri.replace("/secret", "//secret")
    yield uri.replace("/secret", "/./secret")
    yield uri.replace("/secret", "/x/../secret")
    yield uri.replace("/secret", "%2Fsecret")
    yield uri.replace("skill://docs", "skill://DOCS")
    yield uri.replace("skill://", "SKILL://")
    yield f"{uri}?x"
    yield f"{uri}#x"


async def names(host: ScriptedHost) -> list[str]:
    return [one["uri"] for one in (await host.ask("skills/list").result())["skills"]]


@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
@pytest.mark.parametrize(
    "denial", ["skill:docs.*/secret", "skill:docs.acme/secret", "resource:docs.skill://*/secret/*"]
)
async def test_a_denied_skill_is_in_no_list_and_no_read_in_any_spelling(
    open_harness: OpenHarness, version: str, denial: str
) -> None:
    """Proves: F44"""
    docs = server()
    policy = f"agents:\n  local:\n    denials: hidden\n    allow: ['server:docs']\n    deny: ['{denial}']\n"
    harness = open_harness({"docs": local(docs)}, policy)
    async with harness.host("stdio", version) as host:
        assert await names(host) == ["skill://docs/public/SKILL.md", "skill://docs/acme/refunds/SKILL.md"]
        for uri in spellings("skill://docs/acme/secret/SKILL.md"):
            for method in ("skills/get", "resources/read"):
                message = await host.ask(method, {"uri": uri}).message()
                assert "error" in message, (method, uri)
                assert SECRET not in str(message)
        for uri in (*spellings("skill://docs/acme/secret"), *spellings("skill://docs/acme/secret/notes")):
            assert "error" in await host.ask("resources/directory/read", {"uri": uri}).message(), uri
        for uri in spellings("skill://docs/acme/secret/notes/a.md"):
            assert "error" in await host.ask("resources/read", {"uri": uri}).message(), uri
        inside = await host.ask("resources/directory/read", {"uri": "skill://docs/acme"}).result()
        assert [one["name"] for one in inside["resources"]] == ["refunds"]
    assert not [uri for method, uri in docs.requests if "acme/secret" in str(uri) and method != "skills/list"]


@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
async def test_an_allowed_skill_can_be_listed_got_and_read_and_nothing_else(
    open_harness: OpenHarness, version: str
) -> None:
    docs = server()
    policy = "agents:\n  local:\n    allow: ['skill:docs.acme/refunds', 'skill:docs.hidden/*']\n"
    harness = open_harness({"docs": local(docs)}, policy)
    async with harness.host("stdio", version) as host:
        (uri,) = await names(host)
        assert uri == "skill://docs/acme/refunds/SKILL.md"
        entry = (await host.ask("skills/get", {"uri": uri}).result())["skill"]
        for file in entry["resources"]:
            assert "contents" in await host.ask("resources/read", {"uri": file["uri"]}).result()
        # It is in no list, and allowed by its name.
        await host.ask("skills/get", {"uri": "skill://docs/hidden/secret/SKILL.md"}).result()
        assert "contents" in await host.ask("resources/read", {"uri": "skill://docs/hidden/secret/a.md"}).result()
        for other in ("skill://docs/public/SKILL.md", "skill://docs/acme/secret/SKILL.md", "file://docs//notes/a.txt"):
            error = await host.ask("resources/read", {"uri": other}).error()
            assert error["data"]["code"] == "not_allowed"
        assert (await host.ask("resources/list").result())["resources"] == []


async def test_a_confirmed_skill_is_asked_about_when_a_file_of_it_is_read(open_harness: OpenHarness) -> None:
    docs = server()
    policy = "agents:\n  local:\n    allow: ['server:docs']\n    confirm: ['skill:docs.acme/*']\n"
    harness = open_harness({"docs": local(docs)}, policy)
    async with harness.host("stdio", MODERN, capabilities={"elicitation": {"form": {}}}) as host:
        assert len(await names(host)) == 3
        await host.ask("skills/get", {"uri": "skill://docs/acme/refunds/SKILL.md"}).result()
        for path in ("SKILL.md", "notes/a.md"):
            params: Json = {"uri": f"skill://docs/acme/refunds/{path}"}
            asked = await host.ask("resources/read", params).result()
            assert asked["resultType"] == "input_required"
            (key,) = asked["inputRequests"]
            answers = {key: {"action": "accept", "content": {"allow": True}}}
            params |= {"inputResponses": answers, "requestState": asked["requestState"]}
            result = await host.ask("resources/read", params).result()
            assert "About refunds" in result["contents"][0]["text"]
        assert "contents" in await host.ask("resources/read", {"uri": "skill://docs/public/SKILL.md"}).result()


async def test_two_agents_see_their_own_skills(open_harness: OpenHarness) -> None:
    docs = server()
    policy = """
agents:
  ann: {allow: ['skill:docs.public']}
  bob: {allow: ['skill:*'], deny: ['skill:docs.public']}
"""
    harness = open_harness({"docs": local(docs)}, policy)
    async with harness.host("stdio", MODERN, agent="ann") as ann, harness.host("stdio", MODERN, agent="bob") as bob:
        assert await names(ann) == ["skill://docs/public/SKILL.md"]
        assert await names(bob) == ["skill://docs/acme/refunds/SKILL.md", "skill://docs/acme/secret/SKILL.md"]
        page = await ann.ask("skills/list").result()
        assert page["cacheScope"] == "private"
