"""A server over stdio whose definitions stand in a file: `python -I -S changing_stdio.py FILE`. Standard library only.

FILE holds `tools`, `prompts`, `resources`, `templates`, `skills`, `instructions` and `version` as JSON, and `files` by
URI; it is read for each request. `says` has the answers of tools that say more than their names. While it has `silent`,
nothing is answered; with `quiet`, the server declares that it announces no other tools; with `breaks_off`, the second
page of tools is none if that is true, and empty if not. The tool `announce` makes the server tell that all its lists
changed.

Many tests start it: `pathlib` and `typing` would take a quarter of the time that it needs to start.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EMPTY = {"type": "object", "properties": {}}


def state() -> dict[str, Any]:
    """Return what the server has now."""
    with open(os.environ.get("DEFINITIONS", sys.argv[1]), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def say(message: dict[str, Any]) -> None:
    """Write one message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def result(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer to a request; None where the method is not known."""
    now = state()
    match method:
        case "initialize":
            skills: dict[str, Any] = {"io.modelcontextprotocol/skills": {}} if now.get("skills") else {}
            lists = {"tools": {"listChanged": "quiet" not in now}, "prompts": {"listChanged": True}}
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {
                    **lists,
                    "resources": {"listChanged": True},
                    **({"extensions": skills} if skills else {}),
                },
                "serverInfo": {"name": "changing", "version": now.get("version", "1")},
                **({"instructions": now["instructions"]} if now.get("instructions") else {}),
            }
        case "tools/list" if "cursor" in params:
            # As it was with the first page: the file may have changed since.
            return {} if params["cursor"] == "breaks off" else {"tools": None}
        case "tools/list":
            more = {"nextCursor": "breaks off" if now["breaks_off"] else "2"} if "breaks_off" in now else {}
            return {"tools": [*now["tools"], {"name": "announce", "inputSchema": EMPTY}], **more}
        case "prompts/list":
            return {"prompts": now.get("prompts", [])}
        case "resources/list":
            return {"resources": now.get("resources", [])}
        case "resources/templates/list":
            return {"resourceTemplates": now.get("templates", [])}
        case "skills/list":
            return {"skills": now.get("skills", [])}
        case "skills/get":
            return next(({"skill": one} for one in now.get("skills", []) if one["uri"] == params["uri"]), None)
        case "prompts/get":
            return {"messages": [{"role": "user", "content": {"type": "text", "text": params["name"]}}]}
        case "resources/read":
            return {
                "contents": [{"uri": params["uri"], "text": now.get("files", {}).get(params["uri"], "it is there")}]
            }
        case "tools/call":
            if params["name"] == "announce":
                for kind in ("tools", "prompts", "resources"):
                    say({"method": f"notifications/{kind}/list_changed"})
            text = now.get("says", {}).get(params["name"], f"{params['name']} was called")
            return {"content": [{"type": "text", "text": text}]}
        case "ping":
            return {}
        case _:
            return None


def main() -> None:
    """Answer until stdin ends."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message or state().get("silent"):
            continue
        answer = result(message["method"], message.get("params") or {})
        if answer is None:
            say({"id": message["id"], "error": {"code": -32601, "message": "unknown method"}})
        else:
            say({"id": message["id"], "result": answer})


if __name__ == "__main__":
    main()
