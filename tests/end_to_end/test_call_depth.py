"""How deep a call is nested: the coroutines that await each other from the web server to the pipe of the upstream."""

import asyncio
import sys
from inspect import CO_COROUTINE
from types import FrameType
from typing import Any

import pytest

from aggregator.upstream.process.process import ChildProcess
from tests.faults.app_harness import raw_stdio
from tests.faults.asgi_client import asgi_client, call

BOUND = 30
# Each frame is a place where a reader has to look; design: about 14.
DEEPEST = 16
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def _awaiting() -> list[str]:
    """Return the coroutines of the package on the stack, outermost first."""
    names: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_flags & CO_COROUTINE and frame.f_globals["__name__"].startswith("aggregator."):
            names.append(f"{frame.f_globals['__name__']}.{code.co_qualname}")
        frame = frame.f_back
    return names[::-1]


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])
async def test_a_call_is_at_most_sixteen_awaits_deep(monkeypatch: pytest.MonkeyPatch, modern: bool) -> None:
    """From the ASGI application to the write into the pipe, in one task: nothing is handed to another."""
    stacks: list[list[str]] = []
    write = ChildProcess.write

    def noting(child: ChildProcess, data: bytes) -> None:
        if b'"tools/call"' in data:
            stacks.append(_awaiting())
        write(child, data)

    monkeypatch.setattr(ChildProcess, "write", noting)
    async with asyncio.timeout(BOUND), asgi_client(raw_stdio("box")) as client:
        message: dict[str, Any] = call("box.echo", text="hello")
        if modern:
            message["params"]["_meta"] = ENVELOPE
            request = client.post_modern(message)
        else:
            request = client.post(message, await client.session())
        answer = (await request.done()).answer()
    assert "isError" not in answer["result"], answer
    (stack,) = stacks
    assert stack[0] == "aggregator.frontends.web.host_guard.HostGuard.__call__"
    assert stack[-1] == "aggregator.upstream.sessions.request.RequestSender.send"
    assert len(stack) <= DEEPEST, "\n".join(stack)
