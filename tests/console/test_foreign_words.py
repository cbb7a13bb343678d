"""Holds every page, as HTML, JSON and live rows, to the role that may read what servers wrote: approver and up.

A canary stands in every place where a server can put words of its own into an error: of a call, of its start, on
stderr, in the reason and the body of an HTTP answer.
"""

import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import pytest
import pytest_asyncio

from aggregator.storage.records import ConsoleRole
from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.console.console_harness import ConsoleHarness
from tests.console.page_reader import crawl
from tests.console.test_live import watching
from tests.end_to_end.scripted_host import MODERN
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json, Progress, Refusal, text_result
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

# One for each place, so that a failure names the place.
IN_RESULT: Final = "canary-in-a-result"
IN_ERROR: Final = "canary-in-a-json-rpc-error"
IN_REASON: Final = "canary-in-an-http-reason"
IN_BODY: Final = "canary-in-an-http-body"
ON_STDERR: Final = "canary-on-stderr"
CANARIES: Final = (IN_RESULT, IN_ERROR, IN_REASON, IN_BODY, ON_STDERR)
POLICIES: Final = {"agents": {"clerk": {"allow": ["*"]}, "reader": {"allow": ["shop.get"]}}}
_DIES: Final = f"import sys; print({ON_STDERR!r}, file=sys.stderr); sys.exit(3)"


class _Rude(RecordingToolbox):
    """A server that fails with words of its own."""

    async def call(self, params: Mapping[str, Any], progress: Progress) -> Json:
        if params["name"] == "refuse":
            raise Refusal(-32000, IN_ERROR, None)
        return {**text_result(IN_RESULT), "isError": True}


class _Broken(BaseHTTPRequestHandler):
    """An HTTP server that is no MCP server, and says so in words of its own."""

    def do_POST(self) -> None:
        """Answer with a reason and a body."""
        self.send_response(503, IN_REASON)
        self.send_header("content-length", str(len(IN_BODY)))
        self.end_headers()
        self.wfile.write(IN_BODY.encode())

    do_GET = do_POST

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def broken() -> Iterator[str]:
    """Return the address of a server that fails over HTTP."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Broken) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        server.shutdown()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rude(
    background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory, broken: str
) -> AsyncIterator[ConsoleHarness]:
    """Run a gateway whose servers have failed in every way, with the calls on record."""
    servers = {
        "rude": _Rude([tool("fail"), tool("refuse")]).config_entry(),
        "dead": {"command": sys.executable, "args": ["-I", "-S", "-c", _DIES]},
        "broken": {"url": broken, "type": "http"},
    }
    audit = {"capture": "full", "flush_interval": "10ms"}
    console = ConsoleHarness(background, tmp_path_factory.mktemp("rude"), servers, POLICIES, audit=audit)
    await make_calls(console)
    yield console


async def make_calls(console: ConsoleHarness) -> None:
    """Have each server fail a call."""
    async with console.connect_as(("http", MODERN), "clerk") as host:
        for name in ("rude.fail", "rude.refuse", "dead.any", "broken.any"):
            await host.call(name, {}).message()
    log = console.app.telemetry.audit
    assert log is not None
    await until(lambda: log.report()["waiting"] == 0, "the calls are on record")


async def read(console: ConsoleHarness, role: ConsoleRole) -> dict[str, str]:
    """Return everything that a person comes to by links, as HTML and as JSON, by address."""
    async with console.signed_in(role, "petra") as client:
        fetched, problems = await crawl(client, "/console/", each=12)
        assert not problems, problems[:5]
        pages = {one.path: one.text for one in fetched}
        for path in ("/console/servers/dead.json", "/console/tools/dead.any", "/console/tools/broken.any.json"):
            pages[path] = (await client.get(path)).text
        return pages


async def test_a_viewer_reads_no_word_of_a_server(rude: ConsoleHarness) -> None:
    pages = await read(rude, "viewer")
    found = [(canary, path) for path, text in pages.items() for canary in CANARIES if canary in text]
    assert found == []
    assert any("/calls/" in path and path.endswith(".json") for path in pages)
    assert "the call failed" in pages["/console/calls.json"]
    assert "the server is away" in pages["/console/calls"]


@pytest.mark.parametrize("role", ["approver", "operator"])
async def test_an_approver_reads_them(rude: ConsoleHarness, role: ConsoleRole) -> None:
    pages = await read(rude, role)
    whole = "".join(pages.values())
    for canary in (IN_RESULT, IN_ERROR, ON_STDERR):
        assert canary in whole, canary


async def test_a_search_tells_a_viewer_nothing_of_them(rude: ConsoleHarness) -> None:
    """Rows that are found by a word would tell what stands in a text that is not shown."""
    roles: dict[ConsoleRole, int] = {"viewer": 0, "approver": 1}
    for role, count in roles.items():
        async with rude.signed_in(role, "petra") as client:
            found = (await client.get(f"/console/calls.json?q={IN_ERROR}")).json()
            assert len(found["rows"]) == count, role
            assert found["hour"]["total"] == count, role


async def test_live_rows_are_by_role_too(rude: ConsoleHarness) -> None:
    """Two people look at one list: each is sent the rows as their role may read them, the newest first."""
    async with (
        rude.signed_in("viewer", "petra") as viewer,
        rude.signed_in("approver", "maria") as approver,
        watching(viewer, q="tool:rude.refuse") as hidden,
        watching(approver, q="tool:rude.refuse") as shown,
    ):
        await make_calls(rude)
        (_, theirs), (_, ours) = await hidden.next("rows"), await shown.next("rows")
    assert "rude." in theirs
    assert not [canary for canary in CANARIES if canary in theirs]
    assert IN_ERROR in ours


async def test_one_person_takes_a_share_of_the_live_streams(rude: ConsoleHarness) -> None:
    """Twenty pages of one person are live at most; others are let in, and they themselves once a page is closed."""
    async with rude.signed_in("viewer", "petra") as petra, rude.signed_in("viewer", "jonas") as jonas:
        async with AsyncExitStack() as stack:
            for _ in range(20):
                await stack.enter_async_context(watching(petra, q=""))
            async with rude.signed_in("viewer", "petra") as again:
                refused = await again.get("/console/live?q=")
            assert refused.status_code == 429
            assert "You have 20 live pages" in refused.json()["error"]["message"]
            async with watching(jonas, q=""):
                pass

        async def is_let_in() -> bool:
            async with petra.stream("GET", "/console/live?q=") as response:
                return response.status_code == 200

        await until(is_let_in, "a page that is closed makes room")
