"""The changes in spite of which an approved definition is served: those that leave ordinary calls, or a choice."""

from typing import Any

import pytest

from aggregator.pins.decide.definition import canonical_text
from aggregator.pins.decide.serving import Approved, approved_definition

TEXT = {"type": "string"}
LONG = {**TEXT, "maxLength": 255}
NAME = {**TEXT, "pattern": "^[a-zA-Z0-9._-]+$"}
MAIL = {**TEXT, "format": "email"}

HOST = {**TEXT, "pattern": r"^(?=.{1,253}$)(?:[a-z]+\.)+[a-z]+$"}

# What an upgrade adds, and ordinary calls go on.
SERVED: list[tuple[Any, Any]] = [
    (TEXT, {**TEXT, "minLength": 1}),
    (TEXT, {**TEXT, "minLength": 0}),
    (TEXT, LONG),
    (TEXT, {**LONG, "minLength": 1, "maxLength": 2048}),
    ({"type": ["null", "string"]}, {"type": ["null", "string"], "minLength": 1}),
    ({"type": "array", "items": TEXT}, {"type": "array", "items": {**TEXT, "minLength": 1}}),
    ({"type": "object", "properties": {"b": TEXT}}, {"type": "object", "properties": {"b": LONG}}),
    ({"type": "object", "additionalProperties": TEXT}, {"type": "object", "additionalProperties": LONG}),
    ({"anyOf": [TEXT, {"type": "null"}]}, {"anyOf": [{**TEXT, "minLength": 1}, {"type": "null"}]}),
    (NAME, {**TEXT, "pattern": r"^[a-zA-Z0-9._]+(?:[-._a-zA-Z0-9]*)$"}),
    (NAME, {**TEXT, "pattern": "^[a-zA-Z0-9._/-]+$"}),
    (MAIL, {**MAIL, "pattern": "^[^@]+@[^@]+$"}),
    # A format is a note, which the server checks or does not check.
    (TEXT, MAIL),
    (MAIL, {**TEXT, "format": "uri"}),
    ({"enum": ["a@b.c", "d"]}, {"enum": ["a@b.c", "d"], "format": "email"}),
    ({"anyOf": [TEXT, {"type": "null"}]}, {"anyOf": [MAIL, {"type": "null"}]}),
    ({"type": "array", "items": TEXT}, {"type": "array", "items": {**MAIL, "minLength": 1}}),
    ({"type": "number"}, {"type": "number", "minimum": 0}),
    # What a lookahead asked for is said by bounds, or not at all.
    (HOST, {**TEXT, "pattern": r"^(?:[a-z]+\.)+[a-z]+$", "minLength": 1, "maxLength": 253}),
    ({**TEXT, "pattern": r"^(?![)\)(]).a|b$"}, {**TEXT, "pattern": r"^.a|b$"}),
]
CHOICE = {"enum": ["a", "b", "c"]}
ITEMS = {"type": "array", "items": TEXT}
NULLABLE = {"anyOf": [TEXT, {"type": "null"}]}
INNER = {"type": "object", "properties": {"b": TEXT, "c": TEXT}, "additionalProperties": False}
ASKS = {"type": "object", "properties": {"c": CHOICE}, "required": ["c"], "additionalProperties": False}
FORM = {"type": "object", "properties": {"kind": TEXT, "id": TEXT}, "required": ["kind", "id"]}
# What the server takes less of, while calls have a choice left: each is checked against the new schema.
LESS: list[tuple[Any, Any]] = [
    (TEXT, {**TEXT, "minLength": 2}),
    (TEXT, {**TEXT, "maxLength": 254}),
    ({"enum": ["", "x", "y"]}, {**TEXT, "minLength": 1}),
    (TEXT, NAME),
    (TEXT, {**MAIL, "pattern": "@"}),
    ({**TEXT, "format": "form"}, {**TEXT, "format": "form", "pattern": "x"}),
    (MAIL, {**TEXT, "format": "uri", "pattern": "x"}),
    (NAME, {**TEXT, "pattern": "^[a-z]+$"}),
    (HOST, {**HOST, "maxLength": 252}),
    (HOST, {**HOST, "minLength": 2}),
    (HOST, {**TEXT, "pattern": "^[a-z]+$"}),
    ({**TEXT, "pattern": r"^[a-z]+$"}, {**TEXT, "pattern": r"^(?!x)[a-z]+$"}),
    ({**TEXT, "pattern": r"^(?=a)?b$"}, {**TEXT, "pattern": r"^?b$"}),
    ({**TEXT, "pattern": r"^(?=[]a)b)c$"}, {**TEXT, "pattern": r"^b)c$"}),
    ({**TEXT, "pattern": r"^(?=a"}, {**TEXT, "pattern": r"^"}),
    (NAME, {**TEXT, "pattern": "^[a-zA-Z0-9._-]{3}$"}),
    (NAME, {**TEXT, "pattern": "^[a-zA-Z0-9._-]+x$"}),
    (NAME, {**TEXT, "pattern": "^[^a-zA-Z0-9._-]+$"}),
    ({**TEXT, "pattern": "^a{3}$"}, NAME),
    (ITEMS, {**ITEMS, "minItems": 1}),
    (ITEMS, {**ITEMS, "maxItems": 20, "uniqueItems": True}),
    ({**ITEMS, "maxItems": 20}, {**ITEMS, "maxItems": 10}),
    (ITEMS, {"type": "array", "items": {**TEXT, "maxLength": 3}}),
    ({"type": "number"}, {"type": "number", "minimum": 1}),
    ({"type": "number"}, {"type": "number", "exclusiveMinimum": 0}),
    ({"type": "number"}, {"type": "number", "maximum": 0}),
    ({"type": "number"}, {"type": "integer"}),
    ({"type": "number", "minimum": 1}, {"type": "integer", "minimum": 1, "maximum": 100}),
    ({"type": "number", "minimum": -5}, {"type": "number", "minimum": 0}),
    ({"type": "number", "exclusiveMinimum": -5}, {"type": "number", "minimum": 0}),
    ({"enum": [-1, 1, 2]}, {"type": "number", "minimum": 0}),
    (CHOICE, {"enum": ["a", "b"]}),
    (CHOICE, {"enum": ["a", "b", "d"]}),
    # The argument is optional, so that calls can leave it out; new values beside the last one change nothing.
    (CHOICE, {"enum": ["a", "d"]}),
    (CHOICE, {"enum": ["a"]}),
    (CHOICE, {"const": "a"}),
    (CHOICE, {**TEXT, "enum": ["a"], "const": "a"}),
    ({"anyOf": [CHOICE, {"type": "null"}]}, {"anyOf": [{"const": "a"}, {"type": "null"}]}),
    ({"enum": [1, 2, 3]}, {"type": "integer", "minimum": 2, "maximum": 2}),
    ({"enum": ["", "x"]}, {**TEXT, "minLength": 1}),
    ({"anyOf": [CHOICE, {"type": "null"}]}, {"anyOf": [{"enum": ["a", "d"]}, {"type": "null"}]}),
    (CHOICE, {"anyOf": [{"const": "a"}, {"const": "c"}]}),
    ({"anyOf": [{"const": "a"}, {"const": "b"}, {"const": "c"}]}, {"type": "string", "enum": ["a", "c"]}),
    (TEXT, {**TEXT, "enum": ["a", "b"]}),
    (NULLABLE, TEXT),
    (NULLABLE, {**TEXT, "maxLength": 5}),
    ({"type": ["string", "null"]}, TEXT),
    ({"type": ["string", "number", "null"]}, {"type": ["string", "number"]}),
    ({"anyOf": [TEXT, {"type": "number"}, {"type": "null"}]}, {"anyOf": [TEXT, {"type": "number"}]}),
    (INNER, {**INNER, "properties": {"b": TEXT}}),
    # A simple type for what had none, as a library writes after its upgrade.
    ({"type": "array"}, ITEMS),
    ({"type": "array", "items": {}}, {"type": "array", "items": {"type": ["integer", "null"]}}),
    ({"type": "array", "items": True}, {"type": "array", "items": MAIL}),
    ({"description": "One."}, {"type": "boolean"}),
    # The value that tells one form of an object from another.
    ({"oneOf": [INNER, FORM]}, {"oneOf": [INNER, {**FORM, "properties": {"kind": {"const": "x"}, "id": TEXT}}]}),
    ({"oneOf": [INNER, FORM]}, {"oneOf": [INNER, {**FORM, "properties": {"kind": {"enum": ["x"]}, "id": TEXT}}]}),
    (FORM, {**FORM, "properties": {"kind": {**TEXT, "const": "x"}, "id": TEXT}}),
    (
        {"oneOf": [{**INNER, "properties": {"b": MAIL, "c": CHOICE}}, FORM]},
        {"oneOf": [{**INNER, "properties": {"b": MAIL, "c": {"enum": ["a", "b"]}}}, FORM]},
    ),
]
# What breaks each call, or may: nothing is left to choose, or something is asked for that no call has.
HELD: list[tuple[Any, Any]] = [
    (TEXT, {**TEXT, "minLength": True, "type": "integer"}),
    (TEXT, {**TEXT, "maxLength": 0}),
    (TEXT, {**TEXT, "maxLength": "5"}),
    ({**TEXT, "maxLength": 5}, {**TEXT, "minLength": 6}),
    ({**TEXT, "minLength": 6}, {**TEXT, "maxLength": 5}),
    ({"const": ""}, {**TEXT, "minLength": 1}),
    (ITEMS, {**ITEMS, "maxItems": 0}),
    (TEXT, {"type": "integer"}),
    ({"type": "array"}, {"type": "array", "items": {**TEXT, "const": "a"}}),
    ({"type": "array"}, {"type": "array", "items": {**TEXT, "maxLength": 0}}),
    ({"type": "array"}, {"type": "array", "items": FORM}),
    ({"type": "array"}, {"type": "array", "items": {"type": "null"}}),
    ({"type": "array"}, {"type": "array", "items": False}),
    ({}, {"type": "object", "properties": {"b": TEXT}}),
    ({}, {"type": "array"}),
    (TEXT, {**TEXT, "const": "a"}),
    (TEXT, {**TEXT, "enum": ["a"]}),
    (TEXT, {"enum": [1, 2]}),
    (TEXT, {"enum": ["a", 1]}),
    (ASKS, {**ASKS, "properties": {"c": {"enum": ["a", "d"]}}}),
    (ASKS, {**ASKS, "properties": {"c": {"enum": ["a"]}}}),
    (ASKS, {**ASKS, "properties": {"c": {"const": "a"}}}),
    ({"type": "array", "items": CHOICE}, {"type": "array", "items": {"const": "a"}}),
    (CHOICE, {"enum": ["d", "e"]}),
    (CHOICE, {"const": "d"}),
    ({"const": "a"}, {"const": "d"}),
    ({"const": "a"}, {"enum": ["d", "e"]}),
    (CHOICE, {"enum": "ab"}),
    ({"type": "integer"}, {"type": "integer", "minimum": 5, "maximum": 5}),
    ({"type": ["string", "number", "null"]}, {"type": ["string", "null"]}),
    ({"anyOf": [TEXT, {"type": "number"}]}, TEXT),
    (NULLABLE, {"type": "null"}),
    (INNER, {**INNER, "properties": {"d": TEXT}}),
    ({**INNER, "required": ["c"]}, {**INNER, "properties": {"b": TEXT}}),
    (INNER, {**INNER, "required": ["b"]}),
    (INNER, {**INNER, "minProperties": 1}),
    (TEXT, {**TEXT, "not": {"const": "a"}}),
]


