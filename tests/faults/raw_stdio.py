"""A raw MCP server over stdio that misbehaves as MODE says: `python -I -S raw_stdio.py MODE`. Standard library only.

`RAW_LOG` names a file that gets one line per start and per call with an effect; `RAW_TOOLS` one that holds the result
of `tools/list`, passed on byte for byte. Everything that goes wrong in a call is a tool, everything else a mode.
Thousands of tests start it: `typing` and `subprocess` would take a third of the time that it needs to start.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Message = dict[str, Any]
    Tool = Callable[[Message, Message], None]

TOOLS: dict[str, Tool] = {}
ANSWERS: dict[str, Message] = {}
ASKED: list[Message] = []
# Lists that wait until they are asked for again.
HELD: list[Message] = []
LOCK = threading.Lock()
# The encoding of what is written, if it is not UTF-8; the first piece begins with its mark.
ENCODING: list[str] = []
SLEEPER = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]


def note(word: str) -> None:
    """One more line in the log of effects."""
    if path := os.environ.get("RAW_LOG"):
        with open(path, "a") as log:
            log.write(f"{word}\n")


def write(data: bytes) -> None:
    """The whole of `data` on stdout, in one piece as far as other threads go."""
    with LOCK:
        if ENCODING:
            data = data.decode().encode(ENCODING[-1])
            if len(ENCODING) == 1 and ENCODING[0] == "utf-16":
                ENCODING.append("utf-16-le")
        while data:
            data = data[os.write(1, data) :]


def say(message: Message) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def text(words: str) -> Message:
    return {"content": [{"type": "text", "text": words}]}


def tool(function: Tool) -> Tool:
    TOOLS[function.__name__] = function
    return function


@tool
def echo(request: Message, arguments: Message) -> None:
    say({"id": request["id"], "result": text(str(arguments.get("say", "")))})


@tool
def hang(request: Message, arguments: Message) -> None:
    note("hang")


@tool
def leave(request: Message, arguments: Message) -> None:
    note("leave")
    os._exit(3)


@tool
def answer_and_leave(request: Message, arguments: Message) -> None:
    say({"id": request["id"], "result": text("x" * arguments["size"])})
    os._exit(0)


@tool
def close_stdout(request: Message, arguments: Message) -> None:
    note("close_stdout")
    os.close(1)


@tool
def raw(request: Message, arguments: Message) -> None:
    """Write `lines` as they are, with the id of this request for `$ID`."""
    lines = "".join(f"{line}\n" for line in arguments["lines"]).replace("$ID", json.dumps(request["id"]))
    write(lines.encode("utf-8", "surrogatepass"))


@tool
def large(request: Message, arguments: Message) -> None:
    say({"id": request["id"], "result": text("x" * arguments["size"])})


@tool
def rows(request: Message, arguments: Message) -> None:
    """A large table whose rows have ids of their own."""
    table = [{"id": number % 100, "value": "x" * 100} for number in range(arguments["count"])]
    say({"id": request["id"], "result": {**text("a table"), "structuredContent": {"rows": table}}})


@tool
def ask(request: Message, arguments: Message) -> None:
    """Send the given requests; answer with their responses once all have arrived."""
    ASKED.append({"id": request["id"], "wanted": [str(question["id"]) for question in arguments["questions"]]})
    for question in arguments["questions"]:
        say(question)


@tool
def breed(request: Message, arguments: Message) -> None:
    """A child of its own, in the same process group, that holds the same pipes."""
    import subprocess

    say({"id": request["id"], "result": text(str(subprocess.Popen(SLEEPER).pid))})


@tool
def flood(request: Message, arguments: Message) -> None:
    """Write to stdout without end, beside the answers to calls."""
    pattern = str(arguments["pattern"]).encode()
    say({"id": request["id"], "result": text("here it comes")})
    chunk = pattern * (65536 // len(pattern))
    threading.Thread(target=pour, args=(chunk, int(arguments.get("times", 10**9))), daemon=True).start()


def pour(chunk: bytes, times: int) -> None:
    for _ in range(times):
        write(chunk)
    note("poured")


def requests() -> Iterator[Message]:
    for line in sys.stdin.buffer:
        yield json.loads(line)


def answer(request: Message, mode: str) -> None:
    """The ordinary answer to one message."""
    method = request.get("method")
    if method is None:
        settle(request)
    elif mode == "unnamed" and answer_unnamed(request):
        return
    elif method == "initialize":
        version = mode.partition("=")[2] if mode.startswith("version=") else "2025-06-18"
        hello = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "r", "version": "0"}}
        say({"id": request["id"], "result": hello})
    elif method == "tools/list":
        say_tools(request, mode)
    elif method == "tools/call":
        TOOLS[request["params"]["name"]](request, request["params"].get("arguments") or {})
    elif "id" in request:
        say({"id": request["id"], "error": {"code": -32601, "message": f"no {method} here"}})


def answer_unnamed(request: Message) -> bool:
    """Answer without an id, or hold a list back until it is asked for again, as `RAW_UNNAMED` says."""
    unnamed, method = json.loads(os.environ["RAW_UNNAMED"]), request["method"]
    if method in unnamed["methods"]:
        write(unnamed["answer"].encode() + b"\n")
        return True
    if method == "tools/list" and unnamed["slow"]:
        HELD.append(request)
        for one in HELD if len(HELD) > 1 else ():
            say_tools(one, "")
        return True
    return False


def settle(message: Message) -> None:
    ANSWERS[str(message["id"])] = message
    for asked in list(ASKED):
        if all(wanted in ANSWERS for wanted in asked["wanted"]):
            ASKED.remove(asked)
            say({"id": asked["id"], "result": text(json.dumps([ANSWERS[wanted] for wanted in asked["wanted"]]))})


def say_tools(request: Message, mode: str) -> None:
    note("list")
    if path := os.environ.get("RAW_TOOLS"):
        with open(path, "rb") as file:
            write(b'{"jsonrpc":"2.0","id":%d,"result":%b}\n' % (request["id"], file.read()))
        return
    tools: list[Message] = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
    cursor = request["params"].get("cursor")
    if mode == "pages=loop":
        say({"id": request["id"], "result": {"tools": tools, "nextCursor": "b" if cursor == "a" else "a"}})
    elif mode == "pages=endless":
        tools = [{"name": f"t{cursor}", "inputSchema": {"type": "object"}}]
        say({"id": request["id"], "result": {"tools": tools, "nextCursor": str(int(cursor or 0) + 1)}})
    else:
        say({"id": request["id"], "result": {"tools": tools}})
    if mode == "restless":
        say({"method": "notifications/tools/list_changed"})


def serve(mode: str) -> None:
    for request in requests():
        method = request.get("method")
        if mode == "dies_on_discover" and method == "server/discover":
            sys.exit(1)
        if mode == "silent_on_discover" and method == "server/discover":
            continue
        if mode == "deaf_to_calls" and method == "tools/call":
            continue
        if mode == "noisy":
            write(b"Listening for requests...\n\n\x00\xff\xfe{broken [1, 2\n[]\n3\nnull\n")
        answer(request, mode)
        if (mode, method) in (("stops_reading", "tools/list"), ("deaf_after_flood", "tools/call")):
            break
        if mode == "leaves_after_list" and method == "tools/list":
            sys.exit(0)
    if mode in ("stubborn", "stops_reading", "deaf_after_flood"):
        time.sleep(600)
    if mode == "leaves_with_others":
        leave_with_others()


def leave_with_others() -> None:
    """Run until every process that has logged its start has been asked to end."""
    note("told to leave")
    while True:
        with open(os.environ["RAW_LOG"]) as log:
            noted = log.read()
        if noted.count("told to leave") >= noted.count("start "):
            return note("left")
        time.sleep(0.01)


def main(mode: str) -> None:
    note(f"start {os.getpid()}")
    if mode == "mute":
        time.sleep(600)
    elif mode == "complains":
        sys.exit("fatal: the licence of this server has run out")
    elif mode == "crashes":
        sys.exit(7)
    if mode.startswith("encoding="):
        ENCODING.append(mode.partition("=")[2])
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve(mode)


if __name__ == "__main__":
    main(sys.argv[1])
