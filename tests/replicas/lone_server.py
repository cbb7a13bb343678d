"""A stdio server that one replica alone may run: it writes each call into a file, with its process id.

`python lone_server.py FILE`. Plain JSON, no imports of ours: it starts in some milliseconds.
"""

import json
import os
import sys

_TOOL = {"name": "do", "inputSchema": {"type": "object", "properties": {"say": {"type": "string"}}}}


def main() -> None:
    """Answer requests until stdin ends."""
    log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(log, f"{os.getpid()} starts\n".encode())
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        match message["method"]:
            case "initialize":
                given = message["params"]["protocolVersion"]
                info = {"name": "lone", "version": "1"}
                result = {"protocolVersion": given, "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                result = {"tools": [_TOOL]}
            case "tools/call":
                said = message["params"]["arguments"]["say"]
                os.write(log, f"{os.getpid()} {said}\n".encode())
                result = {"content": [{"type": "text", "text": said}]}
            case "ping":
                result = {}
            case _:
                error = {"code": -32601, "message": "Method not found"}
                sys.stdout.buffer.write(
                    json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode() + b"\n"
                )
                sys.stdout.buffer.flush()
                continue
        sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
