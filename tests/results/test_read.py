"""Pages by offset, path and expression, and what is said where there are none."""

import json
from typing import Any

import pytest

from aggregator.domain.text.tokens import estimate
from aggregator.results.read.document import ResultDocument
from aggregator.results.read.read import BadRead, read_page
from tests.results.laws import pages

ROWS = [{"id": number, "title": f"Login fails, number {number}", "a.b": [number]} for number in range(400)]
WHOLE = {"total": 400, "items": ROWS, "body": "line\n" * 4_000}


def of(*texts: str, structured: Any = None) -> ResultDocument:
    content = [{"type": "text", "text": text} for text in texts]
    result = {"content": content, **({} if structured is None else {"structuredContent": structured})}
    return ResultDocument.of(result)


DOCUMENT = of(json.dumps(WHOLE))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("items[3].title", ROWS[3]["title"]),
        ("$.items[3]['a.b'][0]", 3),
        ('items[-1]["a.b"]', [399]),
        ("items[-400].id", 0),
        ("items.3.id", 3),
        ("items[1:3].id", [1, 2]),
        ("items[:2].id", [0, 1]),
        ('items[398:]["a.b"][0]', [398, 399]),
        ("total", 400),
        ("items[400:]", []),
        (" $['items'] [0] .id ".replace(" ", ""), 0),
    ],
)
def test_paths(path: str, value: Any) -> None:
    body = read_page(DOCUMENT, path=path).body
    assert (body if isinstance(value, str) else json.loads(body)) == value


def test_a_large_value_is_read_on_within_it() -> None:
    assert "".join(page.body for page in pages(DOCUMENT, 0, 300, "body")) == WHOLE["body"]
    rows = "".join(page.body for page in pages(DOCUMENT, 0, 300, "items[*].title"))
    assert json.loads(rows) == [row["title"] for row in ROWS]
    assert "and the same path." in read_page(DOCUMENT, path="body").note


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("itms", "`itms` is not there: the result is an object with total, items, body."),
        ("items[400]", "`items[400]` is not there: `items` is an array of 400 items, [0] to [399]."),
        ("items[-401]", "`items[-401]` is not there: `items` is an array of 400 items"),
        ("items[0].nme", '`items[0].nme` is not there: `items[0]` is an object with id, title, "a.b".'),
        ("items[*].nme", "None of the 400 values at `items[*]` has `.nme`. The first of them: an object with id"),
        ("total.x", "`total.x` is not there: `total` is `400`."),
        ("body[0]", "`body` is a text of 20,000 characters"),
        ("items[", "is no path: it goes wrong at `[`"),
        ("x" * 2_000, "at most 1,000 characters"),
    ],
)
def test_a_wrong_path_says_what_is_there(path: str, said: str) -> None:
    with pytest.raises(BadRead) as refused:
        read_page(DOCUMENT, path=path)
    assert said in str(refused.value)


def test_a_path_into_what_is_no_json() -> None:
    with pytest.raises(BadRead, match="no JSON"):
        read_page(of("Some words. " * 500), path="items")
    with pytest.raises(BadRead, match="not JSON"):
        read_page(of('{"items": [1, 2'), path="items")


@pytest.mark.parametrize(
    ("document", "path", "body"),
    [
        (of("Found 2:\n[1, 2]"), "[1]", "2"),
        (of('{"a": 1}\n{"a": 2}\n'), "[1].a", "2"),
        (of('{"a": 1}', '{"a": 2}'), "[1].a", "2"),
        (of('[{"a": 1}]', structured={"result": [{"a": 1}]}), "result[0].a", "1"),
        (of('\ufeff{"a": NaN, "b": "\\ud800x"}'), "a", "null"),
        (of('{"a": 1, "a": [2 , 3]}'), "a", "[2 , 3]"),
    ],
    ids=["words before", "JSON lines", "several texts", "structured", "NaN", "twice"],
)
def test_paths_of_each_form(document: ResultDocument, path: str, body: str) -> None:
    assert read_page(document, path=path).body == body


def test_offsets_from_the_end_and_behind_it() -> None:
    assert read_page(DOCUMENT, offset=-20).body == DOCUMENT.text[-20:]
    assert read_page(DOCUMENT, offset=len(DOCUMENT.text)).note.endswith("the end.]")
    assert read_page(DOCUMENT, offset=-(10**9)) == read_page(DOCUMENT)
    with pytest.raises(BadRead, match="characters, and offset 9999999 is behind them"):
        read_page(DOCUMENT, offset=9_999_999)


