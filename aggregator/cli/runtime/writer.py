"""The one way to a terminal: what commands print, with an escape for each character that a terminal would act on.

Law: commands print with `say`, with `Screen` of `screen.py` and the questions of `prompts.py`, with nothing else. Held
by tests/test_printing.py.
"""

import io
import sys
from typing import IO


def say(*values: object, file: IO[str] | None = None, end: str = "\n", flush: bool = False) -> None:
    """Print values as `print` does, on stdout or elsewhere; JSON stays the same JSON."""
    print(as_shown(" ".join(map(str, values))), file=file, end=end, flush=flush)


def as_shown(text: str) -> str:
    """Return a text as it may go to a terminal: line feeds stay, what else is not seen becomes an escape of JSON."""
    if all(line.isprintable() for line in text.split("\n")):
        return text
    from aggregator.domain.text.invisible import visible

    return visible(text)


class VisibleStdout(io.TextIOBase):
    """Standard output as a stream, for writers of whole files."""

    def write(self, text: str) -> int:
        """Print a text; a carriage return and its line feed are in the same one."""
        say(text, end="")
        return len(text)

    def flush(self) -> None:
        """Flush the printed text."""
        sys.stdout.flush()
