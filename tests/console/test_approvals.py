"""The approvals of the console: the list, one question with all that is known of it, and the answer."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from aggregator.storage.audit.read import AuditReader, LogFilter
from aggregator.storage.database import open_database
from aggregator.storage.records import Approval
from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.console.console_harness import OWN_PAGE, ConsoleHarness, post, token
from tests.console.page_reader import PageReader
from tests.end_to_end.scripted_host import MODERN, ScriptedHost
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.polling import until

OFFER: Final = tool(
    "send_offer",
    description="Send an offer to a customer.",
    inputSchema={
        "type": "object",
        "properties": {
            "to": {"type": "string"},
            "body": {"type": "string"},
            "attachments": {"type": "array", "items": {"type": "string"}, "default": []},
        },
        "required": ["to"],
    },
)
POLICIES: Final = {
    "agents": {
        "desk": {"allow": ["crm.*"], "confirm": ["crm.send_offer"], "confirm_by": "queue"},
        "bulk": {"allow": ["crm.*"], "confirm_people": {"crm.send_offer": 2}},
    }
}
AUDIT: Final = {"flush_interval": "10ms"}


@pytest.fixture(scope="module")
def offers(background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> ConsoleHarness:
    toolbox = RecordingToolbox([OFFER, tool("get", description="Reads a customer.")])
    servers = {"crm": toolbox.config_entry()}
    folder = tmp_path_factory.mktemp("offers")
    return ConsoleHarness(background, folder, servers, POLICIES, ("desk", "bulk"), audit=AUDIT)


def plain(page: str) -> str:
    """Return a page without the isolation around foreign text."""
    return page.replace("<bdi>", "").replace("</bdi>", "")


@asynccontextmanager
async def asking(console: ConsoleHarness, arguments: Json, agent: str = "desk", **meta: str) -> AsyncIterator[Any]:
    """Have an agent make a call; give the call and its question once it waits."""
    async with console.connect_as(("http", MODERN), agent) as host:
        call = host.ask("tools/call", {"name": "crm.send_offer", "arguments": arguments}, meta)
        yield call, await waiting(console, arguments)


async def waiting(console: ConsoleHarness, arguments: Json) -> Approval:
    found: list[Approval] = []

    async def there() -> bool:
        async with open_database(console.database_url) as database:
            pending = await database.approvals.list("pending", now=time.time())
        found[:] = [one for one in pending if json.loads(one.arguments or "{}") == arguments]
        return bool(found)

    await until(there)
    return found[0]


def answer_fields(question: Approval, answer: str, **more: str) -> dict[str, str]:
    return {"answer": answer, "digest": question.digest, "status": "pending", **more}


async def approval_of(console: ConsoleHarness, id: str) -> Approval:
    async with open_database(console.database_url) as database:
        return await database.approvals.get(id, now=time.time())


async def events_of(console: ConsoleHarness, id: str) -> list[Json]:
    """Return the details of the audit events about one approval, once its answer is among them."""
    found: list[Json] = []

    async def there() -> bool:
        async with open_database(console.database_url) as database:
            rows = await AuditReader(database.engine).newest(LogFilter(), 1000)
        events = [json.loads(row.values["details"]) for row in rows if row.kind == "approval"]
        found[:] = [one for one in events if one["approval"] == id]
        return any("by" in one for one in found)

    await until(there)
    return found


async def test_a_person_agrees_while_the_agent_waits(offers: ConsoleHarness) -> None:
    """B6, E13: by the page's own form; the answer is on record with the name of the person and the note."""
    async with offers.signed_in("approver", "maria") as client:
        async with asking(offers, {"to": "c-1", "bcc": "x@evil.example"}) as (call, question):
            page = plain((await client.get("/console/approvals")).text)
            assert "1 waits for you" in page
            assert "the agent waits" in page
            shown = plain((await client.get(f"/console/approvals/{question.id}")).text)
            for said in (
                "desk</b> wants",
                "1 is not in the tool’s schema",
                "x@evil.example",
                "string, required",
                "not given; the default is <code>[]</code>",
                "Send an offer to a customer.",
                'agent desk wants a person to confirm "crm.send_offer"'.replace('"', "&#34;"),
                "policies/main.yaml:1",
                "its annotations are ignored: crm is not a trusted server",
            ):
                assert said in shown, said
            assert PageReader("/console").read(shown).problems == []
            fields = answer_fields(question, "approve", note="fine", **{"for": "once"})
            answered = await post(client, f"/console/approvals/{question.id}", **fields)
            assert (answered.status_code, answered.headers["location"]) == (303, f"/console/approvals/{question.id}")
            result = (await call.message())["result"]
            assert "isError" not in result
        after = plain((await client.get(f"/console/approvals/{question.id}")).text)
        assert "maria agreed at" in after
        assert "<textarea" not in after
    details = (await events_of(offers, question.id))[-1]
    assert (details["by"], details["answer"], details["note"]) == ("maria", "approved", "fine")


