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
    """Return whether a person is there to answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def yes(question: str) -> bool:
    """Ask a question whose answer is no unless a person says yes."""
    return agreed(question)


def answered(question: str, default: str, read: Callable[[str], T]) -> T:
    """Ask until an answer can be read, and return what it says; an empty answer is the default.

    After a wrong answer the fault is printed. `read` raises OperatorError for one.
    """
    while True:
        answer = prompted(question, default)
        try:
            return read(answer.strip() or default)
        except OperatorError as error:
            say(one_line(str(error)))
