"""The meta tools `call_tool` and `read_tool`: the call inside their arguments, in each form that models send.

Law 1: what is sent is what the policy decided about: one name and one object of arguments, made before the pipeline.
Law 2: a member counts as another spelling of `name` or `arguments` only if it cannot be an argument of the tool itself.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from aggregator.domain.errors import BadArguments
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.caseless import caseless
from aggregator.gateway.meta.meant import MeantTools, several
from aggregator.gateway.meta.tool import MetaTool, meta_record
from aggregator.wire.codec import decode

CALL: Final = "call_tool"
READ: Final = "read_tool"
_PROPERTIES: Final[dict[str, Any]] = {
    "name": {"type": "string"},
    "arguments": {"type": "object", "additionalProperties": True},
}
# What models write for the two members, the right one first.
_NAMES: Final = ("name", "tool", "tool_name")
_ARGUMENTS: Final = ("arguments", "parameters", "args", "input", "params", "arguments_json")
_MEMBERS: Final = frozenset((*_NAMES, *_ARGUMENTS))

# A function that returns the tools that a written name may stand for.
ReadName = Callable[[str], Awaitable[MeantTools]]


async def inner(params: dict[str, Any], read: ReadName) -> dict[str, Any]:
    """Return the `tools/call` params of the inner tool; members beside the name and the arguments are kept.

    The inner arguments may be missing, be a JSON text, stand beside `name`, or under another member's name.

    Raises:
        BadArguments: there is no name or more than one, the arguments are no object, or are given twice.
    """
    outer = params["name"]
    given = _object(outer, params.get("arguments"))
    key, meant = await _named(outer, given, read)
    tool = _only(meant)
    own = _own_members(tool)
    _refuse_look_alikes(outer, given, own)
    beside = {name: value for name, value in given.items() if name != key and name != "arguments"}
    # The name may stand there once more, in another member.
    beside = {name: value for name, value in beside.items() if name not in _NAMES or name in own or value != given[key]}
    holders = [name for name in _ARGUMENTS if name in given and _holds_arguments(name, given[name], tool, own, beside)]
    if len(holders) > 1:
        raise BadArguments(outer, f"{outer} was given {_and(holders)}: put everything inside `arguments`, once.")
    arguments = _object(meant.name, given[holders[0]]) if holders else {}
    beside = {name: value for name, value in beside.items() if name not in holders}
    if arguments and beside:
        raise BadArguments(
            outer, f"{outer} was given {_and(beside)} beside `{holders[0]}`: put everything inside `arguments`."
        )
    return {**params, "name": meant.name, "arguments": arguments or beside}


async def _named(outer: str, given: Mapping[str, Any], read: ReadName) -> tuple[str, MeantTools]:
    """Return the member that names the tool, and what it stands for.

    Raises:
        BadArguments: there is none, or there are two and nothing tells which one is an argument of the other.
    """
    keys = [name for name in _NAMES if isinstance(given.get(name), str) and given[name]]
    if not keys:
        raise BadArguments(outer, f"{outer} needs `name`, the name of a tool as search_tools shows it.")
    if len({given[name] for name in keys}) == 1:
        keys = keys[:1]
    found = {name: await read(given[name]) for name in keys}
    known = [name for name in keys if found[name].tools]
    others = {*keys} - {*known}
    if known and len(keys) > 1 and (len(known) > 1 or not _own_members(_only(found[known[0]])).issuperset(others)):
        said = f"{outer} was given {_and(keys)}: give the tool as `name`, the rest in `arguments`."
        raise BadArguments(outer, said)
    key = (known or keys)[0]
    meant = found[key]
    if len(meant.tools) > 1:
        raise several(outer, given[key], meant.tools)
    return key, meant


def _holds_arguments(
    name: str, value: Any, tool: ToolRecord | None, own: frozenset[str], beside: Mapping[str, Any]
) -> bool:
    """Return whether a member holds all arguments, and is not one of them."""
    if name == "arguments":
        return True
    if name in own:
        # As an object where the tool takes none under that name, it can only be all of them.
        return isinstance(value, dict) and own.issuperset(value) and not _takes_objects(tool, name)
    if tool is None and len(beside) > 1:
        # Nothing is known of the tool, and there are other arguments: this is one of them.
        return False
    return value is None or isinstance(value, dict) or (isinstance(value, str) and _is_object_text(value))


def _own_members(tool: ToolRecord | None) -> frozenset[str]:
    """Return the names of the arguments that a tool declares."""
    if tool is None:
        return frozenset()
    schema = tool.definition["inputSchema"]
    parts = [schema, *(part for key in ("allOf", "anyOf", "oneOf") for part in schema.get(key) or ())]
    declared = [part.get("properties") for part in parts if isinstance(part, dict)]
    return frozenset(name for names in declared if isinstance(names, dict) for name in names)


def _takes_objects(tool: ToolRecord | None, name: str) -> bool:
    """Return whether an object may be the value of an argument, as far as its schema says so at its top."""
    assert tool is not None
    schema = (tool.definition["inputSchema"].get("properties") or {}).get(name)
    kinds = schema.get("type") if isinstance(schema, dict) else None
    return kinds is None or "object" in ([kinds] if isinstance(kinds, str) else kinds)


def _refuse_look_alikes(outer: str, given: Mapping[str, Any], own: frozenset[str]) -> None:
    """Refuse a member that differs only in case from one that has a meaning here.

    Raises:
        BadArguments: there is one.
    """
    for name in given:
        meant = caseless(name)
        if name not in _MEMBERS and name not in own and meant in _MEMBERS:
            raise BadArguments(outer, f"{outer} does not know {name!r:.80}: write `{meant}`.")


def _only(meant: MeantTools) -> ToolRecord | None:
    return meant.tools[0] if len(meant.tools) == 1 else None


def _and(names: Sequence[str] | Mapping[str, Any]) -> str:
    return ", ".join(f"{name!r:.80}" for name in names)


def _is_object_text(text: str) -> bool:
    return not text.strip() or text.lstrip().startswith("{")


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
