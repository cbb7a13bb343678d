"""Read a text as the value that a model meant: a number, true or false, null, or an object or array in JSON.

Objects and arrays may be written as Python writes them (`{'a': True}`), have a comma before the last bracket, stand in
a code fence, and be encoded twice. Law: what is read has one meaning. A number that loses digits, a name given twice
and a number that JSON cannot carry have none.
"""

import json
import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final

# Stands for a text without one meaning.
UNCLEAR: Final = object()

_WORDS: Final[Mapping[str, Any]] = {
    **{"true": True, "false": False, "null": None},
    **{"True": True, "False": False, "None": None},
}
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?")
# A float keeps so many digits of any decimal number.
_EXACT_DIGITS: Final = 15
# Texts, words of Python, and commas before a closing bracket.
# The end of a text is optional, so that one without an end is gone through once.
_LOOSE: Final = re.compile(
    r"""
    "(?:[^"\\]|\\.)*+(?P<double>"?) | '(?:[^'\\]|\\.)*+(?P<single>'?) | \b(?:True|False|None)\b | ,\s*+(?=[\]}])
    """,
    re.DOTALL | re.VERBOSE,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_SAME_ESCAPES: Final = frozenset('\\nrtbf"')
_LOOSE_LIMIT: Final = 20_000


def read_text(text: str, spend: Callable[[int], None] | None = None) -> Any:
    """Return the value that a text stands for, or `UNCLEAR`. White space around it does not count. `spend` gets the
    number of characters before they are read in the loose form, which takes much longer.
    """
    text = text.strip()
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text):
        return _number(text)
    text = _once(_unfenced(text))
    if text[:1] + text[-1:] not in ("{}", "[]"):
        return UNCLEAR
    found = _strict(text)
    if found is UNCLEAR and len(text) <= _LOOSE_LIMIT:
        if spend is not None:
            spend(len(text))
        try:
            found = _strict(_LOOSE.sub(_as_json, text))
        except ValueError:
            return UNCLEAR
    return found


def _once(text: str) -> str:
    """Return the text of an object or array that a JSON text is; any other text as it is."""
    if text[:2] not in ('"{', '"['):
        return text
    inner = _strict(text)
    return inner.strip() if isinstance(inner, str) else text


def _number(text: str) -> Any:
    value = json.loads(text)
    digits = text.lower().partition("e")[0].replace("-", "").replace(".", "").strip("0")
    return value if isinstance(value, int) or len(digits) <= _EXACT_DIGITS else UNCLEAR


def _strict(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_members, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        return UNCLEAR


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError("no number that JSON can carry")
    return value


def _as_json(token: "re.Match[str]") -> str:
    """Return a token as JSON writes it.

    Raises:
        ValueError: a text has no end, or an escape with another meaning in JSON.
    """
    text = token[0]
    if text[0] == ",":
        return ""
    if text in _WORDS:
        return json.dumps(_WORDS[text])
    if not (token["double"] or token["single"]):
        raise ValueError("a text without an end")
    if text[0] == '"':
        return text
    return json.dumps(_ESCAPE.sub(_unescaped, text[1:-1]))


def _unescaped(escape: "re.Match[str]") -> str:
    character = escape[1]
    if character == "'":
        return character
    if character not in _SAME_ESCAPES:
        raise ValueError("an escape of Python alone")
    return str(json.loads(f'"{escape[0]}"'))


def _unfenced(text: str) -> str:
    """Return what stands in a code fence, if that is the whole text."""
    if not (text.startswith("```") and text.endswith("```") and len(text) > 6):
        return text
    return text[3:-3].removeprefix("json").strip()