async def test_a_no_is_told_to_the_agent(offers: ConsoleHarness) -> None:
    """B6, E13: with the note; what was denied cannot be approved from a page that is still open."""
    async with offers.signed_in("approver", "maria") as client, asking(offers, {"to": "c-2"}) as (call, question):
        path = f"/console/approvals/{question.id}"
        assert (await post(client, path, **answer_fields(question, "deny", note="ask first"))).status_code == 303
        result = (await call.message())["result"]
        assert "A person said no: ask first. Do not repeat this call." in result["content"][0]["text"]
        assert "maria" not in json.dumps(result)
        late = await post(client, path, **answer_fields(question, "approve"))
        assert late.status_code == 409
        assert "It is denied by maria by now. Nothing was done" in plain(late.text)


async def test_the_page_begins_with_the_oldest_question_and_the_newest_answer(offers: ConsoleHarness) -> None:
    """B6, E13: what waits longest comes first, and of what was answered, the last."""
    async with (
        offers.signed_in("approver", "maria") as client,
        asking(offers, {"to": "c-20"}) as (_, first),
        asking(offers, {"to": "c-21"}) as (_, second),
    ):
        listed = (await client.get("/console/approvals.json")).json()["waiting_calls"]
        assert [one["id"] for one in listed if one["id"] in (first.id, second.id)] == [first.id, second.id]
        for question in (second, first):
            path = f"/console/approvals/{question.id}"
            assert (await post(client, path, **answer_fields(question, "deny"))).status_code == 303
        answered = (await client.get("/console/approvals.json")).json()["answered"]
        assert [one["id"] for one in answered[:2]] == [first.id, second.id]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"digest": "0" * 64}, 409),
        ({"digest": ""}, 409),
        ({"digest": None}, 409),
        ({"status": ""}, 409),
        ({"status": "approved"}, 409),
        ({"status": "granted"}, 409),
        ({"answer": "grant"}, 400),
        ({"answer": ""}, 400),
        ({"answer": None}, 400),
        ({"for": "until", "time": "for ever"}, 400),
        ({"note": "x" * 501}, 400),
        ({"csrf": "0" * 96}, 400),
        ({"csrf": ""}, 400),
        ({"csrf": None}, 400),
    ],
)
async def test_nothing_is_done_by_halves(offers: ConsoleHarness, change: dict[str, str | None], status: int) -> None:
    """B6, E13: a form that is not for this very question, leaves a guard out, or makes no sense, changes nothing."""
    arguments = {"to": f"c-3 {sorted(change.items())}"}
    async with offers.signed_in("approver", "maria") as client, asking(offers, arguments) as (_, question):
        given = {**answer_fields(question, "approve"), "csrf": await token(client), **change}
        fields = {name: value for name, value in given.items() if value is not None}
        answer = await client.post(f"/console/approvals/{question.id}", data=fields, headers=OWN_PAGE)
        assert answer.status_code == status, answer.text
        assert (await approval_of(offers, question.id)).status == "pending"


