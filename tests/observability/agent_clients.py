"""One client interface over every frontend: start a call, wait for its answer or cancel it, with its metadata.

Rule: of the expected call record, only columns that depend on the frontend are defined here.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from aggregator.adapters.inprocess import InProcessHost
from aggregator.domain.errors import RpcError
from aggregator.domain.principal import Principal
from tests.access.secured_harness import HOST_KINDS as MCP_CLIENT_KINDS
from tests.end_to_end.scripted_host import BOUND, Call, ScriptedHost
from tests.observability.observed_harness import ObservedHarness
from tests.peers.toolbox import Json

V1: Final = ("v1", "")
IN_PROCESS: Final = ("inprocess", "2026-07-28")
CLIENT_KINDS: Final = [*MCP_CLIENT_KINDS, V1, IN_PROCESS]

# How `/v1` is told what hosts say in `_meta`.
_HEADERS: Final = {
    "aggregator/user_id": "x-user-id",
    "aggregator/session_id": "x-session-id",
    "aggregator/conversation_id": "x-conversation-id",
}
CONVERSATION: Final = "aggregator/conversation_id"


@dataclass
class StartedCall:
    """A call that is under way."""

    answer: Callable[[], Awaitable[Json]]
    give_up: Callable[[], Awaitable[None]]


@dataclass
class AgentClient:
    """A connected agent. `fixed` are columns of every row, `carries_identity`: user and session can be sent."""

    start: Callable[[str, Json, Json], StartedCall]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    carries_identity: bool = True

    async def call(self, tool: str, arguments: Json, meta: Json) -> Json:
        async with asyncio.timeout(BOUND):
            return await self.start(tool, arguments, meta).answer()


@asynccontextmanager
async def agent_client(
    harness: ObservedHarness, host_kind: tuple[str, str], agent: str, tenant: str | None = None
) -> AsyncIterator[AgentClient]:
    """Connect as an agent to a frontend; `tenant` is the one that the policies give it."""
    frontend, version = host_kind
    key = harness.keys[agent]
    fixed: Json = {"frontend": frontend, "agent_id": agent}
    if version:
        fixed["host_version"] = version
    if frontend in ("http", "sse", "v1"):
        fixed |= {"key_id": key.split("_")[1]} | ({"tenant": tenant} if tenant is not None else {})
    if host_kind == V1:
        async with harness.client(agent) as client:

            def post(tool: str, arguments: Json, meta: Json) -> StartedCall:
                headers = {_HEADERS.get(name, name): value for name, value in meta.items()}
                body = {"tool_call": {"name": tool, "arguments": arguments}}
                task = asyncio.create_task(client.post("/v1/tool_calls", json=body, headers=headers))

                async def answer() -> Json:
                    answered: Json = (await task).json()
                    return answered

                return StartedCall(answer, _cancelling(task))

            yield AgentClient(post, fixed)
    elif host_kind == IN_PROCESS:

        async def open_inside() -> InProcessHost:
            return InProcessHost(harness.app, Principal(agent), "canonical")

        inside = await harness.background.elsewhere(open_inside())

        def ask_inside(tool: str, arguments: Json, meta: Json) -> StartedCall:
            task = asyncio.create_task(_inside(inside, tool, arguments, meta[CONVERSATION]))

            async def answer() -> Json:
                return await task

            return StartedCall(answer, _cancelling(task))

        try:
            yield AgentClient(ask_inside, fixed, carries_identity=False)
        finally:

            async def close() -> None:
                inside.close()

            await harness.background.elsewhere(close())
    else:
        async with harness.connect_as(host_kind, agent) as host:
            yield AgentClient(_asking(host), fixed)


def _asking(host: ScriptedHost) -> Callable[[str, Json, Json], StartedCall]:
    def ask(tool: str, arguments: Json, meta: Json) -> StartedCall:
        call: Call = host.ask("tools/call", {"name": tool, "arguments": arguments}, meta)

        async def give_up() -> None:
            await host.wire.cancel(call)

        return StartedCall(call.message, give_up)

    return ask


async def _inside(inside: InProcessHost, tool: str, arguments: Json, conversation: str) -> Json:
    try:
        return {"result": await inside.call(tool, arguments, conversation=conversation)}
    except RpcError as error:
        return {"error": error.to_wire()}


def _cancelling(task: asyncio.Task[Any]) -> Callable[[], Awaitable[None]]:
    async def give_up() -> None:
        task.cancel()
        await asyncio.wait([task])

    return give_up
