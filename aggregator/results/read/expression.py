"""Regular expressions of models: matched in linear time.

Law: only the engine without backtracking is used. A model's expression never comes to Python's own.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from jsonschema_rs import Draft202012Validator, RegexOptions

from aggregator.results.read.path import BadRead

EXPRESSION_AT_MOST: Final = 500
_KIB: Final = 1024
# Size of the compiled expression -> how many characters one page searches: a second or a few at the worst.
_SEARCHED: Final = ((8 * _KIB, 64_000_000), (64 * _KIB, 16_000_000), (512 * _KIB, 2_000_000))
_ESCAPE: Final = re.compile(r'(?:\\u[0-9a-fA-F]{4})++|\\["\\/bfnrt]')
_SIMPLE: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class Expression:
    """A search expression, and the number of characters that it may search at once."""

    validator: Draft202012Validator
    searched_at_most: int

    def is_in(self, text: str, *, escapes: bool) -> bool:
        """Tell whether the expression matches in a text, or, with `escapes`, in what its escapes of JSON stand for."""
        if self._is_in(text):
            return True
        return escapes and "\\" in text and self._is_in(_ESCAPE.sub(_unescaped, text))

    def _is_in(self, text: str) -> bool:
        try:
            return self.validator.is_valid(text)
        except UnicodeEncodeError:
            return self.validator.is_valid(text.encode("utf-8", "replace").decode())


@lru_cache(maxsize=64)
def compiled(pattern: str, *, case: bool = False) -> Expression:
    """Return an expression of a model. `case`: capitals and small letters differ.

    Raises:
        BadRead: it is none, or costs too much.
    """
    if not pattern:
        raise BadRead("`grep` is empty: give it a word or a regular expression.")
    if len(pattern) > EXPRESSION_AT_MOST:
        raise BadRead(f"`grep` has at most {EXPRESSION_AT_MOST} characters.")
    for size, searched in _SEARCHED:
        # `m`: the beginning and the end of a line, as in grep.
        schema = {"pattern": f"(?{'m' if case else 'im'}){pattern}"}
        try:
            options = RegexOptions(size_limit=size)
            return Expression(Draft202012Validator(schema, pattern_options=options, offline=True), searched)
        except ValueError:
            continue
    raise BadRead(
        f"`{pattern:.80}` is no regular expression that can be searched for: it is not valid, very large, or uses "
        "look-around or back-references. Put a backslash before each of `[](){}.*+?|^$` that is meant as it is."
    )


def _unescaped(found: re.Match[str]) -> str:
    written = found[0]
    if written[1] == "u":
        return bytes.fromhex(written.replace("\\u", "")).decode("utf-16-be", "replace")
    return _SIMPLE.get(written[1], written[1])
