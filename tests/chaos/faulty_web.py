"""Faulty MCP servers over HTTP, in both eras, and over SSE; each call names its fault."""

import asyncio
from collections import deque
from typing import Any, Final

from tests.chaos.faulty_stdio import HUGE
from tests.faults.raw_http import RawHttpServer, RawSseServer, ReceivedRequest, ReplyWriter

Json = dict[str, Any]
_TOOLS: Final = [{"name": "do", "inputSchema": {"type": "object"}}]
_KEPT: Final = 20


def _answer(seen: ReceivedRequest, words: str) -> Json:
    content = [{"type": "text", "text": words}]
    return {"jsonrpc": "2.0", "id": seen.message["id"], "result": {"content": content}}


def _note(seen: ReceivedRequest, number: int) -> Json:
    params = {"progressToken": seen.message["id"], "progress": number, "message": "x" * 200}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


class FaultyHttpServer(RawHttpServer):
    """A faulty server over Streamable HTTP; `modern` makes it one of 2026-07-28."""

    def __init__(self, *, modern: bool) -> None:
        super().__init__()
        self.modern = modern
        self.seen = deque(maxlen=_KEPT)  # type: ignore[assignment]
        self.on |= {"tools/call": self._call, "tools/list": self._list}

    async def _list(self, seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await (reply.result(seen, {"tools": _TOOLS}) if self._known(seen) else self.ordinary(seen, reply))

    def _known(self, seen: ReceivedRequest) -> bool:
        return self.modern or seen.session in self.sessions

    async def _call(self, seen: ReceivedRequest, reply: ReplyWriter) -> None:
        arguments = seen.message["params"].get("arguments") or {}
        words, fault = str(arguments.get("say", "")), arguments.get("fault")
        if not self._known(seen):
            await self.ordinary(seen, reply)
        elif fault in (None, "slow"):
            await asyncio.sleep(arguments.get("seconds", 0.0))
            await reply.send(200, _answer(seen, words))
        elif fault in ("hang", "wrong_id", "die", "close", "garble"):
            await self._end(seen, reply, fault)
        elif fault == "garbage":
            await reply.send(200, b"}{ no JSON", "application/json")
        elif fault == "error":
            await reply.error(seen, 400, -32099, "no")
        elif fault == "stderr":
            await reply.send(503, "later")
        elif fault == "huge":
            await reply.send(200, _answer(seen, "x" * HUGE))
        else:
            await reply.stream()
            for number in range(300 if fault == "notes" else 1):
                await reply.event(_note(seen, number))
            await reply.event(_answer(seen, words))
            if fault == "twice":
                await reply.event(_answer(seen, "the second answer"))

    async def _end(self, seen: ReceivedRequest, reply: ReplyWriter, fault: str) -> None:
        if fault == "hang":
            await asyncio.Event().wait()
        elif fault == "wrong_id":
            await reply.send(200, {**_answer(seen, "the answer to nothing"), "id": 10**9})
        elif fault == "garble":
            await reply.stream()
            await reply.event('{"jsonrpc":"2.0","id":')
        elif fault == "close":
            await reply.raw(b"HTTP/1.1 200 S\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
            reply._writer.transport.abort()
        else:
            reply._writer.transport.abort()


class FaultySseServer(RawSseServer):
    """A faulty server over HTTP+SSE: its answers share one stream."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = deque(maxlen=_KEPT)  # type: ignore[assignment]

    async def answer_on(self, seen: ReceivedRequest, stream: ReplyWriter) -> None:
        if seen.method == "tools/list":
            await stream.event({"jsonrpc": "2.0", "id": seen.message["id"], "result": {"tools": _TOOLS}})
        elif seen.method == "tools/call":
            await self._do(seen, stream)
        else:
            await super().answer_on(seen, stream)

    async def _do(self, seen: ReceivedRequest, stream: ReplyWriter) -> None:
        arguments = seen.message["params"].get("arguments") or {}
        words, fault = str(arguments.get("say", "")), arguments.get("fault")
        if fault == "slow":
            await asyncio.sleep(arguments["seconds"])
        elif fault == "garbage":
            await stream.event("}{ no JSON")
        elif fault == "notes":
            for number in range(300):
                await stream.event(_note(seen, number))
        elif fault in ("die", "close"):
            stream._writer.transport.abort()
            return
        elif fault == "error":
            error = {"code": -32099, "message": "no"}
            await stream.event({"jsonrpc": "2.0", "id": seen.message["id"], "error": error})
            return
        if fault in ("hang", "garble"):
            return
        answer = _answer(seen, "x" * HUGE if fault == "huge" else words)
        await stream.event({**answer, "id": 10**9} if fault == "wrong_id" else answer)
        if fault == "twice":
            await stream.event(_answer(seen, "the second answer"))
