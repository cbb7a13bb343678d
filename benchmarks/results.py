"""Large results: what the beginning, pages and searches cost, and the laws of them over 100,000 random results."""

import json
import tracemalloc
from collections.abc import Callable, Iterator
from random import Random
from statistics import mean, median
from time import perf_counter
from typing import Any, Final

from aggregator.domain.text.tokens import estimate
from aggregator.results.read.document import ResultDocument
from aggregator.results.read.read import read_page
from aggregator.results.read.shorten import Shortened, shorten
from benchmarks.report import Table
from tests.results.laws import check_all
from tests.results.shapes import any_result

_SHAPES: Final = 20_000
_MOST: Final = 10_000
_PREVIEW: Final = 2_000


def measure(rounds: int, seed: int) -> Iterator[Table]:
    """Yield the costs of large results, then what the laws found in `rounds` times 20,000 random ones."""
    yield _costs(rounds)
    yield _laws(rounds * _SHAPES, seed)


def _costs(rounds: int) -> Table:
    texts = {
        "JSON, 333 kB": _rows(333_214, indent=None),
        "JSON with line breaks, 333 kB": _rows(333_214, indent=2),
        "Markdown, 333 kB": _markdown(333_214),
        "one word, 1 MB": "x" * 1_000_000,
        "JSON, 17 MB": _rows(17_000_000, indent=None),
        "JSON, 50 MB": _rows(50_000_000, indent=None),
        "text, 50 MB": _markdown(50_000_000),
    }
    return Table(
        f"Large results (median of {rounds})",
        ("result", "shown tokens", "of about", "shorten", "memory", "page in the middle", "grep of a word", "path"),
        [(name, *_cost(text, rounds)) for name, text in texts.items()],
    )


def _cost(text: str, rounds: int) -> Iterator[str]:
    result = {"content": [{"type": "text", "text": text}]}
    shortened = shorten(result, _MOST, _PREVIEW)
    assert shortened is not None, "the texts are large"
    document, middle = shortened.document, len(text) // 2
    yield f"{estimate(shortened.blocks[0]['text']):,}"
    yield f"{shortened.tokens:,}"
    yield _median(lambda: shorten(result, _MOST, _PREVIEW), rounds)
    yield f"{_memory(result) / len(text):.1f} x"
    yield _median(lambda: read_page(ResultDocument.of(result), offset=middle), rounds)
    yield _median(lambda: read_page(document, grep=r"number 9{9}\b"), rounds)
    if not text.startswith("["):
        yield ""
        return
    yield _median(lambda: read_page(document, path="[100:103].title"), rounds)


def _memory(result: dict[str, Any]) -> int:
    """Return the most bytes that were taken beside the result at one time."""
    tracemalloc.start()
    shorten(result, _MOST, _PREVIEW)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def _median(work: Callable[[], object], rounds: int) -> str:
    times = []
    for _ in range(rounds):
        started = perf_counter()
        work()
        times.append(perf_counter() - started)
    return f"{median(times) * 1000:,.1f} ms"


def _laws(shapes: int, seed: int) -> Table:
    cut: list[Shortened] = []
    started = perf_counter()
    for number in range(shapes):
        random = Random(f"{seed}/{number}")  # noqa: S311
        result = any_result(random)
        try:
            shortened = check_all(result, random)
        except Exception as problem:
            problem.add_note(f"result {number} of seed {seed}")
            raise
        if shortened is not None:
            cut.append(shortened)
    took = perf_counter() - started
    row = (
        f"{shapes:,}",
        f"{len(cut):,}",
        f"{mean(len(shortened.document.text) for shortened in cut):,.0f}",
        f"{mean('characters;' not in shortened.about for shortened in cut):.0%}",
        f"{took:,.0f} s",
    )
    return Table(
        "Random results: every byte read back, every page within its limit, no character cut",
        ("results", "cut", "characters of those", "cut at an element that is counted", "took"),
        [row],
    )


def _rows(size: int, indent: int | None) -> str:
    random, length = Random(1), 0  # noqa: S311
    rows: list[str] = []
    while length < size:
        number = len(rows)
        row = {"id": number, "title": f"Login fails, number {number}", "body": "It fails. " * random.randrange(20)}
        rows.append(json.dumps({**row, "user": {"name": "飞书"}}, indent=indent))
        length += len(rows[-1]) + 2
    return f"[{', '.join(rows)}]"


def _markdown(size: int) -> str:
    part = "## Section\n\nA paragraph of some words. Another sentence, number 7.\n\n- an item\n- another\n\n"
    return part * (size // len(part) + 1)
