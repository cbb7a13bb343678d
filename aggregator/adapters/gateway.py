"""The gateway in a Python program: `async with aggregator.open_gateway("aggregator.json") as gateway: ...`.

A call goes the aggregator's whole road: policy, checks of the arguments, limits, audit.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aggregator.adapters.inprocess import Elicit, InProcessHost, Source, open_inside
from aggregator.domain.names import Style
from aggregator.domain.records import ToolRecord
from aggregator.wire.peer import OnProgress


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool that an agent may call: `name` to call it by, the server it belongs to, and all that MCP has of it.

    `input_schema` is the one this agent is held to: the server's own, tightened by the policy. `version` changes with
    the definition.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any] = field(repr=False)
    server: str
    version: str
    definition: Mapping[str, Any] = field(repr=False)


class Gateway:
    """One agent's view of a running gateway, made by `open_gateway`. May be used from any event loop of the process."""

    def __init__(self, inside: InProcessHost, names: Style) -> None:
        self._inside = inside
        self._names: Style = names

    def __repr__(self) -> str:
        return f"<Gateway {self._inside!r}>"

    async def list(self, server: str | None = None) -> tuple[Tool, ...]:
        """Return the tools that the agent may call, or those of one server by its id or prefix.

        All of them, whatever `expose` lists to hosts. Waits for servers that are starting, not for long.
        """
        return self._tools(await self._inside.tools(None, server, None))

    async def search(self, query: str, *, limit: int = 10, server: str | None = None) -> tuple[Tool, ...]:
        """Return the tools that fit some words, best first; nothing that the agent may not call is among them."""
        return self._tools(await self._inside.tools(query, server, limit))

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        conversation: str | None = None,
        elicit: Elicit | None = None,
        progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Call a tool, by its name in any spelling, and return the whole result of `tools/call`.

        What the tool, the policy or a server that is away has against it comes as a result with `isError` and a text
        that says why. Cancelling the wait cancels the call. `conversation` is what limits per conversation count by;
        `elicit` puts a form to a person (the params of `elicitation/create` in, its result out) where the policy or
        the server wants one asked; `progress` hears each progress notification.

        Raises:
            RpcError: the agent has no such tool, or the server answered with an error of the protocol.
            RuntimeError: the gateway was closed.
        """
        return await self._inside.call(name, arguments or {}, conversation=conversation, elicit=elicit, heard=progress)

    async def changed(self) -> bool:
        """Wait until hosts of this agent would be told of another list of tools; False once the gateway is closed."""
        return await self._inside.changed()

    def as_agent(self, agent: str) -> "Gateway":
        """Return the same gateway for another agent of the policy files, as long as this one is open.

        Raises:
            OperatorError: that cannot be the name of an agent.
        """
        return Gateway(self._inside.as_agent(agent), self._names)

    def _tools(self, records: Sequence[ToolRecord]) -> tuple[Tool, ...]:
        return tuple(self._tool(record) for record in records)

    def _tool(self, record: ToolRecord) -> Tool:
        definition = {**record.definition, "name": record.listed[self._names]}
        said = definition.get("description") or definition.get("title") or ""
        schema = definition["inputSchema"]
        return Tool(definition["name"], said, schema, record.server, record.version, definition)


@asynccontextmanager
async def open_gateway(
    config: Source = None, *, agent: str | None = None, names: Style = "canonical"
) -> AsyncIterator[Gateway]:
    """Run the gateway in this process, as long as the context is open; its servers are started and ended with it.

    `config` is the path of a configuration, or the object that such a file holds (its paths are from the working folder
    then, and policies count only where it names them); without one it is looked for where the command `aggregator`
    looks. `agent` is the agent of the policy files, else `AGGREGATOR_AGENT`, else `local`. `names` says how tools are
    called in lists.

    Raises:
        OperatorError: the configuration cannot be read, or that cannot be the name of an agent.
    """
    async with open_inside(config, agent, names) as inside:
        yield Gateway(inside, names)
