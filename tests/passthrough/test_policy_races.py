"""Two rules that meet in time: a policy that changes between a question and its answer, a key, a cache, a limit."""

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.domain.principal import Principal
from aggregator.gateway.host import Host
from aggregator.upstream.connection import Connection, DeferredRequest, JsonRpcRequest
from aggregator.upstream.sessions.negotiate import Negotiated
from aggregator.upstream.sessions.session import UpstreamSession
from aggregator.wire.pending_request import AnswerReceiver, PendingRequest
from tests.access.gateway_harness import FORMS, MODERN, GatewayHarness, error_data, make_config, tool
from tests.access.secured_harness import SecuredHarness
from tests.passthrough.upstreams import first_update, local, subscribed_to, updates
from tests.peers.back_channel import AnsweringBackChannel
from tests.peers.library import FILE, Library
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json

FORM: Final = {"method": "elicitation/create", "params": {"message": "Which?", "requestedSchema": {"type": "object"}}}
YES: Final[Json] = {"action": "accept", "content": {"allow": True}}
ANSWER: Final[Json] = {"action": "accept", "content": {}}
ALLOWED: Final[Json] = {"allow": ["server:a"]}
CONFIRMED: Final[Json] = {**ALLOWED, "confirm": ["a.*", "resource:a.*", "prompt:a.*"]}
URI: Final = "file://a//get"
KINDS: Final[Mapping[str, Json]] = {
    "tools/call": {"name": "a.get"},
    "resources/read": {"uri": URI},
    "prompts/get": {"name": "a.get"},
}
DONE: Final[Mapping[str, Json]] = {
    "tools/call": {"content": []},
    "resources/read": {"contents": [], "ttlMs": 60_000, "cacheScope": "public"},
    "prompts/get": {"messages": []},
}


class FakeAskingServer(Connection):
    """An upstream of 2026-07-28 that asks once before it answers; `got` is every request that reached it."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.got: list[Json] = []

    def begin(self, request: JsonRpcRequest, receiver: AnswerReceiver | None = None) -> PendingRequest:
        return DeferredRequest(partial(self._answer, request.method, request.params))

    async def _answer(self, method: str, params: Json) -> Json:
        self.got.append(params)
        if "inputResponses" in params:
            return DONE[method]
        return {"resultType": "input_required", "inputRequests": {"which": FORM}, "requestState": "mine"}

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Drop the notification."""

    def use_version(self, version: str) -> None:
        """Ignore the revision: no test depends on it."""


class AskingHarness(GatewayHarness):
    """A gateway with one server that asks."""

    def __init__(self, folder: Path, body: Json) -> None:
        config = make_config(folder, {"a": {"command": "played"}})
        super().__init__(config, {"a": [tool("get")]}, {"agents": {"one": body}})
        self.server = FakeAskingServer()
        upstream = self.app.upstreams["a"]
        upstream.lists.put("resource", [{"uri": "file:///get", "name": "get"}])
        upstream.lists.put("prompt", [{"name": "get"}])
        upstream.shared.negotiated = Negotiated(MODERN, {}, {"tools": {}, "resources": {}, "prompts": {}}, None)
        asking: Any = self.server
        upstream.shared.session = UpstreamSession(asking, upstream.shared.negotiated, "local", {})
        self.app.updates.rebuild()

    def comer(self, key: str = "k1") -> Host:
        """A host of 2026-07-28 that came in with this key of the agent."""
        host = self.host("one", MODERN)
        host.principal = Principal("one", key_id=key)
        host.capabilities = FORMS
        return host

    async def asked(self, method: str, **more: Any) -> Json:
        """The question that comes instead of a result."""
        interim: Json = (await self.ask(self.comer(), method, {**KINDS[method], **more}))["result"]
        assert interim["resultType"] == "input_required"
        return interim

    async def back(self, method: str, interim: Json, answer: Json = ANSWER, key: str = "k1") -> Json:
        """Return the result of the request once the input request is answered."""
        answers = dict.fromkeys(interim.get("inputRequests", ()), answer)
        params = {**KINDS[method], "inputResponses": answers, "requestState": interim["requestState"]}
        return await self.ask(self.comer(key), method, params, AnsweringBackChannel())


