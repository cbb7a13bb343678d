"""The names of a prelude that a program uses for something else: the prelude gets others.

A program and its prelude have one name space. Names with `_x_` and `_added_` stay: the aggregator writes them into the
text of the program.
"""

import re
from typing import Final

from aggregator.code.sandbox.prelude import LATER, NOW
from aggregator.code.sandbox.zones import ZONE

_DEFINED: Final = re.compile(
    r"(?m)^(?:(?:async )?def |class |(?:from \w+ )?import \w+ as |(?=_\w+(?:, _\w+)* = ))(_\w+)"
)
_OURS: Final = (NOW, LATER, ZONE)
_WORD: Final = re.compile(r"(?<![\w.])_[a-zA-Z]\w*")
# A name of Python that a program assigns: list = ..., for type in ...
_ASSIGNED: Final = re.compile(
    r"(?m)^[ \t]*(?:for[ \t]+|async[ \t]+def[ \t]+|def[ \t]+|class[ \t]+)?"
    r"(?P<names>[a-z]\w*(?:[ \t]*,[ \t]*[a-z_]\w*)*)"
    r"(?=[ \t]*(?:=(?!=)|:[^=\n(]+=(?!=)|\(|:|[ \t]in\b))"
)
# Names of Python that a prelude uses.
_BUILTINS: Final = frozenset(
    {
        *("abs", "all", "any", "bool", "bytes", "chr", "dict", "enumerate", "filter", "float", "frozenset", "getattr"),
        *("hasattr", "hash", "int", "isinstance", "iter", "len", "list", "map", "max", "min", "next", "ord", "range"),
        *("repr", "reversed", "round", "set", "setattr", "slice", "sorted", "str", "sum", "tuple", "type", "zip"),
    }
)


def apart(prelude: str, masked: str) -> str:
    """Return a prelude without the names that a program has. `masked` is the program without texts and comments."""
    defined = {found[1] for found in _DEFINED.finditer(prelude)}
    own = {one for one in _WORD.findall(masked) if not one.startswith(("_x_", "_added_"))} & defined - set(_OURS)
    taken = _assigned(masked)
    if own or taken:
        others = {**{one: f"_x_own{one}" for one in own}, **{one: f"_x_{one}_" for one in taken}}
        prelude = re.sub(rf"(?<![\w.])(?:{'|'.join(others)})\b", lambda found: others[found[0]], prelude)
    return "".join(f"_x_{one}_ = {one}\n" for one in taken) + prelude


def _assigned(masked: str) -> list[str]:
    """Return the names of Python that a program gives to something else."""
    found: set[str] = set()
    for match in _ASSIGNED.finditer(masked):
        names = set(re.findall(r"\w+", match["names"]))
        # A call as a statement assigns nothing.
        before, after = masked[match.start() : match.start("names")], masked[match.end() : match.end() + 1]
        if after != "(" or before.strip():
            found |= names
    return sorted(found & _BUILTINS)
