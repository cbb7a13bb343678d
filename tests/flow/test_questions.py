"""Questions of servers to the host during a call: they bring what the call brings, and answers go out as calls do."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from aggregator.flow.gateway.scopes import ScopeKey, ScopeOwner
from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import SecuredHarness
from tests.end_to_end.scripted_host import LEGACY, MODERN, ScriptedHost
from tests.flow.flow_harness import FlowHarness, MovedClock, flow_of, outcome_of
from tests.peers.serving import BackgroundLoop, serving
from tests.peers.toolbox import Json
from tests.server_requests.asking_server_web import AskingWebServer
from tests.server_requests.entries import ABLE, ANSWERS, FORM
from tests.server_requests.replies import asked, reply, resume

LABELS: Final[Json] = {
    "untrusted": ["old.*", "new.*"],
    "private": ["files.*"],
    "outward": ["server:old", "server:new", "mail.*"],
}
AFTER_UNTRUSTED: Final[Json] = {"after": "untrusted", "calls": "outward", "then": "confirm"}
YES: Final = ANSWERS["form"]

every_host = pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
every_server = pytest.mark.parametrize("server", ["old", "new"])


@pytest.fixture(scope="module")
def background() -> Iterator[BackgroundLoop]:
    with BackgroundLoop() as running:
        yield running


class Asking:
    """A gateway before a server of either era that asks, one with files, and one that sends mail."""

    def __init__(self, background: BackgroundLoop, folder: Path, then: str) -> None:
        self.files, self.mail = RecordingToolbox([tool("read")]), RecordingToolbox([tool("send")])
        self.servers = {"old": AskingWebServer("legacy"), "new": AskingWebServer("modern")}
        entries: dict[str, Json] = {
            name: {"type": "http", "url": f"{background.open(serving(server))}/mcp"}
            for name, server in self.servers.items()
        }
        entries |= {"files": self.files.config_entry(), "mail": self.mail.config_entry()}
        flow = [AFTER_UNTRUSTED, {"after": "private", "calls": "outward", "then": then}]
        agents = {"ada": {"allow": ["*", "prompt:*"], "expose": "all", "confirm_by": "host"}}
        policies = {"labels": LABELS, "flow": flow, "agents": agents}
        self.harness = SecuredHarness(background, folder, entries, policies, ("ada",))


@pytest.fixture(params=["confirm", "deny"])
def asking(background: BackgroundLoop, tmp_path: Path, request: pytest.FixtureRequest) -> Asking:
    return Asking(background, tmp_path, request.param)


class AskingCall:
    """A call of the tool that asks, from its question on."""

    def __init__(self, host: ScriptedHost, server: str, method: str = "tools/call") -> None:
        self._host = host
        self._method = method
        rounds: object = [[FORM]] if method == "tools/call" else json.dumps([[FORM]])
        self._params: Json = {"name": f"{server}.ask", "arguments": {"key": "k", "rounds": rounds}}

    async def put(self) -> None:
        """Make the call, and wait for the question."""
        self._call = self._host.ask(self._method, self._params)
        if self._host.modern:
            self._interim = await self._call.result()
            assert self._interim["resultType"] == "input_required"
        else:
            self._asked = await asked(self._host)

    async def answer(self) -> str:
        """Answer the question; return how the call ends."""
        if self._host.modern:
            return outcome_of(await resume(self._host, self._method, self._params, self._interim, [YES]).message())
        await reply(self._host, self._asked, YES)
        return outcome_of(await self._call.message())


@every_host
@every_server
async def test_an_answer_is_not_sent_after_private_data_was_read(asking: Asking, version: str, server: str) -> None:
    """The call was allowed when it was made, and ends with the reason; its server never gets the answer."""
    async with asking.harness.connect_as(("http", version), "ada", ABLE) as host:
        call = AskingCall(host, server)
        await call.put()
        assert outcome_of(await host.call("files.read").message()) == "ok"
        assert await call.answer() == "flow_denied"
        assert len(asking.harness.app.gateway.input_requests.parking) == 0


@every_host
@every_server
async def test_an_answer_is_sent_where_nothing_else_was_read(asking: Asking, version: str, server: str) -> None:
    """What the question itself brought is no reason to keep its answer from the server that asked."""
    async with asking.harness.connect_as(("http", version), "ada", ABLE) as host:
        call = AskingCall(host, server)
        await call.put()
        assert await call.answer() == "ok"


@every_host
@every_server
async def test_a_question_brings_what_its_call_brings(asking: Asking, version: str, server: str) -> None:
    """A model reads it before there is a result."""
    async with asking.harness.connect_as(("http", version), "ada", ABLE) as host:
        call = AskingCall(host, server)
        await call.put()
        known = flow_of(asking.harness.app).scopes._scopes.values()
        assert any("untrusted" in scope.labels for scope in known)
        assert await call.answer() == "ok"


@every_host
@every_server
@pytest.mark.parametrize("read", [True, False])
async def test_a_prompt_that_asks_is_decided_alike(asking: Asking, version: str, server: str, read: bool) -> None:
    async with asking.harness.connect_as(("http", version), "ada", ABLE) as host:
        call = AskingCall(host, server, "prompts/get")
        await call.put()
        if read:
            await host.call("files.read").message()
        assert await call.answer() == ("flow_denied" if read else "ok")
        assert len(asking.harness.app.gateway.input_requests.parking) == 0


async def test_an_answer_is_sent_that_was_agreed_to_with_as_much_read(
    background: BackgroundLoop, tmp_path: Path
) -> None:
    """A person agreed to the call after private data was read, so its answers go too."""
    asking = Asking(background, tmp_path, "confirm")
    async with asking.harness.connect_as(("http", LEGACY[-1]), "ada", ABLE) as host:
        await host.call("files.read").message()
        call = host.ask("tools/call", {"name": "new.ask", "arguments": {"key": "k", "rounds": [[FORM]]}})
        await reply(host, await asked(host), {"action": "accept", "content": {"allow": True}})
        await reply(host, await asked(host, 2), YES)
        assert outcome_of(await call.message()) == "ok"


async def test_what_is_passed_on_of_a_log_is_known_at_once(tmp_path: Path) -> None:
    """A message brings what its call brings, and its row is written later."""
    storage = f"sqlite+aiosqlite:///{tmp_path}/flow.db"
    async with FlowHarness(tmp_path, MovedClock(), storage=storage) as harness, harness.app.database:
        host, flow = harness.legacy(), flow_of(harness.app)
        await harness.call(host, "mail.list")
        key = ScopeKey(ScopeOwner("ada", None, None), "session", "one")
        flow.bring_at_once(key, {"untrusted"}, "web.fetch", "t", 1_800.0)
        assert await harness.outcome(host, "mail.send") == "not_confirmed"
        assert len(flow.scopes.unwritten) == 2
        await flow.write_rest()
        assert not flow.scopes.unwritten
