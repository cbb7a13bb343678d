"""A stdio server that must run once: it takes a lock file as its own, and says so loudly where another one has it.

`python one_only_server.py FOLDER`. Each call and each start is a line of `FOLDER/log`. Plain JSON, no imports of ours.
"""

import fcntl
import json
import os
import sys
from pathlib import Path

TOOL = {"type": "object", "properties": {"say": {"type": "string"}}}


def main() -> None:
    """Answer requests until stdin ends."""
    folder = Path(sys.argv[1])
    log = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.write(log, f"{os.getpid()} TWICE\n".encode())
        sys.exit("another one runs already")
    os.write(log, f"{os.getpid()} starts\n".encode())
    pending: list[dict[str, object]] = []
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "method" not in message:
            # The answer of a host: it is the result of the call that asked.
            asked = pending.pop(0)
            send({"id": asked["id"], "result": text(json.dumps(message.get("result", message.get("error"))))})
            continue
        if "id" not in message:
            if message["method"] == "notifications/cancelled":
                os.write(log, f"{os.getpid()} cancelled\n".encode())
            continue
        params = message.get("params", {})
        match message["method"]:
            case "initialize":
                info = {"name": "one-only", "version": "1"}
                able = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}}
                result = {"protocolVersion": params["protocolVersion"], "capabilities": able, "serverInfo": info}
            case "tools/list":
                names = ["do", "ask", "hang", "more", "progress"] + (["extra"] if (folder / "more").exists() else [])
                result = {"tools": [{"name": name, "inputSchema": TOOL, "x-unknown": 1} for name in names]}
            case "resources/list":
                result = {"resources": [{"uri": "file:///thing", "name": "thing"}]}
            case "resources/read":
                result = {"contents": [{"uri": "file:///thing", "text": str(os.getpid())}]}
            case "tools/call":
                said = params["arguments"].get("say", "")
                os.write(log, f"{os.getpid()} {params['name']} {said}\n".encode())
                if params["name"] == "hang":
                    continue
                if params["name"] == "ask":
                    pending.append(message)
                    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
                    send(
                        {
                            "id": "q1",
                            "method": "elicitation/create",
                            "params": {"message": said, "requestedSchema": schema},
                        }
                    )
                    continue
                if params["name"] == "more":
                    (folder / "more").touch()
                    send({"method": "notifications/tools/list_changed"})
                    send({"method": "notifications/resources/updated", "params": {"uri": "file:///thing"}})
                if params["name"] == "progress":
                    token = params.get("_meta", {}).get("progressToken")
                    for done in (1, 2):
                        send(
                            {
                                "method": "notifications/progress",
                                "params": {"progressToken": token, "progress": done, "message": "so far"},
                            }
                        )
                    send({"method": "notifications/message", "params": {"level": "error", "data": "said"}})
                result = {**text(f"{os.getpid()} {said}"), "x-unknown": {"kept": True}}
            case _:
                result = {}
        send({"id": message["id"], "result": result})


def text(said: str) -> dict[str, object]:
    """Return a result of one text."""
    return {"content": [{"type": "text", "text": said}]}


def send(message: dict[str, object]) -> None:
    """Write a message to stdout."""
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
