"""A key that has ended: everything that runs with it ends, by itself and on every frontend; other keys go on."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from types import SimpleNamespace
from typing import Final

import httpx2
import pytest

from aggregator.domain.principal import LOCAL, Principal
from aggregator.gateway import access
from aggregator.gateway.revocation import REVIEW_EVERY, RevocableTask, RevocableTasks
from aggregator.identity.keyring import REFRESH_EVERY, Keyring
from aggregator.identity.keys import NewKey
from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import OpenHarness, SecuredHarness, write_policies
from tests.access.test_keys import HELLO, database, made, noticed
from tests.end_to_end.scripted_host import ACCEPT, ENVELOPE, MODERN, http_client
from tests.peers.toolbox import Json
from tests.polling import until

BOUND: Final = 20.0
POLICIES: Final = {"agents": {"one": {"allow": ["*"]}, "two": {"allow": ["*"]}}}
EVENTS: Final = {"accept": "text/event-stream"}
_numbers: Final = count()
FILTER: Final = {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE}


def hold(key: str, meta: Json | None = None) -> Json:
    params = {"name": "shop.hold", "arguments": {"key": key}, **({"_meta": meta} if meta is not None else {})}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


def modern(method: str, name: str | None = None) -> dict[str, str]:
    named = {"mcp-name": name} if name is not None else {}
    return {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": method, **named}


class BusyHost:
    """A host that has something going on in every way there is; `ended` says how each way ended."""

    def __init__(self, harness: SecuredHarness, toolbox: RecordingToolbox, key: str, name: str) -> None:
        # A call of an earlier host of this name may end after that one's test.
        self._box, self._name = toolbox, f"{name}{next(_numbers)}"
        self._client = http_client(harness.url, key)
        self.ended: dict[str, str] = {}
        self._going: list[asyncio.Task[None]] = []

    @property
    def held(self) -> list[str]:
        return [f"{self._name}-{host_kind}" for host_kind in ("modern", "legacy", "left", "sse", "v1", "batch")]

    @asynccontextmanager
    async def here(self) -> AsyncIterator[None]:
        async with self._client, AsyncExitStack() as stack:
            session = await self._session("2025-11-25")
            batches = await self._session("2025-03-26")
            endpoint = await self._sse(stack)
            self._go("standing", self._stream("GET", None, {**EVENTS, **session}))
            self._go("listen", self._stream("POST", self._listen(), modern("subscriptions/listen")))
            called = modern("tools/call", "shop.hold")
            self._go("modern", self._stream("POST", hold(f"{self._name}-modern", ENVELOPE), called))
            self._go("legacy", self._stream("POST", hold(f"{self._name}-legacy"), {**ACCEPT, **session}))
            self._go("batch", self._stream("POST", [hold(f"{self._name}-batch")], {**ACCEPT, **batches}))
            plain = {"tool_call": {"name": "shop.hold", "arguments": {"key": f"{self._name}-v1"}}}
            self._go("v1", self._stream("POST", plain, {}, "/v1/tool_calls"))
            leaving = asyncio.create_task(
                self._stream("POST", {**hold(f"{self._name}-left"), "id": 8}, {**ACCEPT, **session})
            )
            await self._client.post(endpoint, json=hold(f"{self._name}-sse"))
            await until(lambda: all(f"started {key}" in self._box.event_log.entries for key in self.held))
            # In the handshake eras a call goes on although its connection was closed.
            leaving.cancel()
            try:
                yield
            finally:
                for task in self._going:
                    task.cancel()
                await asyncio.gather(*self._going, leaving, return_exceptions=True)

    async def ends(self) -> dict[str, str]:
        async with asyncio.timeout(BOUND):
            await asyncio.gather(*self._going)
        return self.ended

    @property
    def goes_on(self) -> bool:
        said = self._box.event_log.entries
        return not self.ended and not any(f"cancelled {key}" in said for key in self.held)

    async def release(self) -> None:
        """Let the calls come to their end; to be run where the server is."""
        for key in self.held:
            self._box.event_log.note(f"released {key}")

    @property
    def let_go(self) -> bool:
        """Return whether the server received a cancellation for every call."""
        return all(f"cancelled {key}" in self._box.event_log.entries for key in self.held)

    def _go(self, host_kind: str, work: Awaitable[str]) -> None:
        async def go() -> None:
            self.ended[host_kind] = await work

        self._going.append(asyncio.create_task(go()))

    async def _session(self, version: str) -> dict[str, str]:
        hello = {**HELLO, "params": {**HELLO["params"], "protocolVersion": version}}  # type: ignore[dict-item]
        answer = await self._client.post("/mcp", json=hello, headers=ACCEPT)
        return {"mcp-session-id": answer.headers["mcp-session-id"]}

    async def _sse(self, stack: AsyncExitStack) -> str:
        response = await stack.enter_async_context(self._client.stream("GET", "/sse", headers=EVENTS))
        lines = response.aiter_lines()
        endpoint = ""
        async for line in lines:
            if line.startswith("data: "):
                endpoint = line.removeprefix("data: ")
                break
        greeted = asyncio.get_running_loop().create_future()
        self._go("sse", self._rest(response, lines, greeted))
        await self._client.post(endpoint, json=HELLO)
        await greeted
        await self._client.post(endpoint, json={"jsonrpc": "2.0", "method": "notifications/initialized"})
        return endpoint

    @staticmethod
    async def _rest(response: httpx2.Response, lines: AsyncIterator[str], greeted: "asyncio.Future[None]") -> str:
        async for line in lines:
            if line.startswith("data: ") and not greeted.done():
                greeted.set_result(None)
        return f"{response.status_code}"

    @staticmethod
    def _listen() -> Json:
        return {"jsonrpc": "2.0", "id": 3, "method": "subscriptions/listen", "params": FILTER}

    async def _stream(self, method: str, body: object, headers: Mapping[str, str], path: str = "/mcp") -> str:
        content = json.dumps(body) if body is not None else None
        sent = {**({"content-type": "application/json"} if content else {}), **headers}
        async with self._client.stream(method, path, content=content, headers=sent) as response:
            said = (await response.aread()).decode()
        assert "did hold" not in said
        return f"{response.status_code}"


async def revoked(harness: SecuredHarness, storage: str, key: NewKey, monkeypatch: pytest.MonkeyPatch) -> None:
    async with database(storage) as opened:
        await opened.keys.revoke(key.record.key_id, now=time.time())


async def expired(harness: SecuredHarness, storage: str, key: NewKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clock reach the end of the key, without any change."""
    monkeypatch.setattr(access, "time", SimpleNamespace(time=lambda: time.time() + 7200))


