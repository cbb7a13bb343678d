"""The names of dialects, and which one a host gets by what it says of itself.

Law: only the form of lists depends on this, since a client may send any `clientInfo` and any `User-Agent`.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Literal

# `original` leaves definitions as they came.
Schemas = Literal["original", "portable", "anthropic", "openai", "openai-strict", "gemini"]

_LONGEST: Final = 128
# In the order of the search; docs/hosts-and-servers.md names the hosts. Compared in lower case.
_HOSTS: Final[tuple[tuple[re.Pattern[str], Schemas], ...]] = (
    (re.compile(r"^anthropic|claude[^a-z]*(ai|code|desktop|user)"), "anthropic"),
    (re.compile(r"openai[^a-z]*mcp|chatgpt|\bcodex\b"), "openai"),
    (re.compile(r"gemini[^a-z]*cli"), "gemini"),
    (
        re.compile(
            r"visual studio code|copilot|\bcursor\b|windsurf|\bcline\b|roo code|^zed\b|^goose\b|continue[^a-z]*client"
            r"|^devin\b|lmstudio|^opencode\b|\bkilo[^a-z]*code|\bkiro\b|qwen[^a-z]*(code|cli)|factory[^a-z]*cli|q-dev-cli"
            r"|^crush$|antigravity|raycast|lobehub|cherry studio|witsy|^amp-mcp-client$"
        ),
        "portable",
    ),
)


def dialect_of(client_info: Mapping[str, Any], user_agent: str | None = None) -> Schemas:
    """Return the dialect of the model API behind a host; `original` if its name tells nothing."""
    name = client_info.get("name")
    found = _by_name(name[:_LONGEST]) if isinstance(name, str) else "original"
    return found if found != "original" or not user_agent else _by_name(user_agent[:_LONGEST])


@lru_cache(maxsize=1_024)
def _by_name(name: str) -> Schemas:
    lower = name.lower()
    return next((dialect for pattern, dialect in _HOSTS if pattern.search(lower)), "original")
