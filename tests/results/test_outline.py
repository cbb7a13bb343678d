"""The outline of a large result: short, true, and only if the beginning says little."""

import base64
import json
import re
from random import Random
from typing import Any, Final

import pytest

from aggregator.domain.text.tokens import estimate
from aggregator.results.read.document import ResultDocument
from aggregator.results.read.entries import entries
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
    "a table in CSV": (
        'id,state,note\n' + "".join(f'{n},{"open" if n % 3 else "done"},"a, {n}"\n' for n in range(3_000)),
        ["3,000 rows: id, state, note", "state: 2,000 open, 1,000 done", 'The last line: 2999,open,"a, 2999"'],
    ),
    "a table with spaces between": (
        "NAME   STATUS\n" + "".join(f"pod-{n}   {'Failed' if n == 2_000 else 'Running'}\n" for n in range(3_000)),
        ["3,000 rows: NAME, STATUS", "STATUS: 2,999 Running, 1 Failed", "The last line: pod-2999 Running"],
    ),
    "a log of a web server": (
        "".join(
            f'10.0.0.1 - - [01/Mar/2026] "GET /{n} HTTP/1.1" {503 if n == 2_000 else 200} 5\n' for n in range(2_500)
        ),
        [
            "A log of 2,501 lines: 2,499 status 200, 1 status 503",
            'The first error, at offset 106890: 10.0.0.1 - - [01/Mar/2026] "GET /2000 HTTP/1.1" 503 5',
            'The last line: 10.0.0.1 - - [01/Mar/2026] "GET /2499 HTTP/1.1" 200 5',
        ],
    ),
    "a trace with a cause": (
        "a.b.PayException: no\n" + "\tat a.b.C.d(C.java:1)\n" * 900
        + "Caused by: a.b.TimeException: late\n\tat a.b.E\n",
        [
            "Lines that tell of errors: 2 of 904",
            "The first of them, at offset 0: a.b.PayException: no",
            "The last line: at a.b.E",
            "offset 19821: Caused by: a.b.TimeException: late",
        ],
    ),
    "a diff": (
        "".join(
            f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1,900 +1,900 @@\n{'+new line' + chr(10):s}"
            + "-old line\n same line\n" * 400
            for name in ("one.py", "two/b.py")
        ),
        ["2 files changed, +2 -800", "offset 0: one.py +1 -400", "offset 8485: two/b.py +1 -400"],
    ),
    "settings": (
        "".join(f"[part {name}]\n" + f"{name}_key = value\n" * 600 for name in ("one", "two")),
        ["offset 0: [part one]", "offset 9611: [part two]"],
    ),
    "a program": (
        "import os\n\n" + "".join(f"class {name}:\n" + "    size = 1\n" * 600 for name in ("One", "Two", "Three")),
        ["offset 11: class One:", "offset 7822: class Two:", "offset 15633: class Three:"],
    ),
    "many parts": (
        "".join(f"./part{n}:\n" + f"-rw-r--r-- a{n}.txt\n" * 60 + "\n" for n in range(14)),
        [
            "14 parts:",
            "./part0:, ./part1:, ./part2:, ./part3:, ./part4:",
            "./part5:, ./part6:, ./part7:, ./part8:, ./part9:",
            "./part10:, ./part11:, ./part12:, ./part13:",
        ],
    ),
    "YAML": (
        "version: 1\nservices:\n" + "".join(f"  s{n}:\n    image: x/{n}\n" for n in range(900))
        + "ingress:\n  host: a\n",
        ["offset 0: version: 1", "offset 11: services:", "offset 22301: ingress:"],
    ),
    "documents of YAML": (
        "---\n".join(
            f"apiVersion: v1\nkind: {'Secret' if n == 90 else 'ConfigMap'}\nmetadata:\n  name: n{n}\ndata:\n"
            + "  a: b\n" * 20
            for n in range(100)
        ),
        ["100 documents", "offset 0: kind: ConfigMap, 99 times", "offset 18260: kind: Secret"],
    ),
    "XML": (
        "<list><unit>CHF</unit>" + "".join(f"<item id='{n}'><price>{n}</price></item>" for n in range(900)) + "</list>",
        ["Elements: 900 item, 900 price, 1 list, 1 unit", "offset 6: unit: CHF"],
    ),
    "a table in a page": (
        "<html><body><table><tr><th>City</th><th>Size</th></tr>" + "<tr><td>Bern</td><td>9</td></tr>" * 900
        + "</table>",
        [
            "Text: City Size" + " Bern 9" * 20 + " Bern...",
            "offset 12: table of 901 rows: City, Size",
        ],
    ),
    "tables in a page": (
        "<table><tr><th>City<th>Size</tr>" + "<tr><td>Bern<td>9</tr>" * 900 + "</table><table><tr><td>alone</table>"
        "<table><tr><th>Name</tr><tr><td>Ann</tr></table>",
        [
            "Text: City Size" + " Bern 9" * 20 + " Bern...",
            "offset 0: table of 901 rows: City, Size",
            "offset 19868: table of 2 rows: Name",
        ],
    ),
    "what a browser shows": (
        "- generic [ref=e1]:\n" + "".join(f"  - link \"{n}\" [ref=e{n}]\n" for n in range(900))
        + '  - button "Pay" [ref=e7]',
        [
            "Elements: 900 link, 1 generic, 1 button",
            "offset 0: - generic [ref=e1]:",
            'offset 23200: - button "Pay" [ref=e7]',
        ],
    ),
    "JSON with words around it": (
        "Found it:\n```json\n" + json.dumps({"rows": ROWS, "next": 9}, indent=1) + "\n```\nDone.",
        [
            "rows: 3,000 items {id, name, open}",
            "next: 9",
            "rows[0].id: 0",
            'rows[0].name: "row 0"',
            "rows[0].open: true",
        ],
    ),
    "members that are alike": (
        {"a": {f"part {n}": {"size": n, "note": WORDS} for n in range(20)} | {"other": {"size": 1, "last": True}}},
        [
            "a: {part 0, part 1, part 2, part 3, part 4, part 5, part 6, part 7 and 13 more}",
            'a["part 0"] and 19 like it: {size, note}',
            "a.other: {size, last}",
            "a.other.size: 1",
            "a.other.last: true",
        ],
    ),
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
    for line in expected:
        if isinstance(value, str) and (place := re.fullmatch(r"(?:The first .*, at )?offset (\d+): (\S+).*", line)):
            assert place[2].strip(":") in value[int(place[1]) :][:200]


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
    value = {f"member number {number}": {f"inside {number}": [WORDS], "more": {"deep": number}} for number in range(30)}
    lines = outline_of(value)
    assert lines[-1] == "..."
    assert lines[0] == '["member number 0"]: {inside 0, more}'


