"""The pages of an aggregator about itself: what is answered to which method, and how much to whom."""

from typing import Any

import pytest

from aggregator.frontends.web.host_guard import SOURCE
from aggregator.frontends.web.status_pages import StatusPages
from aggregator.identity.source import ClientSource

DETAILS = {"ready": False, "tools": 3}
HERE = ClientSource("127.0.0.1", forwarded=False, named_here=True)


async def _get(path: str, method: str = "GET", *, source: ClientSource = HERE) -> tuple[int, dict[bytes, bytes], bytes]:
    scope = {"type": "http", "method": method, "path": path, "headers": [], SOURCE: source}
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("no page reads a body")

    pages = StatusPages(lambda: (False, DETAILS), {"sse": "/sse"})
    await pages(scope, receive, send)
    start, body = sent
    return start["status"], dict(start["headers"]), body["body"]


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/", 200, b'{"name":"aggregator","sse":"/sse"}'),
        ("/healthz", 200, b'{"status":"ok"}'),
        ("/healthz/", 200, b'{"status":"ok"}'),
        ("/readyz", 503, b'{"ready":false,"tools":3}'),
        ("/other", 404, b"Not Found"),
        ("/healthz/other", 404, b"Not Found"),
    ],
)
async def test_a_page_is_answered(path: str, status: int, body: bytes) -> None:
    found = await _get(path)
    assert (found[0], found[2]) == (status, body)
    assert found[1][b"content-length"] == b"%d" % len(body)
    assert found[1][b"content-type"] == (b"text/plain; charset=utf-8" if status == 404 else b"application/json")


async def test_details_are_for_this_machine_only() -> None:
    assert (await _get("/readyz", source=ClientSource("192.0.2.1", forwarded=False, named_here=True)))[
        2
    ] == b'{"ready":false}'


async def test_pages_are_read_only() -> None:
    status, headers, body = await _get("/readyz", "POST")
    assert (status, headers[b"allow"], body) == (405, b"GET, HEAD", b"Method Not Allowed")
    assert (await _get("/healthz", "HEAD"))[0] == 200
