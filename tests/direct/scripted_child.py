"""A server on stdio that writes what each call tells it to: `python -I -S scripted_child.py ERA`.

The arguments of a call are its script; without one, the params come back as text.

writes: lines to write, with `$ID` for the id of the request `$TOKEN` for its progress token, and
`$FILL` for as many characters as `fill` says.
first: lines to write before these. keep: write `writes` once a call has that name as `free`, or a response has it as
its id. leave: end the process with this status afterwards.
heard: answer with the messages that were no requests, and forget them.

Many tests start it: `typing` would take a sixth of the time that it needs to start.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Message = dict[str, Any]

MODERN = "2026-07-28"
ANYTHING: Message = {"type": "object"}
NUMBER: Message = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = [
    {"name": "any", "inputSchema": ANYTHING},
    {"name": "number", "inputSchema": NUMBER},
    {"name": "typed", "inputSchema": ANYTHING, "outputSchema": NUMBER},
    {"name": "reading", "inputSchema": ANYTHING, "annotations": {"readOnlyHint": True}},
    {"name": "app", "inputSchema": ANYTHING, "_meta": {"ui": {"visibility": ["app"]}}},
    {
        "name": "headed",
        "inputSchema": {"type": "object", "properties": {"place": {"type": "string", "x-mcp-header": "Place"}}},
    },
]


class Child:
    """The server."""

    def __init__(self, era: str) -> None:
        self._modern = era == "modern"
        self._tools = list(TOOLS)
        self._kept: dict[str, list[str]] = {}
        self._heard: list[Message] = []

    def write(self, *lines: str) -> None:
        data = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
        while data:
            data = data[os.write(1, data) :]

    def take(self, message: Message) -> None:
        if "id" not in message or "method" not in message:
            self._heard.append(message)
            self.write(*self._kept.pop(message.get("id", ""), ()))
        elif message["method"] == "tools/call":
            self._call(message, message["params"], message["params"].get("arguments") or {})
        else:
            self._result(message, self._answer(message["method"], message.get("params") or {}))

    def _result(self, request: Message, result: Message | None) -> None:
        answer = {"result": result} if result is not None else {"error": {"code": -32601, "message": "none such"}}
        self.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}))

    def _answer(self, method: str, params: Message) -> Message | None:
        if method == "initialize" and not self._modern:
            server = {"name": "child", "version": "1"}
            capabilities = {"tools": {"listChanged": True}, "logging": {}}
            return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": server}
        if method == "server/discover" and self._modern:
            capabilities = {"tools": {}, "logging": {}}
            return {"supportedVersions": [MODERN], "capabilities": capabilities, "ttlMs": 0, "cacheScope": "public"}
        if method == "tools/list":
            return {"tools": self._tools}
        return {} if method in ("ping", "logging/setLevel") else None

    def _call(self, request: Message, params: Message, script: Message) -> None:
        if "tools" in script:
            self._tools = script["tools"]
            self.write('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
        if "free" in script:
            self.write(*self._kept.pop(script["free"]))
        if script.get("heard"):
            heard, self._heard = self._heard, []
            self._result(request, {"content": [{"type": "text", "text": json.dumps(heard)}]})
            return
        token = params.get("_meta", {}).get("progressToken")
        if token is not None:
            params["_meta"]["progressToken"] = "T"
        seen = json.dumps(params, sort_keys=True)
        lines = script.get("writes")
        if lines is None:
            result = {"content": [{"type": "text", "text": seen}]}
            lines = [json.dumps({"jsonrpc": "2.0", "id": "$ID", "result": result}).replace('"$ID"', "$ID", 1)]
        ids = {"$ID": json.dumps(request["id"]), "$TOKEN": json.dumps(token), "$FILL": "x" * script.get("fill", 0)}
        first, lines = filled(script.get("first", ()), ids), filled(lines, ids)
        self.write(*first)
        if "keep" in script:
            self._kept[script["keep"]] = lines
        else:
            self.write(*lines)
        if "leave" in script:
            os._exit(script["leave"])


def filled(lines: Iterable[str], values: Mapping[str, str]) -> list[str]:
    """Return lines with these values for their placeholders."""
    found = list(lines)
    for name, value in values.items():
        found = [line.replace(name, value) for line in found]
    return found


def main(era: str) -> None:
    child = Child(era)
    for line in sys.stdin.buffer:
        child.take(json.loads(line))


if __name__ == "__main__":
    main(sys.argv[1])
