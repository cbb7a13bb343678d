"""The whole gateway of one configuration with fake upstreams: no process, no socket.

The fake is the connection between an upstream and its server; a coroutine of the test gives its answers.
"""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from aggregator.app.build import build_app
from aggregator.config.load import load
from aggregator.config.model import Config
from aggregator.domain.errors import RpcError
from aggregator.domain.names import Style
from aggregator.domain.principal import Principal
from aggregator.domain.versions import META_CLIENT_CAPABILITIES, META_VERSION
from aggregator.gateway.host import Host
from aggregator.policy.rulebook import Rulebook
from aggregator.upstream.connection import Connection, DeferredRequest, JsonRpcRequest
from aggregator.upstream.lifecycle.states import StateAndReason
from aggregator.upstream.sessions.negotiate import Negotiated
from aggregator.upstream.sessions.session import UpstreamSession
from aggregator.wire.codec import encode
from aggregator.wire.pending_request import AnswerReceiver, PendingRequest
from tests.peers.back_channel import AnsweringBackChannel, FakeBackChannel
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
    """Answer as an upstream does by default."""
    return text_result(f"did {params['name']}")


class FakeUpstream(Connection):
    """A fake connection to one server. `calls` are the params that reached it, `answer` makes the result."""

    def __init__(self, server: str, log: list[tuple[str, str]], answer: Answer = default_answer) -> None:
        self.answer = answer
        self.calls: list[Json] = []
        self._server, self._log = server, log
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def begin(self, request: JsonRpcRequest, receiver: AnswerReceiver | None = None) -> PendingRequest:
        """Send nothing without a task."""
        return DeferredRequest(partial(self.take, request))

    async def take(self, request: JsonRpcRequest) -> Json:
        """Take note of a request, and answer it."""
        self.calls.append(request.params)
        self._log.append((self._server, request.params["name"]))
        return await self.answer(request.params)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Drop the notification."""

    def use_version(self, version: str) -> None:
        """Ignore the revision: no test depends on it."""


class GatewayHarness:
    """The gateway as a frontend sees it. Make it in a running loop.

    A test whose calls are checked in a worker process has to close it in the same loop, with `async with` or `close`.
    """

    def __init__(
        self,
        config: Config,
        tools: Mapping[str, list[Json]],
        policies: Rulebook | Path | object | None = None,
        storage: str | None = None,
        down: Mapping[str, str] | None = None,
    ) -> None:
        """Build the application and make its upstreams ready.

        `policies` are a folder, a rulebook, or the content of a file; `down` names servers in another state, whose
        `tools`, if any, are known from an earlier connection.
        """
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
        for server, upstream in self.app.upstreams.items():
            self.fake_upstreams[server] = played = FakeUpstream(server, self.sent)
            upstream.definitions = list(tools.get(server, []))
            state: Any = (down or {}).get(server, "ready")
            upstream.lifecycle.current = StateAndReason(state, since=time.time())
            upstream.lifecycle.known = server in tools
            if state == "ready":
                upstream.shared.session = UpstreamSession(
                    played, Negotiated(LEGACY, {"tools": {}}, {}, None), "local", {}
                )
        self.app.updates.rebuild()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the worker processes, as the application does at its end."""
        await self.app.gateway._pipeline.checker.workers.close()

    def set_policies(self, policies: object) -> None:
        """Replace the rules at once."""
        self.live.rulebook = book(policies)

    def host(
        self, agent: str, version: str = LEGACY, capabilities: Json | None = None, session: str | None = "one",
        names: Style = "canonical",
    ) -> Host:  # fmt: skip
        if version == MODERN:
            return Host("http", names, Principal(agent))
        return Host("sse", names, Principal(agent), version, capabilities or {}, session=session)

    async def ask(self, host: Host, method: str, params: Json, channel: FakeBackChannel | None = None) -> Json:
        """Send one request; return the answer as JSON: `{"result": ...}` or `{"error": ...}`."""
        if host.version is None:
            envelope = {META_VERSION: MODERN, META_CLIENT_CAPABILITIES: dict(host.capabilities)}
            params = {**params, "_meta": {**params.get("_meta", {}), **envelope}}
        try:
            async with asyncio.timeout(BOUND):
                result = await self.app.gateway.answer(host, method, params, channel or AnsweringBackChannel())
        except RpcError as error:
            return {"error": error.to_wire()}
        read: Json = json.loads(encode(result))
        return {"result": read}

    async def call(
        self,
        host: Host,
        name: str,
        arguments: Json | None = None,
        channel: FakeBackChannel | None = None,
        **more: Any,
    ) -> Json:
        return await self.ask(host, "tools/call", {"name": name, "arguments": arguments or {}, **more}, channel)

    async def listed(self, host: Host) -> list[Json]:
        listed: list[Json] = (await self.ask(host, "tools/list", {}))["result"]["tools"]
        return listed


def make_config(folder: Path, servers: Mapping[str, Json], **settings: Any) -> Config:
    """Load a configuration as an operator writes it; the servers are never started."""
    path = folder / "desk.json"
    path.write_text(json.dumps({"mcpServers": servers, **settings}))
    loaded = load(path, {"HOME": os.environ.get("HOME", "/")})
    assert not loaded.problems, loaded.problems
    return loaded.config


def error_data(answer: Json) -> Json:
    """Return the machine-readable part of a refused call."""
    assert answer["result"]["isError"] is True, answer
    error: Json = answer["result"]["_meta"]["aggregator/error"]
    return error
