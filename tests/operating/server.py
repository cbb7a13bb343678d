"""A server of the handshake era on stdio, with the manners of real ones: `python -m tests.operating.server`.

`--marks FILE` adds the tool `ask`, which asks the host something, and the resource `box://wait`, which is never read to
its end; the file is made once a read of it has begun. `--deaf` neither ends with its stdin nor at SIGTERM; `--sidecar
FILE` starts a process in a session of its own, which nothing ends with us, and writes down its process id; `--prints`
says its environment variable TOKEN on stderr.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

_TEXT: Final[Json] = {"type": "object", "properties": {"file": {"type": "string"}}}
_TOOLS: Final = [{"name": name, "inputSchema": _TEXT} for name in ("who", "wait")]
_ASKING: Final = {"name": "ask", "inputSchema": _TEXT}
_RESOURCES: Final = [{"uri": "box://wait", "name": "wait"}]
_POLL: Final = 0.01


async def call(name: str, arguments: Json) -> str:
    """Run a tool: `who` returns this process and its TOKEN, `wait` notes its start and waits for `file`, `ask` asks the
    host and never ends.
    """
    if name == "wait":
        file = Path(arguments["file"])
        file.with_suffix(".begun").touch()
        while not os.path.exists(file):  # noqa: ASYNC110, ASYNC240 - nothing tells of a file
            await asyncio.sleep(_POLL)
        return "waited"
    if name == "ask":
        schema = {"type": "object", "properties": {"yes": {"type": "boolean"}}}
        params = {"message": "Yes?", "requestedSchema": schema}
        print(json.dumps({"jsonrpc": "2.0", "id": "ask", "method": "elicitation/create", "params": params}), flush=True)
        await asyncio.get_running_loop().create_future()
    return json.dumps({"pid": os.getpid(), "token": os.environ.get("TOKEN")})


async def answer(message: Json, marks: Path | None) -> None:
    method, params = message["method"], message.get("params") or {}
    result: Json | None = None
    if method == "initialize":
        info = {"name": "operated", "version": "1"}
        more: Json = {"resources": {}} if marks is not None else {}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, **more}, "serverInfo": info}
    elif method == "tools/list":
        result = {"tools": [*_TOOLS, _ASKING] if marks is not None else _TOOLS}
    elif method == "resources/list":
        result = {"resources": _RESOURCES}
    elif method == "resources/read":
        assert marks is not None
        marks.touch()  # noqa: ASYNC240
        await asyncio.get_running_loop().create_future()
    elif method == "tools/call":
        said = await call(params["name"], params.get("arguments") or {})
        result = {"content": [{"type": "text", "text": said}]}
    body: Json = {"result": result} if result is not None else {"error": {"code": -32601, "message": "No such method"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)


async def serve(*, deaf: bool, marks: Path | None) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    running: set[asyncio.Task[None]] = set()
    while line := await reader.readline():
        message = json.loads(line)
        if "id" in message and "method" in message:
            running.add(asyncio.create_task(answer(message, marks)))
    if deaf:
        await asyncio.get_running_loop().create_future()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--deaf", action="store_true")
    parser.add_argument("--prints", action="store_true")
    parser.add_argument("--sidecar", type=Path)
    parser.add_argument("--marks", type=Path)
    options = parser.parse_args()
    if options.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.prints:
        print(f"my token is {os.environ.get('TOKEN')}", file=sys.stderr, flush=True)
    if options.sidecar is not None:
        quiet = subprocess.DEVNULL
        sidecar = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"],
            start_new_session=True,
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
        )
        options.sidecar.write_text(str(sidecar.pid))
    asyncio.run(serve(deaf=options.deaf, marks=options.marks))


if __name__ == "__main__":
    main()
