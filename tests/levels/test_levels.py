"""Levels 2 and 3: what is shown, what is marked as left out, and that no schema changes its meaning."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.catalog.describe.compact_schema import compact, examples
from aggregator.catalog.describe.levels import excerpt, level1, level2, level3
from tests.levels.records import record, schema_of

TYPES: list[tuple[dict[str, Any] | bool, str]] = [
    ({"type": "string"}, "string"),
    ({"type": "integer", "default": 3}, "integer=3"),
    ({"type": "integer", "minimum": 1, "maximum": 9}, "integer(1..9)"),
    ({"enum": ["c", "f"]}, "c|f"),
    ({"enum": ["c", "1", 1, None]}, 'c|"1"|1|null'),
    (
        {"type": "string", "enum": [f"option-{n}" for n in range(20)]},
        "option-0|option-1|option-2|option-3|option-4|option-5|…~",
    ),
    ({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}, "string"),
    ({"type": ["string", "null"]}, "string"),
    ({"type": "array", "items": {"type": "string"}}, "string[]"),
    ({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}, "(string|integer)[]"),
    ({"type": "object", "properties": {"lat": {}, "lng": {}}, "required": ["lng"]}, "{lng*,lat}~"),
    ({"type": "object"}, "object"),
    ({"type": "string", "pattern": "^a"}, "string~"),
    ({"type": "string", "format": "date"}, "string(date)"),
    ({"$ref": "#/$defs/unit"}, "c|f"),
    (True, "any"),
    ({}, "any"),
]


@pytest.mark.parametrize(("part", "shown"), TYPES, ids=range(len(TYPES)))
def test_a_parameter_in_a_word(part: Any, shown: str) -> None:
    """B2: types, options, defaults and a mark where something was left out."""
    schema = {**schema_of({"x": part}), "$defs": {"unit": {"enum": ["c", "f"]}}}
    assert json.loads(level2(record(inputSchema=schema)))["parameters"] == {"x": shown}


def test_level_2_reads_as_the_seed_has_it() -> None:
    """B2: name, description, main parameters as `"city": "城市名"`."""
    schema = schema_of({"days": {"type": "integer"}, "city": {"type": "string", "description": "城市名"}}, "city")
    text = level2(record("get", "weather", description="查询天气", inputSchema=schema))
    assert text == (
        '{"name":"weather.get","description":"查询天气","parameters":{"city":"string* 城市名","days":"integer"}}'
    )


def test_level_2_is_bounded_and_says_what_it_left_out() -> None:
    many = {f"parameter_{n}": {"type": "string", "description": "Words " * 50} for n in range(200)}
    shown = json.loads(level2(record(description="Reads. " * 500, inputSchema=schema_of(many, "parameter_150"))))
    assert next(iter(shown["parameters"])) == "parameter_150"
    assert shown["more"] == 200 - len(shown["parameters"])
    all_required = json.loads(level2(record(inputSchema=schema_of(many, *many))))
    assert all_required["more"] > 150
    rules = {**schema_of({"a": {}, "b": {}}), "dependentRequired": {"a": ["b"]}}
    assert json.loads(level2(record(inputSchema=rules)))["lossy"] is True


def test_level_3_is_the_schema_without_noise() -> None:
    """B2: whole, less `$schema`, titles that repeat a name, and the output schema unless asked."""
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "getArguments",
        **schema_of(
            {"userId": {"type": "string", "title": "User ID"}, "title": {"type": "string", "title": "Heading"}}
        ),
    }
    tool = record("get", description="Reads.", inputSchema=schema, outputSchema={"type": "object", "title": "Get"})
    told = json.loads(level3(tool))
    assert told == {
        "name": "srv.get",
        "description": "Reads.",
        "server": "srv",
        "inputSchema": schema_of({"userId": {"type": "string"}, "title": {"type": "string", "title": "Heading"}}),
    }
    assert tool.definition["inputSchema"] == schema, "the record is left alone"


def test_level_3_takes_what_the_caller_decided() -> None:
    """E12: the source is the kind of server; annotations are those that count; a policy's schema replaces it."""
    told = json.loads(
        level3(
            record(), source="local", annotations={"readOnlyHint": True}, schema={"type": "object", "maxProperties": 1}
        )
    )
    assert (told["source"], told["server"], told["annotations"]) == ("local", "srv", {"readOnlyHint": True})
    assert told["inputSchema"] == {"type": "object", "maxProperties": 1}


