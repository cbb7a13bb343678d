"""The cheapest MCP server there is, over stdio: one tool, `echo`. Standard library only, so that it starts at once.

Run as `python -I -S echo_stdio.py`. Handshake eras; it says -32601 to `server/discover` as servers of those eras do.
With `structured` behind it, the tool has an `outputSchema`, and its answers are structured too. With `marked`, its
description has the text that every answer of a benchmark must hold.
"""

import json
import os
import sys
from typing import Any, Final

VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

TOOL: Final[dict[str, Any]] = {
    "name": "echo",
    "description": "Answers with the text it was given.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}

STRUCTURED: Final = {
    **TOOL,
    "outputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string"}, "length": {"type": "integer", "minimum": 0}},
        "required": ["text", "length"],
    },
}


MARKED: Final = {**TOOL, "description": "Answers with the text that has to come back."}


def answer(message: dict[str, Any], *, structured: bool = False, marked: bool = False) -> dict[str, Any] | None:
    """The response to one message; None for a notification."""
    if "id" not in message:
        return None
    method, params = message.get("method"), message.get("params") or {}
    result: dict[str, Any]
    if method == "tools/call":
        text = params["arguments"]["text"]
        result = {"content": [{"type": "text", "text": text}]}
        if structured:
            result["structuredContent"] = {"text": text, "length": len(text)}
    elif method == "tools/list":
        result = {"tools": [STRUCTURED if structured else MARKED if marked else TOOL]}
    elif method == "initialize":
        asked = params.get("protocolVersion")
        result = {
            "protocolVersion": asked if asked in VERSIONS else VERSIONS[-1],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "echo", "version": "1"},
        }
    elif method == "ping":
        result = {}
    else:
        error = {"code": -32601, "message": f"Method not found: {method}"}
        return {"jsonrpc": "2.0", "id": message["id"], "error": error}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def main() -> None:
    """Serve until stdin ends: everything that is there to read is answered with one write."""
    structured, marked = "structured" in sys.argv, "marked" in sys.argv
    rest = b""
    while data := os.read(0, 65536):
        *lines, rest = (rest + data).split(b"\n")
        answers = [answer(json.loads(line), structured=structured, marked=marked) for line in lines if line.strip()]
        said = "".join(json.dumps(said) + "\n" for said in answers if said is not None).encode()
        while said:
            said = said[os.write(1, said) :]


if __name__ == "__main__":
    main()
