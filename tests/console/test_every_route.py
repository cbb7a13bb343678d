"""Holds every route of the console to its role, to the token of its forms and to this address, whatever page it is."""

import re
from typing import Final

import httpx2
import pytest

from aggregator.app.console import console_parts
from aggregator.frontends.console.pages.every_page import all_pages
from aggregator.frontends.console.view import ROLES, PageRoute
from aggregator.redaction.redactor import Redactor
from tests.console.console_harness import FORM, OWN_PAGE, ConsoleHarness, token

# A value for each parameter of a path; none of these is there.
_GIVEN: Final = {"seq": "1", "id": "apr_none", "name": "shop.get"}


def routes(console: ConsoleHarness) -> list[PageRoute]:
    """Return the routes of all pages."""
    return [route for page in all_pages(console_parts(console.app, Redactor())) for route in page.routes()]


def path_of(route: PageRoute) -> str:
    """Return an address of a route."""
    return "/console" + re.sub(r"\{(\w+)(?::path)?\}", lambda found: _GIVEN.get(found[1], "none"), route.path)


def actions(console: ConsoleHarness) -> list[PageRoute]:
    """Return the routes that do something."""
    found = [route for route in routes(console) if route.method == "POST"]
    assert found
    return found


async def test_each_role_sees_and_does_what_is_its_own(console: ConsoleHarness) -> None:
    """Proves: D9. A viewer approves nothing and restarts nothing, as HTML or JSON."""
    for role in ROLES[:-1]:
        async with console.signed_in(role, "petra") as client:
            csrf = await token(client)
            for route in routes(console):
                if route.stream or ROLES.index(route.role) <= ROLES.index(role):
                    continue
                for path in (path_of(route), f"{path_of(route)}.json"):
                    if route.method == "GET":
                        answer = await client.get(path)
                    else:
                        answer = await client.post(path, data={"csrf": csrf}, headers=OWN_PAGE)
                    assert answer.status_code == 403, (role, route.method, path)
                    assert route.role in answer.text


async def test_strangers_reach_no_route(console: ConsoleHarness) -> None:
    async with httpx2.AsyncClient(base_url=console.url, timeout=20) as client:
        for route in routes(console):
            path = path_of(route)
            if route.method == "POST":
                assert (await client.post(path, headers={**OWN_PAGE, **FORM})).status_code == 401, path
                continue
            assert (await client.get(path)).status_code in (303, 401), path
            assert (await client.get(f"{path}.json")).status_code == 401, path


@pytest.mark.parametrize(
    ("headers", "right_token"),
    [
        (OWN_PAGE, "none"),
        (OWN_PAGE, "other"),
        ({"origin": "http://127.0.0.1:1", "sec-fetch-site": "same-site"}, "own"),
        ({"origin": "https://evil.example", "sec-fetch-site": "cross-site"}, "own"),
        ({"origin": "null"}, "own"),
        ({}, "own"),
    ],
)
async def test_no_other_page_can_act(console: ConsoleHarness, headers: dict[str, str], right_token: str) -> None:
    """The token of another session is worth nothing, and the right one nothing from another page."""
    async with console.signed_in("operator") as client, console.signed_in("operator", "jonas") as other:
        csrf = {"none": "", "own": await token(client), "other": await token(other)}[right_token]
        for route in actions(console):
            for path, kind in ((path_of(route), "form"), (f"{path_of(route)}.json", "json")):
                given = {"data": {"csrf": csrf}} if kind == "form" else {"json": {"csrf": csrf}}
                answer = await client.post(path, headers=headers, **given)  # type: ignore[arg-type]
                assert answer.status_code in (400, 403), (path, answer.text[:300])
                assert "Nothing was done" in answer.text or "is not allowed here" in answer.text


async def test_a_name_that_leads_here_is_refused(console: ConsoleHarness) -> None:
    """DNS rebinding: a page of another site whose name was pointed at this machine reads and does nothing."""
    async with console.signed_in("operator") as client:
        csrf = await token(client)
        for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example"):
            for route in routes(console):
                headers = {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}
                if route.method == "GET":
                    answer = await client.get(path_of(route), headers=headers)
                else:
                    answer = await client.post(path_of(route), data={"csrf": csrf}, headers=headers)
                assert answer.status_code in (403, 421), (host, path_of(route))


async def test_a_cookie_that_somebody_else_chose_is_never_a_session(console: ConsoleHarness) -> None:
    """Session fixation: signing in gives a new secret, whatever cookie the browser had before."""
    chosen = "A" * 43
    async with httpx2.AsyncClient(base_url=console.url, timeout=20) as client:
        headers = {**OWN_PAGE, **FORM, "cookie": f"aggregator_console={chosen}"}
        entered = await client.post(await console.link(), headers=headers)
        assert entered.status_code == 303
        assert chosen not in entered.headers["set-cookie"]
        answer = await client.get("/console/health", headers={"cookie": f"aggregator_console={chosen}"})
        assert answer.status_code == 303
        two = f"aggregator_console={chosen}; aggregator_console={client.cookies['aggregator_console']}"
        client.cookies.clear()
        assert (await client.get("/console/health", headers={"cookie": two})).status_code == 303


async def test_no_method_but_get_and_post_does_anything(console: ConsoleHarness) -> None:
    async with console.signed_in("operator") as client:
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"):
            answer = await client.request(method, "/console/health", headers=OWN_PAGE)
            assert answer.status_code == 405, method
            assert "access-control-allow-origin" not in answer.headers
