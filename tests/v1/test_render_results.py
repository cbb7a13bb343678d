"""Results as messages: for the model as text, for programs beside it."""

import base64
import json
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.domain.errors import (
    NotAllowed,
    OverLimit,
    UnknownTool,
    UpstreamHttpStatus,
    UpstreamRpcError,
    UpstreamTimeout,
    to_tool_result,
)
from aggregator.frontends.v1.parse_calls import CallBatch, ParsedCall
from aggregator.frontends.v1.render_results import CallOutcome, answer, corrections, of_error, of_result, retry_after
from aggregator.frontends.v1.result_text import as_text
from aggregator.schemas.refusal import CORRECTED_KEY
from aggregator.wire.codec import encode
from tests.laws import examples
from tests.peers.toolbox import Json
from tests.unit.strategies import json_values

WANTED: Final = ParsedCall("w.get", {}, "c1")
DATA: Final = base64.b64encode(b"x" * 100).decode()


def test_corrections_are_ascii_in_a_header() -> None:
    """Whatever an argument is called; and what a server makes of `_meta` is no correction."""
    said = ["/größe\r\nx-evil: 1: as 'size'"]
    outcome = of_result(WANTED, {"content": [], "_meta": {CORRECTED_KEY: said}})
    header = corrections(CallBatch("single", (WANTED,), None), [outcome])
    assert header is not None
    assert header.isascii()
    assert b"\n" not in header
    assert json.loads(header) == said
    assert corrections(CallBatch("openai", (WANTED,), None), [outcome]) is None
    for odd in ("text", 7, {"a": 1}, [1], None, []):
        plain = of_result(WANTED, {"content": [], "_meta": {CORRECTED_KEY: odd}})
        assert plain.corrected == ()
        assert corrections(CallBatch("single", (WANTED,), None), [plain]) is None
    # A header has a bound, whatever a server writes.
    large = of_result(WANTED, {"content": [], "_meta": {CORRECTED_KEY: ["\U0001f600" * 100_000] * 1_000}})
    header = corrections(CallBatch("single", (WANTED,), None), [large])
    assert header is not None
    assert len(header) < 20_000


def test_text_is_joined() -> None:
    """A10, C10: and structured content is not repeated beside it."""
    blocks = [{"type": "text", "text": "北京今天晴"}, {"type": "text", "text": "温度 25°C"}]
    assert as_text({"content": blocks, "structuredContent": {"t": 25}}) == "北京今天晴\n温度 25°C"
    assert as_text({"content": []}) == ""
    assert as_text({}) == ""


@pytest.mark.parametrize(
    ("text", "structured", "repeated"),
    [
        ('{"a": [1, 2.5], "b": "\\u4e2d"}', {"b": "中", "a": [1, 2.5]}, True),
        ("5", {"result": 5}, True),
        ("# Two rows\n| b | 2 |\n| a | 1 |", {"rows": [{"name": "a", "n": 1}, {"name": "b", "n": 2}]}, True),
        ("Nothing was found.", {"rows": [], "more": False, "next": None}, True),
        ("Found 2 rows.", {"rows": [{"name": "a", "n": 1}, {"name": "b", "n": 2}]}, False),
        ("See the structured result.", {"n": 7}, False),
        ("1 2", {"rows": list(range(1, 3)) * 2_000}, False),
    ],
)
def test_structured_content_that_no_text_repeats_follows_it(text: str, structured: Json, repeated: bool) -> None:
    """2 of issue 32: what the texts say otherwise costs no tokens twice, and nothing else is lost."""
    shown = as_text({"content": [{"type": "text", "text": text}], "structuredContent": structured})
    assert shown == (text if repeated else f"{text}\n{encode(structured).decode()}")


def test_structured_content_where_there_is_no_text() -> None:
    """C10: as JSON."""
    assert as_text({"content": [], "structuredContent": {"城市": "北京", "t": [1]}}) == '{"城市":"北京","t":[1]}'
    image = {"type": "image", "mimeType": "image/png", "data": DATA}
    assert as_text({"content": [image], "structuredContent": [1]}) == "[1]\n[image: image/png, 100 bytes]"


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "image", "mimeType": "image/png", "data": DATA}, "[image: image/png, 100 bytes]"),
        ({"type": "audio", "mimeType": "audio/wav", "data": "QUI="}, "[audio: audio/wav, 2 bytes]"),
        (
            {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain", "size": 7},
            "[resource link: a, file:///a, text/plain, 7 bytes]",
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///b", "mimeType": "application/pdf", "blob": DATA}},
            "[resource: file:///b, application/pdf, 100 bytes]",
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///c", "text": "inside"}},
            "[resource: file:///c]\ninside",
        ),
        ({"type": "resource_link", "uri": "file:///a", "name": ""}, "[resource link: file:///a]"),
        ({"type": "image", "mimeType": None, "data": "QUI="}, "[image: 2 bytes]"),
        ({"type": "hologram", "x": 1}, "[hologram]"),
        ({"type": "text"}, "[text]"),
    ],
)
def test_what_is_no_text_is_said(block: Json, text: str) -> None:
    """C10: what it is and how large; a text inside a resource is text."""
    assert as_text({"content": [{"type": "text", "text": "before"}, block]}) == f"before\n{text}"


_RESULTS: Final = st.fixed_dictionaries(
    {},
    optional={
        "content": st.lists(json_values()) | json_values(),
        "structuredContent": json_values(),
        "isError": json_values(leaves=1),
        "_meta": st.fixed_dictionaries({"aggregator/error": json_values()}) | json_values(),
    },
)


