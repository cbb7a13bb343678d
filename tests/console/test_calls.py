"""The pages on calls: the list, its counts and searches, one call in full."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx2
import pytest
import pytest_asyncio

from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.console.console_harness import POLICIES, SHOP, ConsoleHarness
from tests.end_to_end.scripted_host import MODERN
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET: Final = "sk-live-0123456789abcdefghijklmn"
CONVERSATION: Final = "aggregator/conversation_id"


class Calls(ConsoleHarness):
    """A gateway that keeps what was called."""

    def __init__(self, background: BackgroundLoop, folder: Any) -> None:
        servers = {"shop": RecordingToolbox(SHOP).config_entry(), **spare()}
        policies = {"agents": {**POLICIES["agents"], "helper": {"allow": ["*"]}}}
        audit = {"capture": "full", "flush_interval": "10ms"}
        console = {"trace_url": "https://traces.example.com/trace/{trace_id}"}
        super().__init__(
            background, folder, servers, policies, ("clerk", "reader", "helper"), audit=audit, console=console
        )

    async def flushed(self) -> None:
        """Wait until every call so far is in the database."""
        log = self.app.telemetry.audit
        assert log is not None
        await until(lambda: log.report()["waiting"] == 0)

    async def make(self, agent: str, name: str, **arguments: Any) -> Json:
        """Make one call; return the answer, once its row is written."""
        async with self.connect_as(("http", MODERN), agent) as host:
            params = {"name": name, "arguments": arguments}
            answer = await host.ask("tools/call", params, {CONVERSATION: "c 7"}).message()
        await self.flushed()
        return answer


def spare() -> dict[str, Json]:
    """A server that holds calls."""
    key = {"key": {"type": "string"}}
    return {"spare": RecordingToolbox([tool("hold", key), tool("release", key)]).config_entry()}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def calls(background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Calls]:
    """A gateway after a few calls."""
    harness = Calls(background, tmp_path_factory.mktemp("calls"))
    await harness.make("clerk", "shop.get", id=f"k {SECRET}")
    await harness.make("clerk", "shop.wipe")
    await harness.make("clerk", "shop.get", id=[5])
    await harness.make("clerk", "shop.nothing")
    yield harness


async def rows(client: httpx2.AsyncClient, query: str = "", **more: str) -> list[Json]:
    """Return the rows that a query finds, newest first."""
    answer = await client.get("/console/calls.json", params={"q": query, **more})
    assert answer.status_code == 200, answer.text
    found: list[Json] = answer.json()["rows"]
    return found


async def one(client: httpx2.AsyncClient, query: str) -> tuple[Json, str]:
    """Return the newest call that a query finds, as data and as a page."""
    seq = (await rows(client, query))[0]["seq"]
    data = (await client.get(f"/console/calls/{seq}.json")).json()["call"]
    page = await client.get(f"/console/calls/{seq}")
    assert page.status_code == 200
    return data, page.text


async def test_the_list_shows_what_happened_and_why(calls: Calls) -> None:
    """Proves: E13. Newest first, each with its status; what is not plainly ok says why, with rule and place."""
    async with calls.signed_in("viewer") as client:
        found = await rows(client, "agent:clerk")
        page = (await client.get("/console/calls", params={"q": "agent:clerk"})).text
    assert [row["status"] for row in found] == ["invalid", "invalid", "denied", "ok"]
    assert found[2]["why"] == 'deny "shop.wipe" · policies/main.yaml:1'
    assert "Correct the arguments and call again." in found[1]["why"]
    assert found[3]["why"] == ""
    assert [int(seq) for seq in re.findall(r'<tr id="call-(\d+)"', page)] == [row["seq"] for row in found]
    assert "policies/main.yaml:1" in page


async def test_facets_count_what_they_lead_to(calls: Calls) -> None:
    """Proves: E12. Each count is that of the list behind its link, whatever of them is chosen."""
    async with calls.signed_in("viewer") as client:
        for query in ("agent:clerk", "agent:clerk status:refused"):
            data = (await client.get("/console/calls.json", params={"q": query})).json()
            for facet in data["hour"]["facets"]:
                assert len(await rows(client, facet["query"])) == facet["count"], facet
            assert data["hour"]["total"] == 4
            (bar,) = [bar for bar in data["hour"]["bars"] if bar["calls"]] or [None]
            assert bar is not None
            assert len(await rows(client, bar["query"])) in (4, 3)


async def test_a_mistake_in_a_query_is_told_and_rows_stay(calls: Calls) -> None:
    """Proves: E13."""
    async with calls.signed_in("viewer") as client:
        data = (await client.get("/console/calls.json", params={"q": "agnet:clerk tool:shop.*"})).json()
        assert len(data["rows"]) == 4
        assert "Did you mean `agent:`?" in data["problems"][0]
        page = await client.get("/console/calls", params={"q": "agnet:clerk"})
        assert "Did you mean" in page.text
        assert (await client.get("/console/calls.json?before=x")).status_code == 400
        for path in ("/console/calls/none.json", "/console/calls/999999.json", f"/console/calls/{'9' * 30}.json"):
            assert (await client.get(path)).status_code == 404


async def test_one_call_shows_its_way(calls: Calls) -> None:
    """Proves: E13. Who asked, what it meant, which rule, the check, the server, with places that fit the drawing."""
    async with calls.signed_in("approver") as client:
        data, page = await one(client, "status:ok agent:clerk")
    steps = {step["title"]: step for step in data["timeline"]["steps"]}
    assert list(steps) == ["Name", "Policy", "Arguments", "shop", "Result"]
    assert "allow: " in steps["Policy"]["note"]
    assert data["policy"] == {"said": steps["Policy"]["note"], "source": "policies/main.yaml:1", "as_now": False}
    assert all(step["x"] >= 0 and step["x"] + step["width"] <= 300 for step in steps.values())
    assert data["trace_url"] == f"https://traces.example.com/trace/{data['trace_id']}"
    assert f'href="{data["trace_url"]}"' in page
    assert data["queries"]["conversation"] == 'conversation:"c 7"'


async def test_errors_are_told_as_the_agent_was_told(calls: Calls) -> None:
    """Proves: E13. The text of the answer and that of the row are one."""
    answer = await calls.make("clerk", "shop.wipe", again=1)
    said = answer["result"]["content"][0]["text"]
    async with calls.signed_in("viewer") as client:
        data, page = await one(client, "tool:shop.wipe")
    assert data["error_message"] == said
    assert said.replace("'", "&#39;") in page


async def test_a_viewer_sees_no_values(calls: Calls) -> None:
    """Proves: D9. Neither on the page, nor as JSON, nor by searching for them."""
    async with calls.signed_in("viewer") as client, calls.signed_in("approver") as other:
        query = "status:ok agent:clerk"
        (data, page), (full, whole) = await one(client, query), await one(other, query)
        assert data["arguments"]["value"] is data["result"]["value"] is None
        assert "did get" not in page
        assert full["result"]["texts"] == ["did get"]
        assert "did get" in whole
        assert await rows(client, '"did get"') == []
        assert len(await rows(other, '"did get"')) >= 1


async def test_a_viewer_cannot_prove_a_guess(calls: Calls) -> None:
    """Whoever guesses at short arguments could tell by their digest, or that of the row, that the guess is right."""
    async with calls.signed_in("viewer") as client, calls.signed_in("approver") as other:
        full, _ = await one(other, "status:ok agent:clerk")
        data, page = await one(client, "status:ok agent:clerk")
        told = [json.dumps(data), page, (await client.get("/console/calls.json")).text]
        told.append((await client.get("/console/events.json")).text)
    for digest in (full["arguments_digest"], full["digest"], full["result"]["digest"]):
        assert not any(digest[:14] in text for text in told)


async def test_secrets_are_nowhere(calls: Calls) -> None:
    """D9: no secret is in the list, in a call in full, or in their JSON."""
    async with calls.signed_in("operator") as client:
        data, page = await one(client, "status:ok agent:clerk")
        assert SECRET not in page
        assert SECRET not in json.dumps(data)
        assert SECRET not in (await client.get("/console/calls.json")).text
        assert await rows(client, SECRET) == []


async def test_a_call_can_be_made_again_and_be_a_case(calls: Calls) -> None:
    """Proves: E13. The command line and the case of a policy say what was called, with arguments that are known."""
    async with calls.signed_in("approver") as client:
        (denied, _), (bad, page) = await one(client, "status:denied"), await one(client, "status:invalid tool:shop.get")
    assert denied["repeat"]["line"].startswith("aggregator call --agent clerk shop.wipe --arguments '{")
    assert json.loads(denied["repeat"]["case"][2:]) == {"agent": "clerk", "tool": "shop.wipe", "expect": "deny"}
    assert json.loads(bad["repeat"]["case"][2:])["arguments"] == {"id": [5]}
    assert "aggregator call --agent clerk shop.get" in page


async def test_a_list_is_a_fragment_when_htmx_asks(calls: Calls) -> None:
    async with calls.signed_in("viewer") as client:
        part = await client.get("/console/calls", headers={"hx-request": "true"})
        assert part.text.lstrip().startswith('<div class="pane" id="calls"')
        assert "<html" not in part.text


async def test_pages_go_on_where_the_last_one_ended(calls: Calls) -> None:
    """E13: fifty a page; the link to older ones leads to the next."""
    async with calls.connect_as(("http", MODERN), "reader") as host:
        for _ in range(55):
            await host.ask("tools/call", {"name": "shop.get", "arguments": {"id": "x"}}, {}).message()
    await calls.flushed()
    async with calls.signed_in("viewer") as client:
        first = (await client.get("/console/calls.json", params={"q": "agent:reader"})).json()
        second = await rows(client, "agent:reader", before=str(first["before"]))
    assert len(first["rows"]) == 50
    assert len({row["seq"] for row in (*first["rows"], *second)}) >= 55


async def test_what_runs_is_counted(calls: Calls) -> None:
    """Proves: E12. A call that has not ended is told of, whether a task works on it or none, and no longer after it."""
    async with calls.connect_as(("http", MODERN), "helper") as host:
        running = calls.app.gateway.running_calls
        for number in range(3):  # the first call of a host has a task, a later one is direct at first
            held = host.call("spare.hold", {"key": f"here {number}"})
            await until(lambda: running().count == 1)
            (known,) = running().oldest
            assert (known.agent_id, known.name, known.frontend) == ("helper", "spare.hold", "http")
            assert known.seconds >= 0
            await host.call("spare.release", {"key": f"here {number}"}).result()
            await held.result()
            await until(lambda: running().count == 0)
    await calls.flushed()
