"""A server over Streamable HTTP that answers each call as its arguments say.

body: the answer, with `$ID` for the id of the request; without one, the params come back as text. status, kind: of the
answer. events: an event stream of these messages. raw: the bytes of the answer. expire: every second such call finds
its session unknown.
"""

import json
from typing import Any

from tests.faults.raw_http import RawHttpServer, ReceivedRequest, ReplyWriter
from tests.peers.toolbox import Json, text_result


class ScriptedWeb(RawHttpServer):
    """The server; its tools are `any` and `number`."""

    def __init__(self, *, modern: bool) -> None:
        super().__init__()
        self.modern = modern
        self.on["tools/call"] = self._call
        self.on["tools/list"] = self._list
        self._expired = False

    async def _list(self, seen: ReceivedRequest, reply: ReplyWriter) -> None:
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("any", "number")]
        await reply.result(seen, {"tools": tools})

    async def _call(self, seen: ReceivedRequest, reply: ReplyWriter) -> None:
        params: Json = seen.message["params"]
        script: Json = params.get("arguments") or {}
        if not self.modern and seen.session not in self.sessions:
            await reply.error(seen, 404, -32600, "Session not found")
            return
        if script.get("expire"):
            self._expired = not self._expired
            if self._expired:
                self.sessions.clear()
                await reply.error(seen, 404, -32600, "Session not found")
                return
        token: Any = params.get("_meta", {}).get("progressToken")
        ids = {"$ID": json.dumps(seen.message["id"]), "$TOKEN": json.dumps(token)}

        def filled(text: str) -> str:
            return text.replace("$ID", ids["$ID"]).replace("$TOKEN", ids["$TOKEN"])

        if token is not None:
            params["_meta"]["progressToken"] = "T"
        if "raw" in script:
            await reply.raw(filled(script["raw"]).encode())
            reply.streaming = True
        elif "events" in script:
            await reply.stream()
            for event in script["events"]:
                await reply.event(filled(event))
        elif "body" in script:
            await reply.send(script.get("status", 200), filled(script["body"]), script.get("kind", "application/json"))
        else:
            headers = {
                name: seen.headers[name] for name in sorted(seen.headers) if name.startswith(("mcp-n", "mcp-me"))
            }
            await reply.result(seen, text_result(json.dumps([params, headers], sort_keys=True)))
