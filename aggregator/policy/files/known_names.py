"""The servers and tools that rules are compared with, and the patterns that match none of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from aggregator.config.files.report import nearest
from aggregator.domain.records import ToolRecord
from aggregator.policy.annotations import Trusted
from aggregator.policy.full_names import meant_name
from aggregator.policy.patterns import Pattern, literal_start
from aggregator.policy.rulebook import target_of


@dataclass(frozen=True)
class KnownNames:
    """The servers and tools to compare with: ids of servers by prefix, and tools, or None if no server was queried."""

    servers: Mapping[str, str] = field(default_factory=dict)
    tools: tuple[ToolRecord, ...] | None = None
    trusted: Trusted = None
    # The accepted issuers; None if the configuration is not known.
    issuers: tuple[str, ...] | None = None

    @cached_property
    def ids(self) -> frozenset[str]:
        """The ids of the servers."""
        return frozenset(self.servers.values())

    @cached_property
    def listing(self) -> frozenset[str]:
        """The prefixes of the servers that list tools now."""
        return frozenset(tool.prefix for tool in self.tools or ())


def nothing_matches(pattern: Pattern, known: KnownNames) -> tuple[str, str] | None:
    """Return a message and a fix if a pattern matches nothing."""
    if pattern.kind == "server":
        servers = {id: prefix for prefix, id in known.servers.items()}
        if not servers or any(pattern.fits(server) for server in servers):
            return None
        return f'No server matches "{pattern}".', _suggestion(pattern, nearest(pattern.glob, servers), "server:{}")
    start = literal_start(pattern)
    if known.servers and (
        pattern.head not in known.servers
        if pattern.head is not None
        else "." not in start and not any(server.startswith(start) for server in known.servers)
    ):
        mark = "" if pattern.kind == "tool" else f"{pattern.kind}:"
        meant = meant_name(pattern.glob, known.servers)
        return f'No {pattern.kind} matches "{pattern}".', _suggestion(pattern, meant, f"{mark}{{}}")
    if pattern.kind != "tool" or not known.tools:
        return None
    if pattern.head is not None and pattern.head not in known.listing:
        return None  # its server is down: its tools are not known
    if any(pattern.matches(target_of(tool)) for tool in known.tools):
        return None
    near = [tool.name for tool in known.tools if pattern.head in (None, tool.prefix)]
    return f'No tool matches "{pattern}".', _suggestion(pattern, nearest(pattern.glob, near), "{}")


def _suggestion(pattern: Pattern, found: str | None, shape: str) -> str:
    if found is None:
        return "Correct it, or take it out."
    return f'Did you mean "{shape.format(found)}"?'
