"""References in the entries of other programs: those that mean the same here, and the others as plain texts.

Law: what another program's file holds never makes a file, a keyring or a program be read here: such an entry may come
with a folder made by another person, and its headers may go to an address of theirs.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

# A variable, and what editors call the folders and an answer of the person.
_VARIABLE: Final = re.compile(r"(?:env:)?[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# Before a colon these are no variables, though a default may seem to follow.
_KINDS: Final = ("file", "keyring", "command", "input")
_NAMED: Final = re.compile(r"\$|/|input:[^{}]+|workspaceFolder:[^{}]+", re.DOTALL)
_KIND: Final = re.compile(r"[A-Za-z]{1,20}(?=:)")
_DEEPEST: Final = 8


def variables_alone(text: str, notes: list[str]) -> str:
    """Return a text in which a `${...}` with another meaning here, or none, is plain; each adds a note."""
    parts: list[str] = []
    at = 0
    while (start := text.find("${", at)) >= 0:
        end = _closing(text, start + 2)
        if end is None:
            notes.append("It has a ${ that is not closed; it is passed on as it is.")
            return "".join((*parts, text[at:start], _plain(text[start:])))
        inner = text[start + 2 : end]
        if _is_variable(inner, 0):
            parts += text[at:start], text[start : end + 1]
        else:
            kind = _KIND.match(inner)
            written = f"${{{kind[0]}:...}}" if kind else "${...}"
            notes.append(f"It has a reference ({written}) that cannot be filled in here.")
            parts += text[at:start], _plain(text[start : end + 1])
        at = end + 1
    return "".join((*parts, text[at:]))


def harmless(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry in which all texts are so, wherever they stand."""
    return {key: _harmless(value) for key, value in fields.items()}


def _harmless(value: Any) -> Any:
    match value:
        case str():
            return variables_alone(value, [])
        case Mapping():
            return harmless(value)
        case list() | tuple():
            return [_harmless(item) for item in value]
    return value


def _is_variable(inner: str, depth: int) -> bool:
    name, has_default, default = inner.partition(":-")
    if has_default and name not in _KINDS and _VARIABLE.fullmatch(name):
        return depth < _DEEPEST and _has_variables_alone(default, depth + 1)
    return _VARIABLE.fullmatch(inner) is not None or _NAMED.fullmatch(inner) is not None


def _has_variables_alone(text: str, depth: int) -> bool:
    at = 0
    while (start := text.find("${", at)) >= 0:
        end = _closing(text, start + 2)
        if end is None or not _is_variable(text[start + 2 : end], depth):
            return False
        at = end + 1
    return True


def _closing(text: str, at: int) -> int | None:
    """Return the index of the brace that closes a reference, those inside it skipped; None if none does."""
    depth = 1
    for found in re.compile(r"\$\{|\}").finditer(text, at):
        depth += 1 if found[0] == "${" else -1
        if not depth:
            return found.start()
    return None


def _plain(text: str) -> str:
    return text.replace("${", "${$}{")
