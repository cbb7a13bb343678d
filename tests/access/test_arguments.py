"""Arguments against the tool's schema and the policy's, before anything else happens to the call."""

import json
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from aggregator.catalog.validate import validate_tools
from tests.access.conftest import MakeConfig
from tests.access.gateway_harness import FORMS, LEGACY, MODERN, GatewayHarness, error_data, tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import HOST_KINDS, OpenHarness
from tests.access.sync_gateway import sync_gateway
from tests.laws import examples
from tests.peers.back_channel import AnsweringBackChannel
from tests.peers.toolbox import Json, without_provenance

ORDERS: Final = tool(
    "orders",
    {"limit": {"type": "integer"}, "city": {"type": "string"}, "deep": {"type": "object", "required": ["a/b"]}},
    annotations={"readOnlyHint": True},
)
RULE: Final[Json] = {"properties": {"limit": {"maximum": 50}}, "required": ["limit"]}
POLICIES: Final = {"agents": {"one": {"allow": ["crm.*"], "arguments": {"crm.orders": RULE}}, "two": {"allow": ["*"]}}}


@pytest.mark.parametrize("host_kind", HOST_KINDS)
async def test_an_agent_is_shown_its_schema_and_held_to_it(
    open_harness: OpenHarness, host_kind: tuple[str, str]
) -> None:
    """D6, C13, F3: the other agent is neither shown nor held to it."""
    toolbox = RecordingToolbox([ORDERS])
    harness = open_harness({"crm": {**toolbox.config_entry(), "coerce": False}}, POLICIES)
    async with harness.connect_as(host_kind, "one") as one, harness.connect_as(host_kind, "two") as two:
        (shown,), (plain,) = await one.list(), await two.list()
        assert plain["inputSchema"] == ORDERS["inputSchema"]
        assert {**plain, "inputSchema": None} == {**shown, "inputSchema": None}
        held, free = Draft202012Validator(shown["inputSchema"]), Draft202012Validator(plain["inputSchema"])
        for arguments in ({"limit": 50}, {"limit": 51}, {}, {"limit": "5"}, {"limit": 5, "deep": {}}):
            for host, check in ((one, held), (two, free)):
                toolbox.calls.clear()
                result = await host.call("crm.orders", arguments).result()
                assert ("isError" not in result) is check.is_valid(arguments) is bool(toolbox.calls), arguments


async def test_a_refusal_names_what_is_wrong(config: MakeConfig) -> None:
    """D6, C13: pointer, expected and got of each problem, the missing fields by name, in data and in words."""
    harness = GatewayHarness(config("crm"), {"crm": [ORDERS]}, POLICIES)
    answer = await harness.call(harness.host("one"), "crm.orders", {"city": 5, "deep": {}})
    error = error_data(answer)
    assert (error["code"], error["status"], error["tool"], error["retryable"]) == (
        "invalid_arguments", 400, "crm.orders", True,
    )  # fmt: skip
    assert sorted(error["missing"]) == ["/deep/a~1b", "limit"]
    problems = {problem["pointer"]: problem for problem in error["problems"]}
    assert problems.keys() == {"/city", "/limit", "/deep/a~1b"}
    assert "string" in problems["/city"]["expected"]
    assert "5" in problems["/city"]["got"]
    text = answer["result"]["content"][0]["text"]
    assert all(word in text for word in ("limit", "city", "required", "Correct the arguments"))
    above = error_data(await harness.call(harness.host("one"), "crm.orders", {"limit": 51}))["problems"]
    assert [(p["pointer"], "50" in p["expected"], "51" in p["got"]) for p in above] == [("/limit", True, True)]
    assert harness.sent == []


@pytest.mark.parametrize("arguments", [5, "x", [], [1], True])
async def test_arguments_that_are_no_object(config: MakeConfig, arguments: Any) -> None:
    """Proves: C13, D6."""
    harness = GatewayHarness(config("crm"), {"crm": [ORDERS]}, POLICIES)
    answer = await harness.ask(harness.host("two"), "tools/call", {"name": "crm.orders", "arguments": arguments})
    assert answer["error"]["code"] == -32602
    assert harness.sent == []


async def test_forms_are_put_right_unless_the_server_says_no(config: MakeConfig) -> None:
    """D6: and the policy is held against what is sent, not against what came. `off` is a word for false."""
    settings: list[tuple[Json, bool]] = [({}, True), ({"coerce": True}, True), ({"coerce": "off"}, False)]
    for setting, corrected in settings:
        harness = GatewayHarness(config("crm", **setting), {"crm": [ORDERS]}, POLICIES)
        answer = await harness.call(harness.host("one"), "crm.orders", {"limit": "5"})
        assert ("isError" in answer["result"]) is not corrected
        assert [call["arguments"] for call in harness.fake_upstreams["crm"].calls] == [{"limit": 5}] * corrected
        assert (
            error_data(await harness.call(harness.host("one"), "crm.orders", {"limit": "51"}))["code"]
            == "invalid_arguments"
        )


