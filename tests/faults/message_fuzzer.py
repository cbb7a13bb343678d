"""Messages that are almost right, the same for the same seed; and a program that answers with them over stdio."""

import copy
import json
import random
import sys
from typing import Any, Final

Json = dict[str, Any]

JUNK: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1.5, 10**30, 2**63, "", "x", "tools/call", "\ud800", "é" * 300, [], {}, [[]], [None],
    ["tools/call"], [{}], {"method": {}}, {"type": []}, {"": [[{}]]}, {"uri": {}}, {"name": ["a"]}, -32042, "2026",
)  # fmt: skip
SCHEMA: Final[Json] = {"type": "object"}
_OFFERED: Final[Json] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True},
    "prompts": {},
    "completions": {},
}
_PAGE: Final[Json] = {"url": "https://x.example", "elicitationId": "1"}
_TOOL: Final[Json] = {"name": "t", "inputSchema": SCHEMA, "outputSchema": SCHEMA, "annotations": {}, "_meta": {}}
ANSWERS: Final[dict[str, Json]] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": _OFFERED,
        "serverInfo": {"name": "wild", "version": "1"},
        "instructions": "Be wild.",
    },
    "server/discover": {
        "supportedVersions": ["2026-07-28"],
        "capabilities": _OFFERED,
        "instructions": "Be wild.",
    },
    "tools/list": {"tools": [_TOOL]},
    "resources/list": {"resources": [{"uri": "demo://x", "name": "x", "_meta": {"ui": {"resourceUri": "ui://x"}}}]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "demo://{x}", "name": "y"}]},
    "prompts/list": {"prompts": [{"name": "p", "arguments": [{"name": "a"}]}]},
    "resources/read": {"contents": [{"uri": "demo://x", "text": "x", "_meta": {}}], "ttlMs": 5, "cacheScope": "public"},
    "prompts/get": {"messages": [{"role": "user", "content": {"type": "resource", "resource": {"uri": "demo://x"}}}]},
    "completion/complete": {"completion": {"values": ["a"], "total": 1, "hasMore": False}},
    "tools/call": {
        "content": [{"type": "text", "text": "x"}, {"type": "resource_link", "uri": "demo://x", "name": "n"}],
        "structuredContent": {"a": 1},
        "isError": False,
        "_meta": {"ui": {"resourceUri": "ui://x"}},
    },
}  # fmt: skip
_FORM: Final[Json] = {"mode": "form", "message": "m", "requestedSchema": {"type": "object", "properties": {}}}
OTHERWISE: Final[tuple[Json, ...]] = (
    {"error": {"code": -32603, "message": "no", "data": {"x": 1}, "more": 1}},
    {"error": {"code": -32042, "message": "go", "data": {"elicitations": [_PAGE]}}},
    {"error": {"code": -32021, "message": "lacks", "data": {"requiredCapabilities": {"elicitation": {}}}}},
    {
        "result": {
            "resultType": "input_required",
            "inputRequests": {"x": {"method": "elicitation/create", "params": _FORM}},
            "requestState": "s",
        }
    },
)  # fmt: skip
NOISE: Final[tuple[Json, ...]] = (
    {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1, "message": "m"}},
    {"method": "notifications/message", "params": {"level": "info", "data": "x", "logger": "l"}},
    {"method": "notifications/resources/updated", "params": {"uri": "demo://x"}},
    {"method": "notifications/elicitation/complete", "params": {"elicitationId": "1"}},
    {"method": "notifications/cancelled", "params": {"requestId": 1, "reason": "r"}},
    {"method": "notifications/subscriptions/acknowledged", "params": {"notifications": {"resourceSubscriptions": []}}},
    {"id": "q1", "method": "elicitation/create", "params": _FORM},
    {"id": "q2", "method": "sampling/createMessage", "params": {"messages": [{"role": "user", "content": {}}]}},
    {"id": "q3", "method": "roots/list", "params": {}},
    {"id": "q4", "method": "ping"},
)


class MessageFuzzer:
    """A source of messages that differ in a place or two from what they should be."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311

    def changed(self, value: Any) -> Any:
        """The value with one to three places changed, or nothing changed."""
        made = copy.deepcopy(value)
        for _ in range(self._random.choice((0, 1, 1, 1, 2, 3))):
            made = self._once(made)
        return made

    def noise(self) -> Json:
        """Return a changed notification or request of a server."""
        changed: Any = self.changed({"jsonrpc": "2.0", **self._random.choice(NOISE)})
        return changed if isinstance(changed, dict) else {"jsonrpc": "2.0", "method": changed}

    def answer(self, method: str, request_id: Any) -> Json:
        """The answer to a request: a changed result, or a changed error."""
        if self._random.random() < 0.3:
            body = self.changed(self._random.choice(OTHERWISE))
            if not isinstance(body, dict):
                body = {"error": body}
        else:
            body = {"result": self.changed(ANSWERS.get(method, {}))}
        return {**body, "jsonrpc": "2.0", "id": request_id}

    def chance(self, part: float) -> bool:
        return self._random.random() < part

    def _once(self, value: Any) -> Any:
        places = list(_places(value))
        holder, key = self._random.choice(places)
        junk = copy.deepcopy(self._random.choice(JUNK))
        if holder is None:
            # The whole is seldom replaced.
            return junk if self._random.random() < 0.2 else value
        if isinstance(holder, dict) and self._random.random() < 0.15:
            del holder[key]
        else:
            holder[key] = junk
        return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return where a value can be changed: its holder and key; no holder is the whole."""
    found: list[tuple[Any, Any]] = [(None, None)]
    todo = [value]
    while todo:
        one = todo.pop()
        pairs = one.items() if isinstance(one, dict) else enumerate(one) if isinstance(one, list) else ()
        for key, inner in pairs:
            found.append((one, key))
            todo.append(inner)
    return found


def main() -> None:
    """Serve over stdio: a handshake as it should be, then noise and changed answers."""
    wild = MessageFuzzer(int(sys.argv[1]))
    for line in sys.stdin:
        message = json.loads(line)
        method, request_id = message.get("method"), message.get("id")
        if method is None or request_id is None:
            continue
        said: list[Any] = []
        if method == "server/discover":
            said = [{"jsonrpc": "2.0", "id": request_id, "error": {"code": -32601, "message": "no"}}]
        elif method in ("initialize", "tools/list"):
            said = [{"jsonrpc": "2.0", "id": request_id, "result": ANSWERS[method]}]
        else:
            said = [wild.noise() for _ in range(2)] + [wild.answer(method, request_id)]
        for one in said:
            sys.stdout.write(json.dumps(one) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
