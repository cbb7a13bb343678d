"""Calls as models and applications write them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.domain.bounds.slices import at_once
from aggregator.frontends.v1.errors import BadRequest
from aggregator.frontends.v1.parse_calls import CallBatch, ParsedCall, read_steps
from tests.laws import examples
from tests.peers.toolbox import Json
from tests.unit.strategies import json_values

MOST = 4


def read_calls(body: Any, most: int, conversation: str | None = None) -> CallBatch:
    return at_once(read_steps(body, most, conversation))


def openai_call(name: str = "w__get", arguments: Any = '{"city": "北京"}', call_id: Any = "c1") -> Json:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def use(call_id: str = "u1", **more: Any) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "w__get", "input": {"city": "北京"}, **more}


def test_one_call() -> None:
    """A10: as it stands in a model's answer, with whatever stands beside it."""
    said = {"response": "让我帮你查询天气", "tool_call": {"name": "weather", "arguments": {"city": "北京"}}}
    assert read_calls(said, MOST) == CallBatch("single", (ParsedCall("weather", {"city": "北京"}),), None)


@pytest.mark.parametrize("key", ["id", "tool_call_id"])
def test_one_call_with_an_id(key: str) -> None:
    """A10: it comes back with the answer."""
    (call,) = read_calls({"tool_call": {"name": "weather", key: "c9"}}, MOST).calls
    assert call == ParsedCall("weather", {}, "c9")


def test_calls_of_openai() -> None:
    """A6, B3: the assistant's message can be posted whole."""
    message = {"role": "assistant", "content": None, "tool_calls": [openai_call(), openai_call("x", "", "c2")]}
    assert read_calls(message, MOST) == CallBatch(
        "openai", (ParsedCall("w__get", {"city": "北京"}, "c1"), ParsedCall("x", {}, "c2")), None
    )
    assert read_calls({**message, "content": "Let me look."}, MOST).form == "openai"


def test_bare_calls_in_a_list() -> None:
    """A6: several of the first form, ids or not."""
    batch = read_calls({"tool_calls": [{"name": "a"}, {"name": "b", "arguments": {"n": 1}, "id": "i"}]}, MOST)
    assert batch == CallBatch("openai", (ParsedCall("a"), ParsedCall("b", {"n": 1}, "i")), None)


def test_tool_uses_of_anthropic() -> None:
    """A6: the blocks of an assistant's message, whatever else is in it."""
    content = [{"type": "text", "text": "Let me look."}, use(), {"type": "thinking"}, use("u2", input={})]
    assert read_calls({"role": "assistant", "content": content}, MOST) == CallBatch(
        "anthropic", (ParsedCall("w__get", {"city": "北京"}, "u1"), ParsedCall("w__get", {}, "u2")), None
    )


