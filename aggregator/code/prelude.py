"""The prelude of a program: `call_tool`, `search_tools` and `describe_tools` as Python functions.

A program in which `await` stands gets functions that are awaited, and any other gets plain ones.
"""

import re
from typing import Any, Final, NamedTuple

from aggregator.wire.codec import decode

# The function that leaves the sandbox, under the name that a plain and an awaited program has for it.
NOW: Final = "_call_now"
LATER: Final = "_call_later"

_LITERALS: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"""|' + r"'''(?:[^'\\]|\\.|'(?!''))*'''" + r'|"(?:[^"\\\n]|\\.)*"|'
    r"'(?:[^'\\\n]|\\.)*'|#[^\n]*",
    re.DOTALL,
)
_AWAIT: Final = re.compile(r"\bawait\b")

_PRELUDE: Final = """\
import json as _json

def _named(given, more):
    if not given and "name" in more:
        given = (more.pop("name"),)
    if len(given) == 1 and list(more) == ["arguments"]:
        given = (given[0], more.pop("arguments"))
    if not 1 <= len(given) <= 2:
        raise TypeError("call_tool takes the name of a tool and its arguments")
    if len(given) == 2 and more:
        raise TypeError("give the arguments as one dict, or each by its name, not both")
    return _json.dumps(["call_tool", {"name": given[0], "arguments": more if len(given) == 1 else given[1]}])

DEF call_tool(*given, **more):
    return _json.loads(CALL(_named(given, more)))

DEF search_tools(query="", **more):
    return _json.loads(CALL(_json.dumps(["search_tools", {"query": query, **more}])))

DEF describe_tools(names, **more):
    return _json.loads(CALL(_json.dumps(["describe_tools", {"names": names, **more}])))
"""


class FunctionCall(NamedTuple):
    """One call that a program makes: a function of the prelude, and its arguments by name."""

    function: str
    arguments: dict[str, Any]


class BadCall(Exception):
    """A program called what leaves the sandbox with something that the prelude would not have written."""


def prelude_for(code: str) -> str:
    """Return the prelude of a program."""
    awaits = _AWAIT.search(_LITERALS.sub(" ", code)) is not None
    definition, call = ("async def", f"await {LATER}") if awaits else ("def", NOW)
    return _PRELUDE.replace("DEF", definition).replace("CALL", call)


def read_call(given: tuple[Any, ...]) -> FunctionCall:
    """Return the call that a program makes.

    Raises:
        BadCall: it is none.
    """
    if len(given) != 1 or not isinstance(given[0], str):
        raise BadCall("one text is expected")
    try:
        # As a message of a host is read: so deep, and so many values.
        read = decode(given[0].encode("utf-8", "surrogatepass"))
    except ValueError as error:
        raise BadCall(f"the arguments are no JSON: {error}") from None
    match read:
        case [str(function), dict(arguments)]:
            return FunctionCall(function, arguments)
    raise BadCall("the name of a function and its arguments are expected")
