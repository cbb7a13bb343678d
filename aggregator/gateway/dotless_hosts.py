"""Hosts known to refuse a dot in a tool name, recognised by their `clientInfo`.

Law: only the spelling of names depends on this, since a client may send any `clientInfo`.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

# docs/hosts.md has the evidence. Compared in lower case. Hosts that read `.` as `_` accept both spellings.
_REFUSING: Final = re.compile(
    r"semantic[^a-z]*kernel|claude[^a-z]*ai|^anthropic|copilot|openai[^a-z]*mcp|chatgpt|mcporter"
    r"|(?<![a-z])cursor(?![a-z])"
)
_LONGEST: Final = 128


def refuses_dots(client_info: Mapping[str, Any]) -> bool:
    """Return whether a host with this `clientInfo` is known to refuse names such as `server.tool`."""
    name = client_info.get("name")
    return isinstance(name, str) and _refuses(name[:_LONGEST])


@lru_cache(maxsize=1_024)
def _refuses(name: str) -> bool:
    return _REFUSING.search(name.lower()) is not None
