"""Tools in the forms of the model APIs."""

import re
from typing import Any, Final

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.catalog.describe.markdown import columns
from aggregator.config.settings import V1Config
from aggregator.frontends.v1.definitions import NotPortable, anthropic, mcp, openai, short, short_whole
from aggregator.frontends.v1.openapi import document
from aggregator.wire.codec import decode, encode
from tests.laws import examples
from tests.levels.records import DEFINITIONS, record, records, schema_of
from tests.peers.toolbox import Json

WEATHER: Final = record(
    "get",
    "weather",
    title="Weather",
    description="查询指定城市的天气信息。",
    inputSchema=schema_of({"city": {"type": "string", "description": "城市名"}, "days": {"type": "integer"}}, "city"),
    annotations={"readOnlyHint": True},
    vendor={"kept": 1},
)
_settings = settings(deadline=None, max_examples=examples(30))


def holds(schema: str, tools: list[Json], **more: Any) -> None:
    """The list against its schema in the OpenAPI document."""
    whole = document(V1Config(max_calls_per_conversation=None))
    body = {"tools": decode(encode(tools)), "tokens": 0, "left_out": 0, **more}
    jsonschema.Draft202012Validator({"$ref": f"#/components/schemas/{schema}", **whole}).validate(body)


def test_mcp_is_the_definition_itself() -> None:
    """C7: whole, unknown fields included, under the name it is listed by."""
    assert mcp(WEATHER, "canonical") == {**WEATHER.definition, "name": "weather.get"}
    assert mcp(WEATHER, "compatible")["name"] == "weather__get"


def test_openai() -> None:
    """B3, C7: the form of Chat Completions, with a name that it takes."""
    assert openai(WEATHER) == {
        "type": "function",
        "function": {
            "name": "weather__get",
            "description": "查询指定城市的天气信息。",
            "parameters": WEATHER.definition["inputSchema"],
        },
    }


def test_anthropic() -> None:
    """C7: the form of Messages."""
    assert anthropic(WEATHER) == {
        "name": "weather__get",
        "description": "查询指定城市的天气信息。",
        "input_schema": WEATHER.definition["inputSchema"],
    }


def test_short() -> None:
    """B2: name, description and the main parameters as `city: 城市名`, the required ones first."""
    assert short(WEATHER, "zh") == {
        "name": "weather.get",
        "description": "查询指定城市的天气信息",
        "params": ["city: 城市名", "days: integer"],
    }
    whole = short_whole(WEATHER)
    assert (whole["description"], whole["parameters"]) == (
        "查询指定城市的天气信息。",
        WEATHER.definition["inputSchema"],
    )


def test_a_title_stands_in_for_a_description() -> None:
    """C7: where a server gives only that; and nothing is made up where it gives neither."""
    assert openai(record(title="Weather now"))["function"]["description"] == "Weather now"
    assert "description" not in openai(record())["function"]
    assert "description" not in anthropic(record(description="  "))


def test_openai_takes_short_descriptions_only() -> None:
    """B3: it is cut at 1,024 characters, and what the schema cannot say stays."""
    schema = {**schema_of({"a": {}, "b": {}}), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    tool = record(description="word " * 1_000, inputSchema=schema)
    said = openai(tool)["function"]["description"]
    assert len(said) <= 1_024
    assert "…" in said
    assert said.endswith("At least one of these fits: (a: any); (b: any).")
    assert len(anthropic(tool)["description"]) > 5_000


@pytest.mark.parametrize("name", ["城市", "filter[id]", "$top", "x" * 65, ""])
def test_a_parameter_whose_name_anthropic_refuses_gets_another(name: str) -> None:
    """C7: one such parameter costs the whole request; calls are read back."""
    tool = record(inputSchema=schema_of({name: {"type": "string"}}))
    ((given, part),) = anthropic(tool)["input_schema"]["properties"].items()
    assert re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", given)
    assert part == {"type": "string"}
    assert openai(tool)["function"]["parameters"]["properties"] == {name: {"type": "string"}}


@_settings
@given(st.lists(DEFINITIONS, min_size=1, max_size=3))
def test_any_tool_in_any_form(definitions: list[Any]) -> None:
    """B3, C7: whatever servers write, the answer is what the document says."""
    tools = records(definitions)
    holds("OpenAiTools", [openai(tool) for tool in tools], format="openai")
    holds("McpTools", [mcp(tool, "canonical") for tool in tools], format="mcp")
    holds("SeedTools", [short(tool, "en") for tool in tools], format="seed")
    fit = []
    for tool in tools:
        try:
            fit.append(anthropic(tool))
        except NotPortable:
            continue
    holds("AnthropicTools", fit, format="anthropic")


@_settings
@given(st.lists(DEFINITIONS, min_size=1, max_size=3))
def test_the_short_form_is_short(definitions: list[Any]) -> None:
    """B2: description and parameters within some 200 columns, unless what is required alone takes more."""
    for tool in records(definitions):
        made = short(tool, "en")
        required = tool.definition["inputSchema"].get("required")
        if not required:
            assert columns(made["description"]) + sum(map(columns, made["params"])) <= 200
