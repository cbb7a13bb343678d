"""The outcome of a program, in words for the model that wrote it."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from typing import Any, Final, Protocol

from aggregator.code.sandbox.forms import Lines
from aggregator.code.sandbox.refusal import Refusal
from aggregator.code.sandbox.syntax import lines_of

# Lines of the program that a traceback names, from its end.
_FRAMES: Final = 8
_LINE: Final = 200
_MESSAGE: Final = 8_000
# Characters of printed text after which an error is still read.
_SHORT: Final = 4_000
# The number of an exception of the program, with the type that it travels as (`classes_source`).
_OWN: Final = re.compile(r"\A\w+: '?\u2063\d+\u2063")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a program: its output, the text of its value or None, and why it failed, if it did.

    `calls`: how many it made.
    """

    printed: str
    value: str | None = None
    failure: str | None = None
    calls: int = 0

    @property
    def text(self) -> str:
        """The whole outcome as a model reads it."""
        printed = self.printed.rstrip("\n")
        if self.failure is not None and len(printed) > _SHORT:
            # In front of the part that may be cut.
            return f"{self.failure}\nBefore that it printed:\n{printed}"
        parts = [printed, self.value or "", self.failure or ""]
        return "\n".join(part for part in parts if part) or "The program ended without printing anything."


class CodeFrame(Protocol):
    """A line of a traceback, as the interpreter tells it."""

    @property
    def filename(self) -> str: ...

    @property
    def line(self) -> int: ...

    @property
    def function_name(self) -> str | None: ...


def value_text(value: Any) -> str | None:
    """Return the value of the last expression: a text unchanged, anything else as JSON; None for None."""
    if value is None:
        return None
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError):
        try:
            return repr(value)
        except RecursionError:
            return "(a value that is nested too deeply to be shown)"


def refused_text(refusal: Refusal, code: str) -> str:
    """Return why a program was not begun."""
    lines = lines_of(code)
    source = lines[refusal.line - 1].strip()[:_LINE] if refusal.line <= len(lines) else ""
    return (
        f"line {refusal.line}\n    {source}\nNotImplementedError: programs here cannot have {refusal.what}: "
        f"{refusal.instead}. No call was made."
    )


def raised_text(said: str) -> str:
    """Return an error with its type. An exception of the program's own class has the name of that class."""
    return _OWN.sub("", said)


def failure_text(said: str, frames: Sequence[CodeFrame], own: str, lines: Lines) -> str:
    """Return a traceback. `said` is the error with its type, `own` the file name of the program: only its lines are
    shown, and under no name of a file. `lines` are its author's.
    """
    mine = [frame for frame in frames if frame.filename == own]
    told = ["Traceback (most recent call last):"] if mine else []
    if len(mine) > _FRAMES:
        told.append(f"  ({len(mine) - _FRAMES} lines left out)")
    for frame in mine[-_FRAMES:]:
        inside = frame.function_name
        named = f", in {inside}" if inside and inside != "<module>" and not inside.startswith("_x_") else ""
        number, source = lines.of(frame.line)
        told.append(f"  line {number}{named}")
        if source and source.strip():
            told.append(f"    {source.strip()[:_LINE]}")
    left_out = len(said) - _MESSAGE
    told.append(said if left_out <= 0 else f"{said[:_MESSAGE]}… ({left_out} more characters)")
    return "\n".join(told)


def _plain(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return list(value)
    if isinstance(value, date | time | Decimal):
        return str(value)
    # An instance of a class of the program.
    attributes = getattr(value, "attributes", None)
    return attributes if isinstance(attributes, dict) else repr(value)
