"""The outline of a large result: short, true, and only if the beginning says little."""

import base64
import json
from random import Random
from typing import Any, Final

import pytest

from aggregator.domain.text.tokens import estimate
from aggregator.results.read.document import ResultDocument
from aggregator.results.read.outline import MOST_TOKENS
from aggregator.results.read.read import read_page
from aggregator.results.read.shorten import NOTE_TOKENS, shorten

MOST, PREVIEW = 3_000, 2_000
ROWS: Final = [{"id": number, "name": f"row {number}", "open": True} for number in range(3_000)]
WORDS: Final = "some words " * 3_000
PICTURE: Final = base64.b64encode(Random(1).randbytes(60_000)).decode()  # noqa: S311
BAD: Final = "2026-01-01 12:00:00 [error]"
LOG: Final = "\n".join(
    f"2026-01-01 12:00:00 [{'error' if number == 2_000 else 'WARNING' if number % 100 == 5 else 'INFO'}] step {number}"
    for number in range(3_000)
)
PAGE: Final = (
    f"<!DOCTYPE html><html><head><title>A &amp; B</title><style>{'a{b:c}' * 3_000}</style>"
    f"<script>if (a<b) {{ {'x=1;' * 9_000} }}</script></head><body>"
    "<h1>The <i>first</i> part</h1><p>Some <b>text</b>.</p>"
    + "".join(f"<h2>Part {number}</h2><p>{'word ' * 60}</p>" for number in range(100))
    + "</body></html>"
)


def outline_of(value: Any) -> list[str]:
    """Return the lines of the outline of a text, or of a value as JSON."""
    text = value if isinstance(value, str) else json.dumps(value)
    shortened = shorten({"content": [{"type": "text", "text": text}]}, MOST, PREVIEW)
    assert shortened is not None
    assert estimate(shortened.outline) <= MOST_TOKENS
    shown = sum(estimate(block["text"]) for block in shortened.blocks)
    assert shown + estimate(shortened.outline) <= PREVIEW - NOTE_TOKENS
    return shortened.outline.splitlines()


