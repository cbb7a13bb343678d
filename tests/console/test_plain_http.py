"""Requests to the console as HTTP has them: methods, odd queries, files, and the headers of every response."""

import re

import httpx2
import pytest

from tests.console.console_harness import OWN_PAGE, ConsoleHarness

KEPT = "public, max-age=31536000, immutable"


def assert_guarded(answer: httpx2.Response, cached: str = "no-store") -> None:
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'")
    assert "frame-ancestors 'none'" in policy
    guards = ("x-frame-options", "x-content-type-options", "referrer-policy", "cross-origin-opener-policy")
    assert [answer.headers[name] for name in guards] == ["DENY", "nosniff", "same-origin", "same-origin"]
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["cache-control"] == cached


async def test_every_response_keeps_others_out(console: ConsoleHarness) -> None:
    """Pages, data, redirects, errors and refusals, with a session and without."""
    async with console.signed_in() as client, httpx2.AsyncClient(base_url=console.url) as stranger:
        found = {
            path: await client.get(path)
            for path in ("/console/", "/console/health.json", "/console/none", "/console/none.json")
        }
        found["put"] = await client.put("/console/health", content=b"")
        found["form"] = await client.post("/console/policies/explain", headers=OWN_PAGE, content=b"")
        found["stranger"] = await stranger.get("/console/health")
        found["data"] = await stranger.get("/console/health.json")
        found["sign in"] = await stranger.get("/console/sign-in")
    statuses = [answer.status_code for answer in found.values()]
    assert statuses == [200, 200, 404, 404, 405, 400, 303, 401, 200]
    for answer in found.values():
        assert_guarded(answer)


async def test_files_are_kept_by_their_version(console: ConsoleHarness) -> None:
    """They need no session: the page to sign in loads them."""
    async with httpx2.AsyncClient(base_url=console.url) as client:
        page = await client.get("/console/sign-in")
        style = re.search(r'href="(/console/static/[0-9a-f]{12}/)console.css"', page.text)
        assert style is not None
        whole = await client.get(f"{style[1]}console.css", headers={"accept-encoding": "identity"})
        packed = await client.get(f"{style[1]}console.css", headers={"accept-encoding": "gzip"})
        assert (whole.status_code, "content-encoding" in whole.headers) == (200, False)
        assert (packed.text, packed.headers["content-encoding"]) == (whole.text, "gzip")
        assert packed.headers["vary"] == "accept-encoding"
        kinds = {"console.css": "text/css; charset=utf-8", "favicon.svg": "image/svg+xml"}
        kinds["console.js"] = "text/javascript; charset=utf-8"
        for name, kind in kinds.items():
            answer = await client.get(style[1] + name)
            assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
            assert_guarded(answer, KEPT)
        for missing in (f"{style[1]}LICENSES.txt", "/console/static/000000000000/console.css", "/console/static/none"):
            answer = await client.get(missing)
            assert (answer.status_code, answer.text) == (404, "Not Found")
            assert_guarded(answer)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/console/", "/console/sign-in", "/console/none", "/console/calls.json"])
async def test_other_methods_are_refused(console: ConsoleHarness, method: str, path: str) -> None:
    async with console.signed_in() as client:
        assert (await client.request(method, path, content=b"")).status_code == 405


async def test_head_is_a_page_without_its_body(console: ConsoleHarness) -> None:
    async with console.signed_in() as client:
        answer = await client.head("/console/health")
        assert (answer.status_code, answer.content) == (200, b"")
        assert int(answer.headers["content-length"]) > 1_000


async def test_odd_queries_are_answered(console: ConsoleHarness) -> None:
    """Bytes that are no UTF-8, a field twice, and more fields than may be."""
    async with console.signed_in() as client:
        assert (await client.get("/console/health?q=%ff%00%0d%0a")).status_code == 200
        twice = (await client.get("/console/events.json?kind=console&kind=none")).json()
        assert twice["kind"] == "console", "the first value counts"
        most = await client.get("/console/health?" + "&".join(["a=1"] * 500))
        assert most.status_code == 200
        for end in ("", ".json"):
            more = await client.get(f"/console/health{end}?" + "&".join(["a=1"] * 501))
            assert (more.status_code, "There may be 500 fields." in more.text) == (400, True)


async def test_a_fault_of_ours_is_a_page_and_one_line_in_the_log(
    console: ConsoleHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its text goes to the log only, and the next page is answered."""

    def broken(scope: object) -> None:
        raise LookupError("a secret path")

    async with console.signed_in() as client:
        with monkeypatch.context() as planted:
            planted.setattr("aggregator.frontends.console.console.cookie_of", broken)
            page, data = await client.get("/console/health"), await client.get("/console/health.json")
        for answer in (page, data):
            assert (answer.status_code, "Internal error in the aggregator" in answer.text) == (500, True)
            assert "secret path" not in answer.text
            assert_guarded(answer)
        assert data.json()["error"]["code"] == "internal_error"
        logged = [line.getMessage() for line in caplog.records if line.levelname == "ERROR"]
        assert logged == ["the console page /health failed", "the console page /health.json failed"]
        assert (await client.get("/console/health")).status_code == 200


async def test_too_many_requests_are_refused_at_once(console: ConsoleHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    async with console.signed_in() as client:
        with monkeypatch.context() as planted:
            planted.setattr("aggregator.frontends.console.console._MOST_WAITING", 0)
            for path in ("/console/health", "/console/sign-in"):
                answer = await client.get(path)
                assert (answer.status_code, answer.text) == (503, "The console is busy. Try again.")
                assert_guarded(answer)
        assert (await client.get("/console/health")).status_code == 200