def served(before: Any, after: Any) -> Approved | None:
    """Return what is served of a tool whose argument has changed."""
    tools = [
        {"name": "a", "inputSchema": {"type": "object", "properties": {"a": one}}, "description": said}
        for one, said in ((before, "as approved"), (after, "changed"))
    ]
    return approved_definition("tool", canonical_text("tool", tools[0]), tools[1])


@pytest.mark.parametrize(("before", "after"), SERVED)
def test_bounds_that_ordinary_calls_keep(before: Any, after: Any) -> None:
    found = served(before, after)
    assert found is not None
    assert found.definition["description"] == "as approved"
    assert found.definition["inputSchema"]["properties"] == {"a": before}
    assert found.takes is None


def test_bounds_that_ordinary_calls_keep_in_shared_schemas() -> None:
    """As libraries write the models of arguments."""
    used = {"type": "object", "properties": {"a": {"$ref": "#/$defs/One"}}}
    before, after = ({**used, "$defs": {"One": {"type": "object", "properties": {"b": one}}}} for one in (TEXT, MAIL))
    text = canonical_text("tool", {"name": "a", "inputSchema": before})
    found = approved_definition("tool", text, {"name": "a", "inputSchema": after})
    assert found is not None
    assert found.takes is None


@pytest.mark.parametrize(("before", "after"), LESS)
def test_what_leaves_calls_a_choice(before: Any, after: Any) -> None:
    """The approved definition is served word for word; the new schema only checks its calls."""
    found = served(before, after)
    assert found is not None
    assert found.definition["description"] == "as approved"
    assert canonical_text("tool", found.definition) == canonical_text(
        "tool", {**found.definition, "inputSchema": {"type": "object", "properties": {"a": before}}}
    )
    assert found.takes is not None


