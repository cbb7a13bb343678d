"""F-strings with the quotes of their own text within, as `f"{d["a"]}"`, written for a Python before 3.12.

The interpreter knows them. Before 3.12, Python's own parser, which reads the forms of a program, does not.
"""

import ast
import re
import sys
from typing import Final

_START: Final = re.compile(r"#[^\n]*|(?<!\w)(?P<prefix>[rRbBuUfF]{0,2})(?P<quote>\"\"\"|'''|\"|')")
_QUOTES: Final = ("'", '"', "'''", '"""')
_OPENING: Final = "([{"
_CLOSING: Final = ")]}"


class UnreadableQuotes(Exception):
    """A text has no end, or no quotes are left for it."""


def with_other_quotes(code: str) -> str:
    """Return a program whose f-strings this Python can read; as it is if that changes nothing. Lines stay."""
    if sys.version_info >= (3, 12):
        return code
    try:
        new = rewritten_quotes(code)
        if new != code:
            ast.parse(new)
    except (UnreadableQuotes, SyntaxError, ValueError, RecursionError, MemoryError):
        return code
    return new


def rewritten_quotes(code: str) -> str:
    """Return a program with other quotes within its f-strings.

    Raises:
        UnreadableQuotes: a text has no end, or no quotes are left for it.
    """
    pieces: list[str] = []
    past = 0
    while (found := _START.search(code, past)) is not None:
        pieces.append(code[past : found.start()])
        if found["quote"] is None:
            text, past = found[0], found.end()
        elif "f" in found["prefix"].lower():
            inner, past = _formatted(code, found.end(), found["quote"], (found["quote"],))
            text = f"{found[0]}{inner}{found['quote']}"
        else:
            past = _end(code, found.end(), found["quote"])
            text = code[found.start() : past]
        pieces.append(text)
    return "".join((*pieces, code[past:]))


def _end(code: str, at: int, quote: str) -> int:
    """Return where a text ends that begins at a place."""
    for found in re.compile(rf"\\.|{quote}", re.DOTALL).finditer(code, at):
        if found[0] == quote:
            return found.end()
    raise UnreadableQuotes


def _formatted(code: str, at: int, quote: str, around: tuple[str, ...]) -> tuple[str, int]:
    """Return the text of an f-string, and the place after it. `around` are its quotes and those around it."""
    pieces: list[str] = []
    while at < len(code):
        if code.startswith(quote, at):
            return "".join(pieces), at + len(quote)
        if code.startswith(("{{", "}}", "\\"), at):
            pieces.append(code[at : at + 2])
            at += 2
        elif code[at] == "{":
            text, at = _expression(code, at + 1, around)
            pieces.append(f"{{{text}}}")
        else:
            pieces.append(code[at])
            at += 1
    raise UnreadableQuotes


def _expression(code: str, at: int, around: tuple[str, ...]) -> tuple[str, int]:
    """Return an expression of an f-string with its format, and the place after its brace."""
    pieces: list[str] = []
    depth = 0
    spec = False
    while at < len(code):
        sign = code[at]
        found = None if spec else _START.match(code, at)
        if found is not None and found["quote"] is not None:
            text, at = _literal(code, found, around)
            pieces.append(text)
            continue
        at += 1
        if spec and sign == "{":
            text, at = _expression(code, at, around)
            sign = f"{{{text}}}"
        elif sign in _CLOSING:
            if depth == 0:
                return "".join(pieces), at
            depth -= 1
        elif sign in _OPENING:
            depth += 1
        elif sign == ":" and depth == 0:
            spec = True
        pieces.append(sign)
    raise UnreadableQuotes


def _literal(code: str, found: re.Match[str], around: tuple[str, ...]) -> tuple[str, int]:
    """Return a text within an expression, in quotes that are none of those around it, and the place after it."""
    quote, prefix = found["quote"], found["prefix"]
    if "f" in prefix.lower():
        free = next((one for one in _QUOTES if all(one[0] != other[0] for other in around)), None)
        if free is None:
            raise UnreadableQuotes
        inner, at = _formatted(code, found.end(), quote, (*around, free))
    else:
        at = _end(code, found.end(), quote)
        inner = code[found.end() : at - len(quote)]
        if "\\" in inner:
            return _without_backslash(code[found.start() : at]), at
    for one in (quote, *_QUOTES):
        if all(one[0] != other[0] for other in around) and one not in inner:
            return f"{prefix}{one}{inner}{one}", at
    raise UnreadableQuotes


def _without_backslash(text: str) -> str:
    """Return an expression for a text that has escapes."""
    value = ast.literal_eval(text)
    if not isinstance(value, str) or len(value) > 100:
        raise UnreadableQuotes
    return "(" + "+".join(f"chr({ord(sign)})" for sign in value) + ")" if value else "str()"
