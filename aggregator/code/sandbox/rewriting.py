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
# The function of the prelude that is asked instead; `errors` asks it in f-strings.
KIND_OF: Final = "_x_type_of"
_MAPS: Final = re.compile(r"(?<![\w.])(?:map|filter)\(")
# type(e) == KeyError, but not type(e).__name__.
_ASKS_KIND: Final = re.compile(r"(?<![\w.])type(?=\([ \t]*\w+[ \t]*\)(?![ \t]*\.))")
_EXCEPT: Final = re.compile(r"\bexcept\b")
_OWN_TYPE: Final = re.compile(r"\b(?:def|for)[ \t]+type\b|(?m:^[ \t]*type\b(?![ \t]*\())")
_PRINTS_TO: Final = re.compile(r"\bfile[ \t]*=|\bredirect_stdout\b")

# A call of a tool cannot stand below a built-in function.
MAPS: Final = """
def map(function, *lists):
    return iter([function(*given) for given in zip(*lists)])

def filter(function, values):
    return iter([one for one in values if (one if function is None else function(one))])
"""

# The interpreter prints to its own streams alone.
PRINTS: Final = """
_x_output, _x_streams = print, []

def print(*given, sep=" ", end="\\n", file=None, flush=False):
    if file is None and _x_streams:
        file = _x_streams[-1]
    if hasattr(file, "write"):
        file.write((" " if sep is None else sep).join([str(one) for one in given]) + ("\\n" if end is None else end))
    else:
        _x_output(*given, sep=sep, end=end, file=file)

class _x_Redirected:
    def __init__(self, stream):
        self._stream = stream

    def __enter__(self):
        _x_streams.append(self._stream)
        return self._stream

    def __exit__(self, *failure):
        _x_streams.pop()
"""

# The class of an error is another one than its name stands for.
KINDS: Final = """
_x_kinds = {repr(kind): kind for kind in (
    ArithmeticError, AssertionError, AttributeError, Exception, FileNotFoundError, ImportError, IndexError, KeyError,
    LookupError, MemoryError, ModuleNotFoundError, NameError, NotImplementedError, OSError, OverflowError,
    PermissionError, RecursionError, RuntimeError, StopIteration, TimeoutError, TypeError, UnicodeDecodeError,
    ValueError, ZeroDivisionError, _json.JSONDecodeError,
)}

def _x_type_of(one):
    kind = type(one)
    return _x_kinds.get(repr(kind), kind) if isinstance(one, Exception) else kind
"""


class Rewritten(NamedTuple):
    """A rewritten program, and the helpers from `MAPS`, `PRINTS` and `KINDS` that it uses."""

    code: str
    prelude: str


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
    kinds = _ASKS_KIND.finditer(masked) if _EXCEPT.search(masked) and not _OWN_TYPE.search(masked) else ()
    asked = [(*found.span(), KIND_OF) for found in kinds]
    edits += asked
    prelude = (MAPS if _MAPS.search(masked) else "") + (PRINTS if _PRINTS_TO.search(masked) else "")
    prelude += KINDS if asked or f"{KIND_OF}(" in code else ""
    return Rewritten(_edited(code, edits), prelude)


def _edited(code: str, edits: Iterable[tuple[int, int, str]]) -> str:
    # The pieces from the end on, so that a long program is copied once.
    past = len(code)
    pieces: list[str] = []
    for start, end, text in sorted(edits, reverse=True):
        if end <= past:
            pieces += (code[end:past], text)
            past = start
    return code[:past] + "".join(reversed(pieces))
