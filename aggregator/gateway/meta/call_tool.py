"""The meta tools `call_tool` and `read_tool`: the call inside their arguments, in each form that models send.

Law 1: the sent call is the one that the policy decided about: one name and one object of arguments, made before the
pipeline. Law 2: a member counts as another spelling of `name` or `arguments` only if it cannot be an argument of the
tool itself.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from aggregator.domain.errors import BadArguments
from aggregator.domain.names import loosened, spellings
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.caseless import caseless
from aggregator.domain.text.cut import quoted
from aggregator.domain.text.error_text import error_text
from aggregator.gateway.meta.argument_aliases import unfenced, unwrapped
from aggregator.gateway.meta.name_resolution import ResolvedTools, several
from aggregator.gateway.meta.tool import MetaTool, meta_record
from aggregator.schemas.coerce import HOLDERS
from aggregator.schemas.structure.local import resolve_reference
from aggregator.schemas.wording import types_of
from aggregator.wire.codec import decode_from_host

CALL: Final = "call_tool"
READ: Final = "read_tool"
_PROPERTIES: Final[dict[str, Any]] = {
    "name": {"type": "string"},
    "arguments": {"type": "object", "additionalProperties": True},
}
# What models write for the name, the right one first; `HOLDERS` has what they write for the arguments.
_NAMES: Final = ("name", "tool", "tool_name")
# These too, if none of the others is present.
_OTHER_NAMES: Final = ("toolName", "function")
_MEMBERS: Final = {caseless(name): name for name in (*_NAMES, *_OTHER_NAMES, *HOLDERS)}
# What they write for the server of the tool beside its name.
SERVERS: Final[tuple[str, ...]] = ("server", "server_name")
# Members that a message names.
_SHOWN: Final = 5

# A function that returns the tools that a written name may stand for.
ReadName = Callable[[str], Awaitable[ResolvedTools]]


async def inner(params: dict[str, Any], read: ReadName) -> tuple[dict[str, Any], str]:
    """Return the `tools/call` params of the inner tool, and its name as it was written; members beside the name and the
    arguments are kept.

    The inner arguments may be missing, a JSON text, beside `name`, or under another member's name.

    Raises:
        BadArguments: there is no name or more than one, the arguments are no object, or are given twice.
    """
    outer = params["name"]
    given = members_of(params)
    used, meant, asked = await _named(outer, given, read)
    tool = _only(meant)
    own = _own_members(tool)
    _refuse_look_alikes(outer, given, own)
    beside = {name: value for name, value in given.items() if name not in used and name != "arguments"}
    holders = [name for name in HOLDERS if name in given and _holds_arguments(name, given[name], tool, own, beside)]
    filled = [name for name in holders if given[name] is not None]
    if len(filled) > 1:
        raise BadArguments(outer, f"{outer} was given {members(filled)}: put everything inside `arguments`, once.")
    arguments = read_object(meant.name, given[filled[0]]) if filled else {}
    beside = {name: value for name, value in beside.items() if name not in holders}
    if arguments and beside:
        raise BadArguments(
            outer, f"{outer} was given {members(beside)} beside `{filled[0]}`: put everything inside `arguments`."
        )
    return {**params, "name": meant.name, "arguments": arguments or beside}, asked


def members_of(params: Mapping[str, Any]) -> Any:
    """Return the arguments of a call of a meta tool as an object, which may be in a text or in another object.

    Raises:
        BadArguments: they are no object.
    """
    return unwrapped(read_object(params["name"], params.get("arguments")))


async def _named(outer: str, given: Mapping[str, Any], read: ReadName) -> tuple[set[str], ResolvedTools, str]:
    """Return the members that name the tool or its server, the tools that they resolve to, and the written name.

    Raises:
        BadArguments: there is none, or there are two and it is unclear which is an argument of the other.
    """
    keys = [name for name in _NAMES if isinstance(given.get(name), str) and given[name]]
    keys = keys or [name for name in _OTHER_NAMES if isinstance(given.get(name), str) and given[name]]
    if not keys:
        came = f" You sent {members(given)}." if given else ""
        raise BadArguments(outer, f"{outer} needs `name`, the name of a tool as search_tools shows it.{came}")
    if len({given[name] for name in keys}) == 1:
        keys = keys[:1]
    found = {name: await read(given[name]) for name in keys}
    known = [name for name in keys if found[name].tools]
    others = {*keys} - {*known}
    if known and len(keys) > 1 and (len(known) > 1 or not _own_members(_only(found[known[0]])).issuperset(others)):
        said = f"{outer} was given {members(keys)}: give the tool as `name`, the rest in `arguments`."
        raise BadArguments(outer, said)
    key = (known or keys)[0]
    server, meant = await _on_server(outer, given, given[key], found[key], read)
    if len(meant.tools) > 1:
        raise several(outer, given[key], meant.tools)
    own = _own_members(_only(meant))
    # The name may stand there once more, in another member.
    again = (name for name in _NAMES if name not in own and given.get(name) == given[key])
    return {key, *server, *again}, meant, given[key]


async def _on_server(
    outer: str, given: Mapping[str, Any], name: str, meant: ResolvedTools, read: ReadName
) -> tuple[Sequence[str], ResolvedTools]:
    """Return the member that names the tool's server, if there is one, and the tools of the name at that server.

    Raises:
        BadArguments: the server does not have the tool, and the tool has no argument of that name.
    """
    member = next((one for one in SERVERS if isinstance(given.get(one), str) and given[one]), None)
    if member is None:
        return (), meant
    whole = await read(on_server(given[member], name))
    tool = meant_on_server(given[member], member, whole, meant)
    if tool is not None:
        return (member,), ResolvedTools(tool.name, (tool,))
    tool = _only(meant)
    if tool is not None and member not in _own_members(tool):
        other = quoted(given[member], 80)
        said = f"{tool.name} is of another server than {other}, which {outer} was given as `{member}`"
        raise BadArguments(outer, f"{said}: write the whole name, and everything else inside `arguments`.")
    # An unknown or hidden tool is searched for, and recorded, by its whole name.
    return ((), meant) if meant.tools or spellings(name) else ((member,), whole)


def on_server(server: str, name: str) -> str:
    """Return the whole name of a tool that is given with its server beside."""
    return f"{server}.{name}"


def meant_on_server(server: str, member: str, whole: ResolvedTools, meant: ResolvedTools) -> ToolRecord | None:
    """Return the tool that is meant by its name and its server in another member, if that is clear. `whole` are the
    tools of the whole name, `meant` those of the name alone.
    """
    for tool in (_only(whole), _only(meant)):
        if tool is not None and member not in _own_members(tool) and _is_of(tool, server):
            return tool
    return None


def _is_of(tool: ToolRecord, server: str) -> bool:
    return loosened(server) in (loosened(tool.server), loosened(tool.prefix))


def _holds_arguments(
    name: str, value: Any, tool: ToolRecord | None, own: frozenset[str], beside: Mapping[str, Any]
) -> bool:
    """Return whether a member holds all arguments, and is not one of them."""
    if name == "arguments":
        return True
    if name in own:
        # As an object, if the tool takes none under that name, it can only hold all arguments.
        return isinstance(value, dict) and own.issuperset(value) and not _takes_objects(tool, name)
    if tool is None and len(beside) > 1:
        # The tool is unknown, and there are other arguments: this is one of them.
        return False
    return value is None or isinstance(value, dict) or (isinstance(value, str) and _is_object_text(value))


def _own_members(tool: ToolRecord | None) -> frozenset[str]:
    """Return the names of the arguments that a tool declares."""
    if tool is None:
        return frozenset()
    root = tool.definition["inputSchema"]
    whole = [root, resolve_reference(root, root)]
    # A server's schema may be no schema: then it is the check that says so.
    lists = [one.get(key) for one in whole if isinstance(one, dict) for key in ("allOf", "anyOf", "oneOf")]
    parts = [*whole, *(resolve_reference(part, root) for some in lists if isinstance(some, list) for part in some)]
    declared = [part.get("properties") for part in parts if isinstance(part, dict)]
    return frozenset(name for names in declared if isinstance(names, dict) for name in names)


def _takes_objects(tool: ToolRecord | None, name: str) -> bool:
    """Return whether an object may be the value of an argument, as far as its schema says so at its top."""
    assert tool is not None
    root = tool.definition["inputSchema"]
    declared = root.get("properties")
    schema = resolve_reference(declared.get(name), root) if isinstance(declared, dict) else None
    kinds = types_of(schema) if isinstance(schema, dict) else []
    return not kinds or "object" in kinds


def _refuse_look_alikes(outer: str, given: Mapping[str, Any], own: frozenset[str]) -> None:
    """Refuse a member that differs only in case from one with a meaning here.

    Raises:
        BadArguments: there is one.
    """
    for name in given:
        meant = _MEMBERS.get(caseless(name), name)
        if name != meant and name not in own:
            raise BadArguments(outer, f"{outer} does not know {quoted(name, 80)}: write `{meant}`.")


def _only(meant: ResolvedTools) -> ToolRecord | None:
    return meant.tools[0] if len(meant.tools) == 1 else None


def members(names: Sequence[str] | Mapping[str, Any]) -> str:
    """Return the names of members for a message, the first few of many."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(quoted(name, 80) for name in islice(names, _SHOWN)) + more


def _is_object_text(text: str) -> bool:
    return not text.strip() or unfenced(text).lstrip().startswith(("{", '"{'))


def read_object(tool: str, value: Any) -> dict[str, Any]:
    """Return arguments as an object, which may be in a text.

    Raises:
        BadArguments: they are no object.
    """
    if isinstance(value, str):
        try:
            value = _decoded(unfenced(value))
            # Some encode it twice.
            value = _decoded(value) if isinstance(value, str) else value
        except ValueError as error:
            raise BadArguments(tool, f"The arguments of {tool} are no JSON object: {error_text(error)}.") from None
    if value is None or value == []:
        return {}
    if not isinstance(value, dict):
        raise BadArguments(tool, f"The arguments of {tool} must be a JSON object.")
    return value


def _decoded(text: str) -> Any:
    return decode_from_host(text.encode("utf-8", "surrogatepass")) if text.strip() else None


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
