"""The difference of two definitions of one tool for a reader: words of the description, lines of the JSON.

Law: time and size are bounded for any two definitions. A large one takes some tenths of a second: call it in a thread.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from aggregator.wire.codec import decode

# Characters of a definition; a larger one is not compared.
LARGEST: Final = 512 * 1024
# Steps of the comparison, and changes, after which the rest counts as replaced.
_STEPS: Final = 400_000
_CHANGES: Final = 300
# Lines and words of each kind that are shown, and characters of one.
_SHOWN: Final = 1_000
_WIDTH: Final = 400
# Unchanged lines shown around a change, and unchanged words.
_AROUND: Final = 3
_AROUND_WORDS: Final = 20

_WORD: Final = re.compile(r"\s*\S+")

PartKind = Literal["same", "removed", "added", "left out"]


@dataclass(frozen=True, slots=True)
class DiffPart:
    """Lines or words in a row: in both, only before, only after, or so many that are not shown."""

    kind: PartKind
    texts: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class DefinitionDiff:
    """The parts of the description by words, empty if it is the same, and of the rest of the definition by lines."""

    description: tuple[DiffPart, ...]
    lines: tuple[DiffPart, ...]


def definition_diff(before: str, after: str) -> DefinitionDiff:
    """Compare two definitions, each given as JSON.

    Raises:
        ValueError: one is no JSON object, too large or nested too deeply.
    """
    old, new = _read(before), _read(after)
    said, says = (_text(one.pop("description", None)) for one in (old, new))
    described = () if said == says else _parts(_words(said), _words(says), _AROUND_WORDS)
    try:
        lines = _parts(_lines(old), _lines(new), _AROUND)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return DefinitionDiff(described, lines if any(part.kind in ("added", "removed") for part in lines) else ())


def _read(text: str) -> dict[str, object]:
    if len(text) > LARGEST:
        raise ValueError(f"it has more than {LARGEST // 1024} KiB")
    value = decode(text.encode())
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _lines(value: object) -> list[str]:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).split("\n")


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _parts(before: list[str], after: list[str], around: int) -> tuple[DiffPart, ...]:
    """Return the parts, with the unchanged ones shortened to the text around a change."""
    parts: list[DiffPart] = []
    shown: dict[PartKind, int] = {}
    changes = compared(before, after)
    for number, (kind, texts) in enumerate(changes):
        left_out = 0
        if kind == "same":
            head = around if number else 0
            tail = around if number < len(changes) - 1 else 0
            if len(texts) > head + tail + 1:
                left_out = len(texts) - head - tail
                _show(parts, "same", texts[:head])
                parts.append(DiffPart("left out", (), left_out))
                texts = texts[len(texts) - tail :]
        room = max(0, _SHOWN - shown.get(kind, 0))
        _show(parts, kind, texts[:room])
        if len(texts) > room:
            parts.append(DiffPart("left out", (), len(texts) - room))
        shown[kind] = shown.get(kind, 0) + len(texts[:room])
    return tuple(parts)


def _show(parts: list[DiffPart], kind: PartKind, texts: Sequence[str]) -> None:
    if texts:
        parts.append(DiffPart(kind, tuple(map(_cut, texts)), len(texts)))


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}… ({len(text) - _WIDTH} more characters)"


def compared(before: Sequence[str], after: Sequence[str]) -> list[tuple[PartKind, Sequence[str]]]:
    """Return equal, removed and added runs, in order; exact unless there are very many changes (Myers 1986)."""
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    most = min(len(before), len(after)) - head
    while tail < most and before[len(before) - 1 - tail] == after[len(after) - 1 - tail]:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    middle = _shortest(old, new) if old and new else None
    if middle is None:
        middle = [("removed", old), ("added", new)]
    rest = before[len(before) - tail :] if tail else ()
    found: list[tuple[PartKind, Sequence[str]]] = [("same", before[:head]), *middle, ("same", rest)]
    return [(kind, texts) for kind, texts in found if texts]


def _shortest(old: Sequence[str], new: Sequence[str]) -> list[tuple[PartKind, Sequence[str]]] | None:
    """Return the shortest way from `old` to `new`; None if it takes too many steps to find."""
    furthest = {1: 0}
    trace: list[dict[int, int]] = []
    steps = 0
    for changes in range(min(_CHANGES, len(old) + len(new)) + 1):
        trace.append(dict(furthest))
        for diagonal in range(-changes, changes + 1, 2):
            down = diagonal == -changes or (diagonal != changes and furthest[diagonal - 1] < furthest[diagonal + 1])
            x = furthest[diagonal + 1] if down else furthest[diagonal - 1] + 1
            y = x - diagonal
            begun = x
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x += 1
                y += 1
            steps += x - begun + 1
            furthest[diagonal] = x
            if x >= len(old) and y >= len(new):
                return _way(old, new, trace)
        if steps > _STEPS:
            return None
    return None


def _way(
    old: Sequence[str], new: Sequence[str], trace: Sequence[dict[int, int]]
) -> list[tuple[PartKind, Sequence[str]]]:
    """Go back over the furthest points, and return the parts in order; neighbours of one kind are joined."""
    steps: list[tuple[PartKind, str]] = []
    x, y = len(old), len(new)
    for changes in range(len(trace) - 1, -1, -1):
        furthest = trace[changes]
        diagonal = x - y
        down = diagonal == -changes or (diagonal != changes and furthest[diagonal - 1] < furthest[diagonal + 1])
        from_x = furthest[diagonal + 1] if down else furthest[diagonal - 1]
        from_y = from_x - (diagonal + 1 if down else diagonal - 1)
        while x > max(from_x, 0) and y > max(from_y, 0) and (not changes or (x, y) != _after(from_x, from_y, down)):
            x -= 1
            y -= 1
            steps.append(("same", old[x]))
        if changes:
            steps.append(("added", new[from_y]) if down else ("removed", old[from_x]))
            x, y = from_x, from_y
    return _joined(steps[::-1])


def _after(x: int, y: int, down: bool) -> tuple[int, int]:
    return (x, y + 1) if down else (x + 1, y)


def _joined(steps: Sequence[tuple[PartKind, str]]) -> list[tuple[PartKind, Sequence[str]]]:
    joined: list[tuple[PartKind, list[str]]] = []
    for kind, text in steps:
        if joined and joined[-1][0] == kind:
            joined[-1][1].append(text)
        else:
            joined.append((kind, [text]))
    return [(kind, texts) for kind, texts in joined]
