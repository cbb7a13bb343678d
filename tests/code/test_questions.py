"""A server that asks the host in the middle of a program: servers and hosts of either era."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from aggregator.domain.call_record import CallRecord
from aggregator.domain.versions import Era
from tests.access.secured_harness import SecuredHarness
from tests.end_to_end.scripted_host import MODERN
from tests.peers.serving import BackgroundLoop, serving
from tests.server_requests.asking_server_web import AskingWebServer
from tests.server_requests.entries import ABLE, ANSWERS, FORM
from tests.server_requests.replies import ask_and_answer, resume

LEGACY: Final = "2025-11-25"
CODE: Final = (
    "import json\nrounds = json.loads('''ROUNDS''')\n"
    "for key in 'ab': call_tool('web.ask', {'key': key, 'rounds': rounds})\nprint('both')"
)


FAILING: Final = """
import asyncio, json
async def ask(): return await call_tool('web.ask', {'key': 'k', 'rounds': json.loads('ROUNDS')})
async def fail():
    await call_tool('web.witness', {'entry': 'now'})
    raise RuntimeError('no')
await asyncio.gather(ask(), fail())
"""


@pytest.fixture
def own_background() -> Iterator[BackgroundLoop]:
    with BackgroundLoop() as running:
        yield running


@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_server_asks_inside_a_program(
    own_background: BackgroundLoop, tmp_path: Path, era: Era, version: str
) -> None:
    """Each question reaches the host in the way of its era, and the program goes on with the answer."""
    url = own_background.open(serving(AskingWebServer(era)))
    policies = {"agents": {"one": {"allow": ["server:web"], "expose": "code"}}}
    servers = {"web": {"type": "http", "url": f"{url}/mcp"}}
    harness = SecuredHarness(own_background, tmp_path, servers, policies, ("one",))
    params = {"name": "run_code", "arguments": {"code": CODE.replace("ROUNDS", json.dumps([[FORM]]))}}
    async with harness.connect_as(("http", version), "one", ABLE) as host:
        answer = [ANSWERS["form"]]
        result, questions = await ask_and_answer(host, "tools/call", params, [answer, answer])
    assert result["content"][0]["text"] == "both"
    assert len(questions) == 2


async def test_a_program_that_ends_ends_its_call_that_asks(own_background: BackgroundLoop, tmp_path: Path) -> None:
    """The server waited for five minutes for an answer that none could bring, and its process with it."""
    asking_server = AskingWebServer("legacy")
    url = own_background.open(serving(asking_server))
    policies = {"agents": {"one": {"allow": ["server:web"], "expose": "code"}}}
    servers = {"web": {"type": "http", "url": f"{url}/mcp"}}
    harness = SecuredHarness(own_background, tmp_path, servers, policies, ("one",))
    records: list[CallRecord] = []
    harness.app.telemetry.observers.sinks += (records.append,)
    params = {"name": "run_code", "arguments": {"code": FAILING.replace("ROUNDS", json.dumps([[FORM]]))}}

    async def fail_now() -> None:
        asking_server.server.event_log.note("now")

    async with harness.connect_as(("http", MODERN), "one", ABLE) as host:
        interim = await host.ask("tools/call", params).result()
        assert interim["resultType"] == "input_required"
        await own_background.elsewhere(fail_now())
        await own_background.elsewhere(asking_server.server.event_log.until("cancelled k"))
        done = await resume(host, "tools/call", params, interim, [ANSWERS["form"]]).result()
        assert "RuntimeError: no" in done["content"][0]["text"]
    assert not len(harness.app.gateway.input_requests.parking)
    ends = [(one.called.tool, one.outcome.status, one.outcome.error_code) for one in records]
    assert ends.count(("web.ask", "cancelled", "unclaimed")) == 1
