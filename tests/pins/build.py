"""Definitions and comparisons for the tests of pins."""

from collections.abc import Iterable
from typing import Any

from aggregator.config.server_parts import ChangeClass
from aggregator.domain.bounds.slices import at_once
from aggregator.pins.decide.comparison import compare
from aggregator.pins.decide.definition import pinned_item
from aggregator.pins.decide.flags import NO_OTHERS, KnownTool, OtherServers, ToolIndex
from aggregator.pins.decide.values import Comparison, ItemChange, PinKind

Definition = dict[str, Any]


def tool(name: str = "create_issue", **members: Any) -> Definition:
    """Return a tool with a description, two arguments and annotations; `members` replace its own."""
    schema = {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "What the issue is called"},
            "priority": {"type": "string", "enum": ["low", "high"], "default": "low"},
        },
        "required": ["title"],
    }
    description = "Create an issue in a repository, with a title and a priority."
    return {"name": name, "description": description, "inputSchema": schema, **members}


def schema_tool(schema: Any) -> Definition:
    return {"name": "t", "inputSchema": schema}


def compared(
    before: Iterable[Definition], after: Iterable[Definition], others: OtherServers = NO_OTHERS, kind: PinKind = "tool"
) -> Comparison:
    """Compare two lists of one server."""
    pins = [pinned_item(kind, one["name"], one) for one in before]
    items = [(kind, one["name"], one, "") for one in after]
    return at_once(compare({pin.key: pin for pin in pins}, items, others))


def change(before: Definition, after: Definition, kind: PinKind = "tool") -> ItemChange | None:
    """Return the change of one item, None where there is none."""
    found = compared([before], [after], kind=kind).changes
    assert len(found) <= 1
    return found[0] if found else None


def classes(before: Definition, after: Definition, kind: PinKind = "tool") -> set[ChangeClass]:
    """Return the classes of the change of one item."""
    found = change(before, after, kind)
    return set() if found is None else set(found.classes)


def beside(server: str, **servers: list[Definition]) -> OtherServers:
    """Return what is known of the tools of servers other than `server`."""
    tools = [
        KnownTool(owner, one["name"], (f"{owner}.{one['name']}", f"{owner}__{one['name']}"), one.get("description", ""))
        for owner, listed in servers.items()
        for one in listed
    ]
    return OtherServers(ToolIndex(tools), server)
