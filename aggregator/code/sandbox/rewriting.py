"""Forms that models write and the interpreter lacks, each written in another way on the same line.

Law: a form is rewritten only if the interpreter would refuse it, and if it has one meaning.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

_NAME: Final = r"[^\W\d]\w*"
# An expression of names, members and simple subscripts: `results[0]`, `call.answer`.
_VALUE: Final = rf"(?P<value>(?<![\w.\])]){_NAME}(?:\.{_NAME}|\[(?:-?\d+|{_NAME}|\"[^\"\n]*\"|'[^'\n]*')\])*?)"
_NO_TARGET: Final = r"(?![ \t]*(?:[-+*/%|&^]|//|\*\*|>>|<<)?=(?!=))"
_KEY: Final = r"\[(?P<quote>[\"'])(?P<key>content|structuredContent|isError|result)(?P=quote)\]"
# result["content"], result.content[0].text: of a result that is the value of the tool itself.
_PARTS: Final = re.compile(
    rf"{_VALUE}(?:{_KEY}|\.(?P<member>structuredContent|isError)(?![\w(])"
    rf"|\.content\[(?P<at>\d+)\]\.text(?![\w(])|\.(?P<text>text)(?![\w(])){_NO_TARGET}"
    rf"|{_VALUE.replace('<value>', '<of>')}\.(?P<get>get)\((?=[\"']result[\"'])"
)
# key=counts.get, map(str.strip, ...): methods of built-in types are no values.
_METHOD: Final = re.compile(
    rf"(?P<before>(?<![\w.])(?:key[ \t]*=|(?:map|filter)\()[ \t]*)(?P<of>{_NAME}(?:\.{_NAME})*)\."
    r"(?P<method>get|count|index|find|startswith|endswith|lower|upper|strip|lstrip|rstrip|title|casefold|split|isdigit)"
    r"(?=[ \t]*[,)])"
)
_TYPES: Final = ("str", "list", "dict")
_DEL: Final = re.compile(
    rf"(?m)(?P<start>(?:^|(?<=[;:]))[ \t]*)del[ \t]+(?P<of>{_NAME}(?:\.{_NAME}|\[[^\[\]\n:,;]*\])*)"
    r"\[(?P<key>[^\[\]\n:,;]*)\](?=[ \t]*(?:$|;))"
)
# At most ten calls run at once, whatever a program says of that.
_SEMAPHORE: Final = re.compile(rf"(?<!\w)(?P<name>{_NAME})[ \t]*=[ \t]*(?:asyncio\.)?(?:Bounded)?Semaphore\(")
_ASYNC_WITH: Final = re.compile(rf"\basync[ \t]+with[ \t]+(?P<what>(?:self\.)?(?P<name>{_NAME}))(?=[ \t]*:)")
_MAPS: Final = re.compile(r"(?<![\w.])(?:map|filter)\(")

# The parts that a result has in MCP, of one that is the value itself.
PARTS: Final = """
_results = []

def _kept(value, beside):
    _results.append((value, beside))
    return value

def _said(value):
    for one, beside in _results:
        if value is one and beside is not None:
            return beside
    return value if isinstance(value, str) else _json.dumps(value)

def _x_part(value, key):
    if isinstance(value, dict) and key in value:
        return value[key]
    if not (isinstance(value, (str, list)) or any(value is one for one, _ in _results)):
        return value[key]
    if key == "content":
        return [{"type": "text", "text": _said(value)}]
    return False if key == "isError" else value

def _x_text_of(value):
    if any(value is one for one, _ in _results):
        return _said(value)
    return value.text

def _x_got(value, key, *default):
    return value if isinstance(value, list) else value.get(key, *default)
"""
# A call of a tool cannot stand below a built-in function.
MAPS: Final = """
def map(function, *lists):
    return iter([function(*given) for given in zip(*lists)])

def filter(function, values):
    return iter([one for one in values if (one if function is None else function(one))])
"""


class Rewritten(NamedTuple):
    """A program in the forms that the interpreter has, and whether it needs the functions of `PARTS` and `MAPS`."""

    code: str
    parts: bool
    maps: bool


def rewritten(code: str, masked: str) -> Rewritten:
    """Return a program whose lines keep their numbers. `masked` is the program with blanks for texts and comments."""
    edits = [
        (*found.span(), _part(found))
        for found in _PARTS.finditer(code)
        # Of a text or a comment, the mask has only blanks.
        if masked[found.start()] == code[found.start()] and masked[found.end() - 1] == code[found.end() - 1]
    ]
    parts = bool(edits)
    for found in _METHOD.finditer(masked):
        of, method = found["of"], found["method"]
        body = f"_v.{method}()" if of in _TYPES else f"{of}.{method}(_v)"
        edits.append((*found.span(), f"{found['before']}lambda _v: {body}"))
    for found in _DEL.finditer(masked):
        of, key = (code[slice(*found.span(group))] for group in ("of", "key"))
        edits.append((*found.span(), f"{found['start']}{of}.pop({key})"))
    semaphores = {found["name"] for found in _SEMAPHORE.finditer(masked)}
    edits += (
        (*found.span(), f"with {found['what']}")
        for found in _ASYNC_WITH.finditer(masked)
        if found["name"] in semaphores
    )
    return Rewritten(_edited(code, edits), parts, _MAPS.search(masked) is not None)


def _part(found: re.Match[str]) -> str:
    if found["get"] is not None:
        return f"_x_got({found['of']}, "
    if found["text"] is not None:
        return f"_x_text_of({found['value']})"
    if found["at"] is not None:
        return f'_x_part({found["value"]}, "content")[{found["at"]}]["text"]'
    return f'_x_part({found["value"]}, "{found["key"] or found["member"]}")'


def _edited(code: str, edits: Iterable[tuple[int, int, str]]) -> str:
    # The pieces from the end on, so that a long program is copied once.
    past = len(code)
    pieces: list[str] = []
    for start, end, text in sorted(edits, reverse=True):
        if end <= past:
            pieces += (code[end:past], text)
            past = start
    return code[:past] + "".join(reversed(pieces))
