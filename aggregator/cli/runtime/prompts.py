"""Questions at a terminal, with an escape for each character in them that a terminal would act on."""

import typer

from aggregator.cli.runtime.writer import as_shown


def prompted(question: str, default: str, *, show_default: bool = True, err: bool = False) -> str:
    """Ask, and return the user's input; without any, the default."""
    answer: str = typer.prompt(as_shown(question), default=default, show_default=show_default, err=err)
    return answer


def agreed(question: str, *, err: bool = False) -> bool:
    """Ask a question; the answer is no unless the user says yes."""
    return bool(typer.confirm(as_shown(question), default=False, err=err))
