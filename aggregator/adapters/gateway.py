"""The gateway in a Python program: `async with aggregator.open_gateway("aggregator.json") as gateway: ...`.

A call goes through every step of a call: policy, validation of the arguments, limits, audit.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aggregator.adapters.inprocess import Elicit, InProcessHost, Source, open_inside
from aggregator.domain.names import Style
from aggregator.domain.records import ToolRecord
from aggregator.wire.pending_request import OnProgress


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool that an agent may call.

    `name` is the name to call it by, `server` the id of its server, `definition` the tool as `tools/list` shows it.
    `input_schema` is the server's own, tightened by the policy for this agent. `version` changes with the definition.
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
        """Return the tools that the agent may call, or those of one server, by its id or prefix.

        The setting `expose` does not count here. The call waits for starting servers, up to `startup_wait`.
        """
        return self._tools(await self._inside.tools(None, server, None))

    async def search(self, query: str, *, limit: int = 10, server: str | None = None) -> tuple[Tool, ...]:
        """Return the tools that match a query, best first; only tools that the agent may call."""
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

        Errors of the tool, refusals of the policy and an unavailable server are results with `isError` and a text with
        the reason. Cancelling the wait cancels the call. `conversation` names what limits per conversation count by;
        `elicit` shows a form to the user if the policy or the server demands it; `progress` is called with the params
        of each progress notification.

        Raises:
            RpcError: the agent has no such tool, or the server answered with a JSON-RPC error.
            RuntimeError: the gateway was closed.
        """
        return await self._inside.call(
            name, arguments or {}, conversation=conversation, elicit=elicit, progress=progress
        )

    async def changed(self) -> bool:
        """Wait until the agent's list of tools changes; return False once the gateway is closed."""
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
    """Run the gateway and its servers in this process while the context is open.

    `config` is the path of a configuration, or the object that such a file holds (its paths are from the working folder
    then, and policies count only if it names them); by default, the file that the command `aggregator` would use.
    `agent` is the agent of the policy files, else `AGGREGATOR_AGENT`, else `local`. `names` selects the names of tools
    in lists.

    Raises:
        OperatorError: the configuration cannot be read, or the agent's name is invalid.
    """
    async with open_inside(config, agent, names) as inside:
        yield Gateway(inside, names)
