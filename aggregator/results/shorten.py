"""The beginning of a result that is too large for a model: which blocks are shown, and where the rest begins."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aggregator.domain.text.tokens import estimate
from aggregator.results.document import ResultDocument

# What is left of the preview for the words around it: `about`, the handle, and how to read on.
NOTE_TOKENS: Final = 160


@dataclass(frozen=True, slots=True)
class Shortened:
    """The beginning of a result.

    `blocks` are its content up to the cut, with every image, sound, blob and link; the last text among them is the
    beginning of a block. `next` is the offset in the text of `document` at which the rest begins. `about` says how much
    is shown and how much there is, as "the first 120 of 4,213 items (of 333,214 characters, about 101,901 tokens)".
    `tokens` is the estimate for the whole text.
    """

    blocks: tuple[dict[str, Any], ...]
    next: int
    about: str
    tokens: int
    document: ResultDocument


def shorten(result: Mapping[str, Any], most_tokens: int, preview_tokens: int) -> Shortened | None:
    """Return the beginning of a result whose text has more than `most_tokens`; None where it is to be passed on whole.

    Blocks and a note of up to `NOTE_TOKENS` have at most `preview_tokens` as estimated. Errors are never cut. Takes
    long for a large result: call it in a thread.
    """
    if result.get("isError") is True or most_tokens <= 0:
        return None
    document = ResultDocument.of(result)
    tokens = estimate(document.text)
    if tokens <= most_tokens:
        return None
    cut = preview_tokens
    return Shortened(
        ({"type": "text", "text": document.text[:cut]},),
        cut,
        f"the first {cut:,} of {len(document.text):,} characters, about {tokens:,} tokens",
        tokens,
        document,
    )
