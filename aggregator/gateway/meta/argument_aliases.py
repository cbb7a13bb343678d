"""The arguments of meta tools in the forms that models write, put into the form of the schema before it is checked.

Law: what fits the schema is not touched, and nothing is dropped: two members for one thing are refused, unless they say
the same.
The schemas do not name these forms, since every list would pay for that.
"""

from collections.abc import Mapping
from typing import Any, Final

from aggregator.domain.errors import BadArguments
from aggregator.schemas.coerce import HOLDERS
from aggregator.wire.codec import decode_from_host

# Other names of members, by the meta tool.
_MEMBERS: Final[Mapping[str, Mapping[str, str]]] = {
    "search_tools": {
        **dict.fromkeys(("q", "keywords", "keyword", "text", "search"), "query"),
        "server_name": "server",
        **dict.fromkeys(("max_results", "top_k"), "limit"),
    },
    "describe_tools": dict.fromkeys(("tools", "name", "tool", "tool_name", "tool_names"), "names"),
    "list_servers": dict.fromkeys(("name", "server_name"), "server"),
    "read_result": {
        **dict.fromkeys(("id", "result", "result_id", "uri"), "handle"),
        **dict.fromkeys(("pattern", "regex", "query", "search"), "grep"),
        "start": "offset",
        "max_tokens": "limit",
        **dict.fromkeys(("context_lines", "lines"), "context"),
        "case_sensitive": "case",
        "count_only": "count",
        **dict.fromkeys(("fields", "select", "cols"), "columns"),
        **dict.fromkeys(("filter", "condition", "conditions"), "where"),
    },
    "report_tool": {
        **dict.fromkeys(("tool", "tool_name", "names"), "name"),
        **dict.fromkeys(("reason", "message", "description", "text", "problem", "issue"), "why"),
    },
    "match_intent": dict.fromkeys(("text", "query", "input"), "message"),
}
# A word for the level of detail, by meta tool; brief is the tool's own default.
_DETAIL: Final = "detail"
_DETAILS: Final[Mapping[str, Mapping[str, int]]] = {
    "search_tools": {"brief": 1, "full": 3},
    "describe_tools": {"brief": 2, "full": 3},
}
# Words for levels. Those that could be two of them are not here.
_LEVELS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("line", "lines", "one line", "short", "minimal", "name", "names"), 1),
    **dict.fromkeys(("parameters", "params", "medium", "signature"), 2),
    **dict.fromkeys(("full", "schema", "json schema", "all", "complete", "whole", "max", "maximum"), 3),
}
# Characters of a text that is read as a list.
_LONGEST: Final = 20_000


def in_form(tool: str, schema: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a meta tool under its own names and in its own forms, as far as the mapping is clear.

    Raises:
        BadArguments: one thing is given under two names.
    """
    known, others = schema["properties"], _MEMBERS.get(tool, {})
    given = given if known.keys() & given.keys() else unwrapped(given)
    found: dict[str, Any] = {}
    for name, value in given.items():
        own = others.get(name, name) if name not in known else name
        if name == _DETAIL and (level := _DETAILS.get(tool, {}).get(value.lower() if isinstance(value, str) else "")):
            own, value = "level", level
        meant = _meant(own, known[own], value) if own in known else value
        if own in found and not _same(found[own], meant):
            raise BadArguments(tool, f"{tool} was given `{own}` twice, also as another name for it: give it once.")
        found[own] = meant
    return found


def unwrapped(given: Any) -> Any:
    """Return the object in the one member that holds all arguments once more; any other value unchanged."""
    held = next(iter(given.values())) if isinstance(given, Mapping) and len(given) == 1 else None
    return held if isinstance(held, dict) and next(iter(given)) in HOLDERS else given


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are the same; `1` and `True` are not."""
    return type(one) is type(other) and bool(one == other)


def _meant(name: str, schema: Mapping[str, Any], value: Any) -> Any:
    kind = schema.get("type")
    if name == "level" and isinstance(value, str):
        return _LEVELS.get(" ".join(value.lower().replace("_", " ").split()), value)
    if kind == "array":
        return _list(value)
    if kind == "string" and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return " ".join(value)
    if kind == "integer" and {"minimum", "maximum"} <= schema.keys():
        return _within(schema["minimum"], schema["maximum"], value)
    return value


def unfenced(text: str) -> str:
    """Return what stands in a code fence, or in backticks, if that is the whole text."""
    bare = text.strip()
    fence = "```" if bare.startswith("```") else "`"
    inside = bare[len(fence) : -len(fence)]
    if not inside or not (bare.startswith(fence) and bare.endswith(fence)) or fence in inside:
        return text
    return inside.removeprefix("json").strip() if fence == "```" else inside.strip()


def _list(value: Any) -> Any:
    """Return a list for a single name, names between commas or line breaks, or the JSON text of a list."""
    if isinstance(value, str) and len(value) <= _LONGEST:
        value = unfenced(value)
        if value.lstrip().startswith("["):
            try:
                value = decode_from_host(value.encode("utf-8", "surrogatepass"))
            except ValueError:
                return value
        else:
            value = [one for part in value.splitlines() for name in part.split(",") if (one := name.strip())]
    if isinstance(value, dict):
        value = [value]
    if isinstance(value, list):
        return [one["name"] if isinstance(one, dict) and one.keys() == {"name"} else one for one in value]
    return value


def _within(least: int, most: int, value: Any) -> Any:
    """Return the nearest number that is allowed; other values stay unchanged."""
    if isinstance(value, str):
        try:
            value = float(value) if len(value) < 30 else value
        except ValueError:
            return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if value != value:
        return least
    return most if value > most else least if value < least else int(value) if value == int(value) else value
