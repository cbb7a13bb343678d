"""Secrets in JSON values, by the content of their texts and by the names of their fields.

Law: a value is searched once, all of its texts as one; only a value with a secret is copied.
"""

from collections.abc import Callable
from operator import is_
from typing import Any, Final

from aggregator.redaction.field_names import NameVerdict, SecretNames, is_schema, is_secret
from aggregator.redaction.spans import REDACTED

# Only an attacker nests this deeply; if the value has a secret anywhere, the part below is dropped.
_DEEPEST: Final = 100
# Separates texts that are searched together: occurs in no secret, word or number.
_BETWEEN: Final = "\n\0\n"


def redact_json(value: Any, redact: Callable[[str], str], names: SecretNames | None, *, together: bool = True) -> Any:
    """Return the value without secrets in texts and without the values of secret names; itself without any.

    `together`: whether `redact` finds the same in joined texts, separated by lines, as in each.
    """
    if isinstance(value, str):
        return redact(value)
    if not isinstance(value, dict | list):
        return value
    texts, is_named = _look(value, names)
    whole = _BETWEEN.join(texts)
    if together and redact(whole) == whole:
        return _made_anew(value, str, names, NameVerdict.NOTHING, 0) if is_named else value
    return _made_anew(value, redact, names, NameVerdict.NOTHING, 0)


def _look(value: Any, names: SecretNames | None) -> tuple[list[str], bool]:
    """Return every text and every name of a field; and whether there is a name whose value may have to go."""
    texts: list[str] = []
    is_named = False
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            is_named = is_named or (names is not None and any(map(names.verdict, part)))
            texts += part
            stack += part.values()
        elif isinstance(part, list):
            stack += part
    return texts, is_named


def _made_anew(
    value: Any, redact: Callable[[str], str], names: SecretNames | None, verdict: NameVerdict, depth: int
) -> Any:
    """Return a value without secrets, or itself if it has none. `verdict` is the verdict on the name above it."""
    if isinstance(value, str):
        return REDACTED if is_secret(verdict, value) else redact(value)
    if isinstance(value, dict | list) and depth == _DEEPEST:
        return REDACTED
    if isinstance(value, dict):
        # A name that is surely secret counts for all that is under it.
        under = verdict if verdict is NameVerdict.SURELY and not is_schema(value) else NameVerdict.NOTHING
        fields = {}
        for name, item in value.items():
            own = names.verdict(name) if names is not None else NameVerdict.NOTHING
            fields[redact(name)] = _made_anew(item, redact, names, max(under, own), depth + 1)
        same = fields.keys() == value.keys() and all(map(is_, fields.values(), value.values()))
        return value if same else fields
    if isinstance(value, list):
        items = [_made_anew(item, redact, names, verdict, depth + 1) for item in value]
        return value if all(map(is_, items, value)) else items
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return REDACTED if is_number and verdict is NameVerdict.SURELY else value
