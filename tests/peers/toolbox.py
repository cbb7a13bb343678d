"""The tools every peer offers, as plain JSON and plain coroutines, so that any transport and any era can carry them.

Waiting is by events: `hold` waits for `release`, and `witness` for anything the journal will say.
"""

import asyncio
import base64
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

Json = dict[str, Any]
Progress = Callable[[float, float, str], Awaitable[None]]

VENDOR_META: Final[Json] = {"com.example/stamp": {"by": "peer", "deep": [1, {"two": None}]}}
REFUSAL_CODE: Final = 4242
REFUSAL_DATA: Final[Json] = {"why": ["not", "today"], "com.example/extra": {"n": 1.5}}
PIXEL: Final = base64.b64encode(bytes(range(64))).decode()


class Refusal(Exception):
    """The tool answers with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class RpcFailure(Exception):
    """A failure that a server answers with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message, **({} if data is None else {"data": data})}


class EventLog:
    """A log of events in order, with a way to wait for an entry."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    def note(self, entry: str) -> None:
        self.entries.append(entry)
        for wanted, future in self._waiting:
            if wanted == entry and not future.done():
                future.set_result(None)

    async def until(self, entry: str) -> None:
        """Return once `entry` has been noted, be it before or after now."""
        if entry in self.entries:
            return
        waiting = (entry, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            await waiting[1]
        finally:
            self._waiting.remove(waiting)


def tool(name: str, description: str, properties: Json | None = None, **more: Any) -> Json:
    """A definition with fields no SDK model knows, to see that they survive."""
    return {
        "name": name,
        "title": f"The {name} tool",
        "description": description,
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": properties or {},
            "x-vendor-schema": {"kept": True},
        },
        "annotations": {"readOnlyHint": True, "x-vendor-hint": "kept"},
        "x-vendor-field": {"list": [1, 2.5, None, "三"]},
        "_meta": {"com.example/tool": name},
        **more,
    }


_TEXT: Final[Json] = {"type": "string"}
DEFINITIONS: Final[list[Json]] = [
    tool("echo", "Everything it was sent.", {"text": _TEXT, "n": {"type": "integer"}}),
    tool(
        "measure",
        "Structured output.",
        {"length": {"type": "number"}},
        outputSchema={
            "type": "object",
            "properties": {"metres": {"type": "number"}, "unit": _TEXT},
            "required": ["metres", "unit"],
        },
    ),
    tool("steps", "Progress in `count` steps, then waits for `release` of `key`.", {"key": _TEXT, "count": {}}),
    tool("hold", "Answers after `release` of `key`, or never.", {"key": _TEXT}),
    tool("release", "Lets `hold` and `steps` of `key` end.", {"key": _TEXT}),
    tool("witness", "Answers once the journal has `entry`.", {"entry": _TEXT}),
    tool("crash", "Raises."),
    tool("decline", "A JSON-RPC error with data."),
    tool("refuse", "An isError result with fields nobody knows."),
    tool("picture", "Image content."),
    tool("grow", "Adds a tool `name` and says that the list changed.", {"name": _TEXT}),
    tool("shout", "Prints to standard output.", {"text": _TEXT}),
    tool("die", "Ends the whole process."),
    tool("deep.nested", "A name with a dot in it."),
]


class Toolbox:
    """One set of tools and what has become of their calls."""

    def __init__(self, definitions: list[Json] | None = None) -> None:
        self.definitions: list[Json] = list(DEFINITIONS if definitions is None else definitions)
        self.event_log = EventLog()
        self.changed: list[Callable[[], Awaitable[None]]] = []

    async def call(self, params: Mapping[str, Any], progress: Progress) -> Json:
        """The result of `tools/call` with these raw params, unknown fields and all.

        Raises:
            Refusal: the tool answers with an error.
            RuntimeError: the tool crashed.
        """
        name, arguments = params["name"], params.get("arguments") or {}
        key = str(arguments.get("key", ""))
        match name:
            case "measure":
                structured = {"metres": float(arguments.get("length", 1)), "unit": "m"}
                return {"content": [text(json.dumps(structured))], "structuredContent": structured}
            case "steps":
                for step in range(1, int(arguments["count"]) + 1):
                    await progress(step, int(arguments["count"]), f"{key} {step}")
                return await self._hold(key)
            case "hold":
                return await self._hold(key)
            case "release":
                self.event_log.note(f"released {key}")
                return text_result("released")
            case "witness":
                await self.event_log.until(arguments["entry"])
                return text_result("seen")
            case "crash":
                raise RuntimeError("the peer's own bug")
            case "decline":
                raise Refusal(REFUSAL_CODE, "The peer declines.", REFUSAL_DATA)
            case "refuse":
                return {
                    **text_result("no"),
                    "isError": True,
                    "x-vendor-result": {"kept": [1, None]},
                    "_meta": VENDOR_META,
                }
            case "picture":
                block = {"type": "image", "data": PIXEL, "mimeType": "image/png", "x-vendor-block": 1}
                return {"content": [block]}
            case "grow":
                self.definitions = [*self.definitions, tool(arguments["name"], "Grown.")]
                for tell in self.changed:
                    await tell()
                return text_result("grown")
            case "die":
                os._exit(7)
            case "shout":
                print(arguments["text"], flush=True)
                os.write(1, f"{arguments['text']}\n".encode())
                return text_result("shouted")
            case _:
                return {
                    "content": [text(json.dumps(arguments, sort_keys=True))],
                    "structuredContent": {"received": dict(params)},
                    "x-vendor-result": "kept",
                    "_meta": VENDOR_META,
                }

    async def _hold(self, key: str) -> Json:
        self.event_log.note(f"started {key}")
        try:
            await self.event_log.until(f"released {key}")
        except asyncio.CancelledError:
            self.event_log.note(f"cancelled {key}")
            raise
        self.event_log.note(f"finished {key}")
        return text_result(key)


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def text_result(words: str) -> Json:
    return {"content": [text(words)]}


def without_provenance(result: Json) -> Json:
    """A result as the upstream gave it: without the provenance that every one carries."""
    meta = dict(result["_meta"])
    assert meta.pop("aggregator/provenance").keys() >= {"server", "retrieved_at", "schema_version"}
    rest = {key: value for key, value in result.items() if key != "_meta"}
    return {**rest, "_meta": meta} if meta else rest
