"""An MCP server as a program: it reads its tools from a file, and writes what it is told to stderr.

Run as `python talking_server.py TOOLS.json [LINE ...]`. The tool `die` ends it with exit code 3.
"""

import json
import sys
from pathlib import Path


def main() -> None:
    tools = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for line in sys.argv[2:]:
        print(line, file=sys.stderr, flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        match message["method"]:
            case "initialize":
                version = message["params"]["protocolVersion"]
                answer = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": INFO}
            case "tools/list":
                answer = {"tools": tools}
            case "tools/call":
                if message["params"]["name"] == "die":
                    sys.exit(3)
                answer = {"content": [{"type": "text", "text": f"did {message['params']['name']}"}]}
            case _:
                answer = {}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)


INFO = {"name": "<b>talker</b>", "version": "1.2.3"}

if __name__ == "__main__":
    main()