@pytest.mark.parametrize("method", KINDS)
async def test_a_state_from_before_a_person_was_wanted(tmp_path: Path, method: str) -> None:
    """B6: it lets nothing through that a person has to agree to by now."""
    table = AskingHarness(tmp_path, ALLOWED)
    interim = await table.asked(method)
    table.set_policies({"agents": {"one": CONFIRMED}})
    answer = await table.back(method, interim)
    assert answer["error"]["code"] == -32602
    assert "a person has to agree to it by now" in answer["error"]["message"]
    assert len(table.server.got) == 1


@pytest.mark.parametrize("method", KINDS)
async def test_a_state_that_the_host_agreed_to(tmp_path: Path, method: str) -> None:
    """B6: goes on while the host may say yes, and no longer once only the queue may."""
    table = AskingHarness(tmp_path, CONFIRMED)
    for then in (CONFIRMED, {**CONFIRMED, "confirm_by": "queue", "confirm_wait": 0}):
        interim = await table.back(method, await table.asked(method), YES)
        assert list(interim["result"]["inputRequests"]) == ["which"]
        reached = len(table.server.got)
        table.set_policies({"agents": {"one": then}})
        answer = await table.back(method, interim["result"])
        assert ("result" in answer) is (then is CONFIRMED)
        assert len(table.server.got) == reached + (then is CONFIRMED)


@pytest.mark.parametrize("method", KINDS)
async def test_a_state_is_good_for_one_key(tmp_path: Path, method: str) -> None:
    """D4: another key of the same agent does not take it up, and does not use it up either."""
    table = AskingHarness(tmp_path, ALLOWED)
    interim = await table.asked(method)
    stolen = await table.back(method, interim, key="k2")
    assert stolen["error"]["code"] == -32602
    assert len(table.server.got) == 1
    assert "result" in await table.back(method, interim)
    assert table.server.got[1]["requestState"] == "mine"


async def test_what_somebody_answered_is_cached_for_nobody_else(tmp_path: Path) -> None:
    """C16: whatever the server says of a result that hangs on an answer, asked for or not."""
    table = AskingHarness(tmp_path, ALLOWED)
    answer = (await table.back("resources/read", await table.asked("resources/read")))["result"]
    assert (answer["ttlMs"], answer["cacheScope"]) == (0, "private")
    unasked = {**KINDS["resources/read"], "inputResponses": {"which": ANSWER}}
    answer = (await table.ask(table.comer(), "resources/read", unasked))["result"]
    assert (answer["ttlMs"], answer["cacheScope"]) == (0, "private")


@pytest.mark.parametrize("body", [ALLOWED, CONFIRMED])
async def test_a_call_with_its_questions_counts_once(tmp_path: Path, body: Json) -> None:
    """F5: an answer is no call of its own."""
    table = AskingHarness(tmp_path, {**body, "limits": {"a.*": {"per_minute": 1}}})
    interim = await table.asked("tools/call")
    if body is CONFIRMED:
        interim = (await table.back("tools/call", interim, YES))["result"]
    assert list(interim["inputRequests"]) == ["which"]
    answer = await table.back("tools/call", interim)
    assert "isError" not in answer["result"]
    assert error_data(await table.ask(table.comer(), "tools/call", KINDS["tools/call"]))["code"] == "limit_reached"


@pytest.mark.parametrize("host_kind", [("sse", "2025-11-25"), ("http", MODERN)])
async def test_a_part_that_is_denied_is_not_told_of(tmp_path: Path, host_kind: tuple[str, str]) -> None:
    """D4: who subscribed to the whole hears of the parts that it may read, and of no other."""
    library = Library("shop")
    body = {"allow": ["server:shop"], "deny": [f"resource:shop.{FILE}/secret"]}
    with BackgroundLoop() as running:
        harness = SecuredHarness(
            running, tmp_path, {"shop": local(library, protocol="legacy")}, {"agents": {"one": body}}, ["one"]
        )
        uri = "file://shop//notes/a.txt"
        async with harness.connect_as(host_kind, "one") as one, subscribed_to(one, resourceSubscriptions=[uri]):
            for part in ("secret", "open"):
                await one.call("shop.touch", {"uri": f"{FILE}/{part}"}).result()
            await first_update(one, f"{uri}/open")
            assert updates(one) == [f"{uri}/open"]
