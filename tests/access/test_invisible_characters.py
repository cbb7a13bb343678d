"""Characters that nobody sees: not in what hosts are shown of servers, not in questions, and no way round a policy."""

import json
from typing import Any, Final

import pytest

from aggregator.gateway.ask.questions import worded
from aggregator.policy.rulebook import AgentRules
from aggregator.upstream.sessions.negotiate import Negotiated
from aggregator.upstream.sessions.session import UpstreamSession
from tests.access.conftest import MakeConfig
from tests.access.gateway_harness import FORMS, LEGACY, MODERN, GatewayHarness, tool
from tests.peers.toolbox import Json
from tests.policy.build import book, item
from tests.policy.build import tool as record

TRICK: Final = "a\u200b\u202eb\U000e0041\x1b[2J\u2066c"
PLAIN: Final = "ab[2Jc"
JOINED: Final = "می\u200cخواهم 👨\u200d👩\u200d👧"
TEXTS: Final = (TRICK, PLAIN, JOINED)


def described(name: str, **more: Any) -> Json:
    field = {"type": "string", "description": TRICK, "enum": ["\r\n", "x"]}
    return tool(name, {"x": field}, title=TRICK, description=f"{JOINED} {TRICK}", _meta={"m": [TRICK]}, **more)


def shelved(config: MakeConfig, definitions: list[Json], policies: Json | None = None, **fields: Any) -> GatewayHarness:
    harness = GatewayHarness(config("crm", **fields), {"crm": definitions}, policies)
    upstream = harness.app.upstreams["crm"]
    negotiated = Negotiated(LEGACY, {"name": TRICK}, {"tools": {}, "prompts": {}, "resources": {}}, f"{TRICK} {JOINED}")
    upstream.shared.negotiated = negotiated.redacted(upstream.redaction)
    upstream.shared.session = UpstreamSession(harness.fake_upstreams["crm"], upstream.shared.negotiated, "local", {})
    upstream.lists.put("prompt", [{"name": "p", "description": TRICK}, {"name": "p\u200b"}, {"name": "pé\u200d"}])
    upstream.lists.put("resource", [{"uri": "demo://x", "name": TRICK, "title": TRICK}, {"uri": "demo://\u200bx"}])
    harness.app.updates.rebuild()
    return harness


async def all_of(harness: GatewayHarness) -> Json:
    """Return everything that a host is shown."""
    host = harness.host("one")
    said = {"initialize": await harness.ask(host, "initialize", {"protocolVersion": LEGACY, "capabilities": {}})}
    host = harness.host("one")
    for method in ("tools/list", "prompts/list", "resources/list"):
        said[method] = (await harness.ask(host, method, {}))["result"]
    said["about"] = await harness.call(host, "list_servers", {"server": "crm"})
    return said


async def test_they_are_taken_out_and_said(config: MakeConfig, caplog: pytest.LogCaptureFixture) -> None:
    """D9: of names, texts and instructions; what scripts need stays, and so does what somebody sends."""
    harness = shelved(config, [described("get"), described("put")])
    said = await all_of(harness)
    (get, _) = (one for one in said["tools/list"]["tools"] if one["name"].startswith("crm."))
    assert (get["title"], get["description"], get["_meta"]["m"]) == (PLAIN, f"{JOINED} {PLAIN}", [PLAIN])
    assert get["inputSchema"]["properties"]["x"] == {"type": "string", "description": PLAIN, "enum": ["\r\n", "x"]}
    assert [one["name"] for one in said["prompts/list"]["prompts"]] == ["crm.p"]
    (resource,) = said["resources/list"]["resources"]
    assert (resource["uri"], resource["title"]) == ("demo://crm/x", PLAIN)
    whole = json.dumps(said, ensure_ascii=False)
    for char in "\u200b\u202e\U000e0041\u2066":
        assert char not in whole
    assert JOINED in whole
    (warned,) = [line for line in caplog.messages if "taken out of tool" in line]
    assert warned.startswith("crm: characters that cannot be seen were taken out of tool 'get' and 1 more")
    assert "crm: characters that cannot be seen were taken out of what it says of itself" in caplog.messages
    assert "crm: prompt 'p\\u200b' is left out: its name has characters that cannot be seen (U+200B)" in caplog.messages


async def test_they_can_be_kept(config: MakeConfig) -> None:
    """D9: for a server whose words are to come as they are."""
    harness = shelved(config, [described("get")], invisible_characters="keep")
    said = await all_of(harness)
    (get,) = (one for one in said["tools/list"]["tools"] if one["name"].startswith("crm."))
    assert (get["title"], get["description"]) == (TRICK, f"{JOINED} {TRICK}")
    assert len(said["prompts/list"]["prompts"]) == 3
    assert TRICK in said["about"]["result"]["content"][0]["text"]


LOOK_ALIKES: Final = ("delete\u200b", "de\u2066lete", "\U000e0041delete", "delete\x07", "del\u200dete", "delete\ufe0f")


@pytest.mark.parametrize("name", LOOK_ALIKES, ids=ascii)
async def test_no_two_names_look_alike(config: MakeConfig, name: str) -> None:
    """D4: what has such characters in its name is not there, and reaches its server by no spelling."""
    harness = shelved(config, [tool(name), tool("delete"), tool("get")])
    host = harness.host("one")
    assert [one["name"] for one in await harness.listed(host)] == ["crm.delete", "crm.get"]
    for spelled in (f"crm.{name}", f"crm__{name}"):
        assert "error" in await harness.call(host, spelled)
    assert harness.sent == []


