"""A stdio server that puts its words in one place: `python -m tests.flow.talking_server PLACE`.

Each text has `CANARY` in it, and the value of $SECRET where there is one. PLACE is where the server is odd while it
starts; `calls` starts well, and each tool, resource and prompt of it is named after the place of its words. So does
`modern`, in the revision 2026-07-28.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any, Final

CANARY: Final = "canary-zq7"
Json = dict[str, Any]

# What a call, read or get of these names is answered with. True: the words may reach a host, as a labelled result.
PLACES: Final[dict[str, bool]] = {
    "result": True,
    "is_error": True,
    "structured": True,
    "rpc_error": True,
    "rpc_hop_error": True,
    "needs_capability": True,
    "pages": True,
    "log": True,
    "progress": True,
    "result_type": False,
    "odd_question": False,
    "odd_state": False,
    "question": True,
    "dies": False,
    "malformed": False,
}


def words(place: str) -> str:
    """Return the words of a place."""
    return f"{CANARY} {place} {os.environ.get('SECRET', '')}".strip()


def to_stdout(text: str) -> None:
    """Write one message as a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


# What sends a message; another transport has another one.
write: Callable[[str], None] = to_stdout


def send(message: Json) -> None:
    """Send one message."""
    write(json.dumps({"jsonrpc": "2.0", **message}))


def fail(request: Any, code: int, place: str, data: Any = None) -> None:
    """Answer with an error whose every member has words."""
    error = {"code": code, "message": words(place), "data": data or {"why": words(place)}, "more": words(place)}
    send({"id": request, "error": error})


def end(place: str) -> None:
    """End with words on stderr."""
    print(words(place), file=sys.stderr, flush=True)
    os._exit(3)


def answer(request: Any, place: str, params: Json, wrap: Callable[[str], Json]) -> None:
    """Answer a request in one way of `PLACES`."""
    said = words(place)
    pages = {"elicitations": [{"mode": "url", "elicitationId": "e1", "url": f"http://x/{CANARY}", "message": said}]}
    token = params.get("_meta", {}).get("progressToken")
    match place:
        case "is_error":
            send({"id": request, "result": {**wrap(said), "isError": True}})
        case "structured":
            send({"id": request, "result": {**wrap(said), "structuredContent": {"said": said}}})
        case "rpc_error":
            fail(request, -32603, place)
        case "rpc_hop_error":
            fail(request, -32022, place)
        case "needs_capability":
            fail(request, -32021, place, {"requiredCapabilities": {said: {}}})
        case "pages":
            fail(request, -32042, place, pages)
        case "log":
            send({"method": "notifications/message", "params": {"level": "error", "data": said}})
            send({"id": request, "result": wrap("quiet")})
        case "progress":
            if token is not None:
                told = {"progressToken": token, "progress": 1, "message": said}
                send({"method": "notifications/progress", "params": told})
            send({"id": request, "result": wrap("quiet")})
        case "result_type":
            send({"id": request, "result": {**wrap(said), "resultType": said}})
        case "odd_question":
            asked = {said: {"method": said, "params": {"message": said}}}
            send({"id": request, "result": {"resultType": "input_required", "inputRequests": asked}})
        case "question":
            asked = {"q": {"method": "elicitation/create", "params": question(said)}}
            send({"id": request, "result": {"resultType": "input_required", "inputRequests": asked}})
        case "odd_state":
            send({"id": request, "result": {"resultType": "input_required", "inputRequests": said}})
        case "dies":
            end(place)
        case "malformed":
            print(f'{{"jsonrpc": "2.0", "id": {request}, "result": {said}', flush=True)
            end(place)
        case _:
            send({"id": request, "result": wrap(said)})


def question(said: str) -> Json:
    """Return the params of a question to a person."""
    fields = {"name": {"type": "string", "title": said, "description": said}}
    return {"mode": "form", "message": said, "requestedSchema": {"type": "object", "properties": fields}}


def message_of(said: str) -> Json:
    """Return a message of a prompt."""
    return {"role": "user", "content": {"type": "text", "text": said}}


def handle(place: str, request: Any, method: str, params: Json) -> None:
    """Answer one request."""
    offered: Json = {
        "tools": {},
        "resources": {"subscribe": True},
        "prompts": {},
        "completions": {},
        "logging": {},
    }
    if method == "server/discover" and place == "modern":
        known = {"supportedVersions": ["2026-07-28"], "capabilities": offered, "ttlMs": 0, "cacheScope": "public"}
        send({"id": request, "result": known})
    elif method == "server/discover":
        send({"id": request, "error": {"code": -32601, "message": words("discover")}})
    elif method == "initialize":
        if place == "initialize":
            fail(request, -32600, place)
        elif place == "noise":
            print(words(place), flush=True)
            end(place)
        else:
            version = words(place) if place == "version" else "2025-11-25"
            about = {"name": words("name"), "title": words("title"), "version": words("server version")}
            send({"id": request, "result": {"protocolVersion": version, "capabilities": offered, "serverInfo": about}})
    elif method == "tools/list" and place == "list":
        fail(request, -32603, place)
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("plain", *PLACES)]
        send({"id": request, "result": {"tools": tools}})
    elif method == "tools/call":
        answer(request, params["name"], params, lambda said: {"content": [{"type": "text", "text": said}]})
    elif method == "resources/list":
        send({"id": request, "result": {"resources": [{"uri": f"at://{name}", "name": name} for name in PLACES]}})
    elif method == "resources/read":
        uri = params["uri"]
        answer(request, uri[5:], params, lambda said: {"contents": [{"uri": uri, "text": said}]})
    elif method == "prompts/list":
        send({"id": request, "result": {"prompts": [{"name": name} for name in PLACES]}})
    elif method == "prompts/get":
        answer(request, params["name"], params, lambda said: {"messages": [message_of(said)]})
    elif method == "completion/complete":
        answer(request, params["ref"]["name"], params, lambda said: {"completion": {"values": [said]}})
    elif method == "resources/subscribe":
        fail(request, -32603, "subscribe")
    else:
        send({"id": request, "result": {}})


def main(place: str) -> None:
    """Answer until stdin ends."""
    if place == "stderr":
        end(place)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            handle(place, message["id"], message["method"], message.get("params", {}))


if __name__ == "__main__":
    main(sys.argv[1])