@pytest.mark.parametrize("text", ['{"city": "Oslo"}', '"{\\"city\\": \\"Oslo\\"}"'])
def test_arguments_in_a_text_may_be_encoded_twice(text: str) -> None:
    """A6, B3: as `call_tool` reads them."""
    call = {"id": "c", "function": {"name": "w__get", "arguments": text}}
    assert read_calls({"tool_calls": [call]}, MOST).calls == (ParsedCall("w__get", {"city": "Oslo"}, "c"),)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("{", "not valid JSON"),
        ('"{"', "not valid JSON"),
        ('"\\"{}\\""', "no JSON object"),
        ("[1]", "no JSON object"),
        ([1], "no JSON object"),
        (5, "no JSON object"),
        ("[" * 9999, ""),
    ],
)
def test_what_the_model_got_wrong_is_a_fault_of_its_call(arguments: Any, said: str) -> None:
    """A6, C13: the others go on."""
    batch = read_calls({"tool_calls": [openai_call(arguments=arguments), openai_call(call_id="c2")]}, MOST)
    assert said in (batch.calls[0].fault or "")
    assert batch.calls[0].fault is not None
    assert batch.calls[1] == ParsedCall("w__get", {"city": "北京"}, "c2")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ([], ""),
        ("x", ""),
        (None, ""),
        ({}, ""),
        ({"tool_call": {"name": "a"}, "tool_calls": []}, ""),
        ({"tool_call": "x"}, "tool_call"),
        ({"tool_call": {}}, "tool_call.name"),
        ({"tool_call": {"name": ""}}, "tool_call.name"),
        ({"tool_call": {"name": 5}}, "tool_call.name"),
        ({"tool_call": {"name": "a", "id": 5}}, "tool_call.id"),
        ({"tool_call": {"name": "a", "tool_call_id": ["x"]}}, "tool_call.tool_call_id"),
        ({"tool_calls": {}}, "tool_calls"),
        ({"tool_calls": []}, "tool_calls"),
        ({"tool_calls": [openai_call(), 5]}, "tool_calls[1]"),
        ({"tool_calls": [{"id": "a", "function": 5}]}, "tool_calls[0].function"),
        ({"tool_calls": [{"id": "a", "function": {}}]}, "tool_calls[0].function.name"),
        ({"tool_calls": [openai_call(call_id=None)]}, "tool_calls[0].id"),
        ({"tool_calls": [openai_call(call_id="x" * 300)]}, "tool_calls[0].id"),
        ({"tool_calls": [openai_call(), openai_call()]}, "tool_calls[1].id"),
        ({"tool_calls": [openai_call(call_id=str(n)) for n in range(MOST + 1)]}, "tool_calls"),
        ({"content": []}, "content"),
        ({"content": "a text"}, ""),
        ({"content": [{"type": "text", "text": "x"}]}, "content"),
        ({"content": [{"type": "text"}, use(), use()]}, "content[2].id"),
        ({"content": [use(id=None)]}, "content[0].id"),
        ({"tool_call": {"name": "a"}, "conversation_id": 5}, "conversation_id"),
        ({"tool_call": {"name": "a"}, "conversation_id": ""}, "conversation_id"),
        ({"tool_call": {"name": "a"}, "conversation_id": "x" * 300}, "conversation_id"),
    ],
)  # fmt: skip
def test_what_the_application_got_wrong_names_the_field(body: Any, field: str) -> None:
    """C13: nothing of the request is done."""
    with pytest.raises(BadRequest) as caught:
        read_calls(body, MOST)
    assert caught.value.field == field
    assert f"`{field}" in caught.value.message or not field or "id" in field


def test_the_conversation_of_the_body_counts_before_the_headers() -> None:
    """B6: a request belongs to one conversation."""
    body = {"tool_call": {"name": "a"}}
    assert read_calls(body, MOST).conversation is None
    assert read_calls(body, MOST, "header").conversation == "header"
    assert read_calls({**body, "conversation_id": None}, MOST, "header").conversation == "header"
    assert read_calls({**body, "conversation_id": "body"}, MOST, "header").conversation == "body"


@settings(deadline=None, max_examples=examples(80))
@given(
    st.fixed_dictionaries(
        {},
        optional={
            key: json_values() | st.lists(json_values() | st.just(part), max_size=3) | st.just(part)
            for key, part in {"tool_call": {"name": "a"}, "tool_calls": openai_call(), "content": use()}.items()
        },
    )
    | json_values()
)
def test_any_body_is_calls_or_a_fault(body: Any) -> None:
    """C13: Nothing else comes out."""
    try:
        batch = read_calls(body, MOST)
    except BadRequest:
        return
    assert 1 <= len(batch.calls) <= MOST
    assert all(isinstance(call.arguments, dict) == (call.fault is None) for call in batch.calls)


def test_each_call_is_a_step() -> None:
    """Their arguments may each be a long text, and others have their turn between two of them."""
    for body in (
        {"tool_calls": [openai_call(call_id=f"c{at}") for at in range(3)]},
        {"content": [use("u1"), use("u2"), use("u3")]},
    ):
        assert len(list(read_steps(body, MOST))) == 3