@pytest.mark.parametrize("name", LOOK_ALIKES, ids=ascii)
def test_no_such_name_gets_round_a_policy(name: str) -> None:
    """D4: also where they are kept: rules that take something away match by what is seen, those that give by both."""

    def rules(**body: Any) -> AgentRules:
        return book({"agents": {"one": body}}).agents["one"]

    asked = record(f"crm.{name}")
    for body, verdict in (
        ({"allow": ["crm.*"]}, "allow"),
        ({"allow": ["crm.*"], "deny": ["crm.delete"]}, "deny"),
        ({"allow": ["crm.*"], "confirm": ["crm.delete"]}, "confirm"),
        ({"allow": ["crm.delete"]}, "deny"),
        ({"allow": ["crm.*"], "annotations": {"destructive": "deny"}, "read_only": ["crm.delete"]}, "deny"),
    ):
        assert rules(**body).decide(asked, trusted=False).verdict == verdict
    limited = rules(allow=["crm.*"], limits={"crm.delete": {"per_minute": 1}}, arguments={"crm.delete": {}})
    assert len(limited.limits(asked).counted) == 1
    assert len(limited.tightening(asked)) == 1
    assert (
        rules(allow=["prompt:*"], deny=["prompt:crm.delete"]).decide_target(item("prompt", "crm", name)).verdict
        == "deny"
    )


async def test_a_property_that_looks_like_another_costs_its_tool(
    config: MakeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    """D9: names of arguments cannot be changed, since the server would not know them."""
    harness = shelved(config, [tool("pay", {"amount": {}, "amo\u200bunt": {}}), tool("get")])
    assert [one["name"] for one in await harness.listed(harness.host("one"))] == ["crm.get"]
    said = "tool 'pay' is left out: a name or value in it has characters that cannot be seen (U+200B)"
    assert f"crm: {said}" in caplog.messages


QUESTIONS: Final[dict[str, Json]] = {
    "elicitation/create": {
        "message": TRICK,
        "requestedSchema": {"properties": {"x": {"title": TRICK, "oneOf": [{"const": "a", "title": TRICK}]}}},
    },
    "sampling/createMessage": {
        "messages": [{"role": "user", "content": {"type": "text", "text": TRICK}}],
        "systemPrompt": TRICK,
        "maxTokens": 1,
    },
}


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("method", QUESTIONS)
async def test_they_are_taken_out_of_questions(config: MakeConfig, method: str, kept: bool) -> None:
    """D9: a server of 2026-07-28 asks, and a host of 2026-07-28 is shown the question."""
    fields = {"invisible_characters": "keep"} if kept else {}
    harness = GatewayHarness(config("crm", **fields), {"crm": [tool("get")]})

    async def asking(params: Json) -> Json:
        return {"resultType": "input_required", "inputRequests": {"q": {"method": method, "params": QUESTIONS[method]}}}

    harness.fake_upstreams["crm"].answer = asking
    upstream = harness.app.upstreams["crm"]
    upstream.shared.negotiated = Negotiated(MODERN, {}, {"tools": {}}, None)
    upstream.shared.session = UpstreamSession(harness.fake_upstreams["crm"], upstream.shared.negotiated, "local", {})
    host = harness.host("local", MODERN)
    host.capabilities = {**FORMS, "sampling": {}}
    shown = json.dumps((await harness.call(host, "crm.get"))["result"], ensure_ascii=False)
    assert (json.dumps(TRICK, ensure_ascii=False)[1:-1] in shown) is kept
    assert (PLAIN in shown) is not kept


SECRETS: Final[list[Json]] = [
    {"password": {"type": "string"}},
    {"apiKey": {"type": "string"}},
    {"githubToken": {"type": "string"}},
    {"x": {"title": "Your access token"}},
    {"x": {"description": "Enter the one-time code"}},
    {"x": {"format": "password"}},
    {"口令": {}},
    {"n": {"type": "number"}, "client_secret": {"type": "string"}},
    {"x": {"description": "Do not share it with others. Your password"}},
    {"never enter": {"title": "Your password"}},
]
HARMLESS: Final[list[Json]] = [
    {}, {"name": {}}, {"max_tokens_per_page": {}}, {"monkey": {}}, {"keyboard": {"title": "Key layout"}},
    {"opinion": {"description": "Your opinion"}}, {"city": "not a schema"}, {"secretary": {}},
    {"integer": {"description": "Your favorite integer (do not give us your phone number, pin, or such)"}},
    {"name": {"description": "Never put a password here."}},
]  # fmt: skip


@pytest.mark.parametrize("properties", SECRETS, ids=str)
@pytest.mark.parametrize("modern", [False, True])
def test_a_form_that_asks_for_a_secret_is_marked(properties: Json, modern: bool) -> None:
    """D9: before the server's own words, with the name of the server that gets it."""
    asked = worded(
        "crm", "elicitation/create", {"message": "Hi.", "requestedSchema": {"properties": properties}}, modern=modern
    )
    assert asked["message"].startswith("[crm] (Careful: ")
    assert asked["message"].endswith("what you enter goes to 'crm'.) Hi.")


@pytest.mark.parametrize("properties", HARMLESS, ids=str)
def test_any_other_form_is_not(properties: Json) -> None:
    """D9: a mark on everything would say nothing."""
    asked = worded(
        "crm", "elicitation/create", {"message": "Hi.", "requestedSchema": {"properties": properties}}, modern=True
    )
    assert asked["message"] == "[crm] Hi."
    page = {"mode": "url", "url": "https://e.com/password", "message": "Your password"}
    assert worded("crm", "elicitation/create", page, modern=True)["message"] == "[crm] Your password"
