"""Questions at a terminal."""

import sys

import typer


def at_terminal() -> bool:
    """Return whether a person is there to answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def yes(question: str) -> bool:
    """Ask a question whose answer is no unless a person says yes."""
    return typer.confirm(question, default=False)


def text(question: str, default: str) -> str:
    """Ask for a text; an empty answer is the default."""
    answer: str = typer.prompt(question, default=default)
    return answer.strip()
