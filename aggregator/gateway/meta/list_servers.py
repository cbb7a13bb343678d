"""`list_servers`: the servers an agent has tools of, and how each is."""

from typing import Final

from aggregator.gateway.finder import ServerSeen
from aggregator.gateway.meta.tool import Asking, MetaTool, meta_record

_RECORD: Final = meta_record("list_servers", "Servers that tools come from, and their state", {})


async def list_servers(asking: Asking) -> str:
    """One line a server: name, state, number of tools, what it is good for."""
    return "\n".join(_line(seen) for seen in asking.finder.servers(asking.view)) or "There are no servers."


def _line(seen: ServerSeen) -> str:
    config = seen.config
    facts = [seen.state, *(["local"] if config.type == "local" else []), f"{seen.tools} tools"]
    line = f"{config.prefix} ({', '.join(facts)})"
    if config.description != config.key:
        line += f": {config.description}"
    return line if seen.state == "ready" or not seen.reason else f"{line} [{seen.reason}]"


TOOL: Final = MetaTool(_RECORD, list_servers)