def test_text_that_looks_like_an_outline_of_something_else() -> None:
    """Names with line breaks, and values of every kind, keep one line each."""
    value = {"a\nb": WORDS, "c": "{broken", "d": float("nan"), "e": "x\ny", "f" * 500: 1}
    lines = outline_of(value)
    assert len(lines) == 5
    assert all(len(line) < 200 for line in lines)


def test_several_texts_are_told_apart() -> None:
    texts = ["Summary: 2 of 900 failed", "many words of a text\n" * 2_000]
    shortened = shorten({"content": [{"type": "text", "text": text} for text in texts]}, MOST, PREVIEW)
    assert shortened is not None
    assert shortened.outline.splitlines() == [
        "offset 0: text 1, 24 characters: Summary: 2 of 900 failed",
        "offset 25: text 2, 42,000 characters: many words of a text many words of a text many words of a te",
    ]
    as_json = [json.dumps({"rows": ROWS}), json.dumps({"total": 9})]
    shortened = shorten({"content": [{"type": "text", "text": text} for text in as_json]}, MOST, PREVIEW)
    assert shortened is not None
    assert shortened.outline.splitlines()[:2] == ["[0]: {rows}", "[1]: {total}"]
    assert read_page(shortened.document, path="[1].total").body == "9"


def test_the_uri_of_an_embedded_resource_is_not_lost() -> None:
    """2 of issue 32: of a shortened resource hosts get the text."""

    def embedded(name: str, text: str) -> dict[str, Any]:
        return {"type": "resource", "resource": {"uri": f"file:///{name}", "text": text}}

    def lines(*blocks: dict[str, Any]) -> list[str]:
        shortened = shorten({"content": list(blocks)}, MOST, PREVIEW)
        assert shortened is not None
        return shortened.outline.splitlines()

    words = "many words\n" * 4_000
    assert lines(embedded("a.txt", words))[0] == "The text of file:///a.txt"
    assert lines(embedded("a.json", json.dumps(ROWS)))[0] == "The text of file:///a.json"
    assert lines(embedded("a.txt", "short"), embedded("b.txt", words)) == [
        "offset 0: text 1 of file:///a.txt, 5 characters: short",
        f"offset 6: text 2 of file:///b.txt, 44,000 characters: {'many words ' * 5}many",
    ]
    assert lines(embedded("a.json", json.dumps(ROWS)), {"type": "text", "text": "[1]"})[:2] == [
        "text 1 of file:///a.json",
        "[0]: 3,000 items {id, name, open}",
    ]


