"""Schemas as model APIs take them: a plain object at the top, exact where it can be, in words where it cannot."""

from typing import Any, Final

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.dialects.mend.flatten import PortableSchema, portable
from aggregator.domain.schema_walk import positions
from tests.laws import examples
from tests.levels.records import DEFINITIONS, record, records
from tests.peers.toolbox import Json

AT_NO_TOP: Final = {"allOf", "anyOf", "oneOf", "not", "enum", "const", "$ref"}
_settings = settings(deadline=None, max_examples=examples(40))


def test_what_a_policy_adds_is_in_the_properties() -> None:
    """B3, C7: the narrower bound counts, what is required of either is required."""
    own = {
        "type": "object",
        "properties": {"limit": {"type": "integer", "maximum": 100}, "to": {"enum": ["a", "b", 1]}},
    }
    added = [
        {"properties": {"limit": {"maximum": 50}}, "required": ["limit"]},
        {"properties": {"to": {"enum": ["b", True]}}},
    ]
    assert portable({**own, "allOf": added}) == PortableSchema(
        {
            "type": "object",
            "properties": {"limit": {"type": "integer", "maximum": 50}, "to": {"enum": ["b"]}},
            "required": ["limit"],
        },
        (),
    )


def test_a_choice_is_shown_and_said() -> None:
    """B3: what any branch may hold is a property, what all require is required, and the rest is a sentence."""
    by_id = {"properties": {"id": {"type": "integer"}, "kind": {"const": "id"}}, "required": ["kind", "id"]}
    by_name = {"properties": {"name": {"type": "string"}, "kind": {"const": "name"}}, "required": ["kind", "name"]}
    schema = {"type": "object", "oneOf": [{"$ref": "#/$defs/by_id"}, by_name], "$defs": {"by_id": by_id}}
    made = portable(schema)
    assert made.schema["properties"] == {
        "id": {"type": "integer"},
        "kind": {"anyOf": [{"const": "id"}, {"const": "name"}]},
        "name": {"type": "string"},
    }
    assert made.schema["required"] == ["kind"]
    assert made.rules == ('Exactly one of these fits: (id: integer, kind: "id"); (name: string, kind: "name").',)


def test_a_choice_of_what_is_required() -> None:
    """B3: the commonest of all, with properties that stand above it."""
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "code": {"type": "string"}},
        "anyOf": [{"required": ["city"]}, {"required": ["code"]}],
    }
    made = portable(schema)
    assert made.rules == ("At least one of these fits: (city: string); (code: string).",)
    assert "required" not in made.schema


def test_what_has_no_place_is_said() -> None:
    """B3: nothing is dropped in silence."""
    schema = {
        "type": "object",
        "not": {"required": ["a"]},
        "allOf": [{"if": {"required": ["b"]}, "then": {"required": ["c"]}}],
    }
    rules = " ".join(portable(schema).rules)
    assert '"not":{"required":["a"]}' in rules
    assert '"if":{"required":["b"]}' in rules


def test_a_schema_that_is_its_own_part_ends() -> None:
    """B3: neither for ever nor for long."""
    assert portable({"type": "object", "$ref": "#"}).schema == {"type": "object", "properties": {}}
    twice = {"type": "object", "allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}] * 2}}}
    assert len(portable(twice).rules) <= 60


def test_arrays_have_items_and_references_lead_somewhere() -> None:
    """B3: OpenAI refuses the one, Anthropic the other, and every tool with it."""
    schema = {
        "type": "object",
        "properties": {
            "tags": {"type": ["array", "null"]},
            "lost": {"$ref": "#/$defs/none"},
            "moved": {"$ref": "#/anyOf/0"},
        },
        "anyOf": [{"type": "object"}],
    }
    made = portable(schema)
    assert made.schema["properties"]["tags"]["items"] == {}
    assert made.schema["properties"]["lost"] == {}
    assert made.schema["properties"]["moved"] == {}


@_settings
@given(st.lists(DEFINITIONS, min_size=1, max_size=3))
def test_any_schema_has_a_portable_form(definitions: list[Any]) -> None:
    """B3: Whatever servers write."""
    for tool in records(definitions):
        made = portable(tool.definition["inputSchema"])
        assert made.schema["type"] == "object"
        assert isinstance(made.schema["properties"], dict)
        assert not AT_NO_TOP & set(made.schema)
        for _, node in positions(made.schema):
            assert node.get("type") != "array" or "items" in node


_NAMES: Final = st.sampled_from(["a", "b", "c"])
_VALUES: Final = st.none() | st.booleans() | st.integers(-3, 6) | st.sampled_from(["", "x", "yy", "zzzz"])
_SIMPLE: Final = st.one_of(
    st.just(True),
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "integer", ["string", "null"], "boolean"]),
            "minimum": st.integers(-2, 4),
            "maximum": st.integers(-2, 5),
            "maxLength": st.integers(0, 4),
            "enum": st.lists(_VALUES, min_size=1, max_size=4),
            "description": st.just("words"),
        },
    ),
)
_PART: Final = st.fixed_dictionaries(
    {},
    optional={
        "properties": st.dictionaries(_NAMES, _SIMPLE, max_size=3),
        "required": st.lists(_NAMES, max_size=2),
        "maxProperties": st.integers(0, 3),
        "minProperties": st.integers(0, 2),
    },
)
_WHOLE: Final = st.tuples(
    st.fixed_dictionaries({}, optional={"additionalProperties": st.just(False) | _SIMPLE}),
    _PART,
    st.lists(_PART | st.just({"$ref": "#/$defs/part"}), max_size=3),
    _PART,
).map(lambda made: {"type": "object", "allOf": made[2], **made[0], **made[1], "$defs": {"part": made[3]}})
_ARGUMENTS: Final = st.lists(st.dictionaries(_NAMES | st.just("d"), _VALUES, max_size=4), min_size=1, max_size=8)


@settings(deadline=None, max_examples=examples(100))
@given(_WHOLE, _ARGUMENTS)
def test_where_nothing_is_said_both_accept_the_same(schema: Json, given: list[Json]) -> None:
    """B3, D6: The model is shown what it is held to."""
    made = portable(schema)
    assert made.rules == ()
    before, after = (jsonschema.Draft202012Validator(one) for one in (schema, made.schema))
    for arguments in given:
        assert before.is_valid(arguments) == after.is_valid(arguments), arguments


def test_the_schema_itself_is_untouched() -> None:
    """B3: it is shared with every other frontend."""
    tool = record(
        inputSchema={"type": "object", "properties": {"a": {"type": "array"}}, "allOf": [{"required": ["a"]}]}
    )
    before = repr(tool.definition)
    portable(tool.definition["inputSchema"])
    assert repr(tool.definition) == before
