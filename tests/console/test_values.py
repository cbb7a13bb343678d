"""Arguments and their schema as plain data: what is declared first, nothing hidden, and bounded whatever they are."""

import json
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aggregator.frontends.console.rendering import Renderer, shown
from aggregator.frontends.console.tool_data import bounded
from aggregator.frontends.console.values import shown_arguments_of, shown_value, type_words
from tests.laws import examples
from tests.peers.toolbox import Json

SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {
        "to": {"type": "string"},
        "order": {"$ref": "#/$defs/order"},
        "tags": {"type": "array", "items": {"type": "string"}, "default": ["new"]},
        "free": {"type": "object"},
    },
    "required": ["to"],
    "$defs": {"order": {"type": "object", "properties": {"count": {"type": "integer"}, "sku": {"type": "string"}}}},
}
TEMPLATE: Final = Renderer("x")._templates.from_string(
    '{% import "_values.html" as v with context %}{{ v.arguments(shown) }}'
)


def html(arguments: Json, schema: Any = SCHEMA) -> str:
    return TEMPLATE.render(shown=shown_arguments_of(arguments, schema))


def kinds(shown: Json) -> list[tuple[str, str]]:
    return [(row["name"], row["kind"]) for row in shown["rows"]]


def test_the_schema_gives_the_order() -> None:
    """B6, E13: declared ones as the schema has them, then what was left out, then what it does not know."""
    shown = shown_arguments_of({"bcc": "x", "order": {"sku": "a", "cents": 1}, "to": "c-9", "free": {"any": 1}}, SCHEMA)
    assert kinds(shown) == [
        ("to", "declared"), ("order", "declared"), ("free", "declared"), ("tags", "missing"), ("bcc", "odd"),
    ]  # fmt: skip
    assert (shown["odd"], shown["open"], shown["left_out"]) == (2, True, 0)
    assert [row["type"] for row in shown["rows"][:4]] == ["string, required", "object", "object", "array of string"]
    assert shown["rows"][3]["default"] == '["new"]'
    assert kinds(shown["rows"][1]["value"]) == [("sku", "declared"), ("count", "missing"), ("cents", "odd")]
    # Of an object that takes anything, nothing is odd.
    assert kinds(shown["rows"][2]["value"]) == [("any", "plain")]
    assert shown_arguments_of({"a": 1}, None)["odd"] == 0
    assert shown_arguments_of({"a": 1}, {"type": "object"})["odd"] == 1
    assert not shown_arguments_of({}, {"additionalProperties": False})["open"]


def test_what_was_agreed_to_last() -> None:
    before = {"to": "c-9", "n": 1, "gone": True}
    shown = shown_arguments_of({"to": "c-9", "n": True, "new": "x"}, None, before)
    assert [row["then"] for row in shown["rows"]] == [
        {"same": True, "was": None},
        # `True == 1` in Python, and not in JSON.
        {"same": False, "was": "1"},
        {"same": False, "was": None},
    ]
    assert shown["gone"] == ["gone"]


@pytest.mark.parametrize(
    ("was", "given", "same"),
    [
        ({"dry_run": True}, {"dry_run": 1}, False),
        ([1], [1.0], False),
        ({"a": 1, "b": [None]}, {"b": [None], "a": 1}, True),
        # Two secrets look alike once they are taken out.
        ("[redacted] --force", "[redacted] --force", False),
        ({"token": "[redacted]"}, {"token": "[redacted]"}, False),
    ],
)
def test_as_last_time_is_said_of_what_is_known_to_be(was: Any, given: Any, same: bool) -> None:
    shown = shown_arguments_of({"x": given}, None, {"x": was})
    assert shown["rows"][0]["then"]["same"] is same


def test_a_long_text_shows_how_it_begins_and_ends() -> None:
    text = "a" * 600 + "b" * 1500 + "c" * 200
    (row,) = shown_arguments_of({"body": text}, None)["rows"]
    value = row["value"]
    assert (value["head"], value["rest"], value["tail"]) == ("a" * 600, "b" * 1500, "c" * 200)
    assert (value["between"], value["left_out"], row["facts"]) == (1500, 0, "2,300 characters")
    (row,) = shown_arguments_of({"body": "a line\nand another"}, None)["rows"]
    assert row["facts"] == ""
    assert shown_value("short") == {
        "form": "text",
        "head": "short",
        "between": 0,
        "rest": "",
        "tail": "",
        "left_out": 0,
    }
    assert shown_value(1.5)["head"] == "1.5"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": ["string", "null"]}, "string or null"),
        ({"enum": ["a", "b", 1]}, 'one of "a", "b", 1'),
        ({"const": 1}, "always 1"),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, "string or number"),
        ({"type": "string", "format": "date"}, "string, date"),
        ({"type": "array", "items": {"type": "array", "items": {}}}, "array of array"),
        ({}, "anything"),
        (True, "anything"),
        ({"type": 7, "enum": [], "anyOf": 3}, "anything"),
    ],
)
def test_types_in_words(schema: Any, words: str) -> None:
    assert type_words(schema, schema, required=False) == words
    assert type_words(schema, schema, required=True) == f"{words}, required"


