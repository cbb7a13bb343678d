"""Servers and tools for the search tests, as plain values."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aggregator.catalog.search.index import Hit, SearchIndex
from aggregator.domain.records import ToolRecord

_GATE: Final = Path(__file__).parent / "data" / "gate.json"
SampleIndex = tuple[str, str, tuple[ToolRecord, ...]]


def tool(name: str, description: str = "", parameters: Mapping[str, str] | None = None, **more: Any) -> ToolRecord:
    """`server.tool` with its description and parameters."""
    server, _, own = name.partition(".")
    properties = {key: {"type": "string", "description": text} for key, text in (parameters or {}).items()}
    schema = {"type": "object", "properties": properties}
    definition = {"name": own, "description": description, "inputSchema": schema, **more}
    return ToolRecord(server=server, prefix=server, own_name=own, definition=definition, listed={}, timeout=30.0)


def build_index(*tools: ToolRecord) -> SearchIndex:
    """An index of the tools, each server's text its id."""
    servers = dict.fromkeys(each.server for each in tools)
    return SearchIndex.of(
        (server, server, tuple(each for each in tools if each.server == server)) for server in servers
    )


def everything(_: ToolRecord) -> bool:
    """Allow every tool."""
    return True


def names(hits: list[Hit]) -> list[str]:
    """The canonical names, in order."""
    return [hit.tool.name for hit in hits]


def found(index: SearchIndex, query: str, limit: int = 10) -> list[str]:
    """Return the names that a search finds when every tool is visible."""
    return names(index.search(query, everything, limit))


def gate() -> tuple[list[SampleIndex], list[tuple[str, str]]]:
    """The servers and the questions of the quality gate."""
    held = json.loads(_GATE.read_text(encoding="utf-8"))
    shelves = [
        (server, has["text"], tuple(tool(f"{server}.{name}", *said) for name, said in has["tools"].items()))
        for server, has in held["servers"].items()
    ]
    return shelves, [(query, expected) for query, expected in held["queries"]]
