"""Forms that models write and the interpreter lacks, each written in another way on the same line.

Law: a form is rewritten only if the interpreter would refuse it, and if it has one meaning.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

_NAME: Final = r"[^\W\d]\w*"
# key=counts.get, map(str.strip, ...): methods of built-in types are no values.
_METHOD: Final = re.compile(
    rf"(?P<before>(?<![\w.])(?:key[ \t]*=|(?:map|filter)\()[ \t]*)(?P<of>{_NAME}(?:\.{_NAME})*)\."
    r"(?P<method>get|count|index|find|startswith|endswith|lower|upper|strip|lstrip|rstrip|title|casefold|split|isdigit)"
    r"(?=[ \t]*[,)])"
)
_TYPES: Final = ("str", "list", "dict")
# At most ten calls run at once, whatever a program says of that.
_SEMAPHORE: Final = re.compile(rf"(?<!\w)(?P<name>{_NAME})[ \t]*=[ \t]*(?:asyncio\.)?(?:Bounded)?Semaphore\(")
_ASYNC_WITH: Final = re.compile(rf"\basync[ \t]+with[ \t]+(?P<what>(?:self\.)?(?P<name>{_NAME}))(?=[ \t]*:)")
_MAPS: Final = re.compile(r"(?<![\w.])(?:map|filter)\(")

# A call of a tool cannot stand below a built-in function.
MAPS: Final = """
def map(function, *lists):
    return iter([function(*given) for given in zip(*lists)])

def filter(function, values):
    return iter([one for one in values if (one if function is None else function(one))])
"""


class Rewritten(NamedTuple):
    """A program in the forms that the interpreter has, and whether it needs the functions of `MAPS`."""

    code: str
    maps: bool


def rewritten(code: str, masked: str) -> Rewritten:
    """Return a program whose lines keep their numbers. `masked` is the program with blanks for texts and comments."""
    edits: list[tuple[int, int, str]] = []
    for found in _METHOD.finditer(masked):
        of, method = found["of"], found["method"]
        body = f"_v.{method}()" if of in _TYPES else f"{of}.{method}(_v)"
        edits.append((*found.span(), f"{found['before']}lambda _v: {body}"))
    semaphores = {found["name"] for found in _SEMAPHORE.finditer(masked)}
    edits += (
        (*found.span(), f"with {found['what']}")
        for found in _ASYNC_WITH.finditer(masked)
        if found["name"] in semaphores
    )
    return Rewritten(_edited(code, edits), _MAPS.search(masked) is not None)


def _edited(code: str, edits: Iterable[tuple[int, int, str]]) -> str:
    # The pieces from the end on, so that a long program is copied once.
    past = len(code)
    pieces: list[str] = []
    for start, end, text in sorted(edits, reverse=True):
        if end <= past:
            pieces += (code[end:past], text)
            past = start
    return code[:past] + "".join(reversed(pieces))
