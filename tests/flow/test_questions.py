"""Questions of servers to the host during a call: they bring what the call brings, and answers go out as calls do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import SecuredHarness
from tests.end_to_end.scripted_host import LEGACY, MODERN, ScriptedHost
from tests.flow.flow_harness import outcome_of
from tests.peers.serving import BackgroundLoop, serving
from tests.peers.toolbox import Json
from tests.server_requests.asking_server_web import AskingWebServer
from tests.server_requests.entries import ABLE, ANSWERS, FORM
from tests.server_requests.replies import asked, reply, resume

LABELS: Final[Json] = {"untrusted": ["old.*", "new.*"], "private": ["files.*"], "outward": ["old.*", "new.*", "mail.*"]}
AFTER_UNTRUSTED: Final[Json] = {"after": "untrusted", "calls": "outward", "then": "confirm"}
YES: Final = ANSWERS["form"]
# A host that can answer questions of servers, but not one of the gateway: `confirm` is then a refusal.
ASKS: Final[Json] = {"name": "x", "arguments": {"key": "k", "rounds": [[FORM]]}}

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
        agents = {"ada": {"allow": ["*"], "expose": "all", "confirm_by": "host"}}
        policies = {"labels": LABELS, "flow": flow, "agents": agents}
        self.harness = SecuredHarness(background, folder, entries, policies, ("ada",))


@pytest.fixture(params=["confirm", "deny"])
def asking(background: BackgroundLoop, tmp_path: Path, request: pytest.FixtureRequest) -> Asking:
    return Asking(background, tmp_path, request.param)


class Question:
    """A call of the tool that asks, from its question on."""

    def __init__(self, host: ScriptedHost, server: str) -> None:
        self._host = host
        self._params = {**ASKS, "name": f"{server}.ask"}

    async def put(self) -> None:
        """Make the call, and wait for the question."""
        self._call = self._host.ask("tools/call", self._params)
        if self._host.modern:
            self._interim = await self._call.result()
            assert self._interim["resultType"] == "input_required"
        else:
            self._asked = await asked(self._host)

    async def answer(self) -> str:
        """Answer the question; return how the call ends."""
        if self._host.modern:
            return outcome_of(await resume(self._host, "tools/call", self._params, self._interim, [YES]).message())
        await reply(self._host, self._asked, YES)
        return outcome_of(await self._call.message())


@every_host
@every_server
async def test_an_answer_is_not_sent_after_private_data_was_read(asking: Asking, version: str, server: str) -> None:
    """The call was allowed when it was made, and ends with the reason; its server never gets the answer."""
    async with asking.harness.connect_as(("http", version), "ada", ABLE) as host:
        question = Question(host, server)
        await question.put()
        assert outcome_of(await host.call("files.read").message()) == "ok"
        assert await question.answer() == "flow_denied"


@every_host
@every_server
async def test_an_answer_is_sent_where_nothing_else_was_read(asking: Asking, version: str, server: str) -> None:
    """What the question itself brought is no reason to keep its answer from the server that asked."""
    async with asking.harness.connect_as(("http", version), "ada", ABLE) as host:
        question = Question(host, server)
        await question.put()
        assert await question.answer() == "ok"


@every_host
@every_server
async def test_a_question_brings_what_its_call_brings(asking: Asking, version: str, server: str) -> None:
    """A model reads it before there is a result."""
    async with asking.harness.connect_as(("http", version), "ada", ABLE) as host:
        question = Question(host, server)
        await question.put()
        known = asking.harness.app.flow.scopes._scopes.values()
        assert any("untrusted" in scope.labels for scope in known)
        assert await question.answer() == "ok"
