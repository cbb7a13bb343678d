"""How many pages are live at a time, of one person and of all, and where a person who is not signed in is sent."""

import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Final

import httpx2
import pytest

from aggregator.frontends.console import console as console_module
from aggregator.frontends.console.guard import ConsoleGuard
from aggregator.frontends.web.host_guard import Scope
from aggregator.storage.audit.read import AuditReader, LogFilter
from aggregator.storage.database import open_database
from tests.console.console_harness import FORM, OWN_PAGE, ConsoleHarness, post, token
from tests.console.test_live import watching
from tests.polling import BOUND, until

LIVE: Final = "/console/live?q="


async def status_of(client: httpx2.AsyncClient, **headers: str) -> int:
    """Return the status of one more live page, which is closed again."""
    async with client.stream("GET", LIVE, headers=headers, timeout=BOUND) as response:
        return response.status_code


@pytest.mark.parametrize("most", [1, 2])
async def test_one_person_has_so_many_live_pages_and_no_more(
    console: ConsoleHarness, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Over all browsers, and no person has the share of another one, who may have the same name."""
    monkeypatch.setattr(console_module, "_MOST_OF_ONE", most)
    bearer = {"authorization": f"Bearer {await console.role_key('viewer', 'petra')}"}
    person = f"petra {most}"
    async with (
        console.signed_in("viewer", person) as one,
        console.signed_in("viewer", person) as other,
        console.signed_in("viewer", f"jonas {most}") as jonas,
        httpx2.AsyncClient(base_url=console.url, timeout=BOUND) as by_key,
        AsyncExitStack() as stack,
    ):
        for _ in range(most):
            await stack.enter_async_context(watching(one))
        refused = await other.get(LIVE)
        assert refused.status_code == 429
        assert f"You have {most} live pages" in refused.json()["error"]["message"]
        assert [await status_of(jonas), await status_of(by_key, **bearer)] == [200, 200]
        await stack.aclose()

        async def is_let_in() -> bool:
            return await status_of(other) == 200

        await until(is_let_in, "pages that are closed make room")


async def test_the_name_of_a_key_takes_no_share_of_a_person_by_link(
    console: ConsoleHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does another key of the same name."""
    monkeypatch.setattr(console_module, "_MOST_OF_ONE", 1)
    keys = [{"authorization": f"Bearer {await console.role_key('viewer', 'ada')}"} for _ in range(2)]
    async with (
        console.signed_in("viewer", "ada") as by_link,
        httpx2.AsyncClient(base_url=console.url, timeout=BOUND) as by_key,
        by_key.stream("GET", LIVE, headers=keys[0]) as response,
    ):
        assert response.status_code == 200
        assert await status_of(by_key, **keys[0]) == 429
        assert [await status_of(by_key, **keys[1]), await status_of(by_link)] == [200, 200]


async def test_all_people_together_have_so_many_live_pages(
    console: ConsoleHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        console.signed_in("viewer", "kim") as kim,
        console.signed_in("viewer", "lee") as lee,
        AsyncExitStack() as stack,
    ):

        async def is_let_in() -> bool:
            return await status_of(lee) == 200

        async def stays_open() -> bool:
            return (await stack.enter_async_context(kim.stream("GET", LIVE))).status_code == 200

        # The pages of another test may still be on their way out, and each of ours that was closed a moment ago.
        monkeypatch.setattr(console_module, "_MOST_STREAMS", 1)
        await until(is_let_in, "no page is live")
        monkeypatch.setattr(console_module, "_MOST_STREAMS", 2)
        await until(stays_open)
        await until(is_let_in, "one more than one is let in")
        await until(stays_open)
        refused = await lee.get(LIVE)
        assert refused.status_code == 503
        assert "Too many pages are live" in refused.json()["error"]["message"]
        await stack.aclose()
        await until(is_let_in, "pages that are closed make room")


@pytest.mark.parametrize("mode", ["navigate", "cors", "no-cors", "websocket", ""])
@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin", "none", ""])
async def test_only_a_link_from_elsewhere_is_followed_once_more(console: ConsoleHarness, site: str, mode: str) -> None:
    """A picture or a script of another page is not: it leads to the sign-in, as does a visit of our own."""
    headers = {"sec-fetch-site": site, "sec-fetch-mode": mode}
    async with httpx2.AsyncClient(base_url=console.url, timeout=BOUND) as client:
        page = await client.get("/console/health", headers={name: value for name, value in headers.items() if value})
    if site in ("cross-site", "same-site") and mode == "navigate":
        assert (page.status_code, 'content="0;url=/console/health"' in page.text) == (200, True)
    else:
        assert (page.status_code, page.headers.get("location")) == (303, "/console/sign-in?then=/health")


@pytest.mark.parametrize("signed_out", [True, False])
async def test_a_form_counts_for_who_is_signed_in_when_it_has_come(
    console: ConsoleHarness, monkeypatch: pytest.MonkeyPatch, signed_out: bool
) -> None:
    """The session ends after the head of a request was looked at, and before its body is complete."""
    looked, identified = threading.Event(), ConsoleGuard.identified

    async def looking(self: ConsoleGuard, scope: Scope) -> Any:
        found = await identified(self, scope)
        if scope["method"] == "POST":
            looked.set()
        return found

    person = f"eve {signed_out}"
    async with console.signed_in("operator", person) as client:
        given = await token(client)
        async with open_database(console.database_url) as database:
            (session,) = [one.id for one in await database.console.all(now=0.0) if one.person == person]
        monkeypatch.setattr(ConsoleGuard, "identified", looking)

        async def slowly() -> AsyncIterator[bytes]:
            yield b"csrf="
            await until(looked.is_set, "the head has come")
            if signed_out:
                async with open_database(console.database_url) as database:
                    await database.console.end(session)
            yield given.encode()

        answer = await client.post("/console/servers/shop/disable", content=slowly(), headers={**OWN_PAGE, **FORM})
    if signed_out:
        assert (answer.status_code, answer.json()["error"]["message"]) == (
            401,
            "Sign in again: the session is over.",
        )
    else:
        assert answer.status_code == 303
    async with console.signed_in() as other:
        off = (await other.get("/console/servers/shop.json")).json()["switched_off"]
        assert (off is None) is signed_out
        if not signed_out:
            await post(other, "/console/servers/shop/enable")


async def test_a_refused_form_is_in_the_audit_and_a_refused_page_is_not(console: ConsoleHarness) -> None:
    async with console.signed_in("viewer", "vera") as client:
        assert (await post(client, "/console/servers/shop/disable")).status_code == 403
        assert (await client.get("/console/policies/diff")).status_code == 403

    async with open_database(console.database_url) as database:

        async def refused() -> list[str]:
            rows = await AuditReader(database.engine).newest(LogFilter(), 100)
            said = [str(row.values["summary"]) for row in rows if row.kind == "console"]
            return [one for one in said if "vera may not" in one]

        await until(refused)
        assert await refused() == ["vera may not do this at the console: POST /servers/shop/disable"]