SCHEMAS: Final[dict[str, Json]] = {
    "allOf is a number": {"type": "object", "allOf": 5},
    "allOf is an object": {"type": "object", "allOf": {"a": 1}},
    "allOf is null": {"type": "object", "allOf": None},
    "properties is a list": {"type": "object", "properties": []},
    "required is a text": {"type": "object", "required": "limit"},
    "an endless reference": {"type": "object", "$ref": "#"},
    "a reference to nothing": {"type": "object", "properties": {"limit": {"$ref": "#/$defs/none"}}},
    "a type there is not": {"type": "object", "properties": {"limit": {"type": "whole"}}},
}

# Their faults leave one reading only, so that the catalog repairs them.
MENDED: Final = {"allOf is null", "properties is a list", "required is a text"}


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("agent", ["one", "two"])
async def test_an_unusable_schema_costs_its_tool_only(config: MakeConfig, name: str, agent: str) -> None:
    """D6, C13: the others are listed and called; what cannot be checked is not sent, and says why."""
    rules = {"agents": {"one": {"allow": ["crm.*"], "arguments": {"crm.*": RULE}}, "two": {"allow": ["crm.*"]}}}
    made = config("crm")
    definitions = [{"name": "odd", "inputSchema": SCHEMAS[name]}, ORDERS]
    kept = [
        record.own_name for record in validate_tools(made.servers[0], definitions, ambiguous=False, name_limit=47)[0]
    ]
    harness = GatewayHarness(made, {"crm": definitions}, rules)
    listed = await harness.listed(harness.host(agent))
    assert [one["name"] for one in listed] == [f"crm.{own}" for own in kept]
    assert "isError" not in (await harness.call(harness.host(agent), "crm.orders", {"limit": 5}))["result"]
    sent = [("crm", "orders")]
    if name in MENDED:
        assert "isError" not in (await harness.call(harness.host(agent), "crm.odd", {"limit": 5}))["result"]
        sent.append(("crm", "odd"))
    elif "odd" in kept:
        assert error_data(await harness.call(harness.host(agent), "crm.odd", {"limit": 5}))["code"] == "schema_unusable"
    assert harness.sent == sent


ROUND: Final[Json] = {
    "properties": {"city": {"$ref": "#/$defs/city"}},
    "$defs": {"city": {"enum": ["Rome", "Oslo"]}},
}


@pytest.mark.parametrize("own", [{}, {"$defs": {"city": {"type": "integer"}}}])
async def test_a_rule_with_references_is_shown_as_it_is_enforced(config: MakeConfig, own: Json) -> None:
    """D6: a reference in the policy's schema means the policy's definition, whatever the tool has."""
    definition = {"name": "go", "inputSchema": {"type": "object", **own}}
    rules = {"agents": {"one": {"allow": ["crm.*"], "arguments": {"crm.*": ROUND}}}}
    harness = GatewayHarness(config("crm"), {"crm": [definition]}, rules)
    (shown,) = await harness.listed(harness.host("one"))
    for arguments in ({"city": "Rome"}, {"city": "Bonn"}, {"city": 5}, {}):
        result = (await harness.call(harness.host("one"), "crm.go", arguments))["result"]
        assert Draft202012Validator(shown["inputSchema"]).is_valid(arguments) is ("isError" not in result), arguments


