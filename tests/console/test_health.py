"""The page on the aggregator itself, and the audit's events page by page."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.frontends.console.pages.conditions import problems_of
from aggregator.storage.audit.read import AuditReader, LogFilter
from aggregator.storage.database import open_database
from tests.console.console_harness import ConsoleHarness, post
from tests.console.page_reader import PageReader
from tests.peers.serving import BackgroundLoop
from tests.polling import until

HOSTILE: Final = "<img src=x onerror=alert(1)>\u202e"


@pytest.fixture(scope="module")
def console(background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> ConsoleHarness:
    folder: Path = tmp_path_factory.mktemp("health")
    told = [{"name": HOSTILE.removesuffix("\u202e"), "url": "http://127.0.0.1:1/T0/very-secret-part-1"}]
    return ConsoleHarness(background, folder, notify=told, name_limit=50)


async def test_it_says_what_is_in_force_and_holds_no_secret(console: ConsoleHarness) -> None:
    """D9, C7: digest of the audit, keys without their secrets, limits, receivers by host only."""
    text = await console.role_key("approver", label=HOSTILE)
    async with console.signed_in("viewer") as client:

        async def written() -> bool:
            return bool((await client.get("/console/health.json")).json()["audit"]["seq"])

        await until(written, "the start stands in the audit")
        found = (await client.get("/console/health.json")).json()
        page = (await client.get("/console/health")).text
    async with open_database(console.database_url) as database:
        digests = {row.digest for row in await AuditReader(database.engine).after(0, LogFilter(begun=True))}
    assert found["audit"]["digest"] in digests
    assert found["policies"]["revision"] == console.revision
    made = next(one for one in found["keys"] if one["role"] == "approver")
    assert (made["agent"], made["state"]) == ("people", "good")
    assert {one["name"] for one in found["limits"]} >= {"sessions", "streams", "pending"}
    (receiver,) = found["receivers"]
    assert (receiver["to"], receiver["state"]) == ("http://127.0.0.1:1/…", "unused")
    secrets = [key.rpartition("_")[2] for key in (text, *console.keys.values())]
    for secret in (*secrets, "very-secret-part-1"):
        assert secret not in page + json.dumps(found)
    assert "<img" not in page
    assert "\u202e" not in page
    assert "U+202E" in page
    assert PageReader("/console").read(page).problems == []


async def test_the_last_use_of_a_key_in_a_policy_file_is_shown(console: ConsoleHarness) -> None:
    """D9: who rotates keys looks there; a key that is in use must not look unused."""
    async with console.client("clerk") as agent, console.signed_in("viewer") as client:
        assert (await agent.get("/v1/tools")).status_code == 200

        async def uses() -> dict[str, float | None]:
            found = (await client.get("/console/health.json")).json()["keys"]
            return {one["agent"]: one["last_used"] for one in found if one["in_file"]}

        assert (await uses())["reader"] is None
        assert (await uses())["clerk"] is not None
        assert "not since the start" in (await client.get("/console/health")).text


async def test_an_operator_signs_others_out(console: ConsoleHarness) -> None:
    """E13: the session ends at once, and the event has the name of who did it; nobody else may, and once only."""
    async with console.signed_in("operator", "maria") as maria, console.signed_in("approver", "jonas") as jonas:
        sessions = (await maria.get("/console/health.json")).json()["sessions"]
        his = next(one for one in sessions if one["person"] == "jonas")
        hers = next(one for one in sessions if one["own"])
        assert hers["person"] == "maria"
        assert "Revoke" not in (await jonas.get("/console/health")).text
        path = f"/console/health/sessions/{his['id']}/revoke"
        assert (await post(jonas, f"/console/health/sessions/{hers['id']}/revoke")).status_code == 403
        assert (await maria.get("/console/health")).status_code == 200
        assert (await maria.post(path, data={"csrf": "wrong"})).status_code in (400, 403)
        assert (await jonas.get("/console/health")).status_code == 200
        done = await post(maria, path)
        assert (done.status_code, done.headers["location"]) == (303, "/console/health")
        assert (await jonas.get("/console/health")).status_code == 303
        assert (await post(maria, path)).status_code == 404

        async def is_recorded() -> bool:
            events = (await maria.get("/console/events.json?kind=console")).json()["events"]
            return any(one["summary"] == "maria signed jonas out of the console." for one in events)

        await until(is_recorded)


async def test_rows_that_came_late_are_no_gap(console: ConsoleHarness) -> None:
    """An operator looks for lost rows under Gaps; each short session may add rows late while the database opens."""

    async def add() -> None:
        console.app.telemetry.record_event("log_gap", "2 rows were lost.")
        console.app.telemetry.record_event("log_recovered", "7 rows were added.")

    await console.background.elsewhere(add())
    async with console.signed_in("viewer") as client:

        async def summaries(field: str) -> list[str]:
            return [one["summary"] for one in (await client.get("/console/health.json")).json()["audit"][field]]

        async def is_written() -> bool:
            return "7 rows were added." in await summaries("late")

        await until(is_written)
        assert await summaries("gaps") == ["2 rows were lost."]


async def test_events_come_page_by_page(console: ConsoleHarness) -> None:
    """Every event once, newest first, of one kind or of all; what the names hold is text."""

    async def add() -> None:
        for number in range(120):
            console.app.telemetry.record_event(
                "login_refused",
                f"{number} {HOSTILE}",
                agent=HOSTILE,
                server=HOSTILE,
                details={"x": HOSTILE},
            )

    await console.background.elsewhere(add())
    async with console.signed_in("viewer") as client:
        path, pages, seen = "/console/events.json?kind=login_refused", 0, list[Any]()

        async def is_written() -> bool:
            newest = (await client.get(path)).json()["events"]
            return bool(newest) and newest[0]["summary"].startswith("119 ")

        await until(is_written)
        while path:
            found = (await client.get(path)).json()
            pages += 1
            seen += found["events"]
            path = f"/console{found['older'].replace('/events', '/events.json')}" if found["older"] else ""
        page = await client.get("/console/events?kind=login_refused")
    assert pages == 3
    assert [int(one["summary"].split()[0]) for one in seen] == list(range(119, -1, -1))
    assert [one["seq"] for one in seen] == sorted((one["seq"] for one in seen), reverse=True)
    assert len(page.content) < 300_000
    assert "<img" not in page.text
    assert "\u202e" not in page.text
    assert PageReader("/console").read(page.text).problems == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("kind=nope", "There are no events of the kind"),
        ("before=x", "`before` is the number of an event"),
        ("before=-1", "`before` is the number of an event"),
        ("before=99999999999999999999999", "`before` is the number of an event"),
    ],
)
async def test_a_query_that_cannot_be_is_refused(console: ConsoleHarness, query: str, said: str) -> None:
    async with console.signed_in("viewer") as client:
        answer = await client.get(f"/console/events.json?{query}")
    assert answer.status_code == 400
    assert said in answer.text


async def test_events_before_the_first_are_none(console: ConsoleHarness) -> None:
    async with console.signed_in("viewer") as client:
        found = (await client.get("/console/events.json?before=1")).json()
        page = await client.get("/console/events?before=1")
    assert (found["events"], found["older"], found["newest"]) == ([], None, "/events")
    assert "None on record" in page.text


def test_each_problem_of_the_program_is_a_line_with_its_area() -> None:
    """Every part of `/readyz` that can have a problem, by itself; no part, or an empty one, is no problem."""
    config = {"broken": True, "problems": ["line 1"]}
    receivers = {"ops": {"problem": "refused", "to": "https://a.example"}, "on": {"problem": None, "to": "b"}}
    parts: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
        ({}, []),
        ({"config": None, "policies": None, "notify": None}, []),
        ({"database": "it does not answer"}, [("database", "it does not answer")]),
        ({"differs": ["another version"]}, [("replicas", "another version")]),
        (
            {"config": config},
            [("configuration", "cannot be used; the one in force stays"), ("configuration", "line 1")],
        ),
        (
            {"policies": {**config, "effect": "The last rules stay."}},
            [("policies", "The last rules stay."), ("policies", "line 1")],
        ),
        ({"notify": receivers}, [("notify", "ops (https://a.example)")]),
    ]
    for details, expected in parts:
        found = problems_of(details, values=True)
        assert len(found) == len(expected)
        for one, (area, text) in zip(found, expected, strict=True):
            assert one["area"] == area
            assert text in one["text"]


def test_problems_are_bounded_and_the_rest_is_counted() -> None:
    found = problems_of({"differs": [f"difference {number}" for number in range(23)]}, values=True)
    assert len(found) == 21
    assert found[-1]["text"].startswith("3 more;")
