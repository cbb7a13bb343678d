"""Characters that cannot be seen and change the displayed text: their definition, and their removal.

Rule: characters that a script needs stay. A joiner (ZWNJ, ZWJ) counts after a letter of a joining script or an emoji,
and a variation selector after a character with variants.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

# Control characters but newline and tab; line and paragraph separators.
_CONTROLS: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029"
# Bidirectional embeddings, overrides and isolates; deprecated formatting; annotations; zero-width spaces and invisible
# operators; tags.
_FORMATS: Final = (
    "\u202a-\u202e\u2066-\u206f\ufff9-\ufffb\u180e\u200b\u2060-\u2065\ufeff\U0001d173-\U0001d17a"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_JOINERS: Final = "\u200c\u200d"
_SELECTORS: Final = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
# Letters of scripts that join (no Latin, Greek or Cyrillic), signs, emoji and what stands before an emoji's selector.
_IDEOGRAPHS: Final = "\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
_JOINING: Final = (
    f"\u0530-\u180d\u180f-\u1fff\u2190-\u2bff{_IDEOGRAPHS}\ua4d0-\uabff\ufb13-\ufdff\ufe70-\ufefc\U00010000-\U0001d172"
    "\U0001d17b-\U0001ffff"
)

_ANY: Final = re.compile(f"[{_CONTROLS}{_FORMATS}{_JOINERS}{_SELECTORS}]")
# How control characters are written in JSON; newline and tab have escapes of their own.
_ESCAPES: Final = re.compile(rb"\\[rbfu]|\x7f")
_FORMAT: Final = re.compile(f"[{_FORMATS}]")
_IN_NAMES: Final = re.compile(f"[{_CONTROLS}\\t\\n{_FORMATS}{_JOINERS}{_SELECTORS}]")

# Their values are names, or are compared with a peer's values: no character of them may change.
EXACT: Final = frozenset(
    {"name", "uri", "uriTemplate", "resourceUri", "mimeType", "type", "format", "pattern", "enum", "const", "required"}
    | {"$ref", "$dynamicRef", "$anchor", "$dynamicAnchor", "$id", "id", "$schema", "x-mcp-header", "src", "url"}
)
# Values that must not change, and values that a peer may send unchanged.
SENT: Final = EXACT | {"default", "examples"}
_DATA: Final = frozenset({"default", "examples"})
# Where a schema has names of its own in place of keywords.
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
# Nothing is nested this deep but to do harm: it is cut. Definitions are left out at fewer levels.
_DEEPEST: Final = 250


def cleaned(text: str) -> str:
    """Return the text without invisible characters; the same object if there are none."""
    if text.isascii() and text.isprintable():
        return text
    if _ANY.search(text) is not None:
        for taken_out in _passes():
            text = taken_out.sub("", text)
    return text


@cache
def _passes() -> tuple[re.Pattern[str], ...]:
    """Return the expressions of the characters to remove, in order: each looks behind at the result of the one before.

    They take 4 ms to compile, which no start waits for.
    """
    return (
        re.compile(f"[{_CONTROLS}{_FORMATS}]"),
        re.compile(f"(?<![#*0-9\xa9\xae\u2010-\u2027\u2030-\u205e\u20a0-\u218f{_JOINING}])[\ufe00-\ufe0f]"),
        re.compile(f"(?<![{_IDEOGRAPHS}])[\U000e0100-\U000e01ef]"),
        re.compile(f"(?<![{_JOINING}\ufe0f])[{_JOINERS}]"),
    )


def may_hide(encoded: bytes) -> bool:
    """Return whether a JSON text may hold anything that is not seen; False is certain, and found quickly."""
    if _ESCAPES.search(encoded) is not None:
        return True
    return not encoded.isascii() and _ANY.search(encoded.decode("utf-8", "replace")) is not None


def folded_name(name: str) -> str:
    """Return the visible form of a name: without any invisible character, joiners included."""
    return name if name.isascii() and name.isprintable() else _IN_NAMES.sub("", name)


def unseen(text: str) -> str | None:
    """Return the first character that `cleaned` removes, as `U+200B`, or None."""
    kept = cleaned(text)
    if kept == text:
        return None
    at = next((at for at, char in enumerate(kept) if char != text[at]), len(kept))
    return f"U+{ord(text[at]):04X}"


def escaped(text: str) -> str:
    """Return JSON or plain text on one line, with an escape of JSON for each character that cannot be seen."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def visible(text: str) -> str:
    """Return the lines of a text with an escape of JSON for each character that a terminal acts on or does not show.

    A JSON text stays the same JSON. Line feeds stay; a carriage return before one is left out.
    """
    if text.isprintable():
        return text
    return "\n".join(line if line.isprintable() else _visible(line) for line in text.replace("\r\n", "\n").split("\n"))


