"""A stdio server with many tools, in pages; each call adds one more tool at the front, and says that the list changed.

Run as `python -I -S large_stdio.py TOOLS`. Standard library only; handshake eras.
"""

import json
import sys
from typing import Any, Final

PAGE: Final = 1_000


def tool(number: int) -> dict[str, Any]:
    """One tool, of the size that real ones have."""
    return {
        "name": f"tool_{number}",
        "title": f"Tool number {number}",
        "description": f"Reads record {number} of the archive and returns it as text, with its date and its place.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "id": {"type": "string", "description": "The id of the record."},
                "limit": {"type": "integer", "minimum": 1, "default": 10},
                "order": {"type": "string", "enum": ["up", "down"]},
            },
            "required": ["id"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True},
    }


def page(tools: list[dict[str, Any]], start: int) -> dict[str, Any]:
    """The tools from one place on, and the cursor of those that follow."""
    following = {"nextCursor": str(start + PAGE)} if start + PAGE < len(tools) else {}
    return {"tools": tools[start : start + PAGE], **following}


def main() -> None:
    """Serve until stdin ends."""
    tools = [tool(number) for number in range(int(sys.argv[1]))]
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        method, params = message["method"], message.get("params") or {}
        result: dict[str, Any] = {}
        if method == "initialize":
            result = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "large", "version": "1"},
            }
        elif method == "tools/list":
            result = page(tools, int(params.get("cursor", 0)))
        elif method == "tools/call":
            tools.insert(0, tool(len(tools)))
            print('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}', flush=True)
            result = {"content": [{"type": "text", "text": "added"}]}
        elif method != "ping":
            error = {"code": -32601, "message": f"Method not found: {method}"}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
