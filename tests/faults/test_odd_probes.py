"""Servers of the handshake eras that answer `server/discover` in odd ways: their handshake comes next."""

from typing import Any

import pytest

from .app_harness import running_app, server_config
from .raw_http import Handler, RawHttpServer, ReceivedRequest, ReplyWriter, raw_http


def replies(status: int, body: Any = b"", kind: str = "") -> Handler:
    async def handler(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await reply.send(status, body, kind)

    return handler


def result(value: Any, status: int = 200) -> Handler:
    async def handler(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await reply.send(status, {"jsonrpc": "2.0", "id": seen.message["id"], **value})

    return handler


def error(code: Any, message: Any = "no", **more: Any) -> Any:
    return {"error": {"code": code, "message": message, **more}}


async def no_events(seen: ReceivedRequest, reply: ReplyWriter) -> None:
    await reply.stream()


async def hangs_up(seen: ReceivedRequest, reply: ReplyWriter) -> None:
    reply.streaming = True


ODD: dict[str, Handler] = {
    "html": replies(200, "<html>hello</html>", "text/html"),
    "html as an error": replies(404, "<html>not here</html>", "text/html"),
    "empty": replies(200, "", "application/json"),
    "accepted": replies(202),
    "no content": replies(204),
    "not json": replies(200, "{oops", "application/json"),
    "500": replies(500, "<html>oops</html>", "text/html"),
    "501": replies(501),
    "405": replies(405),
    "a stream without an event": no_events,
    "hangs up": hangs_up,
    "an error of its own form": result({"error": {"code": "invalid_payload", "message": "x"}}, 400),
    "an error in a text": result({"error": "unknown method"}),
    "invalid params": result(error(-32602)),
    "internal error": result(error(-32603), 500),
    "an unknown code": result(error(7)),
    "a session is missing": result(error(-32001, "Session not found")),
    "no modern versions": result(error(-32022, data={"supported": []})),
    "no versions": result(error(-32022, data={"supported": [None, 7, "", "x"]})),
    "a result of another kind": result({"result": {"ok": True}}),
    "versions a text": result({"result": {"supportedVersions": "2026-07-28"}}),
    "no result": result({"result": None}),
    "a list": result({"result": ["2026-07-28"]}),
}


@pytest.mark.parametrize("kind", ODD)
async def test_a_probe_that_is_answered_oddly_is_followed_by_the_handshake(kind: str) -> None:
    """C1: whatever a server makes of a method that it does not know."""
    raw = RawHttpServer()
    raw.on["server/discover"] = ODD[kind]
    async with raw_http(raw), running_app(server_config("web", type="http", url=raw.url)) as harness:
        assert harness.upstream("web").state == "ready", harness.upstream("web").reason
        await harness.check_echo("web.echo")
        assert harness.upstream("web").negotiated is not None
        assert raw.count("initialize") >= 1


async def test_a_server_with_other_versions_alone_is_refused() -> None:
    """C1: it says itself that no handshake will do."""
    raw = RawHttpServer()
    raw.on["server/discover"] = result(error(-32022, data={"supported": [None, "2099-01-01"]}))
    async with raw_http(raw), running_app(server_config("web", type="http", url=raw.url)) as harness:
        assert "speaks only protocol" in harness.upstream("web").reason
        assert raw.count("initialize") == 0