def _visible(line: str) -> str:
    for taken_out in _passes():
        line = taken_out.sub(lambda found: "".join(map(_escape, found[0])), line)
    # Of joiners, only those that a script needs are left by now.
    return "".join(
        char if char.isprintable() or char in _JOINERS or unicodedata.category(char) == "Zs" else _escape(char)
        for char in line
    )


def _escape(char: str) -> str:
    # JSON needs no escape for U+007F, even in ASCII.
    return "\\u007f" if char == "\x7f" else json.dumps(char)[1:-1]


def changed_texts(value: Any, change: Callable[[str], str], exact: frozenset[str]) -> Any:
    """Return a JSON value with `change` applied to each displayed text; itself if nothing changes.

    Names of fields stay unchanged, and so do values under the names in `exact` unless they are objects.
    """
    return _changed(value, change, exact, "", 0)


def _changed(value: Any, change: Callable[[str], str], exact: frozenset[str], under: str, depth: int) -> Any:
    if isinstance(value, str):
        return change(value)
    if not isinstance(value, dict | list):
        return value
    if depth == _DEEPEST:
        return None
    if isinstance(value, dict):
        fields = {}
        for name, item in value.items():
            # What a schema gives as an example is data: its names mean nothing here.
            inner = frozenset() if name in _DATA and under not in _NAMED else exact
            stays = _stays(name, item, exact, under)
            fields[name] = item if stays else _changed(item, change, inner, name, depth + 1)
        return value if all(fields[name] is item for name, item in value.items()) else fields
    items = [_changed(item, change, exact, under, depth + 1) for item in value]
    return value if all(one is other for one, other in zip(items, value, strict=True)) else items


def hidden_in_names(value: Any, exact: frozenset[str]) -> str | None:
    """Return the first invisible format character in the parts that `changed_texts` leaves unchanged, as `U+200B`, or
    None.
    """
    for text in unchanged_texts(value, exact):
        found = None if text.isascii() else _FORMAT.search(text)
        if found is not None:
            return f"U+{ord(found[0]):04X}"
    return None


def unchanged_texts(value: Any, exact: frozenset[str]) -> Iterator[str]:
    """Yield every text that `changed_texts` leaves unchanged: names of fields, and values under the names in
    `exact`.
    """
    return _unchanged(value, exact, "", 0)


def _unchanged(value: Any, exact: frozenset[str], under: str, depth: int) -> Iterator[str]:
    if depth == _DEEPEST:
        return
    if isinstance(value, dict):
        yield from value
        for name, item in value.items():
            if _stays(name, item, exact, under):
                yield from _texts(item, depth + 1)
            else:
                yield from _unchanged(item, exact, name, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _unchanged(item, exact, under, depth + 1)


def every_text(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value, the names of members too."""
    return _texts(value, 0)


def _texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth < _DEEPEST:
        if isinstance(value, dict):
            yield from value
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item, depth + 1)


def _stays(name: str, item: Any, exact: frozenset[str], under: str) -> bool:
    """Tell whether the value under this name must not change. Below `under` names may be a schema's own."""
    return name in exact and under not in _NAMED and (name == "const" or not isinstance(item, dict))