small = st.recursive(
    st.sampled_from([None, True, 1, 51, 2.5, "x", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=4,
)
rules = st.fixed_dictionaries(
    {},
    optional={
        "properties": st.dictionaries(
            st.sampled_from(["a", "b"]),
            st.sampled_from([{"type": "string"}, {"maximum": 50}, {"enum": [1, "x"]}, {"minLength": 1}, False]),
        ),
        "required": st.lists(st.sampled_from(["a", "b", "c"]), unique=True),
        "additionalProperties": st.booleans(),
        "maxProperties": st.integers(0, 2),
    },
)


@settings(max_examples=examples(40), deadline=None)
@given(
    rules, st.lists(rules, min_size=1, max_size=2), st.lists(st.dictionaries(st.sampled_from("abc"), small), max_size=6)
)
def test_what_is_shown_is_what_is_enforced(own: Json, policy: list[Json], tried: list[Json]) -> None:
    """Proves: D6."""
    with sync_gateway([{"name": "go", "inputSchema": {**own, "type": "object"}}], policy) as ask:
        (shown,) = ask("tools/list", {})["tools"]
        check = Draft202012Validator(shown["inputSchema"])
        for arguments in tried:
            result = ask("tools/call", {"name": "crm.go", "arguments": arguments})
            assert ("isError" not in result) is check.is_valid(arguments), arguments


async def test_arguments_are_checked_before_a_person_is_asked(config: MakeConfig) -> None:
    """D6, B6: nobody is bothered with a call that could not be made; and no limit is charged."""
    body = {"allow": ["crm.*"], "confirm": ["crm.*"], "arguments": {"crm.*": RULE}, "limits": {"*": {"per_minute": 1}}}
    harness = GatewayHarness(config("crm"), {"crm": [ORDERS]}, {"agents": {"one": body}})
    asked = AnsweringBackChannel()
    for version in ("2025-11-25", MODERN):
        host = harness.host("one", version, FORMS)
        host.capabilities = FORMS
        error = error_data(await harness.call(host, "crm.orders", {"limit": 99}, asked))
        assert error["code"] == "invalid_arguments"
    assert asked.asked == []


MEASURE: Final = tool(
    "measure", outputSchema={"type": "object", "properties": {"metres": {"type": "number"}}, "required": ["metres"]}
)


@pytest.mark.parametrize(("mode", "passes"), [("enforce", False), ("warn", True), ("off", True), (None, True)])
async def test_results_against_the_output_schema(
    config: MakeConfig, caplog: pytest.LogCaptureFixture, mode: str | None, passes: bool
) -> None:
    """D6: enforced, only logged, or not looked at; warn is the default."""
    harness = GatewayHarness(config("crm", **({"output_validation": mode} if mode else {})), {"crm": [MEASURE]})

    async def sloppy(params: Json) -> Json:
        return {"content": [{"type": "text", "text": "far"}], "structuredContent": {"metres": "many"}}

    harness.fake_upstreams["crm"].answer = sloppy
    for _ in range(2):
        result = (await harness.call(harness.host("local"), "crm.measure"))["result"]
        if passes:
            assert without_provenance(result) == await sloppy({})
            continue
        error = result["_meta"]["aggregator/error"]
        assert (error["code"], error["status"], error["retryable"]) == ("invalid_output", 502, False)
        assert [problem["pointer"] for problem in error["problems"]] == ["/metres"]
        assert result["isError"] is True
        assert result["content"][-1] == {"type": "text", "text": "far"}
        assert "structuredContent" not in result
    told = [record for record in caplog.records if "does not fit its own outputSchema" in record.message]
    assert len(told) == (1 if mode in ("warn", None) else 0)


@pytest.mark.parametrize("mode", ["enforce", "warn", "off"])
async def test_results_that_need_not_fit(config: MakeConfig, mode: str) -> None:
    """D6: what fits and what says that it failed goes through as it came, in every mode."""
    harness = GatewayHarness(config("crm", output_validation=mode), {"crm": [MEASURE, tool("plain")]})
    answers: list[Json] = [
        {"content": [], "structuredContent": {"metres": 1, "more": [None]}},
        {"content": [{"type": "text", "text": "failed"}], "isError": True},
    ]
    for answer in answers:

        async def given_answer(params: Json, answer: Json = answer) -> Json:
            return answer

        harness.fake_upstreams["crm"].answer = given_answer
        assert without_provenance((await harness.call(harness.host("local"), "crm.measure"))["result"]) == answer
        assert without_provenance((await harness.call(harness.host("local"), "crm.plain"))["result"]) == answer


async def test_a_result_without_structure_where_it_is_promised(config: MakeConfig) -> None:
    """D6: under `enforce` it is an error that keeps what was said."""
    harness = GatewayHarness(config("crm", output_validation="enforce"), {"crm": [MEASURE]})
    result = (await harness.call(harness.host("local"), "crm.measure"))["result"]
    assert result["_meta"]["aggregator/error"]["code"] == "invalid_output"
    assert "did measure" in json.dumps(result["content"])


@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize(
    "name", ["Limit", "LIMIT", "l_imit", "li-mit", "l\u0131mit", "lim\u0130t", "limit_"], ids=ascii
)
async def test_another_spelling_of_a_tightened_name(config: MakeConfig, version: str, name: str) -> None:
    """Servers that read names in any case, or `maxItems` for `max_items`, would get past the rule.

    Proves: F3
    """
    harness = GatewayHarness(config("crm"), {"crm": [ORDERS]}, POLICIES)
    for arguments in ({"limit": 5, name: 500}, {"limit": 5, "city": "x", "more": [{"deep": {name: 500}}]}):
        error = error_data(await harness.call(harness.host("one", version), "crm.orders", arguments))
        assert error["code"] == "invalid_arguments"
        (problem,) = error["problems"]
        assert problem["pointer"].endswith(f"/{name}")
        assert problem["expected"] == "the name 'limit'"
    assert harness.sent == []
    assert "isError" not in (await harness.call(harness.host("two", version), "crm.orders", {name: 500}))["result"]


async def test_a_name_that_the_tool_itself_declares_is_its_own(config: MakeConfig) -> None:
    """A tool may tell `limit` from `LIMIT`; large arguments are looked through all the same.

    Proves: D6
    """
    orders = tool("orders", {"limit": {"type": "integer"}, "LIMIT": {"type": "integer"}, "ids": {"type": "array"}})
    harness = GatewayHarness(config("crm"), {"crm": [orders]}, POLICIES)
    host = harness.host("one")
    assert "isError" not in (await harness.call(host, "crm.orders", {"limit": 5, "LIMIT": 500}))["result"]
    many = [{"id": at} for at in range(2_000)]
    assert "isError" not in (await harness.call(host, "crm.orders", {"limit": 5, "ids": many}))["result"]
    refused = await harness.call(host, "crm.orders", {"limit": 5, "ids": [*many, {"Limit": 7}]})
    assert error_data(refused)["problems"][0]["pointer"] == "/ids/2000/Limit"
