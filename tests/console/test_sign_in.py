"""Signing in at the console, and what keeps others out."""

import asyncio
import time
from contextlib import AsyncExitStack

import httpx2
import pytest

from aggregator.frontends.console.guard import COOKIE, csrf_token, is_csrf_token
from aggregator.storage.audit.read import AuditReader, LogFilter
from aggregator.storage.console_sessions import IDLE_FOR, LASTS_FOR, LINK_FOR, new_secret
from aggregator.storage.database import open_database
from tests.console.console_harness import FORM, OWN_PAGE, ConsoleHarness, post, token
from tests.polling import until

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'"


def client_of(console: ConsoleHarness) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=console.url, timeout=20)


async def test_a_link_signs_in_once(console: ConsoleHarness) -> None:
    link = await console.link("approver", "jonas")
    async with client_of(console) as client:
        shown = await client.get(link)
        assert shown.status_code == 200
        assert "<form" in shown.text
        assert COOKIE not in client.cookies, "looking at the link must not use it up"
        entered = await client.post(link, headers={**OWN_PAGE, **FORM})
        assert (entered.status_code, entered.headers["location"]) == (303, "/console/")
        cookie = entered.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=strict", "Path=/console"} <= set(cookie.split("; "))
        page = await client.get("/console/health")
        assert "jonas, approver" in page.text.replace("<bdi>", "").replace("</bdi>", "")
    async with client_of(console) as client:
        again = await client.post(link, headers={**OWN_PAGE, **FORM})
        assert again.status_code == 403
        assert COOKIE not in client.cookies


async def test_of_many_who_use_one_link_one_gets_in(console: ConsoleHarness) -> None:
    link = await console.link()
    async with client_of(console) as client:
        tries = [client.post(link, headers={**OWN_PAGE, **FORM, "cookie": ""}) for _ in range(8)]
        answers = await asyncio.gather(*tries)
    assert sorted(answer.status_code for answer in answers) == [303] + [403] * 7


async def test_a_link_and_a_session_end(console: ConsoleHarness) -> None:
    async with open_database(console.database_url) as database:
        sessions, now = database.console, time.time()
        old = new_secret()
        await sessions.add_link(old, "maria", "operator", now=now - LINK_FOR)
        assert await sessions.take_link(old, now=now) is None
        idle, busy = new_secret(), new_secret()
        begun = {secret: await sessions.begin(secret, "maria", "viewer", None, now=now) for secret in (idle, busy)}
        later = now
        while later < now + LASTS_FOR - IDLE_FOR:
            later += IDLE_FOR / 2
            assert await sessions.find(busy, now=later) is not None, "each request within the hour keeps it going"
        assert await sessions.find(idle, now=now + IDLE_FOR - 1) is not None
        assert await sessions.find(idle, now=later) is None
        assert not await sessions.holds(begun[idle].id, now=later)
        assert await sessions.holds(begun[busy].id, now=later)
        assert await sessions.find(busy, now=now + LASTS_FOR) is None, "but not for longer than half a day"


@pytest.mark.parametrize("path", ["/console/", "/console/health", "/console/nothing", "/console/calls/1"])
async def test_strangers_see_nothing(console: ConsoleHarness, path: str) -> None:
    async with client_of(console) as client:
        page = await client.get(path)
        assert page.status_code == 303
        assert page.headers["location"].startswith("/console/sign-in")
        data = "/console/overview.json" if path == "/console/" else f"{path}.json"
        assert (await client.get(data)).status_code == 401
        assert (await client.post(path, headers={**OWN_PAGE, **FORM})).status_code == 401


async def test_a_link_from_elsewhere_is_followed_once_more_from_our_own_page(console: ConsoleHarness) -> None:
    """A Strict cookie does not come with a request that another site began."""
    elsewhere = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    async with client_of(console) as client:
        page = await client.get("/console/calls/7?q=%22%3E%3Cscript%3E", headers=elsewhere)
        assert page.status_code == 200
        assert 'content="0;url=/console/calls/7?q=%22%3E%3Cscript%3E"' in page.text


