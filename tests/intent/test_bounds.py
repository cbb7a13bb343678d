"""A message of any length and make is read in bounded time: work grows with its length at most, up to a bound."""

import re
import sys
import time
from functools import cached_property
from itertools import chain
from types import FrameType

import pytest

from aggregator.intent.match import abroad as intent_abroad
from aggregator.intent.match import asks as intent_asks
from aggregator.intent.match import clauses as intent_clauses
from aggregator.intent.match import explicit as intent_calls
from aggregator.intent.match import held as intent_held
from aggregator.intent.match import keywords as intent_keywords
from aggregator.intent.match import languages as intent_languages
from aggregator.intent.match import names as intent_names
from aggregator.intent.match import nearest as intent_nearest
from aggregator.intent.match import phrasing as intent_manner
from aggregator.intent.match import places as intent_places
from aggregator.intent.match import sentences as intent_sentences
from aggregator.intent.match import signs as intent_signs
from aggregator.intent.match import slots as intent_slots
from aggregator.intent.match import text as intent_text
from aggregator.intent.match.language_row import LanguageRow
from aggregator.intent.match.text import HEAD, TAIL, read
from tests.intent.message_table import sample_catalogs

_READ = HEAD + TAIL
_UNITS = [
    *(
        "用",
        "用 x 工具",
        "帮我一下",
        "不要再去",
        "天气",
        "名为",
        "use the big search tool ",
        "call create_isue. ",
        "a_b.",
    ),
    *(
        "don't ever just ",
        "please ",
        "@a ",
        "`",
        "```",
        '"',
        "((",
        "http://",
        "and x ",
        "a",
        " ",
        "\n",
        "> ",
        "ﷺ",
        "\ud800",
    ),
]
_RUNS = ("用", "不要再去", "use ", "don't ever just ", "a_b.", "and x ", "to just to ", '"', "`", "((", "a", " a", "的")
_MODULES = (
    intent_abroad,
    intent_asks,
    intent_calls,
    intent_clauses,
    intent_held,
    intent_keywords,
    intent_manner,
    intent_names,
    intent_nearest,
    intent_places,
    intent_sentences,
    intent_signs,
    intent_slots,
    intent_text,
)
_PATTERNS = (
    {
        f"{module.__name__}.{name}": pattern
        for module in _MODULES
        for name, pattern in vars(module).items()
        if isinstance(pattern, re.Pattern)
    }
    | {
        f"{row.code}.{name}": getattr(row, name)
        for row in vars(intent_languages).values()
        if isinstance(row, LanguageRow)
        for name, kind in vars(LanguageRow).items()
        if isinstance(kind, cached_property) and isinstance(getattr(row, name), re.Pattern)
    }
    | {
        f"{row.code}.says-{number}": pattern
        for row in vars(intent_languages).values()
        if isinstance(row, LanguageRow)
        for number, pattern in enumerate(chain.from_iterable(row.says))
    }
)


def _work(message: str) -> int:
    """Return how many functions, ours and built-in ones, are called to match a message."""
    sample = sample_catalogs()["work"]
    count = 0

    def counted(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += 1

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        sample.match(message)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("unit", _UNITS, ids=range(len(_UNITS)))
def test_work_grows_with_length_at_most_and_then_no_more(unit: str) -> None:
    """A2: of 100,000 characters no more is read than of 6,000, and four times the text is not ten times the work."""
    _work(unit)
    quarter, whole, much = (_work(unit * (length // len(unit))) for length in (_READ // 4, _READ, 100_000))
    assert whole <= 10 * quarter + 2_000
    assert much <= 1.5 * whole + 2_000


@pytest.mark.parametrize("name", _PATTERNS)
def test_no_pattern_backtracks_without_end(name: str) -> None:
    """Four times the text takes no more than four times as long, with plenty of room; so short a time is none."""
    pattern = _PATTERNS[name]
    for unit in _RUNS:
        small, large = (_seconds(pattern, read(unit * (size // len(unit))).plain) for size in (_READ // 4, _READ))
        assert large < max(40 * small, 0.05), (unit, small, large)


def _seconds(pattern: re.Pattern[str], text: str) -> float:
    start = time.process_time()
    for found in pattern.finditer(text):
        assert found.end() >= found.start()
    return time.process_time() - start


def test_the_middle_of_a_long_message_is_not_read() -> None:
    sample = sample_catalogs()["city"]
    filling = "word " * 20_000
    assert sample.match(f"call maps_weather {filling}").intent == "mcp"
    assert sample.match(f"{filling} call maps_weather").intent == "mcp"
    assert sample.match(f"{filling} call maps_weather {filling}").intent == "none"


def test_a_word_that_is_cut_is_not_read() -> None:
    sample = sample_catalogs()["city"]
    assert sample.match("x" * (HEAD - 4) + " timezone" + " y" * TAIL).intent == "none"
    assert sample.match("x" * HEAD + " " + "z" * TAIL + "time zone" + "y" * (TAIL - 9)).intent == "none"
