"""The echo server over Streamable HTTP: plain ASGI under uvicorn, JSON answers, a session as the eras have it.

Run as `python -m benchmarks.echo_http PORT`.
"""

import json
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import uvicorn

from benchmarks.echo_stdio import answer

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]

_SESSION: Final = b"5f3a1c52c0de4c0f9a51b0a4a4f1d7aa"


async def app(scope: Message, receive: Callable[[], Awaitable[Message]], send: Send) -> None:
    """Answer a POST; there is no standing stream, and a session ends when asked to."""
    if scope["method"] != "POST":
        await _respond(send, 200 if scope["method"] == "DELETE" else 405, b"")
        return
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    asked = json.loads(body)
    said = answer(asked)
    session = [(b"mcp-session-id", _SESSION)] if asked.get("method") == "initialize" else []
    await _respond(send, 202 if said is None else 200, b"" if said is None else json.dumps(said).encode(), session)


async def _respond(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    lines = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    # Connections stay open while other systems have their turn.
    uvicorn.run(
        app, port=int(sys.argv[1]), lifespan="off", access_log=False, log_level="warning", timeout_keep_alive=600
    )