NASTY: Final = "</dd><script>\u202e\x1b"
names = st.text(max_size=8) | st.just(NASTY)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.just(NASTY * 300),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(names, inner, max_size=5),
    max_leaves=30,
)
schemas = st.recursive(
    st.sampled_from([{}, True, {"type": "string"}, {"type": "array"}, {"$ref": "#/properties/a"}, {"$ref": "#"}, None]),
    lambda inner: st.fixed_dictionaries(
        {}, optional={"properties": st.dictionaries(names, inner, max_size=4), "items": inner, "default": values,
                      "required": st.lists(names, max_size=3), "type": st.sampled_from(["object", "array", NASTY, 3])}
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(names, values, max_size=6), schemas)
def test_every_argument_is_shown_or_counted(arguments: Json, schema: Any) -> None:
    """B6: whatever arguments and schema are, none is lost, and none becomes markup."""
    held = schema if isinstance(schema, dict) else None
    shown = shown_arguments_of(arguments, held)
    given = [row for row in shown["rows"] if row["kind"] != "missing"]
    assert len(given) + shown["left_out"] == len(arguments)
    json.dumps(shown)
    page = html(arguments, held)
    assert "<script>" not in page
    assert "\u202e" not in page


@pytest.mark.parametrize(
    "arguments",
    [
        {"a": "\u202e" * 250_000},
        {str(n): n for n in range(30_000)},
        {"a": [{"b": n} for n in range(20_000)]},
        {"a": [[[[[[[[1]]]]]]]] * 10_000},
        {str(n): "\u202e" * 300 for n in range(280)},
        {"\u202e" * 500 + str(n): 1 for n in range(400)},
        {str(n): {str(k): {str(j): "\u202e" * 30 for j in range(6)} for k in range(6)} for n in range(40)},
    ],
    ids=["text", "names", "list", "deep", "texts", "chips in names", "wide and deep"],
)
def test_a_page_stays_small(arguments: Json) -> None:
    """B6: at most about a megabyte, whatever an agent sends, and what is left out is counted."""
    page = html(arguments)
    assert len(page) < 2**20
    assert "more" in page


def test_one_argument_cannot_push_another_out() -> None:
    """B6: each has its share, also beside one that is very large."""
    shown = shown_arguments_of({"big": {str(n): {"x": "y" * 100} for n in range(5_000)}, "small": "z" * 700}, None)
    assert shown["rows"][1]["value"]["head"] == "z" * 700
    assert shown["rows"][0]["value"]["left_out"] > 4_000


def test_times_and_numbers_and_those_that_are_missing() -> None:
    filters = Renderer("x")._templates.filters
    local = datetime.fromtimestamp(1_767_225_600.5, UTC).astimezone()
    shown = {"clock": f"{local:%H:%M:%S}", "moment": f"{local:%Y-%m-%d %H:%M:%S}", "number": "1,767,225,600"}
    for name, text in shown.items():
        assert (filters[name](1_767_225_600.5), filters[name](None)) == (text, "-")
    for name in ("duration", "size"):
        assert filters[name](None) == "-"


@pytest.mark.parametrize("most", [60, 300, 24_000])
@pytest.mark.parametrize("length", [0, 59, 61, 91, 323, 376, 501, 24_199, 24_201, 90_000])
def test_no_note_stands_in_place_of_a_text_that_is_not_longer(most: int, length: int) -> None:
    """Overview cut the last 23 characters of a text, which were the note about what was left out before."""
    text = "x" * length
    cut = bounded(text, most)
    assert cut == text or (len(cut) < length and f"({length - most:,} more characters)" in cut)
    # A page that cuts at the same length leaves the note whole.
    assert str(shown(cut, most)) == f"<bdi>{cut}</bdi>"
    page = str(shown(text, most))
    assert text in page or f'<span class="cut">{length - most:,} more characters</span>' in page
    assert ("cut" in page) is (cut != text)
