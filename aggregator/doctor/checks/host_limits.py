"""The hosts as a list of tools meets them: what each says of itself, which names and how many tools it takes.

docs/hosts.md has the evidence.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class HostLimits:
    """The limits of a host: `client` is the name in its `clientInfo`, `plain` that it refuses dots, `longest` how many
    characters a name may have, with `prefix` before it, and `tools` how many tools of all servers it takes.
    """

    client: str
    plain: bool = False
    longest: int | None = None
    prefix: str = ""
    tools: int | None = None


ANY_HOST: Final = HostLimits("aggregator-doctor")
LIMITS: Final[Mapping[str, HostLimits]] = {
    "claude-desktop": HostLimits("claude-ai", plain=True, longest=64),
    "claude-code": HostLimits("claude-code", longest=64, prefix="mcp__{}__"),
    "cursor": HostLimits("cursor-vscode", plain=True, longest=60, prefix="{}", tools=40),
    "vscode": HostLimits("Visual Studio Code", tools=128),
    "vscode-insiders": HostLimits("Visual Studio Code - Insiders", tools=128),
    "devin": HostLimits("Devin", prefix="mcp__{}__"),
    "windsurf": HostLimits("windsurf-client", longest=64, tools=100),
    "copilot-cli": HostLimits("github-copilot-developer", plain=True, longest=64),
    "codex": HostLimits("codex-mcp-client", longest=64, prefix="mcp__{}__"),
    "gemini-cli": HostLimits("gemini-cli-mcp-client", longest=63),
    "cline": HostLimits("Cline"),
    "roo-code": HostLimits("Roo Code"),
    "zed": HostLimits("Zed"),
    "goose": HostLimits("goose"),
    "continue": HostLimits("continue-client"),
    "lm-studio": HostLimits("lmstudio-mcp-bridge"),
}


def limits_of(host: str | None) -> HostLimits:
    """Return what a host takes; one that is not known takes everything."""
    return LIMITS.get(host, ANY_HOST) if host is not None else ANY_HOST


def dotted_names(limits: HostLimits, names: Sequence[str]) -> list[str]:
    """Return the names that a host refuses for their characters."""
    return [name for name in names if limits.plain and not _PLAIN.fullmatch(name)]


def long_names(limits: HostLimits, names: Sequence[str], entry: str) -> list[str]:
    """Return the names that are too long for a host, in whose file the aggregator is called `entry`."""
    longest = limits.longest
    before = len(limits.prefix.replace("{}", entry))
    return [name for name in names if longest is not None and before + len(name) > longest]