def test_limits_are_kept_between_bounds() -> None:
    assert estimate(read_page(DOCUMENT, limit=10**9, most=700).text) <= 700
    assert 0 < estimate(read_page(DOCUMENT, limit=-5).text) <= 100
    assert read_page(DOCUMENT, most=1) == read_page(DOCUMENT, most=100)
    assert 900 < estimate(read_page(DOCUMENT, usual=2_000).text) <= 2_000


def test_what_is_found_has_its_place_and_what_is_beside_it() -> None:
    found = read_page(DOCUMENT, grep=r"NUMBER 77\b").text
    assert "path `items[77]`" in found
    assert '\n> {"id": 77, "title": "Login fails, number 77"' in found
    assert '"id": 78' in found
    assert found.endswith("[1 match; searched to the end.]")
    assert json.loads(read_page(DOCUMENT, path="items[77]").body) == ROWS[77]


@pytest.mark.parametrize("indent", [None, 2])
def test_every_path_that_is_told_leads_to_the_match(indent: int | None) -> None:
    document = of(json.dumps(ROWS, indent=indent), structured={"result": ROWS})
    for number in (0, 9, 123, 399):
        found = read_page(document, grep=rf"number {number}\b").text
        path = found.split("path `")[1].split("`")[0]
        assert f"number {number}" in read_page(document, path=path).body


def test_more_matches_are_found_from_the_offset_that_is_told() -> None:
    at: int | None = 0
    found = ""
    while at is not None:
        page = read_page(DOCUMENT, grep=r"login", offset=at, limit=400)
        assert estimate(page.text) <= 400
        found += "".join(line for line in page.body.splitlines() if line.startswith(">"))
        at = page.next
    assert [found.count(f'number {number}"') for number in range(400)] == [1] * 400


def test_a_match_that_is_larger_than_a_page_is_passed() -> None:
    """C9: the next page goes on behind it, else it would show the same match for ever."""
    document, found = of("\n".join(f"{'x' * 300} fails {number}" for number in range(5))), 0
    at: int | None = 0
    while at is not None:
        page = read_page(document, grep="fails", context=20, limit=100, offset=at)
        assert page.next is None or page.next > at
        at, found = page.next, found + page.body.count("offset ")
    assert found == 5


def test_matches_side_by_side_are_no_context_of_each_other() -> None:
    lines = read_page(of(LINES), grep=r"line 15[012]\b").body.splitlines()
    assert [line for line in lines if line.startswith(">")] == ["> line 150 Fails", "> line 151", "> line 152"]
    assert "  line 150 Fails" not in lines


def test_of_a_long_line_the_sentence_is_shown() -> None:
    words = " and more words of it" * 6
    document = of(" ".join(f"Sentence {number} begins{words}." for number in range(90)))
    assert f"\n> Sentence 7 begins{words}." in read_page(document, grep="sentence 7 ").body


def test_what_nests_too_deeply_has_no_path() -> None:
    found = read_page(of("[" * 4_000 + '"word"'), grep="word", limit=900).body
    assert found.startswith("offset ")
    assert "path" not in found


def test_what_is_escaped_is_found_as_it_reads() -> None:
    document = of(json.dumps([{"name": "飞书 😀"}, {"name": 'say "hi"'}] * 300))
    assert "[1 match" not in read_page(document, grep="飞书 😀").note
    assert "> " in read_page(document, grep='say "hi"').body


def test_a_match_over_the_end_of_an_element_is_found() -> None:
    document = of("\n".join(["some line"] * 200 + ["it begins", "here and ends"] + ["some line"] * 200))
    assert "> it begins\nhere" in read_page(document, grep=r"begins\s+here").body


def test_a_search_within_a_value() -> None:
    page = read_page(DOCUMENT, path="items[5]", grep="login")
    assert "path `items[5]`" in page.body
    assert page.next is None


@pytest.mark.parametrize("grep", ["[", "a(?=b)", r"(a)\1", "", "x" * 600, "(" * 100])
def test_what_is_no_expression_is_refused(grep: str) -> None:
    with pytest.raises(BadRead, match=r"grep|expression"):
        read_page(DOCUMENT, grep=grep)


def test_an_expression_that_backtracks_elsewhere_is_linear() -> None:
    page = read_page(of("a" * 200_000 + "!"), grep=r"(a|aa)+b")
    assert page.note == "[Nothing found; searched to the end.]"


def test_a_text_with_half_a_character_in_it_is_read_by_path() -> None:
    document = of(json.dumps(["\ud800 abc", "def"] * 300, ensure_ascii=False))
    assert "def" in read_page(document, path="[0:4]").body


