"""Questions at a terminal."""

import sys
from collections.abc import Callable
from typing import TypeVar

import typer

from aggregator.cli.runtime.tables import one_line
from aggregator.domain.errors import OperatorError

T = TypeVar("T")


def at_terminal() -> bool:
    """Return whether a person is there to answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def yes(question: str) -> bool:
    """Ask a question whose answer is no unless a person says yes."""
    return typer.confirm(question, default=False)


def answered(question: str, default: str, read: Callable[[str], T]) -> T:
    """Ask until an answer can be read, and return what it says; an empty answer is the default.

    After a wrong answer the fault is printed. `read` raises OperatorError for one.
    """
    while True:
        answer: str = typer.prompt(question, default=default)
        try:
            return read(answer.strip() or default)
        except OperatorError as error:
            print(one_line(str(error)))