OUTLINES: Final[dict[str, tuple[Any, list[str]]]] = {
    "an answer around its items": (
        {"meta": {"took": 12}, "note": WORDS, "total": 3_000, "data": {"items": ROWS}, "next": None},
        [
            "meta: {took}",
            "note: text, 33,000 characters",
            "total: 3000",
            "data: {items}",
            "next: null",
            "meta.took: 12",
            "data.items: 3,000 items {id, name, open}",
            "data.items[0].id: 0",
            'data.items[0].name: "row 0"',
            "data.items[0].open: true",
        ],
    ),
    "a picture": (
        {"name": "a.png", "data": PICTURE, "size": 60_000},
        ['name: "a.png"', "data: base64, 80,000 characters", "size: 60000"],
    ),
    "JSON in JSON": (
        {"result": json.dumps({"rows": ROWS, "n": 3})},
        [
            f"result: JSON text, {{rows, n}}, {len(json.dumps({'rows': ROWS, 'n': 3})):,} characters",
            "result.rows: 3,000 items {id, name, open}",
            "result.n: 3",
            "result.rows[0].id: 0",
            'result.rows[0].name: "row 0"',
            "result.rows[0].open: true",
        ],
    ),
    "columns and rows": (
        {"columns": ["a", "b"], "rows": [[number, number * 2] for number in range(5_000)]},
        ['columns: ["a", "b"]', "rows: 5,000 items, each a list of 2"],
    ),
    "columns": (
        {"a": list(range(9_000)), "b": [f"x{number}" for number in range(9_000)], "c d": []},
        ["a: 9,000 items, 0 to 8999", 'b: 9,000 items, "x0" to "x8999"', '["c d"]: no items'],
    ),
    "a first item that is too large": (
        [{"id": 1, "body": WORDS, "page": PAGE}, {"id": 2}],
        [
            "2 items; the first:",
            "[0].id: 1",
            "[0].body: text, 33,000 characters",
            f"[0].page: HTML, {len(PAGE):,} characters",
        ],
    ),
    "many members": (
        {f"key-{number}": {"value": number, "of": "x" * 9} for number in range(3_000)},
        ["the whole: 3,000 members"],
    ),
    "JSON in a text": (
        json.dumps({"before": "x"}) + " " * 9_000 + WORDS,
        [],
    ),
    "words before an object": (
        "Found it:\n" + json.dumps({"note": WORDS, "rows": ROWS}),
        [
            "note: text, 33,000 characters",
            "rows: 3,000 items {id, name, open}",
            "rows[0].id: 0",
            'rows[0].name: "row 0"',
            "rows[0].open: true",
        ],
    ),
    "many members inside": (
        {"info": {"title": "A"}, "paths": {f"/p{number}": {"get": "x" * 50} for number in range(600)}},
        [
            "info: {title}",
            "paths: {/p0, /p1, /p2, /p3, /p4, /p5, /p6, /p7 and 592 more}",
            'info.title: "A"',
            "paths: 600 members",
            'paths["/p0"]: {get}',
            'paths["/p1"]: {get}',
            'paths["/p0"].get: text, 50 characters',
            'paths["/p1"].get: text, 50 characters',
        ],
    ),
    "a log in JSON lines": (
        "\n".join(json.dumps({"n": n, "level": "error" if n == 2_500 else "info"}) for n in range(3_000)),
        [
            "A log of 3,000 lines: 2,999 INFO, 1 ERROR",
            'The first error, at offset 71390: {"n": 2500, "level": "error"}',
            'The last line: {"n": 2999, "level": "info"}',
        ],
    ),
    "the output of a build": (
        "".join(f"[{n}/3000] Compiling module_{n}.c\n" for n in range(3_000)) + "a.c:10: error: no\n\nmake: Error 2",
        [
            "Lines that tell of errors: 2 of 3,003",
            "The first of them, at offset 105780: a.c:10: error: no",
            "The last line: make: Error 2",
        ],
    ),
    "lines": ("".join(f"{n},row\n" for n in range(6_000)), ["The last line: 5999,row"]),
    "sections": (
        "# Title\n\n" + "".join(f"## Part {n}\n\n{'word ' * 1_500}\n\n" for n in range(3)),
        ["offset 0: # Title", "offset 9: ## Part 0", "offset 7522: ## Part 1", "offset 15035: ## Part 2"],
    ),
    "base64": (PICTURE, ["base64, 80,000 characters"]),
    "a log": (
        LOG,
        [
            "A log of 3,000 lines: 2,969 INFO, 30 WARN, 1 ERROR",
            f"The first error, at offset {LOG.index(BAD)}: {BAD} step 2000",
            "The last line: 2026-01-01 12:00:00 [INFO] step 2999",
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTLINES)
def test_an_outline(name: str) -> None:
    value, expected = OUTLINES[name]
    assert outline_of(value) == expected


def test_of_a_page_the_headings_and_the_text() -> None:
    """Nothing of its style and script."""
    lines = outline_of(PAGE)
    assert lines[:3] == ["title: A & B", "h1: The first part", "h2: Part 0"]
    assert lines[-1].startswith("Text: Some text . word word")
    assert not [line for line in lines if "x=1" in line or "b:c" in line]


@pytest.mark.parametrize(
    "value",
    [ROWS, "\n".join(map(json.dumps, ROWS)), WORDS, "many words\n" * 40 + WORDS, "[" * 50_000],
    ids=["items", "JSON lines", "words", "a few lines", "brackets"],
)
def test_what_its_beginning_says_has_none(value: Any) -> None:
    assert outline_of(value) == []


def test_a_long_outline_ends_where_the_tokens_do() -> None:
    value = {f"member number {number}": {"inside": [WORDS], "more": {"deep": number}} for number in range(30)}
    lines = outline_of(value)
    assert lines[-1] == "..."
    assert lines[0] == '["member number 0"]: {inside, more}'


def test_text_that_looks_like_an_outline_of_something_else() -> None:
    """Names with line breaks, and values of every kind, keep one line each."""
    value = {"a\nb": WORDS, "c": "{broken", "d": float("nan"), "e": "x\ny", "f" * 500: 1}
    lines = outline_of(value)
    assert len(lines) == 5
    assert all(len(line) < 200 for line in lines)


def test_a_path_leads_into_a_json_text() -> None:
    document = ResultDocument.of(
        {"content": [{"type": "text", "text": json.dumps({"result": json.dumps({"rows": ROWS})})}]}
    )
    assert read_page(document, path="result.rows[2].name").body == "row 2"
    assert read_page(document, path="result.rows[0:2].id").body == "[0,\n 1]"
    broken = ResultDocument.of({"content": [{"type": "text", "text": json.dumps({"result": "{broken"})}]})
    with pytest.raises(Exception, match="a text of 7 characters"):
        read_page(broken, path="result.rows")