def test_a_long_description_is_cut_with_a_mark() -> None:
    told = json.loads(level3(record(description="word " * 100), 52))["description"]
    assert told == f"{'word ' * 10}".strip() + "… [449 characters left out]"


def test_level_3_says_what_comes_back_and_what_is_only_claimed() -> None:
    """B2: the output schema in short; annotations that count, and apart from them those that the server claims."""
    output = schema_of(
        {"days": {"type": "array", "items": {"type": "string"}}, "city": {"description": "Where"}}, "city"
    )
    said = {"readOnlyHint": True, "openWorldHint": False, "idempotentHint": "yes", "title": "Get"}
    tool = record("get", outputSchema=output, annotations=said)
    told = json.loads(level3(tool, annotations={"readOnlyHint": True}))
    assert told["returns"] == {"city": "any* Where", "days": "string[]"}
    assert (told["annotations"], told["claims"]) == ({"readOnlyHint": True}, {"openWorldHint": False})
    assert "annotations" not in json.loads(level3(tool))
    wide = json.loads(level3(record(outputSchema=schema_of({f"f{n}": {} for n in range(30)}))))["returns"]
    assert (len(wide), wide["…"]) == (21, "10 more")


@given(st.text("ab. \n长。\u0301", max_size=400), st.integers(5, 80))
def test_every_word_of_a_long_description_can_be_read(text: str, length: int) -> None:
    """F5: part after part, each in its bounds, with the offset of the next."""
    read, offset = "", 0
    for _ in range(len(text) + 1):
        part = excerpt(text, offset, length)
        assert len(part.text) <= length
        read += part.text
        if part.next is None:
            break
        assert part.next > offset
        assert part.left == len(text) - part.next
        offset = part.next
    assert part.next is None
    assert "".join(read.split()) == "".join(text.split())


def test_the_rest_of_a_description_comes_without_the_schema() -> None:
    text = "One thing is said here. " * 40
    first = json.loads(level3(record(description=text), 100, read_on="go on at"))["description"]
    assert first.endswith("said here.… [864 more characters: go on at 96]".replace("864", str(len(text.strip()) - 96)))
    rest = json.loads(level3(record(description=text), 10_000, offset=96))
    assert rest == {"name": "srv.get", "description": text.strip()[96:]}


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"examples": [{"city": "Rome"}]}, [{"city": "Rome"}]),
        (schema_of({"city": {"examples": ["Rome"]}, "days": {"default": 3}}, "city"), [{"city": "Rome"}]),
        (
            schema_of({"city": {"examples": ["Rome"]}, "days": {"default": 3}}, "city", "days"),
            [{"city": "Rome", "days": 3}],
        ),
        (schema_of({"city": {"examples": ["Rome"]}, "key": {}}, "city", "key"), []),
        (schema_of({"days": {"default": 3}}), []),
        ({"examples": "Rome", "properties": 5, "required": 7}, []),
        (True, []),
    ],
)
def test_usage_examples(schema: Any, shown: list[Any]) -> None:
    """E12: from the schema's `examples` and `default`."""
    assert examples(schema) == shown