async def made_to_expire(harness: SecuredHarness, storage: str, key: NewKey, monkeypatch: pytest.MonkeyPatch) -> None:
    async with database(storage) as opened:
        await opened.keys.expire(key.record.key_id, time.time())


@pytest.mark.parametrize("end", [revoked, expired, made_to_expire])
async def test_all_that_goes_on_with_it_ends(
    open_harness: OpenHarness,
    storage: str,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[SecuredHarness, str, NewKey, pytest.MonkeyPatch], Awaitable[None]],
) -> None:
    """D4: streams, subscriptions and running calls, without a further request; those of another key go on."""
    toolbox = RecordingToolbox([tool("hold")])
    harness = open_harness({"shop": toolbox.config_entry(timeout="60s")}, POLICIES, storage=storage)
    key = await made(storage, "one", expires=time.time() + 3600)
    await noticed(harness, key)
    one, two = BusyHost(harness, toolbox, key.text, "one"), BusyHost(harness, toolbox, harness.keys["one"], "two")
    async with one.here(), two.here():
        await end(harness, storage, key, monkeypatch)
        ended = await one.ends()
        # What had not been answered yet is refused; a stream just ends, and a call in a session of today has one.
        assert ended == {
            **dict.fromkeys(("standing", "listen", "sse", "legacy"), "200"),
            **dict.fromkeys(("modern", "batch", "v1"), "401"),
        }
        await until(lambda: one.let_go)
        assert two.goes_on
        await harness.background.elsewhere(two.release())
        callers = {
            going.principal.key_id for those in harness.app.gateway.revocation._by_caller.values() for going in those
        }
        assert key.record.key_id not in callers
    # Two sessions of the other key are idle now.
    idle = {"sessions": 2, "streams": 0, "pending": 0, "connections": 0}
    await until(lambda: harness.app.gateway.admission.in_use == idle)


async def test_a_line_taken_out_of_a_policy_file_ends_it_too(open_harness: OpenHarness) -> None:
    """D4: as does the agent `local` that is taken out, for those who come without a key."""
    toolbox = RecordingToolbox([tool("hold")])
    policies = {"agents": {**POLICIES["agents"], "local": {"allow": ["*"]}}}
    harness = open_harness({"shop": toolbox.config_entry(timeout="60s")}, policies)
    one, local = BusyHost(harness, toolbox, harness.keys["one"], "one"), BusyHost(harness, toolbox, "none", "local")
    local._client = http_client(harness.url)
    async with one.here(), local.here():
        write_policies(harness.policies, {"agents": {"one": {"keys": []}, "two": {"keys": []}}}, "keys.yaml")
        await one.ends()
        assert local.goes_on
        harness.set_policies(POLICIES)
        await local.ends()
        await until(lambda: one.let_go and local.let_go)


async def test_reading_the_keys_anew_ends_nothing(
    open_harness: OpenHarness, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D4: every key stays known meanwhile, and those who need none stay in while it is not known who does."""
    agents = {**POLICIES["agents"], "local": {"allow": ["*"]}}
    harness = open_harness({"shop": RecordingToolbox([]).config_entry()}, {"agents": agents}, storage=storage)
    key_id = harness.keys["one"][4:14]
    frontend, held, refresh = harness.app.access, list[tuple[bool, bool]](), Keyring.refresh

    async def refreshed(keyring: Keyring) -> bool:
        frontend.locked = "keys cannot be read"
        held.append((frontend.holds(Principal("one", key_id=key_id)), frontend.holds(LOCAL)))
        return await refresh(keyring)

    monkeypatch.setattr(Keyring, "refresh", refreshed)
    await harness.background.elsewhere(harness.app.load_keys())
    assert set(held) == {(True, True)}
    assert not frontend.locked


def test_how_soon() -> None:
    """D4: within a second, the next look at the database included."""
    assert REFRESH_EVERY + REVIEW_EVERY < 1.0


def test_what_goes_on_is_known_by_caller() -> None:
    """D4: ended once, whatever it does when it is ended; nothing is left behind by what is over."""
    admitted, ended = RevocableTasks(), list[str]()
    good, bad = Principal("a", key_id="k1"), Principal("a", key_id="k2")

    def begin(principal: Principal, name: str) -> RevocableTask:
        def end() -> None:
            ended.append(name)
            admitted.remove(going)

        going = admitted.add(principal, end)
        return going

    kept = begin(good, "kept")
    admitted.add(bad, lambda: 1 / 0)
    for name in ("session", "request"):
        begin(bad, name)
    admitted.review(lambda principal: principal == good)
    admitted.review(lambda principal: principal == good)
    assert ended == ["request", "session"]
    # One that could not be ended has not left, and keeps none of the others from their end.
    assert (kept.revoked, len(admitted)) == (False, 2)
    admitted.remove(kept)
    admitted.remove(kept)
    assert len(admitted) == 1
