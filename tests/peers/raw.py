"""The toolbox behind a plain JSON-RPC loop on stdio, for servers the SDK does not make.

`python -m tests.peers.raw --version 2024-11-05` knows one revision only and answers others with an error;
`--dies-on-discover` ends at the modern probe; `--many N` offers N big tools in pages; `--noise` prints first;
`--child FILE` leaves a child of its own running and writes its process id to FILE.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.peers.toolbox import Json, Refusal, RpcFailure, Toolbox, text_result, tool

MODERN: Final = "2026-07-28"
META: Final = "io.modelcontextprotocol/"
PAGE: Final = 250


def big_tools(count: int) -> list[Json]:
    """Tools of about 1,750 bytes each."""
    padding = "lorem ipsum 知识 " * 75
    return [tool(f"tool_{at:05d}", padding, {"n": {"type": "integer"}}) for at in range(count)]


class RawPeer:
    """One connection on our own pipes."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._box = Toolbox(big_tools(options.many) if options.many else None)
        self._modern = options.version == MODERN
        self._running: dict[Any, asyncio.Task[None]] = {}
        self._listening: list[Any] = []
        self._box.changed.append(self._tell)

    def send(self, message: Json) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        while line:
            line = line[os.write(1, line) :]

    async def run(self) -> None:
        reader = asyncio.StreamReader(limit=2**26)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            message = json.loads(line)
            if "id" in message and "method" in message:
                self._running[message["id"]] = asyncio.create_task(self._run(message))
            elif message.get("method") == "notifications/cancelled":
                task = self._running.get(message["params"]["requestId"])
                if task is not None:
                    task.cancel()

    async def _run(self, message: Json) -> None:
        request_id = message["id"]
        try:
            result = await self._answer(request_id, message["method"], message.get("params") or {})
            if self._modern:
                result = {**result, "resultType": "complete"}
            self.send({"id": request_id, "result": result})
        except RpcFailure as failure:
            self.send({"id": request_id, "error": failure.error})
        except Refusal as refusal:
            error = {"code": refusal.code, "message": refusal.message, "data": refusal.data}
            self.send({"id": request_id, "error": error})
        except RuntimeError as error:
            self.send({"id": request_id, "error": {"code": -32603, "message": str(error)}})
        finally:
            self._running.pop(request_id, None)

    async def _answer(self, request_id: Any, method: str, params: Json) -> Json:
        if method == "server/discover" and self._options.dies_on_discover:
            os._exit(3)
        if self._modern and params.get("_meta", {}).get(f"{META}protocolVersion") != MODERN:
            raise RpcFailure(-32022, "Unsupported protocol version", {"supported": [MODERN], "requested": "?"})
        capabilities = {"tools": {"listChanged": True}}
        match method:
            case "initialize" if not self._modern:
                info = {"name": "raw", "version": "1"}
                return {
                    "protocolVersion": self._options.version,
                    "capabilities": capabilities,
                    "serverInfo": info,
                }
            case "server/discover" if self._modern:
                return {"supportedVersions": [MODERN], "capabilities": capabilities, "ttlMs": 0, "cacheScope": "public"}
            case "subscriptions/listen" if self._modern:
                return await self._listen(request_id)
            case "tools/list":
                return self._page(params.get("cursor"))
            case "tools/call":
                return await self._call(params)
            case "ping" if not self._modern:
                return {}
            case _:
                raise RpcFailure(-32601, "Method not found")

    async def _call(self, params: Json) -> Json:
        token = params.get("_meta", {}).get("progressToken")

        async def progress(done: float, total: float, message: str) -> None:
            if token is not None:
                said = {"progressToken": token, "progress": done, "total": total, "message": message}
                self.send({"method": "notifications/progress", "params": said})

        if params["name"] == "whoami":
            return text_result(str(os.getpid()))
        return await self._box.call(params, progress)

    def _page(self, cursor: str | None) -> Json:
        start = int(cursor or 0)
        page: Json = {"tools": self._box.definitions[start : start + PAGE]}
        if start + PAGE < len(self._box.definitions):
            page["nextCursor"] = str(start + PAGE)
        return page

    async def _listen(self, request_id: Any) -> Json:
        meta = {f"{META}subscriptionId": request_id}
        honoured = {"notifications": {"toolsListChanged": True}, "_meta": meta}
        self.send({"method": "notifications/subscriptions/acknowledged", "params": honoured})
        self._listening.append(request_id)
        await asyncio.get_running_loop().create_future()
        return {}

    async def _tell(self) -> None:
        method = "notifications/tools/list_changed"
        if not self._modern:
            self.send({"method": method})
        for request_id in self._listening:
            self.send({"method": method, "params": {"_meta": {f"{META}subscriptionId": request_id}}})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", default="2025-06-18")
    parser.add_argument("--dies-on-discover", action="store_true")
    parser.add_argument("--many", type=int, default=0)
    parser.add_argument("--noise", action="store_true")
    parser.add_argument("--child", type=Path)
    options = parser.parse_args()
    if options.noise:
        print("Server listening on stdio [ok] {not json}", flush=True)
    if options.child is not None:
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        options.child.write_text(f"{os.getpid()} {child.pid}")
    asyncio.run(RawPeer(options).run())


if __name__ == "__main__":
    main()
