"""A faulty MCP server over stdio; each call names its fault: `python -I -S faulty_stdio.py`. Standard library only.

`WILD_PIDS` names a file that gets the process id of every start.

Every fault that a server over stdio can have by itself; what is done to it from outside is the storm's.
"""

import json
import os
import sys
import threading
import time
from typing import Any

Message = dict[str, Any]

LOCK = threading.Lock()
HUGE = 3_000_000


def write(data: bytes) -> None:
    """All of it on stdout, in one piece."""
    with LOCK:
        while data:
            data = data[os.write(1, data) :]


def say(message: Message) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def answer(number: Any, words: str) -> None:
    say({"id": number, "result": {"content": [{"type": "text", "text": words}]}})


def call(number: Any, arguments: Message) -> None:
    """Answer one call, or not, after doing what its `fault` is."""
    words, fault = str(arguments.get("say", "")), arguments.get("fault")
    if fault == "slow":
        threading.Timer(arguments["seconds"], answer, (number, words)).start()
        return
    if fault in ("hang", "wrong_id", "die", "close", "garble"):
        end(number, fault)
        return
    if fault == "garbage":
        write(b"{[ this is not JSON\n\x00\xff\n" * 20)
    elif fault == "notes":
        note = {"method": "notifications/message", "params": {"level": "info", "data": "x" * 200}}
        write((json.dumps({"jsonrpc": "2.0", **note}).encode() + b"\n") * 500)
    elif fault == "stderr":
        sys.stderr.write("a line of stderr that nobody wants to read\n" * 3000)
    elif fault == "ask":
        say({"id": f"ask-{number}", "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}})
    elif fault == "huge":
        words = "x" * HUGE
    if fault == "error":
        say({"id": number, "error": {"code": -32099, "message": "no"}})
        return
    answer(number, words)
    if fault == "twice":
        answer(number, "the second answer")


def end(number: Any, fault: str) -> None:
    """The faults after which there is no answer."""
    if fault == "die":
        os._exit(3)
    elif fault == "close":
        os.close(1)
        time.sleep(600)
    elif fault == "wrong_id":
        answer(10**9, "the answer to nothing")
    elif fault == "garble":
        write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type"\n' % number)


def main() -> None:
    if path := os.environ.get("WILD_PIDS"):
        with open(path, "a") as pids:
            pids.write(f"{os.getpid()}\n")
    for line in sys.stdin.buffer:
        message = json.loads(line)
        number, method = message.get("id"), message.get("method")
        if method == "initialize":
            hello = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            say({"id": number, "result": {**hello, "serverInfo": {"name": "wild", "version": "0"}}})
        elif method == "tools/list":
            say({"id": number, "result": {"tools": [{"name": "do", "inputSchema": {"type": "object"}}]}})
        elif method == "tools/call":
            call(number, message["params"].get("arguments") or {})
        elif method == "ping":
            say({"id": number, "result": {}})
        elif method is not None and number is not None:
            say({"id": number, "error": {"code": -32601, "message": f"no {method} here"}})


if __name__ == "__main__":
    main()
