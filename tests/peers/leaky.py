"""An MCP server that discloses its environment and arguments in every encoding: `python -I -S leaky.py [MODE] ARGS`.

It prints its environment and arguments to stderr, to stdout, into notifications and tracebacks. `dies`: that is all it
does. `falls`: it also serves, and ends in the middle of a call. Standard library only.
"""

import base64
import json
import os
import sys
import traceback
import urllib.parse
from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]


def disclosure() -> Iterator[str]:
    """Return everything that was entrusted to the server, in lines."""
    for name, value in [*os.environ.items(), *enumerate(sys.argv)]:
        if len(value) > 20 and not value.startswith("/"):
            yield f"{name}={value}"
            yield f"using {name}: {value!r} ({value.encode()!r})"
            yield f"GET https://api.example.com/v1?q=1&x={urllib.parse.quote(value)}#{urllib.parse.quote_plus(value)}"
            yield f"Basic {base64.b64encode(f'user:{value}'.encode()).decode()}"
            yield base64.b64encode(f'{{"who": "me", "what": "{value}"}}'.encode()).decode()
            yield json.dumps({"config": json.dumps({"value": value})})
            yield value.encode().hex()
    yield json.dumps(dict(os.environ))


def say(message: Message) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def disclose() -> None:
    """Disclose the secrets on every channel besides answers."""
    for line in disclosure():
        print(line, file=sys.stderr)
        print(f"noise: {line}")
        say({"method": "notifications/message", "params": {"level": "error", "data": {"said": line}}})
    try:
        raise RuntimeError(" | ".join(disclosure()))
    except RuntimeError:
        traceback.print_exc()


def main(mode: str) -> None:
    disclose()
    if mode == "dies":
        sys.exit(f"cannot log in with {' '.join(sys.argv[2:])}: {os.environ}")
    for line in sys.stdin:
        request = json.loads(line)
        method = request.get("method")
        if method == "initialize":
            hello = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "leaky"}}
            say({"id": request["id"], "result": hello})
        elif method == "tools/list":
            say({"id": request["id"], "result": {"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]}})
        elif method == "tools/call":
            disclose()
            sys.exit(f"lost my way with {' '.join(sys.argv[2:])}: {os.environ}")
        elif "id" in request:
            say({"id": request["id"], "error": {"code": -32601, "message": f"not with {sys.argv}"}})


if __name__ == "__main__":
    main(sys.argv[1])
