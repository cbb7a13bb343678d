"""Hosts that are known to refuse a dot in the name of a tool, by the name that they give themselves (`clientInfo`).

Law: nothing but the spelling of names depends on it. Anybody may call itself anything.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

# Host by host in docs/hosts.md; a name is compared in lower case. What reads `.` as `_` is not here: it takes both.
_REFUSING: Final = re.compile(
    r"semantic[^a-z]*kernel|claude[^a-z]*ai|^anthropic|copilot|openai[^a-z]*mcp|chatgpt|mcporter"
    r"|(?<![a-z])cursor(?![a-z])"
)
_LONGEST: Final = 128


def refuses_dots(client_info: Mapping[str, Any]) -> bool:
    """Whether a host with this `clientInfo` is known to refuse names such as `server.tool`."""
    name = client_info.get("name")
    return isinstance(name, str) and _refuses(name[:_LONGEST])


@lru_cache(maxsize=1_024)
def _refuses(name: str) -> bool:
    return _REFUSING.search(name.lower()) is not None
