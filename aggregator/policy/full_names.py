"""Find tools, resources, prompts and skills by full name, for commands and cases.

Full names are `time.convert_time`, `resource:legal.statute://a`, `skill:docs.git-workflow` and the like.
"""

from collections.abc import Iterable, Mapping

from aggregator.config.files.report import nearest
from aggregator.domain.errors import OperatorError
from aggregator.domain.names import without_host_prefix
from aggregator.domain.records import ToolRecord
from aggregator.policy.patterns import Kind, Target, canonical_spelling


def parse_full_name(text: str, servers: Mapping[str, str]) -> Target:
    """Return the target of a full name. `servers`: the ids of servers by prefix; an unknown prefix stands for itself.

    Raises:
        OperatorError: it is no full name.
    """
    kind: Kind = "tool"
    rest = text
    kinds: tuple[Kind, ...] = ("resource", "prompt", "skill")
    for known in kinds:
        if text.startswith(f"{known}:"):
            kind, rest = known, text.removeprefix(f"{known}:")
    prefix, dot, name = rest.partition(".")
    if not dot or not prefix or not name:
        meant = meant_name(rest, servers) or canonical_spelling(rest) if kind in ("tool", "prompt") else None
        shown = meant if kind == "tool" else f"{kind}:{meant}"
        raise OperatorError(
            f"{text!a} is no full name. "
            + (
                f"Did you mean {shown}?"
                if meant
                else "Write server.tool, resource:server.uri, prompt:server.prompt or skill:server.skill."
            )
        )
    return Target(kind, servers.get(prefix, prefix), prefix, name)


def find_by_full_name(text: str, servers: Mapping[str, str], tools: Iterable[ToolRecord]) -> ToolRecord | Target:
    """Return the tool of that full name, or else a target that is built from the name.

    Raises:
        OperatorError: it is no full name.
    """
    return next((tool for tool in tools if tool.name == text), None) or record_of(parse_full_name(text, servers))


def meant_name(name: str, servers: Iterable[str]) -> str | None:
    """Return the full name that was probably meant, if its server is among these prefixes or like one of them.

    `name` may be a pattern, or a spelling of hosts and models such as `mcp__time__convert_time`.
    """
    known = sorted(servers, key=len, reverse=True)
    short = without_host_prefix(name)
    for server in known:  # the longest first: a name of a server may hold the signs that stand between
        for separator in (".", "__", "/", ":"):
            if short.startswith(server + separator) and short != server + separator:
                return f"{server}.{short.removeprefix(server + separator)}"
    for spelled in (name, canonical_spelling(name)):
        prefix, dot, rest = (spelled or "").partition(".")
        if dot and (near := nearest(prefix, known)) is not None:
            return f"{near}.{rest}"
    return None


def record_of(target: Target) -> ToolRecord | Target:
    """Return a record for a tool known by name only; resources, prompts and skills unchanged."""
    if target.kind != "tool":
        return target
    return ToolRecord(
        server=target.server,
        prefix=target.prefix,
        own_name=target.name,
        definition={"name": target.name, "inputSchema": {"type": "object"}},
        listed={"canonical": target.full, "compatible": target.full},
        timeout=0.0,
    )
