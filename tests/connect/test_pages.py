"""The pages for connecting: what they show, what they refuse, and who may go on."""

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import pytest

from aggregator.accounts.connect.entry import CLIENT_PATH, CONNECT_PATH, Connect, own_client_id
from aggregator.accounts.grants.errors import ConnectFailed
from aggregator.config.settings import HttpConfig
from aggregator.domain.grant_owner import GATEWAY, SHARED
from aggregator.domain.principal import LOCAL, Principal, TokenFacts
from aggregator.frontends.web.host_guard import HostGuard
from aggregator.frontends.web.own_address import OwnAddress
from aggregator.gateway.access import Access
from aggregator.gateway.views.views import Views
from aggregator.identity.keys import new_key
from tests.connect.planned_grants import CODE, ISSUER, PlannedGrants, page
from tests.peers.serving import serving

FORM = {"sec-fetch-site": "same-origin"}
PUBLIC = "https://gateway.example.com"
CLERK = Principal("clerk", key_id="k")
ALICE = Principal("dev-alice", token=TokenFacts(ISSUER, "alice"))


@dataclass
class Served:
    """The pages at an address, and the keys of two agents and of an operator of the console."""

    grants: PlannedGrants
    url: str
    client: httpx2.AsyncClient
    keys: dict[str, str]

    async def get(self, path: str = f"/connect/{CODE}", **headers: str) -> httpx2.Response:
        return await self.client.get(f"{self.url}{path}", headers=_named(headers))

    async def post(self, code: str = CODE, key: str = "", **headers: str) -> httpx2.Response:
        sent = FORM | _named(headers)
        return await self.client.post(f"{self.url}/connect/{code}", data={"key": key}, headers=sent)


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@asynccontextmanager
async def served(**settings: Any) -> AsyncIterator[Served]:
    """The pages behind the guard of the web server."""
    own, access = OwnAddress(HttpConfig(**settings)), Access(Views(None, {}))
    made = {name: new_key(name, now=time.time()) for name in ("clerk", "reader")}
    operator = new_key("boss", now=time.time())
    records = [one.record for one in made.values()]
    records.append(replace(operator.record, console_role="operator"))
    access.keyring.use_policy_keys(records)
    grants = PlannedGrants(clerk=page(CLERK), shared=page(CLERK, SHARED), lists=page(CLERK, GATEWAY), alice=page(ALICE))
    connect = Connect(grants, own, access, own_client_id(own))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert connect.serves(scope["path"])
        await connect.serve(scope, receive, send, "")

    async with serving(HostGuard(app, own, (), (CONNECT_PATH,))) as url, httpx2.AsyncClient() as client:
        keys = {name: one.text for name, one in made.items()} | {"boss": operator.text}
        yield Served(grants, url, client, keys)


async def test_person_on_this_machine_connects_with_one_button() -> None:
    async with served() as at:
        offer = await at.get()
        assert offer.status_code == 200
        assert all(word in offer.text for word in ("wiki", ISSUER, "pages:read", "Agent local", "Continue"))
        assert "set-cookie" not in offer.headers
        leave = await at.post()
        assert leave.status_code == 200
        (redirect, browser), cookie = at.grants.started[0], leave.headers["set-cookie"]
        assert redirect == f"{at.url}/connect/callback"
        assert cookie.startswith(f"aggregator_connect={browser};")
        assert all(rule in cookie for rule in ("HttpOnly", "SameSite=lax", "Path=/;"))
        back = await at.get(f"/connect/callback?state={CODE}&code=x")
        assert (back.status_code, "wiki is connected" in back.text) == (200, True)
        again = await at.get()
        assert (again.status_code, "used already" in again.text) == (404, True)


async def test_looking_changes_nothing() -> None:
    async with served() as at:
        for method in ("GET", "HEAD", "GET"):
            answer = await at.client.request(method, f"{at.url}/connect/{CODE}")
            assert answer.status_code == 200
        assert at.grants.started == []
        assert (await at.client.delete(f"{at.url}/connect/{CODE}")).status_code == 405


