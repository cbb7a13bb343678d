"""The meta tools `call_tool` and `read_tool`: the call inside their arguments, in each form that models send."""

from typing import Any, Final

from aggregator.domain.errors import BadArguments
from aggregator.gateway.meta.tool import MetaTool, meta_record
from aggregator.wire.codec import decode

CALL: Final = "call_tool"
READ: Final = "read_tool"
_PROPERTIES: Final[dict[str, Any]] = {
    "name": {"type": "string"},
    "arguments": {"type": "object", "additionalProperties": True},
}


def inner(params: dict[str, Any]) -> dict[str, Any]:
    """Return the `tools/call` params of the inner tool; members beside the name and the arguments are kept.

    The inner arguments may be missing, be a JSON text, or stand beside `name`.

    Raises:
        BadArguments: there is no name, or the arguments are no object.
    """
    outer = params["name"]
    given = _object(outer, params.get("arguments"))
    name = given.get("name")
    if not isinstance(name, str) or not name:
        raise BadArguments(outer, f"{outer} needs `name`, the name of a tool as search_tools shows it.")
    beside = {key: value for key, value in given.items() if key not in ("name", "arguments")}
    arguments = _object(name, given.get("arguments"))
    if arguments and beside:
        also = ", ".join(map(repr, beside))
        raise BadArguments(outer, f"{outer} was given {also} beside `arguments`: put everything inside `arguments`.")
    return {**params, "name": name, "arguments": arguments or beside}


def _object(tool: str, value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = decode(value.encode("utf-8", "surrogatepass")) if value.strip() else None
        except ValueError as error:
            raise BadArguments(tool, f"The arguments of {tool} are no JSON object: {error}.") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadArguments(tool, f"The arguments of {tool} must be a JSON object.")
    return value


TOOL: Final = MetaTool(
    meta_record(
        CALL, "Call a tool that search_tools found; arguments must fit its schema", _PROPERTIES, ("name",), reads=False
    ),
    None,
)
READ_TOOL: Final = MetaTool(
    meta_record(READ, "Like call_tool, only for tools that change nothing", _PROPERTIES, ("name",)),
    None,
)
