"""Parse the calls in a request, in any form of a model's answer.

Law: a mistake of the application (no id, a repeated id, no list) is a fault of the request; a mistake of the model
(arguments that are no JSON) is a fault of that call alone, reported to the model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from aggregator.domain.bounds.slices import Steps
from aggregator.domain.text.error_text import error_text
from aggregator.frontends.v1.errors import BadRequest
from aggregator.wire.codec import decode_from_host

# `single`: `tool_call`, answered with one message; `openai`: `tool_calls`; `anthropic`: `tool_use` blocks in `content`.
Form = Literal["single", "openai", "anthropic"]

_FORMS: Final[Mapping[str, Form]] = {"tool_call": "single", "tool_calls": "openai", "content": "anthropic"}
LONGEST_ID: Final = 256


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """One call. `fault` says why `arguments` is not an object; they are as received then."""

    name: str
    arguments: Any = field(default_factory=dict)
    call_id: str | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class CallBatch:
    """The calls of one request, at least one, in their order."""

    form: Form
    calls: tuple[ParsedCall, ...]
    conversation: str | None


def read_steps(body: Any, most: int, conversation: str | None = None) -> Steps[CallBatch]:
    """Read the calls of a body, one in a step; its conversation takes precedence over `conversation`, from the header.

    Raises:
        BadRequest: it is not one of the forms, or has more than `most` calls.
    """
    if not isinstance(body, dict):
        raise BadRequest("", "The body must be a JSON object.")
    # In an assistant's message, `content` beside `tool_calls` is a text or null.
    given = [key for key in _FORMS if body.get(key) is not None and (key != "content" or isinstance(body[key], list))]
    if len(given) != 1:
        known = "`tool_call`, `tool_calls` or `content` (a list with `tool_use` blocks)"
        raise BadRequest("", f"The body needs exactly one of {known}; it has {' and '.join(given) or 'none'}.")
    key = given[0]
    calls = yield from _call_steps(key, body[key])
    if not calls:
        raise BadRequest(key, f"`{key}` holds no call.")
    if len(calls) > most:
        raise BadRequest(key, f"`{key}` holds {len(calls)} calls; one request may carry {most}.")
    seen: set[str] = set()
    for where, call in calls:
        if call.call_id in seen:
            raise BadRequest(f"{where}.id", f"The id {call.call_id!r:.80} is there twice.")
        if call.call_id is not None:
            seen.add(call.call_id)
    said = _text(body, "conversation_id", "conversation_id") if body.get("conversation_id") is not None else None
    return CallBatch(_FORMS[key], tuple(call for _, call in calls), said or conversation)


def _call_steps(key: str, value: Any) -> Steps[list[tuple[str, ParsedCall]]]:
    """Read each call, with its path in the body."""
    if key == "tool_call":
        return [(key, _call(value, key))]
    if not isinstance(value, list):
        raise BadRequest(key, f"`{key}` must be a list.")
    calls: list[tuple[str, ParsedCall]] = []
    for at, item in enumerate(value):
        path = f"{key}[{at}]"
        if key == "tool_calls":
            calls.append((path, _call(item, path)))
        elif isinstance(item, dict) and item.get("type") == "tool_use":
            calls.append((path, _made(item, path, "input", _text(item, "id", f"{path}.id"))))
        yield
    return calls


def _call(item: Any, path: str) -> ParsedCall:
    """Return a call in OpenAI's form, or a bare `{name, arguments}`."""
    if not isinstance(item, dict):
        raise BadRequest(path, f"`{path}` must be an object.")
    if "function" in item:
        function = item["function"]
        if not isinstance(function, dict):
            raise BadRequest(f"{path}.function", f"`{path}.function` must be an object.")
        return _made(function, f"{path}.function", "arguments", _text(item, "id", f"{path}.id"))
    name = "tool_call_id" if item.get("tool_call_id") is not None else "id"
    return _made(item, path, "arguments", _text(item, name, f"{path}.{name}") if item.get(name) is not None else None)


def _made(holder: Mapping[str, Any], path: str, key: str, call_id: str | None) -> ParsedCall:
    name = _text(holder, "name", f"{path}.name", longest=None)
    given = holder.get(key)
    if isinstance(given, str):
        # Models that call without arguments send an empty text.
        try:
            given = decode_from_host(given.encode("utf-8", "surrogatepass")) if given.strip() else {}
            # Some encode it twice.
            given = decode_from_host(given.encode("utf-8", "surrogatepass")) if isinstance(given, str) else given
        except ValueError as error:
            return ParsedCall(name, given, call_id, f"its arguments are not valid JSON: {error_text(error)}")
    if given is None:
        given = {}
    if not isinstance(given, dict):
        return ParsedCall(name, given, call_id, "its arguments are no JSON object")
    return ParsedCall(name, given, call_id)


def _text(holder: Mapping[str, Any], key: str, path: str, longest: int | None = LONGEST_ID) -> str:
    """Return a required text that is not empty.

    Raises:
        BadRequest: the text is missing, empty or too long.
    """
    value = holder.get(key)
    if not isinstance(value, str) or not value:
        raise BadRequest(path, f"`{path}` must be a text that is not empty.")
    if longest is not None and len(value) > longest:
        raise BadRequest(path, f"`{path}` may have {longest} characters at most.")
    return value
