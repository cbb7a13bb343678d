"""Words for the shown and the whole size of a result: "the first 120 of 4,213 items of `data`".

Law: only known numbers are named. A count that would take long is omitted.
"""

from typing import Any, Final

import msgspec

from aggregator.results.read.document import SEPARATOR, ResultDocument
from aggregator.results.read.forms import Form, TextSpan
from aggregator.results.read.nesting import Nesting
from aggregator.results.read.values import NoValue, opened

# Items that are counted, as the ones that are shown let expect: each takes 50 bytes while they are.
_COUNTED_AT_MOST: Final = 1_000_000
_NAMED_AT_MOST: Final = 60
_COMPARED: Final = 100


def shown_of(document: ResultDocument, end: int) -> str:
    """Say how much of a document its beginning up to an offset is."""
    parts = document.parts
    place = next(number for number, part in enumerate(parts) if end <= part.end + len(SEPARATOR))
    of_text = f" of text {place + 1:,} of {len(parts):,}" if len(parts) > 1 else ""
    if end >= parts[place].end:
        return f"the first {place + 1:,} of {len(parts):,} texts"
    span = next(span for span in document.spans if span.start < end <= span.end)
    return f"{_of_span(document, span, end) or f'the first {end - parts[place].start:,} characters'}{of_text}"


def size_of(document: ResultDocument, tokens: int) -> str:
    """Say how long the text of a document is."""
    return f"{len(document.text):,} characters, about {tokens:,} tokens"


def _of_span(document: ResultDocument, span: TextSpan, end: int) -> str:
    text = document.text
    if span.form is Form.JSON:
        return _of_json(document, span, end)
    if text[end - 1] not in "\r\n":
        return ""
    lines = text.count("\n", span.start, end)
    if span.form is Form.CSV or not lines:
        return ""
    every = text.count("\n", span.start, span.end) + (text[span.end - 1] != "\n")
    return f"the first {lines:,} of {every:,} lines"


def _of_json(document: ResultDocument, span: TextSpan, end: int) -> str:
    nesting = Nesting(document.text, span.start)
    nesting.go_to(end)
    if not nesting.open:
        return ""
    # Within an element that is cut itself, the one around it says how far that is.
    depth = len(nesting.open) - 1
    while depth and not nesting.open[depth].index:
        depth -= 1
    container = nesting.open[depth]
    if not container.index:
        return ""
    every = _count(document, span, nesting, depth, end)
    word = "items" if container.is_list else "members"
    path = nesting.path(depth)
    where = f" of `{path}`" if path and len(path) <= _NAMED_AT_MOST else ""
    if every is not None:
        return f"the first {container.index:,} of {every:,} {word}{where}"
    return f"the first {container.index:,} {word}{where}"


def _count(document: ResultDocument, span: TextSpan, nesting: Nesting, depth: int, end: int) -> int | None:
    """Return the number of elements of a container; None if counting is expensive."""
    container = nesting.open[depth]
    if (span.end - span.start) * container.index > _COUNTED_AT_MOST * (end - container.start):
        return None
    found: Any = document.raw(span)
    try:
        for above in nesting.open[:depth]:
            found = opened(found)[above.key]
        elements = opened(found)
    except (NoValue, LookupError, TypeError):
        return None
    # A name that stands twice in an object leads to the last.
    begins = document.text[container.start : container.start + _COMPARED].encode("utf-8", "surrogatepass")
    if isinstance(found, msgspec.Raw) and not begins.startswith(bytes(memoryview(found)[: len(begins)])):
        return None
    return len(elements) if len(elements) >= container.index else None
