"""The beginning of a result that is too large for a model: the blocks shown, and the start of the rest."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aggregator.domain.bounds.small import is_small
from aggregator.domain.text.tokens import TOKENS_OF_CHARACTER, estimate, estimate_long
from aggregator.results.read.document import ResultDocument, text_of
from aggregator.results.read.extent import shown_of, size_of
from aggregator.results.read.outline import MOST_TOKENS, outline
from aggregator.results.read.page_end import page_of
from aggregator.wire.codec import encode

# What is left of the preview for the words around it: `about`, the handle, and how to read on.
NOTE_TOKENS: Final = 160
# A beginning of less than this says nothing.
_LEAST: Final = 20


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
