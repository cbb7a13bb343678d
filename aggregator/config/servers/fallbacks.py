"""Fallbacks: names of servers and tools that take the calls of an unavailable one, resolved to server ids."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from aggregator.config.files.report import Report, Where, did_you_mean
from aggregator.config.server_config import ServerConfig


def settle_fallbacks(
    servers: Sequence[ServerConfig], place: Callable[[ServerConfig], Where], report: Report
) -> tuple[ServerConfig, ...]:
    """Return the servers with ids in `fallbacks` and `tools.fallbacks`, where the file may have keys or ids.

    An unknown server is left out, with a warning in `report`; `place` returns the path of a server's entry in the file.
    """
    ids = {server.key: server.id for server in servers} | {server.id: server.id for server in servers}
    return tuple(_settled(server, ids, place(server), report) for server in servers)


def split(named: str) -> tuple[str, str]:
    """Return the server and the tool that an entry of `tools.fallbacks` names; the tool is empty if it names none."""
    server, _, tool = named.partition(".")
    return server, tool


def _settled(server: ServerConfig, ids: Mapping[str, str], at: Where, report: Report) -> ServerConfig:
    def known(named: Sequence[str], where: Where, *, tools: bool) -> Iterator[str]:
        for number, name in enumerate(named):
            # A key may contain dots.
            written = name if name in ids else name.partition(".")[0]
            fix: str | None = None
            if written not in ids:
                message, fix = f"No server is called `{written}`", did_you_mean(written, ids)
            elif ids[written] == server.id:
                message = "A server cannot stand in for itself"
            elif written != name and not tools:
                message, fix = "Whole servers are named here, not tools", "Put it into `tools.fallbacks`."
            else:
                yield ids[written] + name[len(written) :]
                continue
            fix = fix or "Name another key of `mcpServers`."
            report.warning((*at, *where, number), f"{message}; this is left out.", fix, server.id)

    if not (server.fallbacks or server.tools.fallbacks):
        return server
    by_tool = {
        pattern: tuple(dict.fromkeys(known(named, ("tools", "fallbacks", pattern), tools=True)))
        for pattern, named in server.tools.fallbacks.items()
    }
    whole = tuple(dict.fromkeys(known(server.fallbacks, ("fallbacks",), tools=False)))
    tools = server.tools.model_copy(update={"fallbacks": by_tool})
    return server.model_copy(update={"fallbacks": whole, "tools": tools})
