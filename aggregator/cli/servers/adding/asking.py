"""Questions to the user at the terminal: the values that a source needs, and whether to go on."""

import sys
from getpass import getpass

import typer

from aggregator.cli.runtime.prompts import agreed, prompted
from aggregator.cli.runtime.tables import one_line
from aggregator.cli.runtime.writer import as_shown, say
from aggregator.packages.plan import AskedValue

_ROUNDS = 20


def at_terminal() -> bool:
    """Tell whether there is a user who can answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask_value(question: AskedValue) -> list[str]:
    """Return the user's answer, empty for no answer; a secret is not echoed."""
    say(one_line(_said(question)), file=sys.stderr)
    answers: list[str] = []
    for _ in range(_ROUNDS):
        more = "Another, or Enter to go on" if answers else f"Value or ${{...}}, or Enter for ${{{question.variable}}}"
        answer = _hidden(more) if question.secret else prompted(more, "", show_default=False, err=True)
        if not answer:
            break
        fault = question.fault(answer)
        if fault is not None:
            say(f"That does not fit: {one_line(fault)}.", file=sys.stderr)
            continue
        answers.append(answer)
        if not question.repeated:
            break
    return answers


def _hidden(words: str) -> str:
    # The terminal shows nothing from before the words appear, so that not even a quick paste is seen.
    try:
        return getpass(as_shown(f"{words}: "), stream=sys.stderr)
    except EOFError:
        raise typer.Abort from None


def confirmed(what: str) -> bool:
    """Tell whether the user agrees; no answer means no."""
    return agreed(what, err=True)


def _said(question: AskedValue) -> str:
    description = f": {question.description.rstrip('.')}." if question.description else ""
    choices = f" One of {', '.join(question.choices)}." if question.choices else ""
    return f"It needs {question.place}{description}{choices}"