@pytest.mark.parametrize(("before", "after"), HELD)
def test_what_leaves_calls_no_choice(before: Any, after: Any) -> None:
    assert served(before, after) is None


@pytest.mark.parametrize(
    ("before", "after", "goes_on"),
    [
        ({}, {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}, True),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, {"type": "object", "required": ["a"]}, True),
        ({"type": "object"}, {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}, False),
    ],
)
def test_a_tool_without_a_schema_stays_if_it_gets_one(before: Any, after: Any, goes_on: bool) -> None:
    """Some releases of libraries write none, and models send what the description says; `{}` is not `no arguments`."""
    text = canonical_text("tool", {"name": "a", "inputSchema": before})
    found = approved_definition("tool", text, {"name": "a", "inputSchema": after})
    assert (found is not None) is goes_on
    assert found is None or found.takes is not None


OPEN: dict[str, Any] = {"type": "object", "properties": {"a": TEXT}}


@pytest.mark.parametrize(
    ("before", "after", "goes_on"),
    [
        ({**OPEN, "additionalProperties": {}}, {**OPEN, "additionalProperties": False}, True),
        ({**OPEN, "additionalProperties": True}, OPEN, True),
        ({**OPEN, "additionalProperties": TEXT}, {**OPEN, "additionalProperties": False}, False),
        ({"type": "object", "additionalProperties": True}, {**OPEN, "additionalProperties": False}, False),
        ({"type": "object", "additionalProperties": {}}, {"type": "object", "additionalProperties": False}, True),
        ({**OPEN, "additionalProperties": True}, {**OPEN, "properties": {"a": TEXT, "b": {"type": "integer"}}}, True),
        ({**OPEN, "additionalProperties": True, "allOf": [OPEN]}, {**OPEN, "additionalProperties": False}, False),
        ({**OPEN, "additionalProperties": 1}, {**OPEN, "additionalProperties": False}, False),
        ({**OPEN, "patternProperties": {"^x": TEXT}}, {**OPEN, "additionalProperties": False}, False),
    ],
)
def test_arguments_beside_the_named_ones(before: Any, after: Any, goes_on: bool) -> None:
    """Libraries let others pass, or do not, for all tools of a server at once."""
    text = canonical_text("tool", {"name": "a", "inputSchema": before})
    found = approved_definition("tool", text, {"name": "a", "inputSchema": after})
    assert (found is not None) is goes_on


