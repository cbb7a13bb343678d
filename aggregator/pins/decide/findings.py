"""Findings: the results of comparing two definitions, by class and as sentences. This file decides.

`Findings` gathers; `sentence_about` makes the sentence of it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aggregator.config.server_parts import ChangeClass
from aggregator.domain.text.invisible import escaped
from aggregator.pins.decide.values import Flag
from aggregator.wire.codec import encode_sorted

# Names told in one sentence, and characters of each.
_NAMES: Final = 5
_NAME: Final = 60
# Characters of texts whose words are compared.
_LONGEST: Final = 96 * 1024
# A value of more words, or characters, can talk a model into something; identifiers have fewer.
_WORDS: Final = 3
_CHARACTERS: Final = 40
_WORD: Final = re.compile(r"[^\W\d_]{2,}")
# Names of fields with `tests` and `Id` in them: words begin with capitals, too.
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")

_FLAGGED: Final[Mapping[Flag, str]] = {
    "hidden_characters": "it has characters that cannot be seen",
    "look_alike": "it looks like another server's tool",
    "shadowing": "it speaks of another server's tool",
}


@dataclass(slots=True)
class Findings:
    """The classes of a change and its description: arguments by kind of change, and other sentences."""

    classes: set[ChangeClass] = field(default_factory=set)
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    required: list[str] = field(default_factory=list)
    optional: list[str] = field(default_factory=list)
    wider: list[str] = field(default_factory=list)
    narrower: list[str] = field(default_factory=list)
    steered: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def add(self, change: ChangeClass, sentence: str = "") -> None:
        """Add a class, and its sentence unless it is already there."""
        self.classes.add(change)
        if sentence and sentence not in self.told:
            self.told.append(sentence)


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal; 1, 1.0 and true are not."""
    return one is other or (type(one) is type(other) and encode_sorted(one) == encode_sorted(other))


def same_but_for_spaces(one: Any, other: Any) -> bool:
    """Return whether two texts differ in white space between their words at most; False for very long ones."""
    if not isinstance(one, str) or not isinstance(other, str) or max(len(one), len(other)) > _LONGEST:
        return False
    return one.split() == other.split()


def new_prose(before: Any, after: Any) -> bool:
    """Return whether a value brings a text, as a name or a value, that a model could read as a sentence."""
    known = set(texts(before))
    return any(text not in known and _is_prose(text) for text in texts(after))


def texts(value: Any) -> Iterable[str]:
    """Yield every text in a value, names of members too. Loops, never recurses."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            yield from (name for name in one if isinstance(name, str))
            waiting.extend(one.values())
        elif isinstance(one, list | tuple):
            waiting.extend(one)


def _is_prose(text: str) -> bool:
    if len(text) > _CHARACTERS:
        return True
    if text.isascii():
        return len(_WORD.findall(_HUMP.sub(" ", text))) > _WORDS
    # Scripts without spaces between words say much in few characters.
    return len(text) > _CHARACTERS // 4 or len(_WORD.findall(text)) > _WORDS


def sentence_about(findings: Findings, flags: Iterable[Flag], first: str = "") -> str:
    """Return the sentence about a change, which begins with `first`."""
    parts = [first] if first else []
    parts += findings.told
    parts += _arguments("one more argument", "more arguments", findings.added)
    parts += _arguments("one argument less", "arguments less", findings.removed)
    for names, singular, plural in (
        (findings.required, "is required now", "are required now"),
        (findings.optional, "is no longer required", "are no longer required"),
        (findings.wider, "may be more than before", "may be more than before"),
        (findings.narrower, "may be less than before", "may be less than before"),
        (findings.steered, "is told what to be", "are told what to be"),
    ):
        told = list(dict.fromkeys(names))
        if told:
            parts.append(f"{_places(told)} {singular if len(told) == 1 and told[0] else plural}")
    parts += (_FLAGGED[flag] for flag in _FLAGGED if flag in set(flags))
    return ", and ".join((", ".join(parts[:-1]), parts[-1])) if len(parts) > 1 else "".join(parts)


def _arguments(one: str, several: str, names: Sequence[str]) -> list[str]:
    told = list(dict.fromkeys(names))
    if not told:
        return []
    return [f"it takes {one if len(told) == 1 else f'{len(told)} {several}'}: {shown(told)}"]


def _places(paths: Sequence[str]) -> str:
    """Return the arguments at these paths; the empty path stands for all arguments together."""
    whole = ["its arguments as a whole"] if "" in paths else []
    named = [path for path in paths if path]
    return ", ".join([*whole, *([shown(named)] if named else [])])


def shown(names: Sequence[str]) -> str:
    """Return names that a server chose, a few of them, each on one line and short."""
    told = ", ".join(f"`{one_line(name)}`" for name in names[:_NAMES])
    return told if len(names) <= _NAMES else f"{told} and {len(names) - _NAMES} more"


def one_line(name: str) -> str:
    """Return a text of a server on one line, short, with an escape for what cannot be seen."""
    plain = escaped(name).replace("`", "'")
    return plain if len(plain) <= _NAME else f"{plain[: _NAME - 1]}…"