DIALECTS = [
    ("http://json-schema.org/draft-07/schema#", {"properties": {"a": {"type": "integer"}}}, False),
    ("http://json-schema.org/draft-07/schema#", {"properties": {"a": {"items": [{"type": "integer"}]}}}, True),
    ("http://json-schema.org/draft-07/schema#", {"dependencies": {"a": ["b"]}}, True),
    ("http://json-schema.org/draft-07/schema#", {"properties": {"a": {"$ref": "#/definitions/b", "minimum": 3}}}, True),
    *(
        ("http://json-schema.org/draft-07/schema#", {"properties": {"a": {"$ref": "#/definitions/b", **beside}}}, False)
        for beside in (
            *({"title": "T"}, {"description": "D"}, {"default": 1}, {"examples": [1]}),
            *({"$comment": "C"}, {"deprecated": True}),
        )
    ),
    ("http://json-schema.org/draft-04/schema#", {"properties": {"a": {"type": "integer"}}}, True),
    ("https://json-schema.org/draft/2020-12/schema", {"prefixItems": [True]}, False),
]


@pytest.mark.parametrize(("dialect", "schema", "kept"), DIALECTS, ids=range(len(DIALECTS)))
def test_the_dialect_stays_where_it_matters(dialect: str, schema: dict[str, Any], kept: bool) -> None:
    assert ("$schema" in compact({"$schema": dialect, **schema})) is kept


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, "a", "", "title"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "title"]), inner, max_size=3)
    ),
    max_leaves=6,
)
_KEYWORDS: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(["string", "integer", "number", "object", "array", "null", ["string", "null"]]),
    "title": st.sampled_from(["A", "a", "B", "title", "Title", "Other"]),
    "enum": st.lists(_VALUES, min_size=1, max_size=3),
    "const": st.fixed_dictionaries({"title": st.just("const")}) | _VALUES,
    "required": st.lists(st.sampled_from(["a", "title"]), unique=True),
    "minimum": st.integers(-2, 2),
    "maxLength": st.integers(0, 2),
    "default": _VALUES,
}


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    parts = st.dictionaries(st.sampled_from(["a", "b", "title", "$schema"]), inner, max_size=3)
    deeper: dict[str, st.SearchStrategy[Any]] = {
        "properties": parts,
        "items": inner | st.lists(inner, min_size=1, max_size=2),
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "not": inner,
        "if": inner,
        "then": inner,
        "additionalProperties": inner | st.booleans(),
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "dependentSchemas": parts,
        "dependencies": parts,
        "$ref": st.just("#/properties/a"),
    }
    return st.fixed_dictionaries({}, optional={**_KEYWORDS, **deeper})


_SUB = st.recursive(st.fixed_dictionaries({}, optional=_KEYWORDS), _nested, max_leaves=5)
_DIALECT = st.sampled_from([row[0] for row in DIALECTS] + ["https://json-schema.org/draft/2019-09/schema", ""])


def _verdict(schema: dict[str, Any], value: Any) -> bool | str:
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        return bool(kind(schema).is_valid(value))
    except Exception as problem:  # a schema may be broken or circular: then it stays so
        return type(problem).__name__


# Always the same examples: with others the oracle itself has crashed (a panic in a library of `jsonschema`).
@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    _DIALECT,
    st.dictionaries(st.sampled_from(["a", "b", "title"]), _SUB, max_size=3),
    _SUB,
    st.lists(_VALUES, max_size=6),
)
def test_level_3_accepts_the_same_arguments(
    dialect: str, properties: dict[str, Any], more: dict[str, Any], values: list[Any]
) -> None:
    """B2: nothing that counts is lost from a schema."""
    schema = {**({"$schema": dialect} if dialect else {}), **more, "type": "object", "properties": properties}
    thin = compact(schema, "tool")
    for value in [*values, *({"a": value} for value in values), *({"title": value} for value in values), {}]:
        assert _verdict(thin, value) == _verdict(schema, value)


def test_the_same_bytes_whatever_was_asked_before() -> None:
    first = record(description="Reads. " * 9, inputSchema=schema_of({"a": {"title": "A"}, "b": {}}, "b"))
    before = level1(first), level2(first), level3(first)
    level2(first, 50)
    level3(first, 5)
    again = record(description="Reads. " * 9, inputSchema=schema_of({"a": {"title": "A"}, "b": {}}, "b"))
    assert before == (level1(first), level2(first), level3(first)) == (level1(again), level2(again), level3(again))
