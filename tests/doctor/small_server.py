"""A small MCP server over stdio that misbehaves as its arguments say; it needs nothing of the package.

`--tools N`, `--length L` of their names, `--noise` prints to stdout, `--bad-schema` for the second tool,
`--circles` always names the same next page, `--silent` answers nothing, `--die TEXT` ends with these last words,
`--version V` as what `initialize` says, `--needs NAME` ends with last words unless this variable is set,
`--silent-without NAME` answers nothing then,
`--wants NAME` refuses clients without this capability,
`--grows WHEN` adds a tool after its first list (`list`) or after a call (`call`), and announces it.
"""

import argparse
import json
import os
import sys
import time
from typing import Any


def main() -> None:
    """Answer until stdin ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", type=int, default=3)
    parser.add_argument("--length", type=int, default=0)
    parser.add_argument("--noise", action="store_true")
    parser.add_argument("--bad-schema", action="store_true")
    parser.add_argument("--choice", action="store_true")
    parser.add_argument("--huge", action="store_true")
    parser.add_argument("--circles", action="store_true")
    parser.add_argument("--silent", action="store_true")
    parser.add_argument("--die")
    parser.add_argument("--version", default="1")
    parser.add_argument("--needs")
    parser.add_argument("--silent-without")
    parser.add_argument("--wants")
    parser.add_argument("--grows", choices=["list", "call"])
    options, _ = parser.parse_known_args()
    if options.die is not None:
        sys.stderr.write(f"{options.die}\n")
        sys.exit(1)
    if options.needs is not None and not os.environ.get(options.needs):
        sys.stderr.write(f"\x1b[31mno certificate for {options.needs}\x1b[0m\u202e\n")
        sys.exit(1)
    options.silent |= options.silent_without is not None and not os.environ.get(options.silent_without)
    if options.noise:
        print("Listening, ready to serve you well", flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if options.silent:
            time.sleep(0)
        elif "id" in message:
            answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
            result = answered(message, options)
            offered = message["params"]["capabilities"] if message["method"] == "initialize" else {options.wants}
            if options.wants not in (None, *offered):
                answer["error"] = {"code": -32602, "message": f"The client does not support {options.wants}."}
                print(json.dumps(answer), flush=True)
                continue
            answer |= {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
            if message["method"] == f"tools/{options.grows}":
                options.grows, options.tools = "grown", options.tools + 1
                print('{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}', flush=True)
            print(json.dumps(answer), flush=True)


def answered(message: dict[str, Any], options: argparse.Namespace) -> dict[str, Any] | None:
    """Return the result of one request; None for a method that is not known."""
    if message["method"] == "initialize":
        version = {"name": "small", "version": options.version}
        tells = {"listChanged": options.grows is not None}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": tells}, "serverInfo": version}
    if message["method"] == "tools/list":
        tools = [tool(at, options) for at in range(options.tools)]
        return {"tools": tools, "nextCursor": "again"} if options.circles else {"tools": tools}
    if message["method"] == "tools/call":
        return {"content": [{"type": "text", "text": f"{message['params']['name']} was called"}]}
    return {} if message["method"] == "ping" else None


def tool(at: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the definition of one tool."""
    name = f"tool_{at}".ljust(options.length, "x")
    schema: dict[str, Any] = {"type": "object"}
    if options.bad_schema and at == 1:
        schema = {"type": "object", "$ref": "https://example.com/schema.json"}
    if options.choice and at == 1:
        schema = {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    if options.huge and at == 1:
        part = {"type": "object", "properties": {f"q{number}": {"type": "string"} for number in range(90)}}
        properties = {f"p{number}": {"$ref": "#/$defs/part"} for number in range(90)}
        schema = {"type": "object", "properties": properties, "$defs": {"part": part}}
    return {"name": name, "description": f"Tool {at}.", "inputSchema": schema}


if __name__ == "__main__":
    main()
