"""A server that sends requests to its host, in plain JSON, for any transport and either era.

A call is begun once, however often it is asked about: `begun` counts, by the `key` of its arguments.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from tests.peers.toolbox import EventLog, Json, RpcFailure, text, text_result

META: Final = "io.modelcontextprotocol/"
MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
# A state that only comes back unchanged if it is never parsed.
STRANGE: Final = ' {"b": 1.0, "a" : "\\u77e5 é\u2028"}\\'

Say = Callable[[Json], None]

_NAMES: Final = (
    "ask", "log", "steps", "hold", "release", "witness", "seen", "visit", "visited", "lack", "flood", "late", "die",
    "aside", "wait", "unasked", "header", "note", "insist", "pester", "stray", "after",
)  # fmt: skip
_TASK: Final = {"name": "task", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}}
_APP: Final = {"name": "app", "inputSchema": {"type": "object"}, "_meta": {"ui": {"visibility": ["app"]}}}


class ClientConnection:
    """The state of one connection or session: open requests of the server, and the standing stream."""

    def __init__(self) -> None:
        self.declared: Json = {}
        self.version = LEGACY
        self.standing: Say | None = None
        self.level: str | None = None
        self.levels: list[str] = []
        self.heard: list[str] = []
        self.running: dict[Any, asyncio.Task[Any]] = {}
        self._asked = 0
        self._waiting: dict[Any, asyncio.Future[Json]] = {}

    async def ask(self, say: Say, method: str, params: Json) -> Json:
        """The result of a request of ours, or `{"error": ...}`; giving up takes it back."""
        self._asked += 1
        number = f"q{self._asked}"
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        say({"id": number, "method": method, "params": params})
        try:
            message = await answer
        except asyncio.CancelledError:
            say({"method": "notifications/cancelled", "params": {"requestId": number}})
            raise
        finally:
            del self._waiting[number]
        result: Json = message["result"] if "result" in message else {"error": message["error"]}
        return result

    def hear(self, message: Json) -> None:
        """Handle a response to the server, or a notification."""
        if "method" not in message:
            waiting = self._waiting.get(message.get("id"))
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
            return
        self.heard.append(message["method"])
        if message["method"] == "notifications/cancelled":
            task = self.running.get(message["params"]["requestId"])
            if task is not None:
                task.cancel()


class AskingServer:
    """The server of all its connections."""

    def __init__(self, era: str) -> None:
        self.modern = era == "modern"
        self.event_log = EventLog()
        self.begun: Counter[str] = Counter()
        self.states: set[str] = set()
        self._visited: set[str] = set()
        self.header = "first"
        self._tasks: set[asyncio.Task[Any]] = set()

    async def respond(self, connection: ClientConnection, message: Json, say: Say) -> Json:
        """The response to a request; what it says on the way goes to `say`."""
        try:
            result = await self._answer(connection, message["method"], message.get("params") or {}, say)
            if self.modern:
                result = {"resultType": "complete", **result}
            return {"jsonrpc": "2.0", "id": message["id"], "result": result}
        except RpcFailure as failure:
            return {"jsonrpc": "2.0", "id": message["id"], "error": failure.error}

    async def _answer(self, connection: ClientConnection, method: str, params: Json, say: Say) -> Json:
        capabilities: Json = {"tools": {}, "prompts": {}, "resources": {}, "logging": {}, "completions": {}}
        match method:
            case "initialize" if not self.modern:
                connection.declared = params["capabilities"]
                return {
                    "protocolVersion": connection.version,
                    "capabilities": capabilities,
                    "serverInfo": {"name": "asker", "version": "1"},
                }
            case "server/discover" if self.modern:
                return {"supportedVersions": [MODERN], "capabilities": capabilities, "ttlMs": 0, "cacheScope": "public"}
            case "tools/list":
                tools = [{"name": name, "inputSchema": self._schema(name)} for name in _NAMES]
                return {"tools": [*tools, _TASK, _APP]}
            case "prompts/list":
                return {"prompts": [{"name": "ask", "arguments": [{"name": "rounds"}, {"name": "key"}]}]}
            case "resources/list":
                return {"resources": [{"uri": "ask://one", "name": "one"}]}
            case "resources/templates/list":
                return {"resourceTemplates": []}
            case "logging/setLevel" if not self.modern:
                connection.level = params["level"]
                connection.levels.append(params["level"])
                return {}
            case "tools/call":
                return await self._call(connection, params, say)
            case "prompts/get":
                given = params.get("arguments") or {}
                rounds = json.loads(given.get("rounds", "[]"))
                done = await self._ask(connection, params, rounds, given.get("key", ""), say)
                message = {"role": "user", "content": text(json.dumps(done))}
                return done if "resultType" in done else {"messages": [message]}
            case "resources/read":
                form = {"method": "elicitation/create", "params": {"message": "Which?", "requestedSchema": _SCHEMA}}
                done = await self._ask(connection, params, [[form]], params["uri"], say)
                contents = [{"uri": params["uri"], "text": json.dumps(done)}]
                return done if "resultType" in done else {"contents": contents, "ttlMs": 0, "cacheScope": "private"}
            case "completion/complete":
                self.begun["completions"] += 1
                if params["argument"]["value"] == "ask":
                    return {"resultType": "input_required", "requestState": "never heard of"}
                return {"completion": {"values": [params["argument"]["value"]]}}
            case "ping" if not self.modern:
                return {}
            case _:
                raise RpcFailure(-32601, "Method not found")

    def _schema(self, name: str) -> Json:
        if name != "header":
            return {"type": "object"}
        place = {"type": "string", "x-mcp-header": self.header}
        return {"type": "object", "properties": {"place": place}}

    async def _call(self, connection: ClientConnection, params: Json, say: Say) -> Json:
        name, given, meta = params["name"], params.get("arguments") or {}, params.get("_meta", {})
        key = str(given.get("key", ""))
        match name:
            case "ask":
                done = await self._ask(connection, params, given["rounds"], key, say)
                return done if "resultType" in done else text_result(json.dumps(done))
            case "log":
                for line in given["lines"]:
                    say({"method": "notifications/message", "params": line})
                return text_result("logged")
            case "steps":
                token = meta.get("progressToken")
                for step in given.get("steps") or range(1, given["count"] + 1):
                    report = {"progressToken": token, "progress": step, "message": f"{key} {step}"}
                    say({"method": "notifications/progress", "params": report})
                if "hold" in given:
                    await self.event_log.until(f"released {key}")
                return text_result("stepped")
            case "hold":
                self.begun[key] += 1
                self.event_log.note(f"started {key}")
                report = {"progressToken": meta.get("progressToken"), "progress": 1, "message": key}
                if "progressToken" in meta:
                    say({"method": "notifications/progress", "params": report})
                try:
                    await self.event_log.until(f"released {key}")
                except asyncio.CancelledError:
                    self.event_log.note(f"cancelled {key}")
                    raise
                return text_result(key)
            case "release":
                self.event_log.note(f"released {key}")
                return text_result("released")
            case "note":
                self.event_log.note(given["entry"])
                return text_result("noted")
            case "witness":
                await self.event_log.until(given["entry"])
                return text_result("seen")
            case "seen":
                now = meta.get(f"{META}clientCapabilities", {}) if self.modern else connection.declared
                facts = {"declared": now, "level": connection.level, "levels": connection.levels, "pid": os.getpid()}
                heard = {"heard": connection.heard, "begun": self.begun, "meta": meta, "params": sorted(params)}
                return text_result(json.dumps({**facts, **heard, "connection": id(connection)}))
            case "visit":
                if key not in self._visited:
                    page = {"mode": "url", "url": given["url"], "elicitationId": f"page-{key}", "message": "Log in."}
                    raise RpcFailure(-32042, "Log in first.", {"elicitations": [page]})
                self.begun[key] += 1
                return text_result("let in")
            case "visited":
                self._visited.add(key)
                if connection.standing is not None:
                    done = {"elicitationId": f"page-{key}"}
                    connection.standing({"method": "notifications/elicitation/complete", "params": done})
                return text_result("noted")
            case "lack":
                raise RpcFailure(-32021, "Sampling is needed.", {"requiredCapabilities": {"sampling": {}}})
            case "flood":
                return text_result(json.dumps(await self._flood(connection, key, given["count"], say)))
            case "insist":
                answer = await connection.ask(say, given["method"], given["params"])
                if "error" in answer:
                    raise RpcFailure(
                        4711, "It cannot be done without an answer.", {"com.example/said": answer["error"]}
                    )
                return text_result("done")
            case "pester":
                answers = []
                for at, request in enumerate(given["requests"]):
                    if given.get("reports"):
                        report = {"progressToken": meta.get("progressToken"), "progress": at}
                        say({"method": "notifications/progress", "params": report})
                    answers.append(await connection.ask(say, *request))
                return text_result(json.dumps(answers))
            case "stray":
                for message in given["messages"]:
                    say(message)
                return text_result("still here")
            case "after":
                self._keep(self._late(connection, key, connection.standing or say))
                return text_result("done already")
            case "late":
                try:
                    self.event_log.note(f"started {key}")
                    await self.event_log.until(f"released {key}")
                except asyncio.CancelledError:
                    # It does not heed that, and asks all the same.
                    self._keep(self._late(connection, key, say))
                    raise
                return text_result(key)
            case "aside":
                # Over HTTP: on the standing stream, as servers do that lost track of the request.
                aside = connection.standing or say
                return text_result(json.dumps(await connection.ask(aside, given["method"], given["params"])))
            case "wait":
                # Only to be asked again, at first.
                count = int(params.get("requestState", "0"))
                if count < given["count"]:
                    return {"resultType": "input_required", "requestState": str(count + 1)}
                return text_result(str(count))
            case "unasked":
                return {"resultType": "input_required", "inputRequests": {"x": given["request"]}}
            case "die":
                os._exit(7)
            case "header":
                return text_result(str(given.get("place")))
            case "app":
                return text_result("for an app")
            case _:
                raise RpcFailure(-32602, f"Unknown tool {name}")

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _flood(self, connection: ClientConnection, key: str, count: int, say: Say) -> Json:
        """Ask `count` times at once; return the outcomes, and log every refusal."""
        outcomes = {"answer": 0, "error": 0}

        async def ask() -> None:
            form = {"message": "?", "requestedSchema": _SCHEMA}
            outcome = "error" if "error" in await connection.ask(say, "elicitation/create", form) else "answer"
            outcomes[outcome] += 1
            self.event_log.note(f"{outcome} {outcomes[outcome]} to {key}")

        await asyncio.gather(*(ask() for _ in range(count)))
        return outcomes

    async def _late(self, connection: ClientConnection, key: str, say: Say) -> None:
        await self.event_log.until(f"ask late {key}")
        form = {"message": f"late {key}", "requestedSchema": _SCHEMA}
        answer = await connection.ask(say, "elicitation/create", form)
        self.event_log.note(f"late {key}: {'error' if 'error' in answer else 'answer'}")

    async def _ask(
        self, connection: ClientConnection, params: Json, rounds: list[list[Json]], key: str, say: Say
    ) -> Json:
        """The answers of all rounds; of 2026-07-28 first the questions of the next one."""
        if not self.modern:
            self.begun[key] += 1
            self.event_log.note(f"asking {key}")
            try:
                answers = [
                    await asyncio.gather(*(connection.ask(say, one["method"], one["params"]) for one in questions))
                    for questions in rounds
                ]
            except asyncio.CancelledError:
                self.event_log.note(f"cancelled {key}")
                raise
            return {"answers": answers, "begun": self.begun[key]}
        state = params.get("requestState")
        if state is None:
            self.begun[key] += 1
        elif state not in self.states:
            raise RpcFailure(-32602, "That is no state of mine.")
        done: list[Any] = json.loads(state.partition("\0")[0]) if state is not None else []
        responses = params.get("inputResponses", {})
        names = [f"{len(done)}/{at} é" for at, _ in enumerate(rounds[len(done)])] if len(done) < len(rounds) else []
        if names and all(name in responses for name in names):
            done.append([responses[name] for name in names])
        if len(done) == len(rounds):
            return {"answers": done, "begun": self.begun[key]}
        state = f"{json.dumps(done)}\0{STRANGE}"
        self.states.add(state)
        asked = {f"{len(done)}/{at} é": one for at, one in enumerate(rounds[len(done)])}
        return {"resultType": "input_required", "inputRequests": asked, "requestState": state}


_SCHEMA: Final[Json] = {"type": "object", "properties": {"answer": {"type": "string"}}}

Respond = Callable[[ClientConnection, Json, Say], Awaitable[Json]]
