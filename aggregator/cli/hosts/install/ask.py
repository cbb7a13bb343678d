"""The question before files are written."""

import sys
from typing import Literal

Answer = Literal["yes", "no", "not asked"]


def ask(question: str, yes: bool) -> Answer:
    """Return whether a person agrees; without a terminal, only `yes` does."""
    if yes:
        return "yes"
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "not asked"
    print(f"{question} [y/N] ", end="", flush=True)
    try:
        answer = sys.stdin.readline()
    except (UnicodeDecodeError, KeyboardInterrupt):
        print()
        return "no"
    return "yes" if answer.strip().lower() in ("y", "yes") else "no"