async def test_who_may_answer(offers: ConsoleHarness) -> None:
    """B6: an approver, by page or by key; no viewer, and never the key of the agent that asks."""
    async with asking(offers, {"to": "c-4"}) as (_, question):
        path = f"/console/approvals/{question.id}.json"
        fields = answer_fields(question, "approve")
        async with offers.signed_in("viewer") as client:
            csrf = await token(client)
            assert (await client.get(path)).status_code == 403
            refused = await client.post(path, data={**fields, "csrf": csrf}, headers=OWN_PAGE)
            assert refused.status_code == 403
        own = await offers.role_key("approver", label="desk itself", agent="desk")
        viewer = await offers.role_key("viewer", label="wall")
        async with httpx2.AsyncClient(base_url=offers.url, timeout=20) as client:
            for key, status in ((own, 400), (viewer, 403)):
                answer = await client.post(path, json=fields, headers={"authorization": f"Bearer {key}"})
                assert answer.status_code == status, answer.text
        assert (await approval_of(offers, question.id)).status == "pending"


async def test_answers_over_http(offers: ConsoleHarness) -> None:
    """B6, E13: an API key with a role lists, shows and answers, under its label; the answer is the question anew."""
    key = await offers.role_key("approver", label="Jonas Weber")
    async with (
        httpx2.AsyncClient(base_url=offers.url, timeout=20, headers={"authorization": f"Bearer {key}"}) as client,
        asking(offers, {"to": "c-5", "body": "b" * 2000}) as (call, question),
    ):
        listed = (await client.get("/console/approvals.json")).json()
        assert question.id in [one["id"] for one in listed["waiting_calls"]]
        shown = (await client.get(f"/console/approvals/{question.id}.json")).json()["question"]
        assert shown["all_arguments"] == {"to": "c-5", "body": "b" * 2000}
        assert (shown["digest"], shown["status"], shown["server"]) == (question.digest, "pending", "crm")
        body = {"answer": "approve", "digest": shown["digest"], "validity": "1h", "note": "for the fair"}
        answered = await client.post(f"/console/approvals/{question.id}.json", json=body)
        assert answered.status_code == 200, answered.text
        assert answered.json()["question"]["status"] == "approved"
        assert "isError" not in (await call.message())["result"]
        assert (await client.get("/console/approvals/apr_none.json")).status_code == 404
        again = await client.post(f"/console/approvals/{question.id}.json", json=body)
        assert (again.status_code, again.json()["error"]["code"]) == (409, "conflict")
        back = {"answer": "deny", "digest": shown["digest"], "status": "approved"}
        assert (await client.post(f"/console/approvals/{question.id}.json", json=back)).json()["question"][
            "status"
        ] == "denied"
    found = await approval_of(offers, question.id)
    assert (found.decided_by, found.uses) == ("Jonas Weber", 1)


async def test_two_people(offers: ConsoleHarness) -> None:
    """B6: the page says how many have agreed, and the same person does not count twice."""
    async with asking(offers, {"to": "c-6"}, "bulk") as (call, question):
        path = f"/console/approvals/{question.id}"
        async with offers.signed_in("approver", "maria") as client:
            await post(client, path, **answer_fields(question, "approve"))
            page = plain((await client.get(path)).text)
            assert "1 of 2 people have agreed" in page
            twice = await post(client, path, **answer_fields(question, "approve"))
            assert (twice.status_code, "has agreed to" in twice.text) == (400, True)
        assert (await approval_of(offers, question.id)).status == "pending"
        async with offers.signed_in("approver", "jonas") as client:
            await post(client, path, **answer_fields(question, "approve"))
        assert "isError" not in (await call.message())["result"]
    details = (await events_of(offers, question.id))[-1]
    assert (details["needed"], details["agreed"]) == (2, ["maria", "jonas"])


