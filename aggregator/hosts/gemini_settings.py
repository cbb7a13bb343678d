"""The settings of Gemini CLI, which Qwen Code has too."""

from collections.abc import Collection, Mapping
from typing import Any

from aggregator.hosts.entries import plain_entry
from aggregator.hosts.model import OwnLaunch


def gemini_off(root: Mapping[str, Any]) -> Collection[str]:
    """Name the servers that `mcp.excluded` lists, and those that `mcp.allowed` does not."""
    servers, settings = root.get("mcpServers"), root.get("mcp")
    if not isinstance(servers, Mapping) or not isinstance(settings, Mapping):
        return ()
    excluded, allowed = settings.get("excluded"), settings.get("allowed")
    off = {name for name in servers if isinstance(excluded, list) and name in excluded}
    return off | {name for name in servers if isinstance(allowed, list) and allowed and name not in allowed}


def gemini_entry(launch: OwnLaunch) -> dict[str, Any]:
    """Return our own entry, with the address under the key that means Streamable HTTP."""
    made = plain_entry(launch)
    return {"httpUrl" if key == "url" else key: value for key, value in made.items()}