def test_a_path_leads_into_json_that_words_come_after() -> None:
    text = json.dumps(ROWS, indent=1) + "\n\n(3,000 rows)"
    document = ResultDocument.of({"content": [{"type": "text", "text": text}]})
    assert read_page(document, path="[2999].name").body == "row 2999"
    assert read_page(document, grep="3,000 rows").body.endswith("(3,000 rows)")


def test_a_path_leads_into_a_json_text() -> None:
    document = ResultDocument.of(
        {"content": [{"type": "text", "text": json.dumps({"result": json.dumps({"rows": ROWS})})}]}
    )
    assert read_page(document, path="result.rows[2].name").body == "row 2"
    assert read_page(document, path="result.rows[0:2].id").body == "[0,\n 1]"
    broken = ResultDocument.of({"content": [{"type": "text", "text": json.dumps({"result": "{broken"})}]})
    with pytest.raises(Exception, match="a text of 7 characters"):
        read_page(broken, path="result.rows")


CUES: Final = "\n\n".join(
    f"00:{at // 60:02}:{at % 60:02}.000 --> 00:{at // 60:02}:{at % 60:02}.900\n<v Ann>{WORDS[:60]}{at}"
    for at in range(600)
)
EVENTS: Final = "\n".join(
    f"BEGIN:VEVENT\nUID:u{at:03}\nDTSTART;TZID=Europe/Rome:2026110{at % 9 + 1}T09\nSUMMARY:same\nEND:VEVENT"
    for at in range(600)
)
REFERENCES: Final = "\n".join(
    f"@{'book' if at % 3 else 'article'}{{k{at},\n title = {{{WORDS[:90]}}}\n}}" for at in range(300)
)
TREE: Final = ".\n" + "\n".join(f"├── d{at}\n│   ├── some.py\n│   └── end.py" for at in range(400))
TRACEBACKS: Final = "\n".join(
    f"Traceback (most recent call last):\n  File 'a'\nValueError: bad {at % 2}" for at in range(800)
)


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (
            f"WEBVTT\n\n{CUES}",
            ["600 cues, 00:00:00.000 to 00:09:59.900", "600 Ann", "offset 8: 00:00:00.000 <v Ann>some"],
        ),
        (CUES.replace("<v Ann>", "").replace(".", ","), ["600 cues, 00:00:00,000 to 00:09:59,900", "offset 0: 00:00"]),
        (
            f"BEGIN:VCALENDAR\n{EVENTS}\nEND:VCALENDAR",
            [
                "600 VEVENT, 1 VCALENDAR {UID, DTSTART, SUMMARY}",
                "UID: u000 to u599",
                "DTSTART: 20261101T09 to 20261109T09",
            ],
        ),
        (
            REFERENCES,
            ["300 entries: 200 book, 100 article", "offset 0: k0", f"offset {REFERENCES.index('@book{k59')}: k59"],
        ),
        (TREE, ["1,200 entries, 400 at the top, with the count below each:", "d0 (2), d1 (2), d2 (2)"]),
        (
            TRACEBACKS,
            [
                "800 errors in tracebacks, 2 different:",
                f"400 ValueError: bad 0, the first at offset {TRACEBACKS.index('ValueError: bad 0')}",
                f"400 ValueError: bad 1, the first at offset {TRACEBACKS.index('ValueError: bad 1')}",
                "The last line: ValueError: bad 1",
            ],
        ),
    ],
    ids=["VTT", "SRT", "a calendar", "BibTeX", "a tree", "tracebacks"],
)
def test_entries_of_a_known_form_are_counted(text: str, begins: list[str]) -> None:
    lines = outline_of(text)
    assert len(lines) >= len(begins)
    assert all(line.startswith(begin) for line, begin in zip(lines, begins, strict=False)), lines


@pytest.mark.parametrize(
    "text",
    [
        "| " * 100_000,
        "│   " * 60_000,
        "<v " * 90_000,
        "@a{" * 90_000,
        "BEGIN:A\n" + "A" * 200_000,
        "00:00:00.000 --> " * 12_000,
    ],
)
def test_what_only_begins_like_entries_has_none(text: str) -> None:
    assert entries(f"{text[:40]}\n{text}\n" * 2) is None