async def test_after_signing_in_the_page_that_was_asked_for_is_shown(console: ConsoleHarness) -> None:
    key = await console.role_key("viewer")
    async with client_of(console) as client:
        first = await client.get("/console/health?a=1&b=2")
        page = await client.get(first.headers["location"])
        assert 'name="then" value="/health?a=1&amp;b=2"' in page.text
        given = {"key": key, "then": "/health?a=1&b=2"}
        entered = await client.post("/console/sign-in", data=given, headers=OWN_PAGE)
        assert entered.headers["location"] == "/console/health?a=1&b=2"
        for then in ("https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil", "/\nhealth"):
            entered = await client.post("/console/sign-in", data={"key": key, "then": then}, headers=OWN_PAGE)
            assert entered.headers["location"] == "/console/"


async def test_a_key_without_a_role_opens_nothing(console: ConsoleHarness) -> None:
    async with client_of(console) as client:
        refused = await client.post("/console/sign-in", data={"key": console.keys["clerk"]}, headers=OWN_PAGE)
        assert refused.status_code == 403
        wrong = await client.post("/console/sign-in", data={"key": "agk_nonsense"}, headers=OWN_PAGE)
        assert wrong.status_code == 401
        assert COOKIE not in client.cookies
        bearer = {"authorization": f"Bearer {console.keys['clerk']}"}
        assert (await client.get("/console/health.json", headers=bearer)).status_code == 403


async def test_a_key_with_a_role_reads_json_and_ends_with_its_revocation(console: ConsoleHarness) -> None:
    key = await console.role_key("viewer", "board")
    bearer = {"authorization": f"Bearer {key}"}
    async with client_of(console) as client:
        assert (await client.get("/console/health.json", headers=bearer)).json()["ready"] is True
        await client.post("/console/sign-in", data={"key": key}, headers=OWN_PAGE)
        assert (await client.get("/console/health")).status_code == 200
        async with open_database(console.database_url) as database:
            await database.keys.revoke(key.split("_")[1], time.time())
        await console.background.elsewhere(console.app.key_sync.load())
        assert (await client.get("/console/health")).status_code == 303
        assert (await client.get("/console/health.json", headers=bearer)).status_code == 401


async def test_signing_out_ends_the_session_for_good(console: ConsoleHarness) -> None:
    async with console.signed_in() as client:
        cookie = client.cookies[COOKIE]
        left = await post(client, "/console/sign-out")
        assert left.status_code == 303
        client.cookies.clear()
        page = await client.get("/console/health", headers={"cookie": f"{COOKIE}={cookie}"})
        assert page.status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {},
    ],
)
async def test_another_page_can_do_nothing(console: ConsoleHarness, headers: dict[str, str]) -> None:
    """Not even a page of another port of this machine, which the browser calls the same site."""
    async with console.signed_in() as client:
        given = {"csrf": await token(client)}
        refused = await client.post("/console/sign-out", data=given, headers=headers)
        assert refused.status_code == 403
        assert (await client.get("/console/health")).status_code == 200


async def test_a_form_needs_the_token_of_its_session(console: ConsoleHarness) -> None:
    async with console.signed_in() as client, console.signed_in() as other:
        for given in ("", "0" * 96, await token(other)):
            refused = await client.post("/console/sign-out", data={"csrf": given}, headers=OWN_PAGE)
            assert refused.status_code == 400
        assert (await client.get("/console/health")).status_code == 200


async def test_another_page_cannot_even_ask(console: ConsoleHarness) -> None:
    """A page of another port is sent with the cookie: it reads nothing, but could time what a search finds."""
    async with console.signed_in() as client:
        for site in ("same-site", "cross-site"):
            asked = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
            assert (await client.get("/console/calls.json?q=x", headers=asked)).status_code == 403
            followed = {"sec-fetch-site": site, "sec-fetch-mode": "navigate"}
            assert (await client.get("/console/calls", headers=followed)).status_code == 200