async def test_every_page_keeps_others_out() -> None:
    async with served() as at:
        pages = [await at.get(path) for path in (f"/connect/{CODE}", "/connect/none", "/connect/callback")]
        for answer in (*pages, await at.post()):
            policy = answer.headers["content-security-policy"]
            assert "frame-ancestors 'none'" in policy
            assert "default-src 'none'" in policy
            assert answer.headers["x-frame-options"] == "DENY"
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["referrer-policy"] == "same-origin"
            assert "access-control-allow-origin" not in answer.headers


async def test_answer_of_an_issuer_is_taken_with_get_only() -> None:
    """A program that looks at the address with HEAD must not use it up."""
    async with served() as at:
        await at.post()
        back = f"{at.url}/connect/callback?state={CODE}&code=x"
        for method in ("HEAD", "POST"):
            assert (await at.client.request(method, back)).status_code == 405
        assert (await at.client.request("PUT", back)).status_code == 405
        assert "wiki is connected" in (await at.client.get(back)).text


async def test_fault_of_ours_is_logged_without_the_link(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(code: str) -> None:
        raise LookupError("no reason")

    async with served() as at:
        monkeypatch.setattr(at.grants, "opened", broken)
        answer = await at.get()
        assert (answer.status_code, "Internal error in the aggregator" in answer.text) == (500, True)
        assert answer.headers["x-robots-tag"] == "noindex, nofollow"
    logged = [line.getMessage() for line in caplog.records if line.levelname == "ERROR"]
    assert logged == ["a page for connecting failed"]
    assert CODE not in answer.text


async def test_style_sheet_is_kept_by_its_version() -> None:
    async with served() as at:
        style = re.search(r'href="(/connect/static/[0-9a-f]{12})(/connect.css)"', (await at.get()).text)
        assert style is not None
        whole = await at.get(style[1] + style[2], accept_encoding="identity")
        packed = await at.get(style[1] + style[2], accept_encoding="gzip")
        assert (whole.status_code, whole.text) == (200, packed.text)
        assert "content-encoding" not in whole.headers
        assert (packed.headers["content-encoding"], packed.headers["vary"]) == ("gzip", "accept-encoding")
        for answer in (whole, packed):
            assert answer.headers["content-type"] == "text/css; charset=utf-8"
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert answer.headers["x-content-type-options"] == "nosniff"
        for missing in (
            f"{style[1]}/LICENSES.txt",
            f"/connect/static/000000000000{style[2]}",
            f"{style[1]}/../parts.py",
        ):
            answer = await at.get(missing)
            assert (answer.status_code, answer.headers["cache-control"]) == (404, "no-store")


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "none"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
    ],
)
async def test_page_of_another_site_starts_nothing(headers: dict[str, str]) -> None:
    async with served(allowed_origins=["http://127.0.0.1:1"]) as at:
        answer = await at.post(**headers)
        assert answer.status_code == 403
        assert at.grants.started == []
        assert "access-control-allow-origin" not in answer.headers


async def test_form_without_any_word_of_where_it_comes_from_starts_nothing() -> None:
    async with served() as at:
        answer = await at.client.post(f"{at.url}/connect/{CODE}")
        assert (answer.status_code, at.grants.started) == (403, [])


@pytest.mark.parametrize("cookie", ["", "aggregator_connect=" + "a" * 43, "aggregator_connect=x; aggregator_connect=y"])
async def test_answer_counts_only_in_the_browser_that_began(cookie: str) -> None:
    async with served() as at:
        await at.post()
        async with httpx2.AsyncClient() as other:
            back = await other.get(f"{at.url}/connect/callback?state={CODE}&code=x", headers={"cookie": cookie})
        assert (back.status_code, "not belong to this browser" in back.text) == (400, True)
        assert (await at.get(f"/connect/callback?state={CODE}&code=x")).status_code == 200


async def test_link_of_this_machine_is_of_no_use_elsewhere() -> None:
    async with served(public_url=PUBLIC) as at:
        answer = await at.get(host="gateway.example.com", x_forwarded_for="203.0.113.7", x_forwarded_proto="https")
        assert (answer.status_code, "open it in a browser there" in answer.text) == (403, True)
        there = {"host": "gateway.example.com", "x_forwarded_for": "203.0.113.7", "origin": PUBLIC}
        assert (await at.post(**there)).status_code == 403
        assert at.grants.started == []


