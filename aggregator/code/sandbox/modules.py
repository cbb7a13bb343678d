"""The import of the modules that the aggregator adds for programs (`module_sources`).

An import in a program becomes an assignment on the same line. A module that the program does not use costs nothing. A
module that it uses without an import is imported for it.
"""

import re
from collections import Counter
from typing import Final

from aggregator.code.sandbox.bounds import MODULES
from aggregator.code.sandbox.module_sources import MODULES_ADDED, SOURCES

_NAME: Final = r"[^\W\d]\w*"
_WORD: Final = re.compile(_NAME)
_DOTTED: Final = rf"{_NAME}(?:\.{_NAME})*"
_AS: Final = rf"(?:[ \t]+as[ \t]+{_NAME})?"
_STATEMENT: Final = r"(?m)(?:^|(?<=[;:]))(?P<indent>[ \t]*)"
_END: Final = r"[ \t]*(?=$|;)"
_IMPORT: Final = re.compile(rf"{_STATEMENT}import[ \t]+(?P<items>{_DOTTED}{_AS}(?:[ \t]*,[ \t]*{_DOTTED}{_AS})*){_END}")
_ADDED: Final = "|".join(map(re.escape, sorted(MODULES_ADDED, reverse=True)))
_FROM: Final = re.compile(
    rf"{_STATEMENT}from[ \t]+(?P<module>{_ADDED})[ \t]+import[ \t]*"
    rf"(?:\((?P<lines>[\w\s,]*)\)|(?<=[ \t])(?P<items>{_NAME}{_AS}(?:[ \t]*,[ \t]*{_NAME}{_AS})*)){_END}"
)

# A module that a program uses, also inside a text, which may be an f-string; and one that it imports.
_USED: Final = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, MODULES))})\.[^\W\d]")
_IMPORTED: Final = re.compile(r"\bimport\b[^\n;]*")


def with_modules(code: str, masked: str) -> tuple[str, str]:
    """Return a program whose imports of our modules are assignments, and the source that defines them.

    `masked` is the program with blanks for its texts and comments, at the same places. Lines keep their numbers.
    """
    used: dict[str, None] = {}
    words = Counter(_WORD.findall(code))
    edits: list[tuple[int, int, str]] = []
    for found in _IMPORT.finditer(masked):
        items = [item.split() for item in found["items"].split(",")]
        ours = [_root(item[0]) for item in items if item[0] in MODULES_ADDED]
        if ours:
            used.update(dict.fromkeys(ours))
            written = [_import_of(item) for item in items]
            edits.append((found.start("indent"), found.end(), found["indent"] + "; ".join(written)))
    for found in _FROM.finditer(masked):
        listed = found["items"] if found["lines"] is None else found["lines"]
        items = [item.split() for item in listed.split(",") if item.strip()]
        if items and all(len(item) == 1 or (len(item) == 3 and item[1] == "as") for item in items):
            module = found["module"]
            used[_root(module)] = None
            lines = "\n" * found[0].count("\n")
            # A name that is imported and not used may be one that the module lacks here.
            written = [f"{item[-1]} = _added_{module}.{item[0]}" for item in items if words[item[-1]] > 1] or ["pass"]
            edits.append((found.start("indent"), found.end(), found["indent"] + "; ".join(written) + lines))
    for start, end, text in sorted(edits, reverse=True):
        code = code[:start] + text + code[end:]
    unnamed = _unnamed(code, masked)
    used.update(dict.fromkeys(_root(module) for module in unnamed if module in MODULES_ADDED))
    return code, "".join([*(SOURCES[root] for root in used), *(f"{_import_of([module])}\n" for module in unnamed)])


def _import_of(item: list[str]) -> str:
    """Return the statement for one item of an `import`: its module and, if it has one, `as` and a name."""
    if item[0] not in MODULES_ADDED:
        return f"import {' '.join(item)}"
    root = _root(item[0])
    return f"{root} = _added_{root}" if len(item) == 1 else f"{item[-1]} = _added_{item[0]}"


def _root(module: str) -> str:
    return module.partition(".")[0]


def _unnamed(code: str, masked: str) -> list[str]:
    """Return the modules that a program uses without an import, which models often forget."""
    imported = {word for found in _IMPORTED.finditer(masked) for word in _WORD.findall(found[0])}
    return [module for module in dict.fromkeys(_USED.findall(code)) if module not in imported]
