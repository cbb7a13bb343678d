"""The arguments of meta tools in the forms that models write, put into the form of the schema before it is checked.

Law: what fits the schema is not touched, and nothing is dropped: two members for one thing are refused.
The schemas do not name these forms, since every list would pay for that.
"""

from collections.abc import Mapping
from typing import Any, Final

from aggregator.domain.errors import BadArguments
from aggregator.wire.codec import decode

# Other names of members, by the meta tool.
_MEMBERS: Final[Mapping[str, Mapping[str, str]]] = {
    "search_tools": {
        **dict.fromkeys(("q", "keywords", "keyword", "text", "search"), "query"),
        "server_name": "server",
        **dict.fromkeys(("max_results", "top_k"), "limit"),
    },
    "describe_tools": dict.fromkeys(("tools", "name", "tool", "tool_name", "tool_names"), "names"),
    "list_servers": dict.fromkeys(("name", "server_name"), "server"),
    "match_intent": dict.fromkeys(("text", "query", "input"), "message"),
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
    """Return the arguments of a meta tool under its own names and in its own forms, as far as it is clear how.

    Raises:
        BadArguments: one thing is given under two names.
    """
    known, others = schema["properties"], _MEMBERS.get(tool, {})
    found: dict[str, Any] = {}
    for name, value in given.items():
        own = others.get(name, name) if name not in known else name
        if own in found:
            raise BadArguments(tool, f"{tool} was given `{own}` twice, also as another name for it: give it once.")
        found[own] = _meant(own, known[own], value) if own in known else value
    return found


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


def _list(value: Any) -> Any:
    """Return a list for a single name, names between commas or line breaks, or the JSON text of a list."""
    if isinstance(value, str) and len(value) <= _LONGEST:
        if value.lstrip().startswith("["):
            try:
                value = decode(value.encode("utf-8", "surrogatepass"))
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
    """Return the nearest number that is allowed; what is no number stays as it came."""
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
