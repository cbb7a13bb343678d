"""Which bounds an approved definition is served in spite of: those that only empty, very long or odd texts break."""

from typing import Any

import pytest

from aggregator.pins.decide.definition import canonical_text
from aggregator.pins.decide.serving import approved_definition

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
    ({"type": "number"}, {"type": "number", "minimum": 0}),
    # What a lookahead asked for is said by bounds, or not at all.
    (HOST, {**TEXT, "pattern": r"^(?:[a-z]+\.)+[a-z]+$", "minLength": 1, "maxLength": 253}),
    ({**TEXT, "pattern": r"^(?![)\)(]).a|b$"}, {**TEXT, "pattern": r"^.a|b$"}),
]
# What breaks ordinary calls, or values that were named.
HELD: list[tuple[Any, Any]] = [
    (TEXT, {**TEXT, "minLength": 2}),
    (TEXT, {**TEXT, "maxLength": 254}),
    (TEXT, {**TEXT, "minLength": True}),
    ({"enum": ["", "x"]}, {**TEXT, "minLength": 1}),
    ({"const": ""}, {**TEXT, "minLength": 1}),
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
    (NAME, {**TEXT, "pattern": "^xyzzy$"}),
    (NAME, {**TEXT, "pattern": "^[a-zA-Z0-9._-]{3}$"}),
    (NAME, {**TEXT, "pattern": "^[a-zA-Z0-9._-]+x$"}),
    (NAME, {**TEXT, "pattern": "^[^a-zA-Z0-9._-]+$"}),
    (NAME, {**TEXT, "pattern": 7}),
    ({**TEXT, "pattern": "^a{3}$"}, NAME),
    ({"type": "array", "items": TEXT}, {"type": "array", "items": TEXT, "minItems": 1}),
    ({"type": "number"}, {"type": "number", "minimum": 1}),
    ({"type": "number"}, {"type": "number", "exclusiveMinimum": 0}),
    ({"type": "number"}, {"type": "number", "maximum": 0}),
    ({"type": "number", "minimum": -5}, {"type": "number", "minimum": 0}),
    ({"type": "number", "exclusiveMinimum": -5}, {"type": "number", "minimum": 0}),
    ({"enum": [-1, 1]}, {"type": "number", "minimum": 0}),
    ({"type": "array", "items": TEXT}, {"type": "array", "items": {**TEXT, "maxLength": 3}}),
]


def served(before: Any, after: Any) -> Any:
    """Return what is served of a tool whose argument has changed."""
    tools = [
        {"name": "a", "inputSchema": {"type": "object", "properties": {"a": one}}, "description": said}
        for one, said in ((before, "as approved"), (after, "changed"))
    ]
    return approved_definition("tool", canonical_text("tool", tools[0]), tools[1])


@pytest.mark.parametrize(("before", "after"), SERVED)
def test_bounds_that_ordinary_calls_keep(before: Any, after: Any) -> None:
    found = served(before, after)
    assert found["description"] == "as approved"
    assert found["inputSchema"]["properties"] == {"a": before}


@pytest.mark.parametrize(("before", "after"), HELD)
def test_bounds_that_ordinary_calls_break(before: Any, after: Any) -> None:
    assert served(before, after) is None


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
        assert "description" not in found
        assert ("outputSchema" in found) is ("outputSchema" in more)


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
