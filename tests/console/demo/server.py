"""An MCP server of the demo, over stdio, handshake eras: `python -I -S server.py CATALOG [--at-once] [FILE]`.

The tools are those of the catalog; if FILE is there and holds a name, those of that catalog, read at the start.
`hold` waits for `release`. Standard library only, so that it starts at once.
"""

import json
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from catalogs import CATALOGS, milliseconds, result  # type: ignore[import-not-found]

_writing = threading.Lock()
_held: dict[str, list[Any]] = {}
_counts: Counter[str] = Counter()


def main() -> None:
    """Serve until stdin ends."""
    name, *rest = [word for word in sys.argv[1:] if word != "--at-once"]
    at_once = "--at-once" in sys.argv
    chosen = Path(rest[0]).read_text().strip() if rest and Path(rest[0]).exists() else name
    print(f"{name}: {len(CATALOGS[chosen])} tools, ready", file=sys.stderr, flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            _answer(message, name, CATALOGS[chosen], at_once)


def _answer(message: dict[str, Any], name: str, tools: list[dict[str, Any]], at_once: bool) -> None:
    number, method, params = message["id"], message["method"], message.get("params") or {}
    if method == "tools/call":
        _call(number, params["name"], params.get("arguments") or {}, at_once)
    elif method == "initialize":
        info = {"name": name, "version": "1.4.2"}
        _send(number, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        _send(number, {"tools": tools})
    elif method == "ping":
        _send(number, {})
    else:
        _write({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": f"Method not found: {method}"}})


def _call(number: Any, tool: str, arguments: dict[str, Any], at_once: bool) -> None:
    _counts[tool] += 1
    if tool == "hold":
        _held.setdefault(str(arguments["key"]), []).append(number)
        return
    if tool == "release":
        for waiting in _held.pop(str(arguments["key"]), []):
            _send(waiting, result("hold"))
    if at_once:
        _send(number, result(tool))
        return
    # A thread for each: as real servers, it answers several at a time.
    threading.Thread(target=_later, args=(number, tool, milliseconds(tool, _counts[tool])), daemon=True).start()


def _later(number: Any, tool: str, wait: int) -> None:
    time.sleep(wait / 1000)
    _send(number, result(tool))


def _send(number: Any, made: dict[str, Any]) -> None:
    _write({"jsonrpc": "2.0", "id": number, "result": made})


def _write(message: dict[str, Any]) -> None:
    with _writing:
        print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
