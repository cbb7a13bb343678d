"""The pages of the console as JSON, for the OpenAPI document of `/v1`."""

from collections.abc import Mapping, Sequence
from typing import Any

from aggregator.frontends.console.view import PageRoute


def documented(routes: Sequence[PageRoute], prefix: str) -> dict[str, Any]:
    """Return the paths of the document: each page at its address with `.json` behind it, each action with POST."""
    found: dict[str, Any] = {}
    for route in routes:
        if route.stream:
            continue
        path = prefix + ("/overview" if route.path == "/" else route.path.replace(":path}", "}")) + ".json"
        found.setdefault(path, {})[route.method.lower()] = _operation(route)
    return found


def _operation(route: PageRoute) -> Mapping[str, Any]:
    names = [part[1:-1].partition(":")[0] for part in route.path.split("/") if part.startswith("{")]
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    if route.method == "GET":
        parameters += [
            {"name": name, "in": "query", "required": False, "description": said, "schema": {"type": "string"}}
            for name, said in route.fields.items()
        ]
    known = {
        "summary": f"{route.summary} (role {route.role})",
        "tags": ["console"],
        "security": [{"bearer": []}, {"key": []}],
        "parameters": parameters,
        "responses": {
            "200": {"description": "The page, as data.", "content": {"application/json": {"schema": route.schema}}},
            "400": _failure("A field that cannot be used, which `field` names."),
            "401": _failure("Nobody is signed in, and no API key was sent."),
            "403": _failure("The role of this person, or key, is not enough."),
            "404": _failure("There is no such thing."),
            "409": _failure("It has changed meanwhile. Nothing was done."),
            "503": _failure("The database cannot be used now."),
        },
    }
    if route.method == "POST":
        properties = {name: {"type": "string", "description": said} for name, said in route.fields.items()}
        body = {"type": "object", "properties": properties}
        known["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return known


def _failure(said: str) -> Mapping[str, Any]:
    return {
        "description": said,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}},
    }