async def test_key_of_the_agent_is_needed_where_it_asked_with_one() -> None:
    async with served() as at:
        offer = await at.get("/connect/clerk")
        assert 'type="password"' in offer.text
        for key, said in (("", "key"), ("agk_wrong", "key"), (at.keys["reader"], "not one of the agent")):
            answer = await at.post("clerk", key)
            assert answer.status_code == 403
            assert said in answer.text
            assert not key or key not in answer.text
        assert at.grants.started == []
        assert (await at.post("clerk", at.keys["clerk"])).status_code == 200
        assert len(at.grants.started) == 1


@pytest.mark.parametrize("link", ["shared", "lists"])
async def test_account_of_all_is_connected_by_an_operator(link: str) -> None:
    async with served() as at:
        refused = await at.post(link, at.keys["clerk"])
        assert (refused.status_code, "operator" in refused.text) == (403, True)
        assert (await at.post(link, at.keys["boss"])).status_code == 200


async def test_link_of_a_person_needs_the_person() -> None:
    async with served() as at:
        answer = await at.post("alice", at.keys["boss"])
        assert (answer.status_code, at.grants.started) == (403, [])


async def test_unsafe_address_is_refused() -> None:
    async with served(allowed_hosts=["gateway.lan"]) as at:
        answer = await at.get("/connect/clerk", host="gateway.lan")
        assert (answer.status_code, "https://" in answer.text) == (403, True)
        there = {"host": "gateway.lan", "origin": "http://gateway.lan"}
        assert (await at.post("clerk", at.keys["clerk"], **there)).status_code == 403
        assert at.grants.started == []


async def test_other_host_name_is_refused() -> None:
    async with served() as at:
        assert (await at.get(host="evil.example")).status_code == 421


async def test_behind_https_the_cookie_is_of_this_host_only() -> None:
    async with served(public_url=f"{PUBLIC}/mcps") as at:
        there = {"host": "gateway.example.com", "x_forwarded_for": "203.0.113.7", "origin": PUBLIC}
        answer = await at.post("clerk", at.keys["clerk"], **there)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-aggregator_connect=")
        assert {"Path=/", "Secure", "HttpOnly"} <= set(cookie.split("; "))
        assert at.grants.started[0][0].startswith(f"{PUBLIC}/")


async def test_client_document_is_served_under_https_only() -> None:
    async with served() as at:
        assert own_client_id(OwnAddress(HttpConfig())) is None
    async with served(public_url=PUBLIC) as at:
        document = (await at.get(CLIENT_PATH)).json()
        assert document["client_id"] == f"{PUBLIC}{CLIENT_PATH}"
        assert f"{PUBLIC}/connect/callback" in document["redirect_uris"]
        assert document["token_endpoint_auth_method"] == "none"


async def test_refusals_of_the_issuer_are_said() -> None:
    async with served() as at:
        at.grants.fails = ConnectFailed("The wiki has no login.")
        answer = await at.post()
        assert (answer.status_code, "The wiki has no login." in answer.text) == (400, True)
        at.grants.fails = ConnectFailed("It does not answer.", transient=True)
        assert (await at.post()).status_code == 503
        at.grants.fails = None
        await at.post()
        back = await at.get(f"/connect/callback?state={CODE}&error=access_denied")
        assert (back.status_code, "did not agree" in back.text) == (400, True)


async def test_address_of_the_issuer_is_a_web_address() -> None:
    async with served() as at:
        at.grants.at_issuer = "javascript:alert(1)"
        answer = await at.post()
        assert (answer.status_code, "javascript" in answer.text) == (500, False)


async def test_foreign_text_is_no_markup() -> None:
    async with served() as at:
        at.grants.links[CODE] = replace(page(LOCAL), server="<b>x</b>", scopes=("<i>\u202ey",), issuer='https://a"b')
        text = (await at.get()).text
        assert "<b>x" not in text
        assert "<i>" not in text
        assert "\u202e" not in text


async def test_bounds() -> None:
    async with served() as at:
        large = {"content-type": "application/x-www-form-urlencoded", **FORM}
        answer = await at.client.post(f"{at.url}/connect/{CODE}", content=b"key=" + b"a" * 20_000, headers=large)
        assert answer.status_code == 413
        assert (await at.get("/connect/callback?" + "&".join(f"a{one}=1" for one in range(60)))).status_code == 400
