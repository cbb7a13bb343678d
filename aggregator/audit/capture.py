"""The stored part of arguments and results: nothing, or their redacted JSON, cut to a bounded length.

Rule: redact before cutting if the cut could show half of a secret.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Literal

from aggregator.wire.codec import Raw, decode, encode

Mode = Literal["none", "arguments", "full"]
# What ends a text that was cut: no JSON text ends so.
CUT: Final = "…"
# The longest secret that a cut does not show the beginning of.
_MARGIN: Final = 8192
_DEPTH: Final = 100
_DETAILS: Final = 4000
_MESSAGE: Final = 4000
_NAMES: Final = 4096
_NAME: Final = 200

# Returns a JSON value without its secrets.
RedactValue = Callable[[Any], Any]


class Capture:
    """The texts to keep of calls and events, without secrets.

    `redact` returns a JSON value without its secrets; `at_most` is how many bytes one value may take.
    """

    def __init__(self, mode: Mode, redact: RedactValue, at_most: int) -> None:
        self.mode = mode
        self.redact = redact
        self.at_most = at_most
        # The same few names come with call after call.
        self._known_name = lru_cache(_NAMES)(self.message)

    def arguments(self, value: Any) -> str | None:
        """Return the text to store of a call's arguments, or None."""
        return self._text(value, self.at_most) if self.mode != "none" else None

    def result(self, value: Any) -> str | None:
        """Return the text to store of a call's result, or None."""
        return self._text(value, self.at_most) if self.mode == "full" else None

    def details(self, value: Any) -> str | None:
        """Return the text to keep of an event's details, in every mode."""
        return self._text(value, _DETAILS)

    def name(self, text: str) -> str:
        """Return a name that a host made up without secrets, in every mode."""
        return self._known_name(text) if len(text) <= _NAME else self.message(text)

    def message(self, text: str) -> str:
        """Return a sentence for operators without secrets, in every mode; only a very long one is cut."""
        beginning = text[: _MESSAGE + _MARGIN]
        redacted = str(self.redact(beginning))
        return redacted if len(beginning) == len(text) else redacted[:-_MARGIN] + CUT

    def _text(self, value: Any, at_most: int) -> str | None:
        if value is None:
            return None
        beginning = _Beginning(at_most + _MARGIN)
        text = encode(self.redact(beginning.of(value)))
        if beginning.whole and len(text) <= at_most:
            return text.decode()
        # The last part of a beginning may be a part of a secret, which cannot be recognised.
        kept = len(text) if beginning.whole else max(0, len(text) - _MARGIN)
        return text[: min(kept, at_most)].decode("utf-8", "ignore") + CUT


class _Beginning:
    """Copies the first `space` characters of a value, roughly; `whole` tells whether that was all of it."""

    def __init__(self, space: int) -> None:
        self._space = space
        self.whole = True

    def of(self, value: Any, depth: int = 0) -> Any:
        if isinstance(value, str):
            kept = value[: max(0, self._space)]
            self._space -= len(value) + 2
            self.whole = self.whole and len(kept) == len(value)
            return kept
        self._space -= 2
        if isinstance(value, dict) and depth < _DEPTH:
            copy = {}
            for name, item in value.items():
                if self._space <= 0:
                    self.whole = False
                    break
                self._space -= len(str(name)) + 4
                copy[name] = self.of(item, depth + 1)
            return copy
        if isinstance(value, list | tuple) and depth < _DEPTH:
            items = []
            for item in value:
                if self._space <= 0:
                    self.whole = False
                    break
                items.append(self.of(item, depth + 1))
            return items
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, Raw) and len(bytes(value)) <= self._space:
            return self.of(decode(bytes(value)), depth)
        # Too deep, or too much JSON that is bytes already: it cannot be redacted.
        self.whole = False
        return CUT
