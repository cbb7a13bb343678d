"""A server of the SDK with a tool whose output schema is listed, and whose structured result is large."""

import json
from collections.abc import Mapping
from typing import Any, Final

from mcp.server import Server

from tests.peers.sdk import build as build_server
from tests.peers.toolbox import Json, Toolbox, text, tool

# Some 40,000 tokens.
ROWS: Final = [{"id": number, "name": f"row {number}"} for number in range(3_000)]
_ROW: Final[Json] = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
    "required": ["id", "name"],
}
_SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {"rows": {"type": "array", "items": _ROW, "minItems": len(ROWS)}},
    "required": ["rows"],
}


class StructuredToolbox(Toolbox):
    """One tool, `rows`."""

    async def call(self, params: Mapping[str, Any], progress: object) -> Json:
        structured = {"rows": ROWS}
        return {"content": [text(json.dumps(structured))], "structuredContent": structured}


def build() -> Server[Any]:
    return build_server(StructuredToolbox([tool("rows", "Many rows.", outputSchema=_SCHEMA)]))