@pytest.mark.parametrize("beside", ['settings={"a":1}; {}', "x[]=1; {}", "=; {};", "of=aggregator_console=1; {}"])
async def test_cookies_of_other_ports_end_no_session(console: ConsoleHarness, beside: str) -> None:
    async with console.signed_in() as client:
        ours = f"{COOKIE}={client.cookies[COOKIE]}"
        client.cookies.clear()
        given = {"cookie": beside.replace("{}", ours)}
        assert (await client.get("/console/health", headers=given)).status_code == 200


async def test_of_two_sessions_in_one_request_none_counts(console: ConsoleHarness) -> None:
    async with console.signed_in() as client:
        ours = f"{COOKIE}={client.cookies[COOKIE]}"
        client.cookies.clear()
        assert (await client.get("/console/health", headers={"cookie": f"{ours}; {COOKIE}=x"})).status_code == 303


async def test_slow_forms_of_strangers_keep_nobody_waiting(console: ConsoleHarness) -> None:
    """More forms that do not end than pages are made at a time."""
    address = httpx2.URL(console.url)
    host, port = address.host, address.port
    assert port is not None
    head = f"POST /console/sign-in HTTP/1.1\r\nHost: {host}:{port}\r\nSec-Fetch-Site: same-origin\r\n"
    head += "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9000\r\n\r\nkey="
    async with AsyncExitStack() as open_ones, console.signed_in() as client:
        for _ in range(12):
            _, writer = await asyncio.open_connection(host, port)
            open_ones.callback(writer.close)
            writer.write(head.encode())
            await writer.drain()
        async with asyncio.timeout(5):
            assert (await client.get("/console/health")).status_code == 200


async def test_a_stranger_sends_no_more_than_a_key(console: ConsoleHarness) -> None:
    async with client_of(console) as client:
        sent = await client.post("/console/sign-in", content=b"key=" + b"x" * 20_000, headers={**OWN_PAGE, **FORM})
        assert sent.status_code == 413


def test_tokens_differ_and_fit_one_session() -> None:
    one, other = new_secret(), new_secret()
    tokens = {csrf_token(one) for _ in range(50)}
    assert len(tokens) == 50
    assert all(is_csrf_token(made, one) and not is_csrf_token(made, other) for made in tokens)
    assert not is_csrf_token("é" * 96, one)


async def test_no_page_of_another_site_reads_or_frames_ours(console: ConsoleHarness) -> None:
    async with console.signed_in() as client:
        for path in ("/console/health", "/console/health.json", "/console/nothing", "/console/sign-in"):
            answer = await client.get(path, headers={"origin": console.url})
            assert answer.headers["content-security-policy"].startswith(POLICY)
            assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
            assert answer.headers["x-frame-options"] == "DENY"
            assert answer.headers["cache-control"] == "no-store"
            assert "access-control-allow-origin" not in answer.headers


async def test_a_browser_that_asks_for_the_root_is_sent_to_the_console(console: ConsoleHarness) -> None:
    async with client_of(console) as client:
        assert (await client.get("/", headers={"accept": "text/html,*/*"})).headers["location"] == "./console/"
        assert (await client.get("/")).json()["name"] == "aggregator"


async def test_what_people_do_is_in_the_audit(console: ConsoleHarness) -> None:
    async with console.signed_in("viewer", "petra") as client:
        await post(client, "/console/sign-out")
    async with open_database(console.database_url) as database:

        async def told() -> bool:
            rows = await AuditReader(database.engine).newest(LogFilter(), 50)
            said = [row.values["summary"] for row in rows if row.kind == "console"]
            return any("petra signed in" in one for one in said) and any("petra signed out" in one for one in said)

        await until(told)


async def test_a_page_that_is_not_there_leads_to_those_that_are(console: ConsoleHarness) -> None:
    """E13: for a person who is signed in, what went wrong stands below the navigation; strangers see none."""
    async with console.signed_in("viewer") as client:
        missing = await client.get("/console/calls/99999999")
        assert missing.status_code == 404
        assert 'href="/console/tools"' in missing.text
        forbidden = await client.get("/console/policies/diff")
        assert forbidden.status_code == 403
        assert 'href="/console/tools"' in forbidden.text
    async with client_of(console) as client:
        assert 'href="/console/tools"' not in (await client.get("/console/sign-in")).text
