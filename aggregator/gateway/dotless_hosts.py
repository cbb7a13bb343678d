"""Clients that refuse a dot in a tool name, recognised by their `clientInfo`.

Law: only the spelling of names depends on this, since a client may send any `clientInfo`.
"""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Final

# Clients other than the hosts of `aggregator install`; docs/hosts-and-servers.md has the evidence. Compared in lower
# case. Clients that read `.` as `_` accept both spellings.
_OTHERS: Final = (r"semantic[^a-z]*kernel", "^anthropic", r"openai[^a-z]*mcp", "chatgpt", "mcporter")
_LONGEST: Final = 128


def refuses_dots(client_info: Mapping[str, Any]) -> bool:
    """Tell whether a host with this `clientInfo` refuses names such as `server.tool`."""
    name = client_info.get("name")
    return isinstance(name, str) and _refuses(name[:_LONGEST])


@lru_cache(maxsize=1_024)
def _refuses(name: str) -> bool:
    return _refusing().search(name.lower()) is not None


@cache
def _refusing() -> re.Pattern[str]:
    from aggregator.hosts.every_host import HOSTS

    hosts = (host.limits.client_names for host in HOSTS if host.limits.plain)
    return re.compile("|".join((*_OTHERS, *hosts)))
