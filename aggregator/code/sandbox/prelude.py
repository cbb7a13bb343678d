"""The prelude of a program: `call_tool`, `search_tools` and `describe_tools` as Python functions.

A program in which `await` stands gets functions that are awaited, and any other gets plain ones.
"""

import re
from textwrap import dedent
from typing import Any, Final, NamedTuple

from aggregator.domain.text.error_text import error_text
from aggregator.wire.codec import decode_from_host

# The function that leaves the sandbox, under the name that a plain and an awaited program has for it.
NOW: Final = "_call_now"
LATER: Final = "_call_later"
# Stands between the JSON of a value and the text beside it; no JSON has it.
BESIDE: Final = "\0"

# One without an end goes on to the end of its line or of the program: to look for its end from each of its quotes would
# take a time that grows with the square of its length, in which the event loop gets no turn.
_LITERALS: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:""")?|' + r"'''(?:[^'\\]|\\.|'(?!''))*+(?:''')?" + r'|"(?:[^"\\\n]|\\.)*+"?|'
    r"'(?:[^'\\\n]|\\.)*+'?|#[^\n]*",
    re.DOTALL,
)
_NOT_LINE_END: Final = re.compile(r"[^\n]")
_AWAIT: Final = re.compile(r"\bawait\b")

_FENCE: Final = re.compile(r"```[ \t]*\w*[ \t]*(\r?\n.*)```", re.DOTALL)

# A positional argument is read as the arguments of the meta tool, which accepts every form that models write.
_PRELUDE: Final = """\
import json as _json

# Pairs: a function, and the function or the name that its `__name__` comes from.
_x_wrapped = []
# Classes of the modules whose instances a `dict` can be made of, and those whose instances compare and sort.
_x_mappings, _x_comparing = [], []

def _named(given, more):
    if not given:
        if not more:
            raise TypeError("call_tool takes the name of a tool and its arguments")
        return _json.dumps(["call_tool", more])
    if len(given) > 2:
        raise TypeError("call_tool takes the name of a tool and its arguments")
    if len(given) == 2:
        if more:
            raise TypeError("give the arguments as one dict, or each by its name, not both")
        return _json.dumps(["call_tool", {"name": given[0], "arguments": given[1]}])
    for word in ("arguments", "args", "parameters", "params", "input"):
        if list(more) == [word] and (isinstance(more[word], dict) or word == "arguments"):
            return _json.dumps(["call_tool", {"name": given[0], word: more[word]}])
    return _json.dumps(["call_tool", {"name": given[0], "arguments": more}])

def _asked(function, names, given, more):
    if len(given) > len(names):
        raise TypeError(f"{function} takes {names[0]} and {names[1]}; give the rest by name")
    placed = dict(zip(names, given))
    for name in placed:
        if name in more:
            raise TypeError(f"{function} was given {name} twice")
    return _json.dumps([function, {**placed, **more}])

def _kept(value, beside, letters):
    return value

def _value_of(text):
    value, mark, beside = text.partition("\\0")
    return _kept(_json.loads(value), beside if mark else None, len(value))

def call_tool(*given, **more):
    return _called(_named(given, more))

def search_tools(*given, **more):
    return _called(_asked("search_tools", ("query", "level"), given, more))

def describe_tools(*given, **more):
    return _called(_asked("describe_tools", ("names", "level"), given, more))
"""
_PLAIN: Final = f"""
def _called(text):
    return _value_of({NOW}(text))
"""
# Counts the calls that no `await` has begun.
_AWAITED: Final = f"""
_x_left = [0]

def _called(text):
    _x_left[0] += 1
    return _awaited(text)

async def _awaited(text):
    _x_left[0] -= 1
    return _value_of(await {LATER}(text))
"""
# The expression that tells how many calls no `await` has begun, at the end of a program that awaits.
CALLS_LEFT: Final = "_x_left[0]"


class FunctionCall(NamedTuple):
    """One call that a program makes: a function of the prelude, and its arguments by name."""

    function: str
    arguments: dict[str, Any]


class BadCall(Exception):
    """A program called what leaves the sandbox with something that the prelude would not have written."""


def program_of(written: str) -> str:
    """Return a program without the Markdown fence or the common indentation around it; its lines keep their numbers."""
    fenced = _FENCE.fullmatch(written.strip())
    code = written[: len(written) - len(written.lstrip())] + fenced[1].rstrip() if fenced is not None else written
    first = next((line for line in code.splitlines() if line.strip()), "")
    return dedent(code) if first[:1] in (" ", "\t") else code


def masked(code: str) -> str:
    """Return a program with blanks for its texts and comments, of the same length and lines."""
    return _LITERALS.sub(lambda literal: _NOT_LINE_END.sub(" ", literal[0]), code)


def awaits(masked_code: str) -> bool:
    """Return whether `await` stands in a masked program."""
    return _AWAIT.search(masked_code) is not None


def prelude_for(awaited: bool) -> str:
    """Return the prelude of a program. `awaited`: `await` stands in it."""
    return _PRELUDE + (_AWAITED if awaited else _PLAIN)


def read_call(given: tuple[Any, ...]) -> FunctionCall:
    """Return the call that a program makes.

    Raises:
        BadCall: it is none.
    """
    if len(given) != 1 or not isinstance(given[0], str):
        raise BadCall("one text is expected")
    try:
        # As a message of a host is read: so deep, and so many values.
        read = decode_from_host(given[0].encode("utf-8", "surrogatepass"))
    except ValueError as error:
        raise BadCall(f"the arguments are no JSON: {error_text(error)}") from None
    match read:
        case [str(function), dict(arguments)]:
            return FunctionCall(function, arguments)
    raise BadCall("the name of a function and its arguments are expected")
