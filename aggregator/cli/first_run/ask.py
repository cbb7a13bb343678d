"""Questions at a terminal."""

import sys
from collections.abc import Callable
from typing import TypeVar

from aggregator.cli.runtime.prompts import agreed, prompted
from aggregator.cli.runtime.tables import one_line
from aggregator.cli.runtime.writer import say
from aggregator.domain.errors import OperatorError

T = TypeVar("T")


def at_terminal() -> bool:
    """Tell whether a user can answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def yes(question: str) -> bool:
    """Ask a question; the answer is no unless the user says yes."""
    return agreed(question)


def answered(question: str, default: str, read: Callable[[str], T]) -> T:
    """Ask until the answer is valid, and return its value; an empty answer is the default.

    After an invalid answer the fault is printed. `read` raises OperatorError for one.
    """
    while True:
        answer = prompted(question, default)
        try:
            return read(answer.strip() or default)
        except OperatorError as error:
            say(one_line(str(error)))
