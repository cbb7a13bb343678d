"""Who comes in at `/v1`, what a request may be, and what its document says."""

import json
from typing import Any, Final

import jsonschema
import pytest

from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import OpenHarness, SecuredHarness
from tests.v1.api import api_client
from tests.v1.conftest import OpenApi

POSTED: Final = {"content-type": "application/json"}
CALL: Final = {"tool_call": {"name": "weather.get", "arguments": {"city": "北京"}}}
OPEN: Final = {"agents": {"one": {"allow": ["*"]}}}


@pytest.mark.parametrize(
    ("headers", "query", "status", "code"),
    [
        ({}, "", 401, "unauthorized"),
        ({"authorization": "Bearer agk_wrong"}, "", 401, "unauthorized"),
        ({"authorization": "Basic x"}, "", 401, "unauthorized"),
        ({}, "?key=agk_something", 400, "bad_request"),
        ({"host": "evil.example"}, "", 421, None),
        ({"origin": "https://evil.example"}, "", 403, None),
    ],
)
async def test_who_is_not_let_in(open_api: OpenApi, headers: Any, query: str, status: int, code: str | None) -> None:
    """D4, F3: the same keys and the same guard as at every frontend; nothing is told, the document neither."""
    async with open_api(None) as api:
        for path, method in (("tools", "get"), ("openapi.json", "get"), ("tool_calls", "post")):
            answer = await api.raw(f"{path}{query}", method, headers={**POSTED, **headers}, content=json.dumps(CALL))
            assert answer.status == status
            error = answer.body["error"]
            assert (error["code"] if isinstance(error, dict) else None) == code
            assert ("www-authenticate" in answer.headers) == (status == 401)


async def test_a_key_in_either_header(shared: SecuredHarness, open_api: OpenApi) -> None:
    """D4: as at the other frontends."""
    async with open_api(None) as api:
        for headers in ({"x-api-key": shared.keys["one"]}, {"authorization": f"bearer {shared.keys['one']}"}):
            assert (await api.raw("tools", "get", headers=headers)).status == 200


BAD: Final[list[tuple[str, dict[str, str], int, str]]] = [
    ("{", POSTED, 400, "not valid JSON"),
    ("", POSTED, 400, "not valid JSON"),
    ("[]", POSTED, 400, "JSON object"),
    ("{}", POSTED, 400, "exactly one of"),
    (json.dumps(CALL), {"content-type": "text/plain"}, 415, "application/json"),
    (json.dumps({**CALL, "pad": "x" * 3000}), POSTED, 413, "2000 bytes"),
    (json.dumps({"tool_calls": [CALL["tool_call"]] * 3}), POSTED, 400, "may carry 2"),
    (json.dumps(CALL), {**POSTED, "x-conversation-id": "x" * 300}, 400, "256 characters"),
]


async def test_a_request_that_is_not_as_it_should_be(open_harness: OpenHarness) -> None:
    """C13: refused whole, in words; nothing was called."""
    toolbox = RecordingToolbox([tool("get")])
    limits = {"http": {"max_body_bytes": 2_000}, "v1": {"max_calls_per_request": 2}}
    harness = open_harness({"weather": toolbox.config_entry()}, OPEN, ["one"], **limits)
    async with api_client(harness, "one") as api:
        for body, headers, status, said in BAD:
            answer = await api.raw("tool_calls", content=body, headers=headers)
            assert (answer.status, said in answer.body["error"]["message"]) == (status, True), answer.body
            assert (await api.raw("intent", content="{" + body[1:], headers=headers)).status >= 400
        twice = [*POSTED.items(), ("x-conversation-id", "a"), ("x-conversation-id", "b")]
        answer = await api.raw("tool_calls", content=json.dumps(CALL), headers=twice)
        assert (answer.status, answer.body["error"]["field"]) == (400, "x-conversation-id")
    assert not toolbox.calls


async def test_methods_and_paths(open_api: OpenApi) -> None:
    """C13: 405 names the method that is due; a slash at the end does not matter."""
    async with open_api("one") as api:
        answer = await api.raw("tools", "post", content="{}", headers=POSTED)
        assert (answer.status, answer.headers["allow"]) == (405, "GET")
        answer = await api.raw("tool_calls", "get")
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
        assert (await api._client.get("/v1/tools/")).status_code == 200
        assert (await api._client.get("/v1/nothing")).status_code == 404
        assert (await api._client.get("/")).json()["v1"] == "/v1/openapi.json"
        assert (await api.get("tools", querry="x")).body["error"]["field"] == "querry"


async def test_a_frontend_that_is_closed(open_harness: OpenHarness) -> None:
    """F3: `v1.enabled: false`."""
    harness = open_harness(
        {"weather": RecordingToolbox([tool("get")]).config_entry()}, OPEN, ["one"], v1={"enabled": False}
    )
    async with harness.client("one") as client:
        assert (await client.get("/v1/tools")).status_code == 404
        assert "v1" not in (await client.get("/")).json()


async def test_the_document_is_whole(open_api: OpenApi) -> None:
    """B3: its schemas are schemas, its references lead somewhere, each operation says what it answers."""
    async with open_api("one") as api:
        document = api.document
    assert document is not None
    assert document["openapi"] == "3.1.0"
    known = document["components"]["schemas"]
    for name, schema in known.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert f'"#/components/schemas/{name}"' in json.dumps(document), name
    pending: list[Any] = [document]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            reference = node.get("$ref")
            assert not isinstance(reference, str) or reference.rpartition("/")[2] in known, reference
            pending += node.values()
        elif isinstance(node, list):
            pending += node
    for path, item in document["paths"].items():
        for operation in item.values():
            assert operation["summary"], path
            assert {"200", "400", "401"} <= set(operation["responses"])


async def test_trace_and_caller_go_along(open_harness: OpenHarness) -> None:
    """D9: the trace context of the request reaches the upstream, the conversation's id does not matter to it."""
    toolbox = RecordingToolbox([tool("get")])
    harness = open_harness({"weather": toolbox.config_entry()}, OPEN, ["one"])
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with api_client(harness, "one") as api:
        await api.post("tool_calls", CALL, traceparent=parent)
    assert parent.split("-")[1] in toolbox.calls[0]["_meta"]["traceparent"]
