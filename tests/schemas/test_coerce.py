"""What is put right, and what is left alone."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import pytest

from aggregator.schemas import read_text as read_text_module
from aggregator.schemas.coerce import Correction
from aggregator.schemas.coerce import coerce as coerce_named
from aggregator.schemas.declared_names import DeclaredNames

coerce_module = import_module("aggregator.schemas.coerce")

NUMBERS = {"type": "array", "items": {"type": "integer"}}
NOTE = {"type": "object", "properties": {"n": {"type": "integer"}}}
NULLABLE = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
REFERRED = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}
CLOSED = {"type": "object", "properties": {"max_items": {"type": "integer"}}, "additionalProperties": False}
NEEDED = {"properties": {"max_items": {"type": "integer"}}, "required": ["max_items"]}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
A_LIST = {"type": "array", "items": {"type": "string"}}
A_SET = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
A_PAIR = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": {"type": "integer"}}
DRY = {"type": "object", "properties": {"dryRun": {"type": "boolean"}}}
A_TIME = {"type": "string", "format": "date-time"}
PYTHON = {"a": [True, None, "it's", "say 'a' \"b\""]}


def coerce(
    schema: dict[str, Any], value: Any, *, lone: bool = True, tool: str = ""
) -> tuple[Any, Sequence[Correction]]:
    return coerce_named(schema, value, DeclaredNames(schema), lone=lone, tool=tool)


PUT_RIGHT: list[tuple[dict[str, Any], Any, Any, list[str]]] = [
    ({"type": "integer"}, "5", 5, [""]),
    ({"type": "integer"}, " -5 ", -5, [""]),
    ({"type": "number"}, "1.5e3", 1500.0, [""]),
    ({"type": "boolean"}, "true", True, [""]),
    ({"type": "boolean"}, "False", False, [""]),
    # What pydantic takes in its lax mode, and with it most servers in Python.
    *(({"type": "boolean"}, word, True, [""]) for word in ("TRUE", "yes", " Y ", "on", "t", "1", 1, 1.0)),
    *(({"type": ["boolean", "null"]}, word, False, [""]) for word in ("FALSE", "no", "N", "off", "f", "0", 0)),
    *(({"type": "integer"}, text, 7, [""]) for text in ("+7", "007", " +7 ", "+7.0", "07.")),
    ({"type": "integer"}, "1_000", 1000, [""]),
    # An id, which the server has as a text.
    *(
        ({"properties": {name: {"type": ["string", "null"]}}}, {name: 5}, {name: "5"}, [f"/{name}"])
        for name in ("id", "board_id", "projectId", "merge_request_iid", "user-id", "userID")
    ),
    ({"properties": {"ids": {"items": {"type": "string"}}}}, {"ids": ["a", 1]}, {"ids": ["a", "1"]}, ["/ids/1"]),
    ({"properties": {"ids": A_LIST}}, {"ids": 7}, {"ids": ["7"]}, ["/ids", "/ids/0"]),
    ({"type": "integer"}, "-01", -1, [""]),
    ({"type": "number"}, "+.5", 0.5, [""]),
    ({"enum": [1, 2]}, "2", 2, [""]),
    (A_SET, [1, 2, 1, 1.0], [1, 2], [""]),
    (A_SET, ["1", 1], [1], ["/0", ""]),
    (A_PAIR, ["1", "a", "2"], [1, "a", 2], ["/0", "/2"]),
    (A_TIME, 1_767_225_600, "2026-01-01T00:00:00Z", [""]),
    (A_TIME, 1_767_225_600_000, "2026-01-01T00:00:00Z", [""]),
    ({**A_TIME, "anyOf": [True]}, 1_767_225_600, "2026-01-01T00:00:00Z", [""]),
    ({"anyOf": [A_TIME, {"type": "null"}]}, 100_000_000.5, "1973-03-03T09:46:40.500000Z", [""]),
    (NULLABLE, "3", 3, [""]),
    (REFERRED, "3", 3, [""]),
    (NOTE, '{"n": "5"}', {"n": 5}, ["", "/n"]),
    (NUMBERS, "[1, 2]", [1, 2], [""]),
    (NUMBERS, ' "[1, \\"2\\"]" ', [1, 2], ["", "/1"]),
    ({"type": "array", "items": {"type": "string"}}, '"[\\"a\\"]"', ["a"], [""]),
    (NOTE, '"{\\"n\\": 5}"', {"n": 5}, [""]),
    (NUMBERS, 7, [7], [""]),
    (NUMBERS, "7", [7], ["", "/0"]),
    (NUMBERS, ["1", 2], [1, 2], ["/0"]),
    ({"type": "array", "items": {"type": "string"}}, "a", ["a"], [""]),
    ({"properties": {"a": {"type": "string"}}}, {"a": None}, {}, ["/a"]),
    (
        {"properties": {"a/b": {"type": "null"}, "c": NUMBERS}},
        {"c": "7", "a/b": None},
        {"c": [7], "a/b": None},
        ["/c", "/c/0"],
    ),
    ({"allOf": [NOTE]}, {"n": "1"}, {"n": 1}, ["/n"]),
    ({"oneOf": [NOTE, {"type": "string"}]}, {"n": "1"}, {"n": 1}, ["/n"]),
    ({"type": "integer"}, "2.0", 2, [""]),
    ({"type": "integer"}, "1e3", 1000, [""]),
    (NULLABLE, "null", None, [""]),
    (NULLABLE, "None", None, [""]),
    (NOTE, {"n": None}, {}, ["/n"]),
    (NOTE, {"n": "None"}, {}, ["/n"]),
    # Models fill in what they do not need with an empty text.
    (NOTE, {"n": ""}, {}, ["/n"]),
    ({"properties": {"tags": A_LIST, "b": {"type": "boolean"}}}, {"tags": "", "b": " "}, {}, ["/tags", "/b"]),
    ({"properties": {"state": {"enum": ["open", "closed"]}}}, {"state": ""}, {}, ["/state"]),
    (CLOSED, {"maxItems": 1, "x": None}, {"max_items": 1}, ["/maxItems", "/x"]),
    (CLOSED, {"MAX-ITEMS": "1"}, {"max_items": 1}, ["/MAX-ITEMS", "/MAX-ITEMS"]),
    ({**NEEDED, "type": "object"}, {"Max Items": 1, "b": 2}, {"max_items": 1, "b": 2}, ["/Max Items"]),
    ({"additionalProperties": {"type": "integer"}}, {"a": "1"}, {"a": 1}, ["/a"]),
    (NOTE, "{'n': 1,}", {"n": 1}, [""]),
    (NOTE, '```json\n{"n": 1}\n```', {"n": 1}, [""]),
    ({"type": "object"}, "{'a': [True, None, \"it's\", 'say \\'a\\' \"b\"'],}", PYTHON, [""]),
    ({"enum": ["open", "closed"]}, "OPEN", "open", [""]),
    ({"enum": ["in_progress", "done"]}, "In Progress", "in_progress", [""]),
    ({"anyOf": [{"const": "asc"}, {"const": "desc"}, {"type": "null"}]}, "DESC", "desc", [""]),
    ({"$ref": "#/$defs/s", "$defs": {"s": {"type": "string", "enum": ["asc"]}}}, "Asc", "asc", [""]),
    ({"type": "array", "items": {"enum": ["a", "b"]}}, ["A", "b"], ["a", "b"], ["/0"]),
    (NUMBERS, "1, 2,3", [1, 2, 3], ["", "/0", "/1", "/2"]),
    ({"type": "array", "items": {"enum": ["a", "b"]}}, "a,b", ["a", "b"], [""]),
    ({"type": "array", "items": NOTE}, {"n": 1}, [{"n": 1}], [""]),
    (CITY, {"arguments": {"city": "Rome"}}, {"city": "Rome"}, ["/arguments"]),
    (CITY, {"name": "weather.get", "arguments": {"city": "Rome"}}, {"city": "Rome"}, ["/arguments"]),
    (CITY, {"tool": "get", "input": {"params": '{"city": "Rome"}'}}, {"city": "Rome"}, ["/input", "/params"]),
    (CITY, {"kwargs": {"City": "Rome"}}, {"city": "Rome"}, ["/kwargs", "/City"]),
    ({"$ref": "#/$defs/c", "$defs": {"c": CITY}}, {"args": {"city": "Rome"}}, {"city": "Rome"}, ["/args"]),
    (CITY, {"place": {"city": "Rome"}}, {"city": "Rome"}, ["/place"]),
    # A name that an open schema takes, and that most servers ignore.
    (DRY, {"dry_run": True}, {"dryRun": True}, ["/dry_run"]),
    (DRY, {"DRY-RUN": "true", "b": 1}, {"dryRun": True, "b": 1}, ["/DRY-RUN", "/DRY-RUN"]),
    (DRY, {"dry_run": None}, {}, ["/dry_run", "/dry_run"]),
    (DRY, {"dry run": "perhaps"}, {"dryRun": "perhaps"}, ["/dry run"]),
    ({**DRY, "additionalProperties": True}, {"dry_run": True}, {"dryRun": True}, ["/dry_run"]),
    ({"properties": {"o": DRY}}, {"o": {"dry_run": True}}, {"o": {"dryRun": True}}, ["/o/dry_run"]),
    ({"items": DRY}, [{}, {"dry_run": True}], [{}, {"dryRun": True}], ["/1/dry_run"]),
    ({"allOf": [{"required": ["a"]}, DRY]}, {"a": 1, "Dryrun": True}, {"a": 1, "dryRun": True}, ["/Dryrun"]),
    ({"properties": {"a_b": {}, "aB": {}}, "required": ["aB"]}, {"A-B": 1}, {"aB": 1}, ["/A-B"]),
]

LEFT_ALONE: list[tuple[dict[str, Any], Any]] = [
    ({"type": "string"}, "5"),
    ({"type": ["string", "integer"]}, "5"),
    ({}, "5"),
    ({"enum": ["5", 5]}, "5"),
    ({"type": "integer"}, "5.5"),
    ({**NOTE, "required": ["n"]}, {"n": ""}),
    ({"properties": {"a": {"type": "string"}, "b": {}, "c": {"enum": ["", "x"]}}}, {"a": "", "b": "", "c": ""}),
    ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}, {"a": ""}),
    ({"type": "integer"}, "five"),
    ({"type": "integer"}, "+5.5"),
    ({"type": "integer"}, "5_"),
    ({"type": "integer"}, True),
    (A_SET, [1, 2]),
    (A_SET, list(range(1_001)) * 2),
    ({"type": "array", "items": {"type": "object"}, "uniqueItems": True}, [{}, {}]),
    (NUMBERS, [1, 1]),
    ({**A_PAIR, "$schema": "http://json-schema.org/draft-07/schema#"}, ["1", "a"]),
    ({"type": "array", "prefixItems": [{"type": "integer"}]}, [1, "2"]),
    (A_TIME, 99_999_999),
    (A_TIME, 10_000_000_001),
    (A_TIME, 99_999_999_999),
    (A_TIME, True),
    ({"type": "string", "format": "date"}, 1_767_225_600),
    ({"type": ["string", "integer"], "format": "date-time"}, 1_767_225_600),
    ({"type": ["boolean", "integer"]}, "yes"),
    ({"type": ["boolean", "string"]}, "yes"),
    ({"type": "boolean"}, 2),
    ({"type": "boolean"}, "maybe"),
    ({"type": "boolean"}, {"yes": True}),
    ({"type": "number"}, "+0.12345678901234567890"),
    ({"type": "number"}, "+9999999999999999"),
    ({"type": "integer"}, "9" * 50),
    ({"type": "string"}, 5),
    *(
        ({"properties": {name: {"type": "string"}}}, {name: 5})
        for name in ("city", "paid", "valid", "grid", "id_of", "idle")
    ),
    *(({"properties": {"id": {"type": "string"}}}, {"id": value}) for value in (5.0, True)),
    ({"properties": {"id": {"type": ["string", "number"]}}}, {"id": 5}),
    ({"properties": {"id": {"anyOf": [{"type": "string", "format": "uuid"}, {"type": "null"}]}}}, {"id": 5}),
    ({"type": "object"}, "{broken}"),
    ({"type": "object"}, "[1]"),
    ({"type": "array"}, "a"),
    (NUMBERS, "a"),
    (NUMBERS, None),
    ({"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"a": None}),
    ({"properties": {"a": {}}}, {"a": None}),
    ({"properties": {"a": {"type": ["string", "null"]}}}, {"a": None}),
    ({"anyOf": [NOTE, {"type": "object"}]}, {"n": "1"}),
    ({"properties": {"x": {"$id": "other", "$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}, {"x": "1"}),
    ({"$schema": "https://example.com/own", "type": "integer"}, "5"),
    ({"type": "number"}, "1e400"),
    ({"type": "number"}, "NaN"),
    ({"type": "number"}, "Infinity"),
    ({"type": "number"}, "0.12345678901234567890"),
    ({"type": "number"}, "1,000"),
    ({"type": "number"}, ""),
    ({"type": "object"}, '{"a": 1, "a": 2}'),
    ({"type": "object"}, '{"a": 1e400}'),
    ({"type": "object"}, '{"a": NaN}'),
    ({"type": "object"}, "{'a': '\\x41'}"),
    ({"type": "object"}, "{'a': 1"),
    ({"type": "array"}, "(1, 2)"),
    ({"type": ["array", "string"]}, "[1]"),
    ({"enum": ["a", "A"]}, "á"),
    ({"enum": ["Ab", "aB"]}, "ab"),
    ({"enum": ["a-b", "a_b"]}, "a b"),
    ({"anyOf": [{"enum": ["a"]}, {"type": "string"}]}, "A"),
    ({"type": "array", "items": {"type": "string"}}, "a,b"),
    ({"type": "array", "items": {"type": "string"}}, '["a", "b"'),
    ({"type": "array", "items": {"type": "string"}}, ""),
    (NUMBERS, "1,x"),
    ({"type": "integer"}, [5]),
    ({"type": "string"}, ["x"]),
    (CLOSED, {"maxItems": 1, "max-items": 2}),
    # Names that an open schema takes: declared beside it, twice, elsewhere in the schema, or data.
    (NOTE, {"N": 1, "n": 2}),
    (NOTE, {"nn": 1, "m": 2}),
    (NOTE, {"N": 1, " n": 2}),
    ({"properties": {"a_b": {}, "aB": {}}}, {"A-B": 1}),
    ({"properties": {"a_b": {}, "aB": {}}}, {"A-B": 1, "aB": 2}),
    ({"allOf": [{"properties": {"a_b": {}}}, {"properties": {"aB": {}}}]}, {"A-B": 1}),
    ({"properties": {"dryRun": {}, "dry": {"properties": {"dry_run": {}}}}}, {"dry_run": True}),
    ({**NOTE, "anyOf": [{"properties": {"N": {}}}, {"properties": {"k": {}}}]}, {"N": 1}),
    ({**NOTE, "additionalProperties": {"type": "integer"}}, {"N": 1}),
    ({**NOTE, "additionalProperties": {}}, {"N": 1}),
    ({**NOTE, "patternProperties": {"^x": {}}}, {"N": 1}),
    ({"allOf": [NOTE, {"additionalProperties": {}}]}, {"N": 1}),
    ({"allOf": [NOTE, {"patternProperties": {"^N$": {}}}]}, {"N": 1}),
    ({"properties": {"env": {"additionalProperties": {"type": "string"}}, "path": {}}}, {"env": {"PATH": "x"}}),
    ({"properties": {"env": {}, "path": {}}}, {"env": {"PATH": "x"}}),
    (CLOSED, {"maxItems": 1, "max_items": 2}),
    ({**CLOSED, "properties": {"a_b": {}, "aB": {}}}, {"A-B": 1}),
    ({**CLOSED, "patternProperties": {"^m": {}}}, {"maxItems": 1}),
    ({"allOf": [CLOSED, {"properties": {"maxItems": {}}}]}, {"maxItems": 1}),
    (CITY, {"location": "Rome"}),
    (CITY, {"arguments": {"city": "Rome"}, "unit": "c"}),
    (CITY, {"place": {"city": "Rome"}, "unit": "c"}),
    (CITY, {"place": {"city": "Rome", "unit": "c"}}),
    (CITY, {"place": {"town": "Rome"}}),
    (CITY, {"place": {"arguments": {"city": "Rome"}}}),
    (CITY, {"place": '{"city": "Rome"}'}),
    ({**CITY, "required": []}, {"place": {"city": "Rome"}}),
    (CITY, {"arguments": {"city": "Rome"}, "input": {"city": "Bonn"}}),
    (CITY, {"arguments": {"town": "Rome"}}),
    (CITY, {"name": "other", "arguments": {"city": "Rome"}}),
    (CITY, {"arguments": [1]}),
    ({**CITY, "required": []}, {"arguments": {"city": "Rome"}}),
    ({"properties": {"city": {}, "input": {}}, "required": ["city"]}, {"input": {"city": "Rome"}}),
    ({"properties": {"city": {}, "name": {}}, "required": ["city"]}, {"name": "get", "arguments": {"city": "Rome"}}),
    ({"$schema": "http://json-schema.org/draft-07/schema#", **REFERRED, "$ref": "#/nowhere", "type": "integer"}, "5"),
]


@pytest.mark.parametrize(("schema", "value", "meant", "changed"), PUT_RIGHT)
def test_put_right(schema: dict[str, Any], value: Any, meant: Any, changed: list[str]) -> None:
    before = repr(value)
    found, corrections = coerce(schema, value, tool="get")
    assert (found, [one.pointer for one in corrections]) == (meant, changed)
    assert repr(value) == before, "the value itself stays as it came"


@pytest.mark.parametrize(("schema", "value"), LEFT_ALONE)
def test_left_alone(schema: dict[str, Any], value: Any) -> None:
    found, changed = coerce(schema, value, tool="get")
    assert found is value
    assert changed == []


@pytest.mark.parametrize(
    ("schema", "value"), [(NUMBERS, 7), (NUMBERS, "7"), (NUMBERS, "7,8"), (CITY, {"place": {"city": "Rome"}})]
)
def test_a_lone_value_is_no_list_and_no_member_a_holder_where_no_model_calls(
    schema: dict[str, Any], value: Any
) -> None:
    assert coerce(schema, value, lone=False) == (value, [])
    assert coerce(schema, value)[0] != value


def test_names_of_large_arguments_are_looked_at_up_to_a_bound() -> None:
    names = DeclaredNames(DRY)
    assert names.has_other_spelling({"dry_run": True, "rows": list(range(5_000))})
    assert not names.has_other_spelling({"rows": [*range(5_000), {"dry_run": True}]})
    assert not names.has_other_spelling({f"a{number}": 1 for number in range(3_000)})
    assert names.has_other_spelling({f"a{number}": 1 for number in range(1_000)}), "left to the correction"
    assert not names.has_other_spelling({"a": [{"b": 1, "dryRun": True}], "x" * 1_000: 1})
    assert not DeclaredNames({"type": "object"}).has_other_spelling({"dry_run": True})


def test_a_very_large_value_is_left_alone() -> None:
    value = ["1"] * 100_000
    assert coerce(NUMBERS, value) == (value, [])


class CountedList(list[Any]):
    """A list that counts how many of its items are read."""

    read = 0

    def __iter__(self) -> Iterator[Any]:
        for one in super().__iter__():
            CountedList.read += 1
            yield one


def test_what_a_schema_repeats_is_not_read_for_each_item() -> None:
    """Names that each of many items has to have cost steps too."""
    required = CountedList(f"a{number}" for number in range(10_000))
    part = {"type": "object", "required": required, "properties": {"x": {}}}
    CountedList.read = 0
    coerce({"type": "array", "items": part}, [{"y": 1}] * 1_000)
    assert CountedList.read <= 20_000
    many = {"allOf": [{"$ref": "#/$defs/p"}] * 500, "$defs": {"p": {"properties": CountedNames(10_000)}}}
    CountedList.read = 0
    coerce(many, {"y": 1})
    assert CountedList.read <= 20_000


class CountedNames(dict[str, Any]):
    """Properties that count how many of their names are read."""

    def __init__(self, count: int) -> None:
        super().__init__({f"a{number}": {} for number in range(count)})

    def __iter__(self) -> Iterator[str]:
        return iter(CountedList(super().__iter__()))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "array", "items": {"enum": ["x" * 10_000 + str(n) for n in range(100)]}}, ["y"] * 2_000),
        (CLOSED, {"x" * 100_000 + str(number): 1 for number in range(10)}),
        (
            {"properties": {"x" * 10_000 + str(number): {} for number in range(50)}, "additionalProperties": False},
            {"y": 1},
        ),
        (CITY, {"arguments": {"x" * 100_000: 1}}),
        (CITY, {"arguments": {"city": "x"}, "name": "x" * 1_000_000}),
    ],
    ids=["options", "names", "declared names", "names inside", "the name of a tool"],
)
def test_long_names_and_options_are_not_compared(
    monkeypatch: pytest.MonkeyPatch, schema: dict[str, Any], value: Any
) -> None:
    """Each character of them would be looked at for each value."""
    characters: list[int] = []

    def counted(text: str) -> str:
        characters.append(len(text))
        return text.lower()

    for name in ("caseless", "loosened"):
        monkeypatch.setattr(coerce_module, name, counted)
    assert coerce(schema, value, tool="get")[0] is value
    assert sum(characters) <= 20_000


def test_texts_that_are_nearly_json_cost_more_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens: list[str] = []
    as_json = read_text_module._as_json

    def noted(token: Any) -> str:
        tokens.append(token[0])
        return as_json(token)

    monkeypatch.setattr(read_text_module, "_as_json", noted)
    text = "[" + "'a'," * 4_000 + "]"
    lists = {"additionalProperties": {"type": "array"}}
    assert coerce(lists, {"a": text})[0] == {"a": ["a"] * 4_000}
    tokens.clear()
    value = {str(number): text for number in range(50)}
    assert coerce(lists, value) == (value, [])
    assert len(tokens) <= 30_000