def test_an_open_object_below_the_top_stays_open() -> None:
    closed = {**OPEN, "additionalProperties": False}
    assert served({**OPEN, "additionalProperties": True}, closed) is None
    assert served(OPEN, closed) is not None


def test_an_equal_schema_that_cannot_be_compared_is_served() -> None:
    """Only its words changed; what nobody can decide about stands in both."""
    inner = {"type": "object", "properties": {"b": {"$ref": "https://a.example/b"}}, "required": ["z", "b"]}
    before = {"name": "a", "inputSchema": {"type": "object", "properties": {"a": inner}, "required": ["z", "a"]}}
    for more in ({"description": "changed"}, {"outputSchema": inner, "description": "changed"}):
        old = {**before, **({"outputSchema": inner} if "outputSchema" in more else {})}
        found = approved_definition("tool", canonical_text("tool", old), {**before, **more})
        assert found is not None
        assert "description" not in found.definition
        assert ("outputSchema" in found.definition) is ("outputSchema" in more)


@pytest.mark.parametrize("place", ["0", "1", "2", "00000000", "x", "-1"])
def test_references_into_lists(place: str) -> None:
    """As zod writes the second use of a schema; what leads nowhere is not decided."""
    first = {"anyOf": [{"type": "null"}, {"type": "string", "enum": ["x", "y"]}]}
    refers = {"$ref": f"#/properties/a/anyOf/{place}"}
    before = {"type": "object", "properties": {"a": first, "b": refers}}
    after = {
        "type": "object",
        "properties": {"a": {**first, "anyOf": [*first["anyOf"], {"type": "integer"}]}, "b": refers},
    }
    text = canonical_text("tool", {"name": "a", "inputSchema": before})
    found = approved_definition("tool", text, {"name": "a", "inputSchema": after})
    assert (found is not None) is (place in ("0", "1"))