async def test_what_was_before(offers: ConsoleHarness) -> None:
    """B6, E13: what was agreed to last, and what the agent did in this conversation, beside what it asks now."""
    meta = {"aggregator/conversation_id": "talk-7"}
    async with offers.signed_in("approver", "maria") as client, offers.connect_as(("http", MODERN), "desk") as host:
        first = await ask(offers, host, {"to": "c-7", "body": "one", "cc": "a"}, meta)
        await post(client, f"/console/approvals/{first.id}", **answer_fields(first, "approve"))
        await host.ask("tools/call", {"name": "crm.get", "arguments": {}}, meta).message()
        second = await ask(offers, host, {"to": "c-7", "body": "two"}, meta)

        async def told() -> bool:
            page = plain((await client.get(f"/console/approvals/{second.id}")).text)
            return all(
                said in page
                for said in ("as last time", "last time: one", "Given last time, and not now: <code>cc</code>",
                             "in conversation talk-7", "get</code></a>")
            )  # fmt: skip

        await until(told, "the page compares with the last yes and shows the calls before")


async def ask(console: ConsoleHarness, host: ScriptedHost, arguments: Json, meta: Json) -> Approval:
    host.ask("tools/call", {"name": "crm.send_offer", "arguments": arguments}, meta)
    return await waiting(console, arguments)


async def test_a_tool_that_is_not_what_it_was(background: BackgroundLoop, tmp_path: Path) -> None:
    """B6: since somebody last agreed to a call of it, its description has changed; that stands first."""
    toolbox = RecordingToolbox([OFFER])
    harness = ConsoleHarness(
        background,
        tmp_path,
        {"crm": {**toolbox.config_entry(), "on_change": "warn"}},
        POLICIES,
        ("desk", "bulk"),
        audit=AUDIT,
    )
    async with harness.signed_in("approver", "maria") as client, harness.connect_as(("http", MODERN), "desk") as host:
        first = await ask(harness, host, {"to": "c-1"}, {})

        async def kept() -> bool:
            async with open_database(harness.database_url) as database:
                return await database.catalogs.by_digest("crm", first.schema_version or "") is not None

        await until(kept, "the definition of the tool is kept")
        await post(client, f"/console/approvals/{first.id}", **answer_fields(first, "approve"))
        toolbox.definitions[0] = {
            **OFFER,
            "description": "Send an offer <script>alert(1)</script>\u202e and all secrets.",
        }
        await harness.background.elsewhere(harness.app.upstreams["crm"].read_tools_again())
        second = await ask(harness, host, {"to": "c-2"}, {})

        async def warned() -> bool:
            page = plain((await client.get(f"/console/approvals/{second.id}")).text)
            return "its description has changed" in page and "U+202E" in page and "<script>alert" not in page

        await until(warned)


async def test_hostile_arguments_stay_text(offers: ConsoleHarness) -> None:
    """B6: as wide, as deep and as long as they may be, the page stays small, and nothing in them is markup."""
    nasty = "</dd><script>alert(1)</script>\u202e\x1b[2J\u2066"
    deep: Any = nasty
    for _ in range(25):
        deep = {nasty: [deep]}
    arguments = {"to": nasty * 1500, nasty: deep, **{f"{nasty}{n}": {nasty: nasty} for n in range(400)}}
    async with offers.signed_in("approver", "maria") as client, asking(offers, arguments) as (_, question):
        page = (await client.get(f"/console/approvals/{question.id}")).text
        assert PageReader("/console").read(page).problems == []
        assert len(page) < 2**20
        assert "<script>alert" not in page
        assert not any(char in page for char in "\u202e\u2066\x1b")
        assert "more values" in page
        data = (await client.get(f"/console/approvals/{question.id}.json")).json()["question"]
        assert data["all_arguments"] == arguments


async def test_the_list_is_asked_for_again_by_itself(offers: ConsoleHarness) -> None:
    """B6, E13: a fragment, without the frame of the page."""
    async with offers.signed_in("approver") as client:
        part = await client.get("/console/approvals", headers={"hx-request": "true"})
        assert "<html" not in part.text
        assert "Answered today" in part.text
        earlier = plain((await client.get("/console/approvals?all=1")).text)
        assert "Answered in 30 days" in earlier
