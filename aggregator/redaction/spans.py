"""Ranges of a text that hold secrets, and the text with a placeholder in their place."""

from collections.abc import Iterable
from typing import Final

REDACTED: Final = "[redacted]"

# From, and up to but not with.
Span = tuple[int, int]


def without(text: str, spans: Iterable[Span]) -> str:
    """Return the text with `[redacted]` for every span; spans that touch or overlap are one."""
    parts: list[str] = []
    shown_to, hidden_to = 0, -1
    for start, end in sorted(spans):
        if start > hidden_to:
            if hidden_to >= 0:
                shown_to = hidden_to
            parts += text[shown_to:start], REDACTED
        hidden_to = max(hidden_to, end)
    return "".join(parts) + text[max(hidden_to, 0) :]
