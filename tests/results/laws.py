"""Laws of every result: checked over random ones by the tests, and over 100,000 by `benchmarks results`."""

from collections.abc import Iterator
from random import Random
from typing import Any, Final

import msgspec

from aggregator.domain.text.tokens import estimate, estimate_long
from aggregator.results.read.document import SEPARATOR, ResultDocument, text_of
from aggregator.results.read.page_end import joined
from aggregator.results.read.read import BadRead, ResultPage, read_page
from aggregator.results.read.shorten import NOTE_TOKENS, Shortened, shorten

_PATTERNS: Final = ("login", "飞书", r"^\s*\"id", "x+y?$", r"\bparser\b", ".", "[", "a(?=b)", r"(a|aa)+$", "")
_PATHS: Final = (
    "[0]",
    "items[0:3].title",
    "$",
    "*",
    "[*].id",
    "a b",
    "[-1]",
    '["a.b1"]',
    "x[",
    "..",
    "[0].0.0",
    "result",
)


def check_all(result: dict[str, Any], random: Random) -> Shortened | None:
    """Check every law for one result, with limits by chance; return its beginning."""
    document = ResultDocument.of(result)
    again = ResultDocument.from_bytes(document.to_bytes())
    assert (again.result, again.text, again.parts) == (result, document.text, document.parts)
    most, preview = random.randrange(1, 600), NOTE_TOKENS + random.randrange(20, 400)
    shortened = shorten(result, most, preview)
    if shortened is None:
        everything = estimate(document.text) <= max(most, preview - NOTE_TOKENS)
        assert result.get("isError") is True or everything
    else:
        check_beginning(result, shortened, preview)
    limit = random.randrange(100, 500)
    start = shortened.next if shortened else 0
    assert "".join(page.body for page in pages(document, start, limit)) == document.text[start:]
    for asked in _asked(document, random):
        try:
            page = read_page(document, limit=limit, **asked)
        except BadRead:
            continue
        assert estimate(page.text) <= limit, asked
        assert page.next is None or page.next > asked.get("offset", 0), asked
    return shortened


def check_beginning(result: dict[str, Any], shortened: Shortened, preview: int) -> None:
    """Check that a beginning is one: a prefix of the text, all that is no text, and within its budget."""
    document, blocks = shortened.document, list(shortened.blocks)
    assert result.get("isError") is not True
    assert 0 < shortened.next < len(document.text)
    texts = [text for block in blocks if (text := text_of(block)) is not None]
    shown = SEPARATOR.join(texts)
    assert shown == document.text[: len(shown)]
    assert shortened.next - len(SEPARATOR) <= len(shown) <= shortened.next
    assert [block for block in blocks if text_of(block) is None] == [
        block for block in result["content"] if text_of(block) is None
    ]
    assert sum(map(estimate, texts)) <= preview - NOTE_TOKENS + len(texts)
    assert estimate(shortened.about) <= NOTE_TOKENS // 2
    assert shortened.tokens == estimate_long(document.text)
    check_end(document.text, shortened.next)


def check_end(text: str, at: int) -> None:
    """Check that no character is cut in two, where that can be helped."""
    assert text[at - 1 : at + 1] != "\r\n"
    assert not joined(text, at) or all(joined(text, place) for place in range(max(1, at - 20), at))


def pages(document: ResultDocument, start: int, limit: int, path: str | None = None) -> Iterator[ResultPage]:
    """Yield the pages from an offset to the end, each checked for its size."""
    at: int | None = start
    while at is not None:
        page = read_page(document, offset=at, limit=limit, path=path)
        assert estimate(page.text) <= limit
        assert page.next is None or page.next == at + len(page.body) > at
        at = page.next
        yield page


def _asked(document: ResultDocument, random: Random) -> Iterator[dict[str, Any]]:
    offset = random.randrange(len(document.text) + 1)
    yield {"offset": offset}
    yield {"grep": random.choice(_PATTERNS), "offset": random.choice((0, offset))}
    yield {"path": random.choice(_PATHS)}
    if isinstance(document.data, dict | list) or document.data is not msgspec.UNSET:
        yield {"path": random.choice(_PATHS), "grep": random.choice(_PATTERNS)}
