"""`columns` and `where` of a large result: every form of a table, conditions as models write them, and refusals."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.results.read.conditions import WHERE_AT_MOST, row_filter_of
from aggregator.results.read.document import ResultDocument
from aggregator.results.read.path import BadRead
from aggregator.results.read.read import read_page

ISSUES = [
    {"id": 1, "title": "Login fails", "state": "open", "stars": 3, "author": {"login": "ada"}, "labels": ["bug"]},
    {"id": 2, "title": "Docs, please", "state": "closed", "stars": 12, "author": {"login": "bob"}, "labels": []},
    {"id": 3, "title": "Search is slow", "state": "Open", "stars": 40, "author": {"login": "Ada"}, "labels": None},
]
COLUMNAR = {name: [issue[name] for issue in ISSUES] for name in ("id", "title", "state", "stars")}
CSV = 'id,title,state,stars\n1,Login fails,open,3\n2,"Docs, please",closed,12\n3,Search is slow,Open,40\n'
MARKDOWN = (
    "| id | title | state | stars |\n|:---|---|---|---|\n| 1 | Login \\| fails | open | 3 |\n"
    "| 2 | `Docs` | closed | 12 |\n| 3 | Search is slow | Open | 40 |\n"
)
PSQL = (
    " id |     title      | state  | stars \n----+----------------+--------+-------\n"
    "  1 | Login fails    | open   |     3\n  2 | Docs, please   |        |    12\n"
    "  3 | Search is slow | Open   |    40\n(3 rows)\n"
)
MYSQL = (
    "+----+-------+--------+-------+\n| id | title | state  | stars |\n+----+-------+--------+-------+\n"
    "|  1 | Login | open   |     3 |\n|  2 | Docs  | closed |    12 |\n|  3 | Slow  | Open   |    40 |\n"
    "+----+-------+--------+-------+\n"
)
ALIGNED = (
    "ID   TITLE            STATE    STARS\n1    Login  fails     open     3\n2    Docs, please     closed   12\n"
    "3    Search is slow   Open     40\n"
)
LISTS = [list(COLUMNAR), *([issue[name] for name in COLUMNAR] for issue in ISSUES)]
APART = {"columns": [{"name": name, "type": "x"} for name in COLUMNAR], "rows": LISTS[1:]}


def document(value: Any) -> ResultDocument:
    text = value if isinstance(value, str) else json.dumps(value)
    return ResultDocument.of({"content": [{"type": "text", "text": text}]})


def read(value: Any, **asked: Any) -> list[str]:
    """The rows of a page, without the note."""
    return read_page(document(value), **asked).body.splitlines()


def ids(where: Any, value: Any = ISSUES) -> list[str]:
    return read(value, columns="id", where=where)[1:]


@pytest.mark.parametrize(
    "value",
    [
        ISSUES,
        {"total": 3, "items": ISSUES, "other": [{"a": 1}]},
        COLUMNAR,
        {"data": COLUMNAR},
        LISTS,
        APART,
        {"result": APART},
        CSV,
        CSV.replace(",", ";").replace("Docs;", "Docs,"),
        CSV.replace('"Docs, please"', "Docs").replace(",", "\t"),
        "\n".join(map(json.dumps, ISSUES)),
        {"body": json.dumps(ISSUES)},
        {"other": [{"id": 9}], "items": ISSUES},
        CSV.replace('"Docs, please"', "Docs").replace(",", "|"),
        MARKDOWN,
        f"# Issues\n\nAll of them:\n\n{MARKDOWN}\n| a | b |\n|---|---|\n| 1 | 2 |\n",
        MARKDOWN.replace("|:---|---|---|---|", "| --- | - | - | -: |").replace("\n", "\r\n"),
        PSQL,
        PSQL.replace("|", "│").replace("-", "─").replace("+", "┼"),
        MYSQL,
        {"text": MARKDOWN},
    ],
    ids=["records", "within", "columns", "columns within", "lists", "apart", "apart within", "csv", "semicolons",
         "tabs", "lines", "in a text", "the longer of two", "bars", "markdown", "markdown in prose",
         "markdown of Windows", "psql", "drawn", "mysql", "markdown in an object"],
)  # fmt: skip
def test_every_form_of_a_table(value: Any) -> None:
    """Proves: C9. The same rows, whichever form a server chose."""
    page = read_page(document(value), columns=["stars", "ID"], where="state = open")
    assert page.body.splitlines() == ["stars,id", "3,1", "40,3"]
    assert " 2 of 3 rows." in page.note


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("state = open", "13"),
        ("state=='open'", "13"),
        ('"state" is "open" and stars > 3', "3"),
        ("state is not open", "2"),
        ("state != open && stars >= 12", "2"),
        ("stars < 12 or stars > 12", "13"),
        ("stars <= 3 || id = 2", "12"),
        ("stars > 9", "23"),
        ("id = 1 or id = 2 and state = open", "1"),
        ("title ~ LOGIN", "1"),
        ("title contains 'docs, p'", "2"),
        ("title not contains i", "2"),
        ("title !~ slow", "12"),
        ("id in (1, 3)", "13"),
        ("id in 1, 3", "13"),
        ("id in [1, 3]", "13"),
        ("state in ('closed')", "2"),
        ("author.login = ada", "13"),
        ("labels[0] = bug", "1"),
        ("labels[1] is null", "123"),
        ("labels is null", "3"),
        ("labels is not null", "12"),
        ("title = Search is slow", "3"),
        ({"state": "open", "stars": 40}, "3"),
        ({"id": [1, 2]}, "12"),
        ({"labels": None}, "3"),
        ({"stars": {">": 3, "$lte": 40}}, "23"),
        ({"id": {"in": [1, 3]}, "title": {"contains": "slow"}}, "3"),
        ('{"state": "closed"}', "2"),
        (["state = open", {"id": 3}], "3"),
        (["id = 1 or id = 3", "state = open or state = closed"], "13"),
        ("title > m", "3"),
        ("title > 5", ""),
        ('title = ""', ""),
        ("title != ''", "123"),
        ('title != ""', "123"),
        ("state : open", "13"),
        ("state equals open", "13"),
        ("state <> open", "2"),
        ("state not equals open", "2"),
        ("title =~ login", "1"),
        ("title like login", "1"),
        ("title not like i", "2"),
        ({"state": {"eq": "open"}}, "13"),
        ({"state": {"ne": "open"}}, "2"),
        ({"stars": {"lt": 12}}, "1"),
        ({"stars": {"lte": 12}}, "12"),
        ({"stars": {"gt": 12}}, "3"),
        ({"stars": {"gte": 12}}, "23"),
        ("stars = 1.2e1", "2"),
        ("stars = 012", ""),
        ("labels = none", "3"),
        ("labels = nil", "3"),
    ],
)  # fmt: skip
def test_conditions(where: Any, found: str) -> None:
    """Proves: C9. Numbers as numbers, texts without regard to capitals, `and` before `or`."""
    assert "".join(ids(where)) == found


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("note is null", "124"),
        ("note is not null", "35"),
        ('note = ""', "1"),
        ('note ~ ""', "135"),
        ('note !~ ""', "24"),
        ("note contains b", "3"),
        ("note not contains b", "1245"),
        ("note >= a", "35"),
        ("note < b", "13"),
        ('note <= ""', "1"),
        ({"note": {"gte": 1, "lte": 1}}, ""),
        ("fork = 1", "2"),
        ("fork = true", "1"),
        ("fork >= 0", "2"),
        ({"fork": {"lte": 1}}, "2"),
    ],
)
def test_nothing_an_empty_text_and_a_flag_are_no_values_of_another_kind(where: Any, found: str) -> None:
    """C9: a missing value is null and contains nothing; true is no 1."""
    notes: list[dict[str, object]] = [{"note": ""}, {"note": None}, {"note": "abc"}, {}, {"note": True}]
    forks: list[dict[str, object]] = [{"fork": True}, {"fork": 1}, {}, {}, {}]
    rows = [{"id": at + 1, **one, **other} for at, (one, other) in enumerate(zip(notes, forks, strict=True))]
    assert "".join(ids(where, rows)) == found


@pytest.mark.parametrize(
    ("full", "more"),
    [
        ([{"a": 1}] * 3, [{"a": 1}] * 4),
        ({"a": [1] * 3, "b": [2] * 3}, {"a": [1] * 4, "b": [2] * 4}),
        ({"columns": ["a"], "rows": [[1]] * 3}, {"columns": ["a"], "rows": [[1]] * 4}),
        ("a,b" + "\n1,2" * 3, "a,b" + "\n1,2" * 4),
    ],
    ids=["records", "columns", "apart", "csv"],
)
def test_a_table_has_as_many_rows_as_it_may(full: Any, more: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """D7: one more is refused, and none is dropped in silence."""
    monkeypatch.setattr("aggregator.results.read.table.ROWS_AT_MOST", 3)
    assert read(full, columns="a") == ["a", "1", "1", "1"]
    with pytest.raises(BadRead, match="more than 3 rows"):
        read(more, columns="a")


def test_columns_in_any_form() -> None:
    """Proves: F5. A list, its JSON text, or names between commas; all of them for none and for `*`."""
    for columns in (["id", "stars"], '["id", "stars"]', "id, stars", "ID,Stars"):
        assert read(ISSUES, columns=columns, where="id = 3") == ["id,stars", "3,40"]
    everything: object
    for everything in (None, "*", []):
        assert read(COLUMNAR, columns=everything, where="id = 2") == [
            "id,title,state,stars",
            '2,"Docs, please",closed,12',
        ]


def test_of_names_that_are_spelled_alike_the_first_is_meant() -> None:
    """C9: and each by its own spelling."""
    rows = [{"User-Id": 1, "userId": 2, "user_id": 3}]
    for asked, value in (("USERID", "1"), ("userId", "2"), ("user_id", "3")):
        assert read(rows, columns=asked)[1:] == [value]


def test_identifiers_are_compared_exactly() -> None:
    rows = [{"id": 9007199254740993, "zip": "01234"}, {"id": 9007199254740992, "zip": "1234"}]
    assert ids("id = 9007199254740993", rows) == ["9007199254740993"]
    assert ids("zip = 1234", rows) == ["9007199254740992"]
    assert ids({"id": 9007199254740992}, rows) == ["9007199254740992"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"columns": ["stat"]}, "There is no column `stat`. The columns are `id`, `title`"),
        ({"where": "nope = 1"}, "There is no column `nope`"),
        ({"where": "state open"}, "`where` cannot be read at `state open`"),
        ({"where": "state = "}, "lacks a value"),
        ({"where": "state = open and "}, "ends with `and`"),
        ({"where": "state = open or"}, "ends with `or`"),
        ({"where": "state = open ||"}, "ends with `||`"),
        ({"where": {"state": {"=": {"a": 1}}}}, "`state` in `where` cannot be read at `=`"),
        ({"where": "stars > (1, 2)"}, "takes one value"),
        ({"where": {"state": {"a": 1}}}, "`state` in `where` cannot be read at `a`"),
        ({"where": {"state": {"in": 1}}}, "`state` in `where` cannot be read at `in`"),
        ({"where": [3]}, "`where` is as"),
        ({"where": "a" * WHERE_AT_MOST + "= 1"}, "at most 1,000 characters"),
        ({"where": " or ".join(["id = 1"] * 31)}, "at most 30 comparisons"),
        ({"columns": ["id"] * 101}, "at most 100 names"),
        ({"columns": "id", "path": "[0].id"}, "There is no table"),
    ],
)
def test_what_cannot_be_chosen(asked: dict[str, Any], said: str) -> None:
    """Proves: E10. The error names what is there, or the form that is wanted."""
    with pytest.raises(BadRead) as refused:
        read(ISSUES, **asked)
    assert said in str(refused.value)


def test_columns_below_names_in_capitals() -> None:
    """As `kubectl` prints them: a cell may be empty, or have wide gaps in it."""
    assert read(ALIGNED, columns="stars, Title", where="state = open") == [
        "STARS,TITLE",
        "3,Login  fails",
        "40,Search is slow",
    ]
    no_state = ALIGNED.replace("closed", "      ")
    assert read(no_state, columns="id", where="state is null or stars = 12") == ["ID", "2"]
    wide = ALIGNED.replace("Search is slow   Open ", "Search is slow and long   Open ")
    assert read(wide, where="id = 3") == ["ID,TITLE,STATE,STARS", "3,Search is slow and long,Open,40"]


def test_a_text_that_is_no_table() -> None:
    for text in (
        "Only words.\nAnd more, of them.",
        "",
        "{}",
        "[1, 2, 3]",
        '{"a": [1], "b": [1, 2]}',
        "[[1, 2], [3, 4]]",
        '{"a": [], "b": []}',
        "id,b\n1,2\nwords\nmore of them\nand more",
        "A  LINE IN CAPITALS\n",
    ):
        with pytest.raises(BadRead, match="There is no table"):
            read(text, columns="id")


def test_a_path_leads_to_the_table_and_pages_go_on() -> None:
    """Proves: C9. What is repeated is named, and the pages together are the whole."""
    value = {"a": {"rows": [{"id": number, "of": "x" * 20} for number in range(400)]}, "b": ISSUES}
    asked: dict[str, Any] = {"path": "a.rows", "columns": "id, of", "where": "id >= 100", "limit": 300}
    page, body = read_page(document(value), **asked), ""
    assert "and the same path, columns, where.]" in page.note
    assert " 300 of 400 rows." in page.note
    while True:
        body += page.body
        if page.next is None:
            break
        page = read_page(document(value), **asked, offset=page.next)
    assert body.splitlines() == ["id,of", *(f"{number},{'x' * 20}" for number in range(100, 400))]


def test_an_expression_searches_the_chosen_rows() -> None:
    page = read_page(document(ISSUES), columns="title", where="state = open", grep="docs|slow")
    assert "> Search is slow" in page.body
    assert "Docs" not in page.body
    assert "path" not in page.body
    page = read_page(document({"items": ISSUES}), path="items", columns="title", grep="slow")
    assert "> Search is slow" in page.body
    assert "path" not in page.body


LEAVES = st.none() | st.booleans() | st.integers() | st.text()
ROWS = st.lists(
    st.dictionaries(st.sampled_from(["id", "a"]), LEAVES, max_size=2) | st.lists(LEAVES, max_size=3), max_size=4
)
VALUES = LEAVES | ROWS | st.dictionaries(st.text(), LEAVES | ROWS, max_size=4)


@given(VALUES, st.text(max_size=30), st.text(max_size=30))
def test_no_value_and_no_words_make_a_traceback(value: Any, columns: str, where: str) -> None:
    """Proves: E10. An answer, or a refusal in words."""
    with suppress(BadRead):
        row_filter_of(where)
        assert read_page(document(value), columns=columns or "id", where=where).note


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ([{"id": 1}] * 100_000, "at most 30 comparisons"),
        ({str(number): number for number in range(100_000)}, "at most 30 comparisons"),
        ({"id": {f"x{number}": 1 for number in range(100_000)}}, "at most 30 comparisons"),
        ({"id": [*range(100_000)]}, "at most 500 values"),
        ({"id": {"in": [*range(100_000)]}}, "at most 500 values"),
    ],
)
def test_a_flood_of_conditions_is_refused_at_once(where: Any, said: str) -> None:
    """D7: before any of them is joined with the others or compared with a row."""
    with pytest.raises(BadRead, match=said):
        row_filter_of(where)