@settings(deadline=None, max_examples=examples(60))
@given(_RESULTS)
def test_any_result_has_a_text(result: Json) -> None:
    """A7, C10: Whatever servers answer."""
    outcome = of_result(WANTED, result)
    assert isinstance(outcome.content, str)
    assert outcome.status in (200, 202, 400, 403, 404, 429)


def one(outcome: CallOutcome, form: Any = "single") -> tuple[int, Json]:
    return answer(CallBatch(form, (outcome.call,), None), [outcome])


def test_a_message_that_went_well_is_the_message_alone() -> None:
    """A10: role, name, content, and the id if there was one."""
    message = {"role": "tool", "tool_call_id": "c1", "name": "w.get", "content": "晴"}
    assert one(CallOutcome(WANTED, "晴")) == (200, message)
    assert one(CallOutcome(ParsedCall("w.get"), "晴")) == (200, {"role": "tool", "name": "w.get", "content": "晴"})


def test_a_message_that_did_not_says_so_beside_it() -> None:
    """D5: for the model in words, for programs as an object, for HTTP as a status."""
    status, body = one(of_result(WANTED, NotAllowed("w.get", "w.get is not allowed for this agent.").to_result()))
    assert (status, body["is_error"], body["error"]["code"]) == (403, True, "tool_not_allowed")
    assert "not allowed" in body["content"]


def test_messages_hold_nothing_else() -> None:
    """B3: model APIs refuse messages with fields they do not know; the rest is in `results`."""
    failed = of_error(WANTED, UnknownTool("w.get", ["w.got"]))
    status, body = one(failed, "openai")
    assert status == 404
    (message,) = body["messages"]
    assert set(message) == {"role", "tool_call_id", "name", "content"}
    assert "w.got" in message["content"]
    (record,) = body["results"]
    assert (record["status"], record["is_error"], record["error"]["nearest"]) == (404, True, ["w.got"])


def test_results_of_anthropic() -> None:
    """C10: `tool_result` blocks in one message of the user."""
    both = (CallOutcome(WANTED, "晴"), CallOutcome(ParsedCall("x", {}, "c2"), "no", True))
    status, body = answer(CallBatch("anthropic", tuple(one.call for one in both), None), both)
    assert status == 200
    assert body["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "晴"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "no", "is_error": True},
            ],
        }
    ]


def test_several_have_a_status_each() -> None:
    """A6: and the request has 200."""
    both = (CallOutcome(WANTED, "晴"), of_error(ParsedCall("x"), UnknownTool("x", [])))
    status, body = answer(CallBatch("openai", tuple(one.call for one in both), None), both)
    assert (status, [record["status"] for record in body["results"]]) == (200, [200, 404])


def test_what_goes_wrong_upstream_is_a_200() -> None:
    """A7, A8: the conversation goes on, also where the upstream's own status says otherwise."""
    for error in (UpstreamTimeout("w", "w took too long."), UpstreamHttpStatus("w", "w said 403.", status=403)):
        outcome = of_result(WANTED, to_tool_result(error))
        assert (outcome.status, outcome.is_error, outcome.code) == (200, True, error.code)


def test_a_protocol_error_is_told_whole() -> None:
    """C12: to the model in words, to programs as it came."""
    outcome = of_error(WANTED, UpstreamRpcError("w", 4242, "The peer declines.", {"why": ["not", "today"]}))
    assert outcome.content == 'w.get failed: The peer declines.\n{"why":["not","today"]}'
    assert outcome.error is not None
    assert outcome.error["rpc"] == {"code": 4242, "message": "The peer declines.", "data": {"why": ["not", "today"]}}
    assert (outcome.status, outcome.code) == (200, "upstream_rpc_error")


def test_a_bug_of_ours() -> None:
    """A7: says nothing of its insides, and is no 500."""
    bug = of_error(WANTED, RuntimeError("secret"))
    assert (bug.status, bug.code) == (200, "internal_error")
    assert "secret" not in bug.content


@pytest.mark.parametrize("depth", [90, 900, 990])
def test_what_nests_deeply_costs_no_other_call(depth: int) -> None:
    """A6, A7: an answer that holds it can be written."""
    deep: Any = "x"
    for _ in range(depth):
        deep = [deep]
    told = of_result(
        WANTED, {"content": [], "isError": True, "_meta": {"aggregator/error": {"code": "x", "deep": deep}}}
    )
    failed = of_error(WANTED, UpstreamRpcError("w", 1, "No.", deep))
    shown = of_result(WANTED, {"content": [], "structuredContent": {"deep": deep}})
    both = [told, failed, shown]
    assert encode(answer(CallBatch("openai", (WANTED,) * 3, None), both)[1])
    assert (told.code, failed.code) == ("x", "upstream_rpc_error")


def test_an_error_of_the_tool_itself_has_no_object() -> None:
    """C12: it is the tool's own answer; and what a good result has in `_meta` is no error."""
    failed = of_result(WANTED, {"content": [{"type": "text", "text": "no such city"}], "isError": True})
    assert one(failed) == (200, {**one(CallOutcome(WANTED, "no such city"))[1], "is_error": True})
    odd = of_result(WANTED, {"content": [], "_meta": {"aggregator/error": {"code": "tool_not_allowed"}}})
    assert odd.status == 200


def test_when_to_come_back() -> None:
    """B6: seconds, where a limit says so, for one call."""
    over = of_result(WANTED, OverLimit("w.get", "Too many.", limit="per_minute", most=1, retry_after=9).to_result())
    assert retry_after([over]) == 9
    assert retry_after([over, over]) is None
    assert retry_after([CallOutcome(WANTED, "x")]) is None
