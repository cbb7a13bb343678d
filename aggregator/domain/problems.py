"""A problem in an operator's file: its place, the fault and the fix."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Problem:
    """One complaint about one place in a file. `error` means that the entry (or the file) is not used."""

    file: str
    where: str  # the path inside the file, such as mcpServers.github.timeout; empty for the whole file
    message: str  # one plain sentence
    fix: str  # another: what to do about it
    severity: Literal["error", "warning"]
    server: str | None = None  # the id of the server it costs or concerns

    def __str__(self) -> str:
        """Return one line a tired operator can read."""
        place = f"{self.file}: {self.where}" if self.where else self.file
        return _one_line(f"{self.severity}: {place}: {self.message} {self.fix}".rstrip())


def _one_line(text: str) -> str:
    """Return a text without line breaks, terminal escapes or lone surrogates: any file may hold them."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
