"""The whole gateway of one configuration, with upstreams played behind real links: no process, no socket.

What is played: the wire between a link and its server. What an upstream answers is a coroutine of the test's own.
"""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from aggregator.app.build import build_app
from aggregator.config.load import load
from aggregator.config.model import Config
from aggregator.domain.errors import RpcError
from aggregator.domain.names import Style
from aggregator.domain.principal import Principal
from aggregator.domain.versions import META_CLIENT_CAPABILITIES, META_VERSION
from aggregator.gateway.host import Host
from aggregator.policy.rulebook import Rulebook
from aggregator.upstream.lifecycle.states import StateAndReason
from aggregator.upstream.sessions.negotiate import Negotiated
from aggregator.upstream.sessions.session import UpstreamSession
from aggregator.wire.codec import encode
from aggregator.wire.peer import NoBackChannel, OnProgress
from tests.peers.toolbox import Json, text_result
from tests.policy.build import book

Answer = Callable[[Json], Awaitable[Json]]

MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
FORMS: Final[Json] = {"elicitation": {}}
BOUND: Final = 10.0


def tool(name: str, properties: Json | None = None, **more: Any) -> Json:
    """A definition that takes anything, unless said otherwise."""
    return {"name": name, "inputSchema": {"type": "object", "properties": properties or {}}, **more}


async def default_answer(params: Json) -> Json:
    """What an upstream answers by default."""
    return text_result(f"did {params['name']}")


class FakeUpstream:
    """One upstream: what reached it, and how it answers."""

    def __init__(self, server: str, log: list[tuple[str, str]], answer: Answer = default_answer) -> None:
        self.answer = answer
        self.calls: list[Json] = []
        self._server, self._log = server, log
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def request(
        self,
        method: str,
        params: Json,
        on_progress: OnProgress | None = None,
        headers: Mapping[str, str] | None = None,
        origin: object = None,
    ) -> Json:
        self.calls.append(params)
        self._log.append((self._server, params["name"]))
        return await self.answer(params)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Nobody listens."""

    def speak(self, version: str) -> None:
        """Nothing depends on it."""


class FakeBackChannel:
    """The way back of one call; `person` answers what is asked, and nobody is there without one."""

    request_id = 1

    def __init__(self, person: Callable[[Json], Awaitable[Json]] | None = None) -> None:
        self._person = person
        self.asked: list[Json] = []

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Nobody listens."""

    async def ask(self, method: str, params: Json) -> Json:
        assert method == "elicitation/create"
        self.asked.append(params)
        if self._person is None:
            raise NoBackChannel
        return await self._person(params)


class GatewayHarness:
    """The gateway as a door sees it. To be made in a running loop."""

    def __init__(
        self,
        config: Config,
        tools: Mapping[str, list[Json]],
        policies: Rulebook | Path | object | None = None,
        storage: str | None = None,
        down: Mapping[str, str] | None = None,
    ) -> None:
        """`policies`: files, a rulebook, or what a file would hold. `down`: servers that are in another state."""
        self._folder = policies if isinstance(policies, Path) else Path("nowhere")
        self.app = build_app(config, self._folder, storage)
        assert self.app.live is not None
        self.live = self.app.live
        if isinstance(policies, Rulebook):
            self.live.rulebook = policies
        elif policies is not None and not isinstance(policies, Path):
            self.live.rulebook = book(policies)
        # Everything that reached an upstream, in order: server and tool.
        self.sent: list[tuple[str, str]] = []
        self.fake_upstreams: dict[str, FakeUpstream] = {}
        for server, link in self.app.upstreams.items():
            self.fake_upstreams[server] = played = FakeUpstream(server, self.sent)
            link.definitions = list(tools.get(server, []))
            state: Any = (down or {}).get(server, "ready")
            link.lifecycle.current = StateAndReason(state, since=time.time())
            if state == "ready":
                link.shared.session = UpstreamSession(played, Negotiated(LEGACY, {"tools": {}}, {}, None), "played", {})
        self.app.updates.rebuild()

    def set_policies(self, policies: object) -> None:
        """Other rules, at once."""
        self.live.rulebook = book(policies)

    def host(
        self, agent: str, version: str = LEGACY, capabilities: Json | None = None, session: str | None = "one",
        names: Style = "canonical",
    ) -> Host:  # fmt: skip
        if version == MODERN:
            return Host("http", names, Principal(agent))
        return Host("sse", names, Principal(agent), version, capabilities or {}, session=session)

    async def ask(self, host: Host, method: str, params: Json, host_kind: FakeBackChannel | None = None) -> Json:
        """The answer as JSON: `{"result": ...}` or `{"error": ...}`."""
        if host.version is None:
            envelope = {META_VERSION: MODERN, META_CLIENT_CAPABILITIES: dict(host.capabilities)}
            params = {**params, "_meta": {**params.get("_meta", {}), **envelope}}
        try:
            async with asyncio.timeout(BOUND):
                result = await self.app.gateway.answer(host, method, params, host_kind or FakeBackChannel())
        except RpcError as error:
            return {"error": error.to_wire()}
        read: Json = json.loads(encode(result))
        return {"result": read}

    async def call(
        self,
        host: Host,
        name: str,
        arguments: Json | None = None,
        host_kind: FakeBackChannel | None = None,
        **more: Any,
    ) -> Json:
        return await self.ask(host, "tools/call", {"name": name, "arguments": arguments or {}, **more}, host_kind)

    async def listed(self, host: Host) -> list[Json]:
        listed: list[Json] = (await self.ask(host, "tools/list", {}))["result"]["tools"]
        return listed


def make_config(folder: Path, servers: Mapping[str, Json], **settings: Any) -> Config:
    """A configuration as an operator writes it; the servers are never started."""
    path = folder / "desk.json"
    path.write_text(json.dumps({"mcpServers": servers, **settings}))
    loaded = load(path, {"HOME": os.environ.get("HOME", "/")})
    assert not loaded.problems, loaded.problems
    return loaded.config


def error_data(answer: Json) -> Json:
    """The machine-readable half of a refusal."""
    assert answer["result"]["isError"] is True, answer
    error: Json = answer["result"]["_meta"]["aggregator/error"]
    return error
