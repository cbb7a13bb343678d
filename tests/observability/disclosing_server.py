"""An MCP server that answers every call with its environment, its arguments and the call: `python -m ...`.

`tell` answers with it, `fail` as a failure, `refuse` with an error of the protocol, `chat` on the way to its answer,
`leave` ends in the middle. What is read of it, it refuses to give, in as many words.
"""

import json
import sys
from typing import Any, Final

from tests.peers.leaky import disclosure

Message = dict[str, Any]
TOOLS: Final = ("tell", "fail", "refuse", "chat", "leave", "wipe", "pay")


def say(message: Message) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(request: Message) -> None:
    """One `tools/call`."""
    known = [*disclosure(), json.dumps(request["params"])]
    content = [{"type": "text", "text": line} for line in known]
    match request["params"]["name"]:
        case "tell":
            say({"id": request["id"], "result": {"content": content, "structuredContent": {"known": known[-3:]}}})
        case "fail":
            say({"id": request["id"], "result": {"content": content, "isError": True}})
        case "refuse":
            say({"id": request["id"], "error": {"code": -32000, "message": " ".join(known), "data": known}})
        case "chat":
            token = request["params"].get("_meta", {}).get("progressToken")
            for at, line in enumerate(known, 1):
                said = {"level": "error", "data": {"said": line}}
                say({"method": "notifications/message", "params": said})
                if token is not None:
                    report = {"progressToken": token, "progress": at, "message": line}
                    say({"method": "notifications/progress", "params": report})
            say({"id": request["id"], "result": {"content": []}})
        case _:
            print("\n".join(known), file=sys.stderr, flush=True)
            sys.exit(" ".join(known))


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("method") == "initialize":
            can: Message = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}}
            hello = {"protocolVersion": "2025-06-18", "capabilities": can, "serverInfo": {"name": "gossip"}}
            say({"id": request["id"], "result": hello})
        elif request.get("method") == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
            say({"id": request["id"], "result": {"tools": tools}})
        elif request.get("method") == "tools/call":
            answer(request)
        elif request.get("method") in ("resources/list", "resources/templates/list"):
            field = "resources" if request["method"] == "resources/list" else "resourceTemplates"
            say({"id": request["id"], "result": {field: []}})
        elif "id" in request:
            say(
                {
                    "id": request["id"],
                    "error": {"code": -32000, "message": " ".join(disclosure()), "data": [*disclosure()]},
                }
            )


if __name__ == "__main__":
    main()
