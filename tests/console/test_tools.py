"""Tools at the console: what agents and models are shown of them, why a search finds them, who may call them."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.console.console_harness import ConsoleHarness, post
from tests.end_to_end.scripted_host import LEGACY
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.polling import until
from tests.tool_lists import of_servers

HTTP: Final = ("http", LEGACY[-1])
SEND: Final = tool(
    "send_offer",
    {"to": {"type": "string", "description": "The address."}, "amount": {"type": "integer", "default": 3}},
    description="Sends an offer to a customer by e-mail. It costs nothing.",
)
CRM: Final = [
    SEND,
    tool("find_customer", {"name": {"type": "string"}}, description="Finds a customer."),
    tool("json", description="A name that ends like the address of data."),
    tool("delete_all", description="Deletes every contract."),
]
POLICY: Final = {
    "agents": {
        "clerk": {
            "allow": ["crm.*"],
            "deny": ["crm.delete_*"],
            "confirm": ["crm.send_offer"],
            "arguments": {"crm.send_offer": {"properties": {"amount": {"maximum": 50}}}},
        },
        "reader": {"allow": ["crm.find_*"]},
    }
}


@pytest.fixture(scope="module")
def crm(background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> ConsoleHarness:
    """A gateway with a CRM."""
    servers = {"crm": RecordingToolbox(CRM, {}).config_entry(description="Customers and contracts")}
    return ConsoleHarness(background, tmp_path_factory.mktemp("crm"), servers, POLICY)


async def data(own: ConsoleHarness, path: str, **query: Any) -> Json:
    """Return the JSON of a page, for a viewer."""
    async with own.signed_in("viewer") as viewer:
        answer = await viewer.get(f"/console{path}.json", params=query)
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found


def text_of(result: Json) -> str:
    said: str = result["content"][0]["text"]
    return said


async def test_the_list_is_what_the_agent_is_listed(crm: ConsoleHarness) -> None:
    """Proves: E5"""
    async with crm.connect_as(HTTP, "clerk") as host:
        listed = of_servers(one["name"] for one in await host.list())
    found = await data(crm, "/tools", **{"as": "clerk"})
    assert [one["name"] for one in found["tools"]] == listed
    assert found["cost"]["tools"] == len(listed)
    assert len((await data(crm, "/tools"))["tools"]) == len(CRM), "without an agent, all there is"


@pytest.mark.parametrize("query", ["mail to a client", "custmer", "send offer", "客户", "delete"])
async def test_a_search_finds_what_search_tools_finds_and_says_why(crm: ConsoleHarness, query: str) -> None:
    """Proves: E5"""
    async with crm.connect_as(HTTP, "clerk") as host:
        lines = text_of(await host.call("search_tools", {"query": query, "limit": 100}).result())
    found = await data(crm, "/tools", q=query, **{"as": "clerk"})
    names = [line.partition(":")[0] for line in lines.splitlines() if line.startswith("crm.")]
    # `search_tools` ends its list with the tools that fit.
    assert [one["name"] for one in found["tools"]][: len(names)] == names
    assert bool(found["tools"]) is bool(names)
    assert all(one["why"] or one["spelling"] for one in found["tools"])


async def test_the_reasons_name_words_and_fields(crm: ConsoleHarness) -> None:
    found = await data(crm, "/tools", q="mail to a client", **{"as": "clerk"})
    best = found["tools"][0]
    assert best["name"] == "crm.send_offer"
    told = {(one["asked"], one["match"]): one for one in best["why"]}
    assert told["mail", "word"]["fields"] == ["first sentence"]
    assert "own name" in told["mail", "meaning"]["fields"]
    assert "send" in told["mail", "meaning"]["found"]


@pytest.mark.parametrize("level", [1, 2, 3])
async def test_each_level_is_the_text_that_the_model_gets(crm: ConsoleHarness, level: int) -> None:
    """Proves: E5"""
    async with crm.connect_as(HTTP, "clerk") as host:
        asked = {"names": ["crm.send_offer"], "level": level}
        said = text_of(await host.call("describe_tools", asked).result())
    found = await data(crm, "/tools/crm.send_offer", **{"as": "clerk"})
    shown = next(one for one in found["levels"] if one["level"] == level)
    assert shown["text"] == said if level == 1 else json.loads(shown["text"]) in json.loads(said)["tools"]
    assert shown["tokens"] > 0
    assert ("maximum" in shown["text"]) == (level == 3), "the limit of the policy is in the schema of this agent"


async def test_who_may_call_it(crm: ConsoleHarness) -> None:
    found = await data(crm, "/tools/crm.send_offer")
    (clerk,) = found["may"]
    assert (clerk["agent"], clerk["verdict"]) == ("clerk", "confirm")
    assert (found["may_count"], found["agent_count"]) == (1, 2)
    async with crm.signed_in("viewer") as viewer:
        unseen = await viewer.get("/console/tools/crm.send_offer?as=reader")
        assert unseen.status_code == 404
        assert "reader does not see crm.send_offer" in unseen.text
        assert (await viewer.get("/console/tools?as=nobody")).status_code == 400
        near = await viewer.get("/console/tools/crm.find_custome")
        assert "crm.find_customer" in near.text


async def test_a_name_that_ends_in_json_has_a_page(crm: ConsoleHarness) -> None:
    row = next(one for one in (await data(crm, "/tools"))["tools"] if one["name"] == "crm.json")
    async with crm.signed_in("viewer") as viewer:
        page = await viewer.get(f"/console{row['href']}")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert (await data(crm, "/tools/crm.json"))["own_name"] == "json"


async def test_the_tools_of_the_aggregator_itself_have_a_page(crm: ConsoleHarness) -> None:
    assert json.loads((await data(crm, "/tools/search_tools"))["listed"])["name"] == "search_tools"
    async with crm.signed_in("operator") as maria:
        assert "A tool of the aggregator itself" in (await maria.get("/console/tools/search_tools")).text
        given = {"as": "reader", "arguments": '{"query": "customer"}'}
        found = await post(maria, "/console/tools/search_tools/try", **given)
        assert "crm.find_customer" in found.text
        assert "crm.send_offer" not in found.text


async def test_an_agent_has_its_roles_its_cost_and_its_refusals(crm: ConsoleHarness) -> None:
    async with crm.connect_as(HTTP, "reader") as host:
        await host.call("crm.find_customer").result()
        assert (await host.call("crm.send_offer").result())["isError"]

    async def recorded() -> bool:
        return bool((await data(crm, "/agents/reader"))["refusals"])

    await until(recorded)
    found = await data(crm, "/agents/reader")
    assert [one["tool"] for one in found["refusals"]] == ["crm.send_offer"]
    assert {one["status"] for one in found["calls"]} == {"ok", "denied"}
    assert found["cost"]["tools"] == 1
    assert {one["name"] for one in (await data(crm, "/agents"))["agents"]} == {"clerk", "reader"}
    async with crm.signed_in("viewer") as viewer:
        assert (await viewer.get("/console/agents/reader")).status_code == 200
        assert (await viewer.get("/console/agents/nobody")).status_code == 404


# -- definitions over time


async def test_two_definitions_are_compared(background: BackgroundLoop, tmp_path: Path) -> None:
    """Proves: E5"""
    box = RecordingToolbox([SEND], {})
    own = ConsoleHarness(background, tmp_path, {"crm": box.config_entry()}, POLICY)

    async def versions(count: int) -> bool:
        return len((await data(own, "/tools/crm.send_offer/versions"))["versions"]) == count

    await until(lambda: versions(1))
    later = {**SEND, "description": SEND["description"].replace("e-mail", "e-mail and a copy to me")}
    later["inputSchema"] = {"type": "object", "properties": {**SEND["inputSchema"]["properties"], "bcc": {}}}
    box.definitions[:] = [later]
    await own.background.elsewhere(_restart(own))
    await until(lambda: versions(2))
    found = await data(own, "/tools/crm.send_offer/versions")
    added = [text for one in found["description"] if one["kind"] == "added" for text in one["texts"]]
    assert "".join(added) == " e-mail and a copy to me."
    assert any('"bcc"' in text for one in found["lines"] if one["kind"] == "added" for text in one["texts"])
    async with own.signed_in("viewer") as viewer:
        page = await viewer.get("/console/tools/crm.send_offer/versions")
        assert "<ins>" in page.text
        assert (await viewer.get("/console/tools/crm.send_offer/versions?a=0")).status_code == 400
        assert (await viewer.get("/console/tools/crm.nothing/versions")).status_code == 404


async def _restart(own: ConsoleHarness) -> None:
    own.app.servers.restart_server("crm", "maria")


# -- hostile and large catalogs

_DEEP: dict[str, Any] = {"type": "string"}
for _ in range(40):
    _DEEP = {"type": "object", "properties": {"<b>in</b>": _DEEP}}
HOSTILE: Final = [
    tool("deep", {"x": _DEEP}, description="<script>alert(1)</script>\u202e"),
    tool("long", {"a": {"enum": ["<i>" * 60] * 90}}, description="<img src=x onerror=alert(1)>" * 100_000),
    tool("wide", {f"p{n}<b>": {"type": "string", "description": "<u>" * 50} for n in range(2_000)}),
    tool("<b>bold</b>", description="A name of markup."),
    tool("odd", {"<script>": {"type": "string", "default": '"><script>'}, "r": {"$ref": "#/properties/r"}}),
]
_MARKUP: Final = re.compile(r"<(script>alert|img src=x|i><i>|u><u>|b>in|b>bold)")


async def test_hostile_definitions_are_bounded_and_inert(background: BackgroundLoop, tmp_path: Path) -> None:
    box = RecordingToolbox(HOSTILE, {})
    own = ConsoleHarness(background, tmp_path, {"evil": box.config_entry()}, {"agents": {"clerk": {"allow": ["*"]}}})
    async with own.signed_in() as maria:
        for path in ("/console/tools", "/console/tools?level=3&as=clerk", "/console/tools?q=markup+%3Cb%3E"):
            page = await maria.get(path)
            assert page.status_code == 200
            assert not _MARKUP.search(page.text)
            assert len(page.content) < 60_000
        rows = (await data(own, "/tools"))["tools"]
        assert len(rows) >= 3, "some are left out of the catalog itself"
        for row in rows:
            for path in (row["href"], f"{row['href'].rstrip('/')}/versions"):
                page = await maria.get(f"/console{path}")
                assert page.status_code == 200, path
                assert not _MARKUP.search(page.text)
                assert len(page.content) < 400_000


async def test_three_thousand_tools_are_shown_in_small_pages(background: BackgroundLoop, tmp_path: Path) -> None:
    """Proves: E5"""
    said = "Does this and that for people who want it done well, with as many words as tools usually have."
    box = RecordingToolbox(
        [tool(f"read_{n}", {"name": {"type": "string"}}, description=said) for n in range(3_000)], {}
    )
    own = ConsoleHarness(background, tmp_path, {"many": box.config_entry()}, {"agents": {"clerk": {"allow": ["*"]}}})
    async with own.signed_in("viewer") as viewer:
        for query in ("", "?page=60", "?as=clerk&level=3", "?q=read+name+well&level=3&as=clerk", "?q=read_17"):
            page = await viewer.get(f"/console/tools{query}", headers={"accept-encoding": "identity"})
            assert page.status_code == 200
            assert len(page.content) < 60_000, query
    found = await data(own, "/tools", page=60)
    assert (found["total"], found["pages"], len(found["tools"])) == (3_000, 60, 50)
