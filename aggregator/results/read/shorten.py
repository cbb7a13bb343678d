"""The beginning of a result that is too large for a model: the blocks shown, the start of the rest, and words for its
size.

Law: only known numbers are named. A count that would take long is omitted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from aggregator.domain.bounds.small import is_small
from aggregator.domain.text.tokens import TOKENS_OF_CHARACTER, estimate, estimate_long
from aggregator.results.read.document import SEPARATOR, ResultDocument, text_of
from aggregator.results.read.forms import Form, TextSpan
from aggregator.results.read.nesting import Nesting
from aggregator.results.read.outline import MOST_TOKENS, outline
from aggregator.results.read.page_end import page_of
from aggregator.results.read.values import NoValue, opened
from aggregator.wire.codec import encode

# What is left of the preview for the words around it: `about`, the handle, and how to read on.
NOTE_TOKENS: Final = 160
# A beginning of less than this says nothing.
_LEAST: Final = 20
# Items that are counted, as the ones that are shown let expect: each takes 50 bytes while they are.
_COUNTED_AT_MOST: Final = 1_000_000
_NAMED_AT_MOST: Final = 60
_COMPARED: Final = 100


@dataclass(frozen=True, slots=True)
class Shortened:
    """The beginning of a result.

    `blocks` are its content up to the cut, with every image, sound, blob and link; the last text among them may be the
    beginning of a block. `next` is the offset in the text of `document` at which the rest begins. `about` says how much
    is shown and how much there is, as "the first 120 of 4,213 items; 333,214 characters, about 101,901 tokens".
    `tokens` is the estimate for the whole text, `outline` what there is, if the beginning says little.
    """

    blocks: tuple[dict[str, Any], ...]
    next: int
    about: str
    tokens: int
    document: ResultDocument = field(repr=False)
    outline: str = ""


def fits(result: Mapping[str, Any], most_tokens: int) -> bool:
    """Tell at once whether a result surely has no more than `most_tokens`, or must not be cut.

    False says only that `shorten` has to look. Takes microseconds, however large the result is.
    """
    if result.get("isError") is True or most_tokens <= 0:
        return True
    structured, characters = result.get("structuredContent"), 0
    if structured is not None:
        if not is_small(structured, characters=most_tokens):
            return False
        characters = len(encode(structured))
    content = result.get("content")
    for block in content if isinstance(content, list) else ():
        characters += len(text_of(block) or "") + 1
        if characters > most_tokens:
            return False
    return characters * TOKENS_OF_CHARACTER <= most_tokens


def shorten(result: Mapping[str, Any], most_tokens: int, preview_tokens: int) -> Shortened | None:
    """Return the beginning of a result whose text has more than `most_tokens`; None to pass it on whole.

    The text of the blocks and the outline has at most `preview_tokens` less `NOTE_TOKENS`, as estimated. Errors are
    never cut. Takes long for a large result: call it in a thread unless `fits` returns True.
    """
    if fits(result, most_tokens):
        return None
    document = ResultDocument.of(result)
    if len(document.text) * TOKENS_OF_CHARACTER <= most_tokens:
        return None
    tokens = estimate_long(document.text)
    if tokens <= most_tokens:
        return None
    budget = max(preview_tokens - NOTE_TOKENS, _LEAST)
    end = page_of(document.text, document.spans, document.quotes, 0, budget)
    if end == len(document.text):
        return None
    said = outline(document, end) if budget > 2 * MOST_TOKENS else ""
    if said:
        end = page_of(document.text, document.spans, document.quotes, 0, budget - estimate(said))
    about = f"{shown_of(document, end)}; {size_of(document, tokens)}"
    return Shortened(tuple(_blocks(document, end)), end, about, tokens, document, said)


def _blocks(document: ResultDocument, end: int) -> list[Any]:
    """Return the content up to an offset of the text, and all that is no text."""
    content = document.result.get("content")
    blocks = list(content) if isinstance(content, list) else []
    kept: dict[int, Any] = {index: block for index, block in enumerate(blocks) if text_of(block) is None}
    for part in document.parts:
        if part.start >= end:
            break
        shown = document.text[part.start : min(part.end, end)]
        if part.block is None:
            kept[len(blocks)] = {"type": "text", "text": shown}
        elif part.end <= end:
            kept[part.block] = blocks[part.block]
        else:
            # A part of an embedded resource is none that its type could be read by.
            noted = {name: blocks[part.block][name] for name in ("annotations",) if name in blocks[part.block]}
            kept[part.block] = {"type": "text", "text": shown, **noted}
    return [kept[index] for index in sorted(kept)]


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