@pytest.mark.parametrize("path", ["[*][*]", "[*]" * 300, "[0]" * 300])
def test_a_path_through_very_much_is_refused(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Not gone through: the bounds are lower here, so that the text may be shorter."""
    monkeypatch.setattr("aggregator.results.read.path._VALUES_AT_MOST", 2_000)
    monkeypatch.setattr("aggregator.results.read.path._BYTES_AT_MOST", 2_000_000)
    nested = "[" * 400 + "0" + ",1" * 10_000 + "]" * 400
    document = of(nested if path.startswith("[0]") else json.dumps([[1, 2]] * 1_500))
    with pytest.raises(BadRead, match="too much at once"):
        read_page(document, path=path)


LINES = "\n".join(
    f"line {number}" + (" Fails" if number % 100 == 50 else " fails" if number == 60 else "") for number in range(2_000)
)


@pytest.mark.parametrize("context", [None, 0, 1, 3, 10**9, -1])
def test_a_match_has_as_many_lines_around_it_as_wanted(context: int | None) -> None:
    """One without a number; never so many that the matches do not fit."""
    page = read_page(of(LINES), grep=r"line 150\b", context=context)
    number = 1 if context is None else min(max(context, 0), 20)
    before = [f"  line {line}" for line in range(150 - number, 150)]
    behind = [f"  line {line}" for line in range(151, 151 + number)]
    assert page.body.splitlines()[1:] == [*before, "> line 150 Fails", *behind]
    assert page.note == "[1 match; searched to the end.]"


def test_capitals_count_if_wanted() -> None:
    for case, count in ((None, 21), (False, 21), (True, 1)):
        assert read_page(of(LINES), grep="fails", case=case, count=True).note.startswith(f"[{count} match")


def test_matches_are_counted_without_being_shown() -> None:
    page = read_page(of(LINES), grep="Fails", count=True)
    assert page.text == "[21 matches; searched to the end.]"
    assert read_page(of(LINES), grep="nothing", count=True).text == "[Nothing found; searched to the end.]"
    assert read_page(DOCUMENT, path="items[5]", grep="login", count=True).body == ""


@pytest.mark.parametrize("count", [False, True])
def test_a_search_that_costs_much_goes_on_in_parts(monkeypatch: pytest.MonkeyPatch, count: bool) -> None:
    """D7, C9: each part from the offset that is told, and together they are the whole."""
    monkeypatch.setattr("aggregator.results.read.finding._SEARCHED", ((8 * 1024, 3_000),))
    document, at, found, parts = of(LINES), 0, 0, 0
    while True:
        page = read_page(document, grep=f"F[a]ils{'(?:)' * count}", case=True, offset=at, count=count)
        found, parts = found + (0 if "Nothing" in page.note else int(page.note[1:].split()[0])), parts + 1
        if page.next is None:
            break
        assert at < page.next <= at + 3_000
        at = page.next
    assert (found, parts) == (20, -(-len(LINES) // 2_990))


def test_each_match_has_the_number_of_its_line() -> None:
    heads = [line for line in read_page(of(LINES), grep="fails", limit=2_000).body.splitlines() if "offset " in line]
    for head in heads:
        at, line = (int(part.split()[-1].replace(",", "").rstrip(":")) for part in head.split(", "))
        assert LINES[at:].startswith(f"line {line - 1} ")
    assert len(heads) == 21


def test_a_match_over_the_end_of_a_part_without_any_is_found() -> None:
    """C9: wherever the part ends within it, in a line and over its end, and only once."""
    for before in range(16_384 - 18, 16_384 + 2):
        for text in (
            "x" * before + " it begins here " + "y" * 40_000,
            "x" * before + "\nit begins\nhere\n" + "y" * 40_000,
        ):
            assert read_page(of(text), grep=r"it begins\s+here", count=True).note.startswith("[1 match;")


def test_matches_over_the_end_of_a_line_are_found_beside_those_in_a_line() -> None:
    """C9: `begins here` is there twice, however it is broken."""
    document = of("\n".join(["some line"] * 20 + ["it begins", "here"] + ["some line"] * 20 + ["it begins here"]))
    page = read_page(document, grep=r"begins\s+here")
    assert page.note.startswith("[2 matches")
    assert [line for line in page.body.splitlines() if line.startswith((">", "here"))] == [
        "> it begins",
        "here",
        "> it begins here",
    ]


def test_in_one_of_many_values_a_match_has_no_path() -> None:
    assert "path" not in read_page(DOCUMENT, path="items[*].title", grep=r"number 77\b").body
