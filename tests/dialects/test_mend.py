"""Definitions in the dialects of model APIs: no rule is broken, and arguments are read back as the original means."""

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.catalog.listing import Listing
from aggregator.dialects.gateway import Dialects, in_dialect
from aggregator.dialects.mend.apis import APIS
from aggregator.dialects.mend.build import CannotMend
from aggregator.dialects.mend.flatten import both_of
from aggregator.dialects.mend.keys import renamed
from aggregator.dialects.mend.mend import Mended, mend
from aggregator.dialects.mend.read_back import Reader
from aggregator.dialects.names import Schemas
from aggregator.domain.records import ToolRecord
from aggregator.schemas.checks import SchemaChecks
from aggregator.wire.codec import encode
from tests.dialects.model_apis import refusals
from tests.peers.toolbox import Json

ALL: Final[tuple[Schemas, ...]] = tuple(APIS)
TEXT: Final[Json] = {"type": "string"}
NODE: Final[Json] = {
    "type": "object",
    "properties": {"name": TEXT, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
    "required": ["name"],
}

# What servers write that fails a whole request at one API or another.
SCHEMAS: Final[Mapping[str, Json]] = {
    "anyOf at the top": {
        "type": "object",
        "properties": {"id": TEXT, "title": TEXT},
        "anyOf": [{"required": ["id"]}, {"required": ["title"]}],
    },
    "oneOf at the top": {
        "oneOf": [
            {"type": "object", "properties": {"a": TEXT}, "required": ["a"]},
            {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]},
        ]
    },
    "allOf at the top": {"allOf": [{"properties": {"a": TEXT}}, {"properties": {"b": TEXT}, "required": ["a"]}]},
    "a reference at the top": {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
    "type lists": {
        "type": "object",
        "properties": {
            "n": {"type": ["integer", "null"], "default": None},
            "s": {"type": ["string", "number", "array"], "items": {"type": ["object", "null"]}},
        },
    },
    "boolean schemas": {"type": "object", "properties": {"any": True, "none": False, "list": {"type": "array"}}},
    "ghosts": {
        "type": "object",
        "properties": {
            "f": {"type": "array", "items": {"type": "object", "properties": {"x": TEXT}, "required": ["y"]}}
        },
        "required": ["f", "g"],
    },
    "no type": {"properties": {"q": {"minLength": 1}, "o": {"properties": {"x": TEXT}}}},
    "nothing": {},
    "enums": {
        "type": "object",
        "properties": {
            "level": {"enum": [1, 2, 3]},
            "word": {"type": "string", "enum": ["", "a"]},
            "mixed": {"enum": ["a", 1, 1.5, True, None]},
            "same": {"const": "x"},
            "things": {"enum": [{"a": 1}, [2]]},
        },
    },
    "a huge enum": {
        "type": "object",
        "properties": {"icon": {"enum": [f"icon-{number:05}" for number in range(6_000)]}},
    },
    "remote": {
        "type": "object",
        "properties": {"x": {"$ref": "https://example.com/x.json"}, "y": {"$ref": "#/nowhere"}},
    },
    "an invented type": {"type": "object", "properties": {"x": {"type": "int"}}},
    "a tree": {"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": NODE}},
    "draft 4": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {
            "n": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
            "pair": {"type": "array", "items": [TEXT, {"type": "integer"}]},
        },
    },
    "odd names": {
        "type": "object",
        "properties": {
            "filter[id]": TEXT,
            "$top": {"type": "integer"},
            "城市": TEXT,
            "auth-method": TEXT,
            "a" * 80: TEXT,
        },
        "required": ["filter[id]"],
    },
    "formats and bounds": {
        "type": "object",
        "properties": {
            "mail": {"type": "string", "format": "email", "minLength": 3, "pattern": "(?=.*@).*"},
            "at": {"type": "string", "format": "date-time"},
            "n": {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10, "format": "int32", "multipleOf": 2},
            "x": {"type": "number", "exclusiveMinimum": 0},
            "list": {"type": "array", "items": TEXT, "uniqueItems": True, "contains": {"const": "a"}},
        },
    },
    "maps": {
        "type": "object",
        "properties": {
            "headers": {"type": "object", "additionalProperties": TEXT},
            "free": {"type": "object"},
            "open": {"type": "object", "properties": {"a": TEXT}, "additionalProperties": {}},
            "never": {"type": "object", "additionalProperties": False},
            "named": {"type": "object", "patternProperties": {"^x": TEXT}, "propertyNames": {"pattern": "^x"}},
        },
    },
    "choices inside": {
        "type": "object",
        "properties": {
            "to": {"oneOf": [TEXT, {"type": "array", "items": TEXT}, {"type": "null"}], "description": "Who gets it"},
            "one": {"anyOf": [{"not": {}}, TEXT]},
            "shape": {
                "description": "A shape",
                "oneOf": [
                    {"type": "object", "properties": {"kind": {"const": "dot"}, "at": {}}, "required": ["kind"]},
                    {
                        "type": "object",
                        "properties": {"kind": {"const": "line"}, "to": TEXT},
                        "required": ["kind", "to"],
                    },
                ],
            },
            "both": {"type": "object", "properties": {"a": TEXT}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            "all": {"allOf": [{"type": "string", "minLength": 2}, {"maxLength": 5}]},
            "wrapped": {"allOf": [{"$ref": "#/$defs/node"}], "description": "One", "default": {}},
            "condition": {"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}},
        },
        "$defs": {"node": NODE},
    },
    "deep": {
        "type": "object",
        "properties": {"a": json.loads('{"type":"object","properties":{"a":' * 20 + "{}" + "}}" * 20)},
    },
}


def sent(definition: Mapping[str, Any] | None) -> Json:
    """A definition as a host sends it to a model API, under a name that fits."""
    assert definition is not None
    return {**definition, "name": "do"}


def record(schema: Json, name: str = "do", **fields: Any) -> ToolRecord:
    definition = {"name": name, "description": "Do it.", **fields, "inputSchema": schema}
    return ToolRecord("s", "s", name, definition, {"canonical": f"s.{name}", "compatible": f"s__{name}"}, 1.0)


@pytest.mark.parametrize("dialect", ALL)
@pytest.mark.parametrize("what", SCHEMAS)
def test_no_mended_definition_breaks_a_rule(dialect: Schemas, what: str) -> None:
    """6 of issue 32: the fake of each API takes it, and so mending it again changes nothing."""
    tool = in_dialect(record(SCHEMAS[what]), APIS[dialect])
    assert tool.definition is not None
    assert refusals(dialect, [sent(tool.definition)]) == []
    again = in_dialect(record(json.loads(json.dumps(tool.definition["inputSchema"]))), APIS[dialect])
    assert again.definition is not None
    assert refusals(dialect, [sent(again.definition)]) == []


@pytest.mark.parametrize("dialect", ALL)
def test_the_fakes_refuse_what_is_not_mended(dialect: Schemas) -> None:
    """The fake of each API knows its rules: it refuses some of what servers write."""
    refused = {what for what, schema in SCHEMAS.items() if refusals(dialect, [sent(record(schema).definition)])}
    assert "anyOf at the top" in refused
    assert len(refused) > 3
    plain = record({"type": "object", "properties": {}, "required": [], "additionalProperties": False})
    assert refusals(dialect, [{**plain.definition, "name": "a.b"}])[0].endswith("the name")


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
def test_what_breaks_no_rule_is_the_servers_own(dialect: Schemas) -> None:
    """6 of issue 32: a definition that an API takes is the same object, byte for byte."""
    own = {
        "type": "object",
        "properties": {"a": {"anyOf": [TEXT, {"type": "null"}], "default": None}, "n": {"$ref": "#/$defs/node"}},
        "required": [],
        "$defs": {"node": NODE},
        "x-own": 1,
    }
    tool = record(own)
    mended = in_dialect(tool, APIS[dialect])
    assert mended.definition is tool.definition
    assert (mended.changes, mended.reader) == ((), None)


def of(what: str, dialect: Schemas) -> Mended:
    return mend(SCHEMAS[what], APIS[dialect])


def test_the_words_that_a_schema_cannot_say_are_sentences() -> None:
    gemini = of("formats and bounds", "gemini").schema["properties"]
    assert gemini["mail"]["description"].startswith("Format: email. pattern: ")
    assert gemini["mail"]["minLength"] == 3
    assert (gemini["n"]["minimum"], gemini["n"]["maximum"]) == (1, 9)
    assert "exclusiveMinimum: 0" in gemini["x"]["description"]
    assert "Default: null." in of("type lists", "gemini").schema["properties"]["n"]["description"]
    assert "One of 1, 2, 3." in of("enums", "gemini").schema["properties"]["level"]["description"]
    assert "At least one of these fits" in " ".join(of("anyOf at the top", "openai").rules)
    assert of("type lists", "gemini").schema["properties"]["n"]["nullable"] is True
    assert of("enums", "gemini").schema["properties"]["word"]["enum"] == ["a"]


@pytest.mark.parametrize("schema", [{"type": "string", "nullable": True}, {"type": ["string", "null"]}])
def test_null_may_be_written_as_in_openapi(schema: dict[str, Any]) -> None:
    """`nullable` is of OpenAPI 3.0; servers that are made of such a document have it."""
    for nullable in (True, False):
        given = schema if nullable else {"type": "string", "nullable": False}
        mended = mend({"type": "object", "properties": {"s": given}}, APIS["gemini"]).schema["properties"]["s"]
        assert mended.get("nullable", False) is nullable


def test_members_of_strict_schemas_that_are_null_are_left_out() -> None:
    """6 of issue 32: null for an optional member is nothing; null that the original takes stays."""
    reader = mend(
        {
            "type": "object",
            "properties": {
                "a": TEXT,
                "b": {"type": ["string", "null"]},
                "c": {"type": "object", "properties": {"d": TEXT}},
            },
            "required": ["a"],
        },
        APIS["openai-strict"],
    ).reader
    assert reader is not None
    assert reader.read({"a": "x", "b": None, "c": None}) == {"a": "x", "b": None}
    assert reader.read({"a": None, "b": "y", "c": {"d": None}}) == {"a": None, "b": "y", "c": {}}
    assert reader.read({"a": "x", "c": {"d": "z"}}) == {"a": "x", "c": {"d": "z"}}


def test_json_in_a_text_is_what_it_stands_for() -> None:
    """6 of issue 32: an object with any members is a text in a strict schema."""
    reader = of("maps", "openai-strict").reader
    assert reader is not None
    free = reader.read({"free": '{"a": [1, null]}', "headers": '{"x": "y"}', "open": {"a": None}})
    assert free == {"free": {"a": [1, None]}, "headers": {"x": "y"}, "open": {}}
    # What is no object is not taken for one, and an object needs no reading.
    assert reader.read({"free": "[1]"}) == {"free": "[1]"}
    assert reader.read({"free": "{"}) == {"free": "{"}
    assert reader.read({"free": {"a": None}}) == {"free": {"a": None}}
    for number in ("NaN", "-Infinity", "[1e999]", '{"a": Infinity}'):
        # It could not be sent as it was checked.
        assert reader.read({"free": number}) == {"free": number}


def test_a_text_among_choices_is_never_taken_for_json() -> None:
    schema = {"type": "object", "properties": {"x": {"anyOf": [TEXT, {"type": "object"}]}}, "required": ["x"]}
    mended = mend(schema, APIS["openai-strict"])
    given = {"x": '{"a": 1}'}
    assert mended.reader is None or mended.reader.read(given) == given


@pytest.mark.parametrize("dialect", ["anthropic", "gemini", "portable"])
def test_renamed_members_have_their_own_names_again(dialect: Schemas) -> None:
    mended = of("odd names", dialect)
    assert mended.reader is not None
    own = SCHEMAS["odd names"]["properties"]
    shown = {name: name for name in mended.schema["properties"]}
    back = mended.reader.read(shown)
    assert set(back) == set(own)
    assert mended.schema["required"] == ["filter_id_"]
    # A host that knows the original name may use it.
    assert mended.reader.read({"filter[id]": "x", "$top": 5}) == {"filter[id]": "x", "$top": 5}
    assert mended.reader.read({"filter[id]": "x", "filter_id_": "y"}) == {"filter[id]": "x", "filter_id_": "y"}


def test_two_names_never_become_one() -> None:
    names = ("a-b", "a b", "a_b", "a_b_2")
    mended = mend({"type": "object", "properties": dict.fromkeys(names, TEXT)}, APIS["gemini"])
    assert len(mended.schema["properties"]) == 4
    assert mended.reader is not None
    assert set(mended.reader.read({name: name for name in mended.schema["properties"]})) == set(names)


def test_what_cannot_be_mended_is_left_out_with_a_reason() -> None:
    many = {"type": "object", "properties": {f"p{number}": {"$ref": "#/$defs/big"} for number in range(90)}}
    many["$defs"] = {"big": {"type": "object", "properties": {f"q{number}": TEXT for number in range(90)}}}
    with pytest.raises(CannotMend, match="too large"):
        mend(many, APIS["gemini"])
    mended = in_dialect(record(many), APIS["openai-strict"])
    assert mended.definition is None
    assert "too large" in mended.reason
    large = {"type": "object", "properties": {"a": {"description": "x" * 300_000}}}
    for api in APIS.values():
        with pytest.raises(CannotMend, match="too large"):
            mend(large, api)
    assert in_dialect(record(many), APIS["anthropic"]).definition is not None
    long = {"type": "object", "properties": {f"{'p' * 80}{number}": TEXT for number in range(1_800)}}
    assert "120,000 characters" in in_dialect(record(long), APIS["openai-strict"]).reason


_KEYWORDS: Final = (
    *("type", "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "items"),
    *("prefixItems", "additionalItems", "contains", "enum", "const", "anyOf", "oneOf", "allOf", "not", "if"),
    *("then", "else", "$ref", "$defs", "definitions", "$id", "$schema", "format", "pattern", "minLength"),
    *("minimum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "uniqueItems"),
    *("dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties", "default", "examples"),
    *("title", "description"),
)
_WRONG: Final[tuple[Any, ...]] = (
    *(None, True, False, -1, 1.5, "", "x", "#", "#/$defs/a", [], [None], [1], ["a"], [["a"]], [{}], {}, {"a": None}),
    *({"a": 1}, {"a": "x"}, {"a": []}, {"": {}}, {"a": {"$ref": "#"}}, [{"type": 5}], ["null"], 10**40),
)


@pytest.mark.parametrize("api", APIS)
def test_a_keyword_of_a_wrong_type_costs_its_own_tool_at_most(api: Schemas) -> None:
    for keyword in _KEYWORDS:
        for wrong in _WRONG:
            inner = {"a": {"type": "object", keyword: wrong}, "b": {"type": ["string", "null"], keyword: wrong}}
            for schema in (
                {"type": "object", "properties": {"a": TEXT}, keyword: wrong},
                {"type": "object", "properties": inner, "required": ["a"]},
            ):
                found = in_dialect(record(schema), APIS[api])
                assert (found.definition is None) is bool(found.reason), schema
                if found.reader is not None:
                    assert isinstance(found.reader.read({"a": {"a": [None]}, "b": None}), dict), schema


def test_long_descriptions_are_cut_for_the_api_that_takes_short_ones() -> None:
    tool = record({"type": "object", "properties": {}}, description="word " * 500)
    mended = in_dialect(tool, APIS["openai"])
    assert mended.definition is not None
    assert len(mended.definition["description"]) <= 1_024
    assert "a description that is too long" in mended.changes
    assert in_dialect(tool, APIS["anthropic"]).definition is tool.definition


def test_the_work_is_done_once_for_a_definition() -> None:
    dialects, tool = Dialects(), record(SCHEMAS["anyOf at the top"])
    first = dialects.of(tool, "openai")
    assert dialects.of(record(json.loads(json.dumps(SCHEMAS["anyOf at the top"]))), "openai") is first
    assert dialects.of(tool, "gemini") is not first
    assert dialects.reader(tool, "original", ()) is None


async def test_a_list_is_the_same_whichever_tools_were_called_before() -> None:
    tools = Listing([record(schema, f"t{at}") for at, schema in enumerate(SCHEMAS.values())])
    called = Dialects()
    for tool in tools.records[1::3]:
        called.of(tool, "openai")
    listed, fresh = await called.listing(tools, "openai"), await Dialects().listing(tools, "openai")
    assert [tool.definition for tool in listed.records] == [tool.definition for tool in fresh.records]


# -- any schema

NAMES: Final = st.sampled_from(["a", "b", "a-b", "$x", "ü", "", "a_b", "c"])
SCALARS: Final = st.none() | st.booleans() | st.integers(-5, 5) | st.text('ab"{}[]1', max_size=4)
ANY: Final = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2), max_leaves=4
)


@st.composite
def pairs(draw: st.DrawFn, depth: int = 3) -> tuple[Any, Any]:
    """A schema, and a value that fits it."""
    kind = draw(st.sampled_from(["text", "number", "enum", "nullable", "any", "free", "array", "object", "choice"]))
    if depth == 0 and kind in ("array", "object", "choice"):
        kind = "text"
    match kind:
        case "text":
            return draw(st.sampled_from([TEXT, {"type": "string", "format": "email", "default": "x"}])), draw(
                st.text("a{}1")
            )
        case "number":
            return {"type": "integer", "exclusiveMinimum": -10}, draw(st.integers(-5, 5))
        case "enum":
            values = draw(st.lists(SCALARS, min_size=1, max_size=4))
            return {"enum": values}, draw(st.sampled_from(values))
        case "nullable":
            return {"type": ["string", "null"]}, draw(st.none() | st.text("a1"))
        case "any":
            return draw(st.sampled_from([True, {}, {"description": "x"}])), draw(ANY)
        case "free":
            return {"type": "object"}, draw(st.dictionaries(NAMES, ANY, max_size=2))
        case "array":
            item, value = draw(pairs(depth - 1))
            return {"type": "array", "items": item}, draw(st.sampled_from([[], [value], [value, value]]))
        case "choice":
            one, value = draw(pairs(depth - 1))
            other, _ = draw(pairs(depth - 1))
            return {"anyOf": [one, other]}, value
    return draw(objects(depth))


@st.composite
def objects(draw: st.DrawFn, depth: int = 3) -> tuple[Json, Json]:
    """An object schema, and an object that fits it."""
    members = draw(st.dictionaries(NAMES, pairs(depth - 1), max_size=4))
    required = [name for name in members if draw(st.booleans())]
    given_ = {name: value for name, (_, value) in members.items() if name in required or draw(st.booleans())}
    schema: Json = {"type": "object", "properties": {name: part for name, (part, _) in members.items()}}
    return schema | ({"required": required} if required else {}), given_


def written(reader: Reader | None, value: Any, schema: Any) -> Any:
    """A value in the mended form, as a model writes it: the way there, of which the reader is the way back."""
    if reader is None:
        return value
    if reader.text is not None and (isinstance(value, dict) or reader.text == "any"):
        return json.dumps(value)
    if isinstance(value, list):
        return [written(reader.items, one, None) for one in value]
    if not isinstance(value, dict):
        return value
    names = {own: (name, inside) for name, (own, inside) in reader.members.items()}
    found = {}
    for own, part in value.items():
        name, inside = names.get(own, (own, None))
        found[name] = written(inside, part, None)
    return {**{name: None for name in reader.dropped}, **found}


@settings(max_examples=300, deadline=None)
@given(objects(), st.sampled_from(ALL))
def test_whatever_the_schema_no_rule_is_broken_and_arguments_come_back(
    pair: tuple[Json, Json], dialect: Schemas
) -> None:
    """6 of issue 32: every mended schema is taken, and what a model writes in its form is what the original means."""
    schema, value = pair
    mended = in_dialect(record(schema), APIS[dialect])
    assert mended.definition is not None
    assert refusals(dialect, [sent(mended.definition)]) == []
    assert (mended.reader is None) or mended.reader.read(written(mended.reader, value, None)) == value
    if mended.reader is None:
        return
    # An object in the form of the original is decided as it came, but for null where the original takes none.
    check = SchemaChecks().get(record(schema), ())
    back = mended.reader.read(value)
    assert check.at_once(back) == check.at_once(value) == ()


@settings(max_examples=200, deadline=None)
@given(objects(), st.dictionaries(NAMES, ANY, max_size=4), st.sampled_from(ALL))
def test_any_arguments_are_read_without_a_fault(pair: tuple[Json, Json], given_: Json, dialect: Schemas) -> None:
    """6 of issue 32: whatever a model writes, the original decides about an object."""
    reader = in_dialect(record(pair[0]), APIS[dialect]).reader
    back = reader.read(given_) if reader is not None else given_
    assert isinstance(back, dict)
    assert SchemaChecks().get(record(pair[0]), ()).at_once(back) is not None


def test_alike_names_are_told_apart_in_few_steps() -> None:
    asked: list[str] = []

    def fullmatch(name: str) -> bool:
        asked.append(name)
        return name.isascii()

    keys: Any = SimpleNamespace(fullmatch=fullmatch)
    names = [f"{'é' * 60}{number}" for number in range(1_000)]
    found = renamed(names, keys)
    assert len(set(found.values())) == len(names)
    assert len(asked) <= 4 * len(names)


@pytest.mark.parametrize("api", ["portable", "openai-strict"])
def test_references_to_many_names_cost_as_many_nodes(api: Schemas) -> None:
    """A small schema may lead to the same long list many times."""
    names = [f"a{number}" for number in range(3_000)]
    for part in (
        {"type": "object", "required": names},
        {"enum": names},
        {"allOf": [{"enum": names}, {"minLength": 1}]},
    ):
        refers = {f"p{number}": {"$ref": "#/$defs/n"} for number in range(100)}
        with pytest.raises(CannotMend, match="too large"):
            mend({"type": "object", "properties": refers, "$defs": {"n": part}}, APIS[api])


def test_options_of_both_are_compared_as_json_compares_them() -> None:
    both = {"allOf": [{"enum": [1, True, "a", {"b": 1, "c": 2}]}, {"enum": [1.0, "b", {"c": 2, "b": 1}]}]}
    found = both_of(*both["allOf"])
    assert encode(found) == b'{"enum":[1,{"b":1,"c":2}]}'


def test_alternatives_that_say_the_same_are_written_once() -> None:
    """True and 1 do not say the same, and comparing is not for each pair."""
    branches = [{"properties": {"a": {"const": value}}} for value in (1, True, 1)]
    top = mend({"type": "object", "anyOf": branches}, APIS["anthropic"]).schema
    assert encode(top["properties"]["a"]) == b'{"anyOf":[{"const":1},{"const":true}]}'
