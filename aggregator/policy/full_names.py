"""Find tools, resources, prompts and skills by full name, for commands and cases.

Full names are `time.convert_time`, `resource:legal.statute://a`, `skill:docs.git-workflow` and the like.
"""

from collections.abc import Iterable, Mapping

from aggregator.domain.errors import OperatorError
from aggregator.domain.records import ToolRecord
from aggregator.policy.patterns import Kind, Target


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
        raise OperatorError(
            f"{text!a} is no full name. "
            "Write server.tool, resource:server.uri, prompt:server.prompt or skill:server.skill."
        )
    return Target(kind, servers.get(prefix, prefix), prefix, name)


def find_by_full_name(text: str, servers: Mapping[str, str], tools: Iterable[ToolRecord]) -> ToolRecord | Target:
    """Return the tool of that full name if it is known, else what is known from the name alone.

    Raises:
        OperatorError: it is no full name.
    """
    return next((tool for tool in tools if tool.name == text), None) or record_of(parse_full_name(text, servers))


def record_of(target: Target) -> ToolRecord | Target:
    """Return a record for a tool of which only the name is known; resources, prompts and skills as they are."""
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
