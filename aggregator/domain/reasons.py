"""The reason for a server's failure: our own words and, kept apart, the server's text.

Law: hosts get our words alone. The text form of a reason omits the server's text.
"""

from typing import Final, Self

# Characters of a server's words that are shown with a reason.
SAID_AT_MOST: Final = 1_000
# More are kept than shown, since redaction does not recognise half a secret (`aggregator.redaction.beginning`).
SAID_KEPT: Final = 2 * SAID_AT_MOST + 1
# Separates our words from the server's text, for operators.
LAST_WORDS: Final = "; it last said: "


class Reason(str):
    """Our words why something failed. `said`: the words of the server, for operators alone; empty if there are none.

    Law: `said` may hold secrets. It is longer than what is shown of it, so that no half of a secret is shown.
    """

    __slots__ = ("said",)
    said: str

    def __new__(cls, ours: str, said: str = "") -> Self:
        made = super().__new__(cls, ours)
        made.said = said[:SAID_KEPT]
        return made


def said_in(reason: str) -> str:
    """Return the words of the server that came with a reason; empty for a text that is ours alone."""
    return reason.said if isinstance(reason, Reason) else ""


def for_operator(ours: str, said: str) -> str:
    """Return our words with the server's text, for logs, commands and the console."""
    return f"{ours.rstrip('.')}{LAST_WORDS}{said}" if said else ours
