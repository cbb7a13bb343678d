"""Scopes that rules want of a token: no way of calling leads around them, and step-up leads on."""

import json
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from aggregator.domain.missing import InsufficientScope
from aggregator.domain.principal import Principal, TokenFacts
from aggregator.gateway.host import Host
from aggregator.gateway.views.views import View
from tests.access.gateway_harness import GatewayHarness, make_config, tool
from tests.authorization.authorization_server import authorization_server
from tests.end_to_end.scripted_host import ACCEPT
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.policy.build import book, item
from tests.tokens.conftest import TokenHarness, challenge_of, modern
from tests.tokens.test_token_sessions import INITIALIZE

ISSUER: Final = "https://login.example.com"
RULES: Final[Json] = {
    "roles": {"staff": {"allow": ["*"], "scopes": {"crm.put": ["write"], "spare.get": ["spare"]}}},
    "who": [{"agent": "dev-{subject}", "roles": ["staff"]}],
    "agents": {"keyed": {"roles": ["staff"]}},
}
TAKES: Final[Json] = {"id": {"type": "integer"}}


def gateway(folder: Path, **servers: Json) -> GatewayHarness:
    tools = [tool("get", TAKES), tool("put", TAKES)]
    entries: Json = {"crm": {"command": "x"}, "spare": {"command": "x"}}
    entries = {name: {**entry, **servers.get(name, {})} for name, entry in entries.items()}
    return GatewayHarness(make_config(folder, entries), {"crm": tools, "spare": tools}, RULES)


def host(*scopes: str, era: str | None = None) -> Host:
    facts = TokenFacts(ISSUER, "ann", "cli", scopes=frozenset(scopes))
    principal = Principal("dev-ann", None, ("staff",), token=facts)
    return Host("sse" if era else "http", "canonical", principal, era, {}, session="one" if era else None)


def refusal(answer: Json) -> Json:
    error: Json = answer["result"]["_meta"]["aggregator/error"]
    return error


@pytest.mark.parametrize("era", [None, "2025-11-25"])
async def test_a_call_without_the_scope_is_never_sent(tmp_path: Path, era: str | None) -> None:
    """Listed as ever; refused by its own name and through `call_tool`, with all scopes that a token for it needs."""
    at = gateway(tmp_path)
    narrow = host("read", era=era)
    assert "crm.put" in [one["name"] for one in await at.listed(narrow)]
    for answer in (
        await at.call(narrow, "crm.put", {"id": 1}),
        await at.call(narrow, "crm__put", {"id": 1}),
        await at.call(narrow, "call_tool", {"name": "crm.put", "arguments": {"id": 1}}),
    ):
        assert refusal(answer)["code"] == "insufficient_scope"
        assert refusal(answer)["scopes"] == ["read", "write"]
    assert at.sent == []
    assert "isError" not in (await at.call(narrow, "crm.get", {"id": 1}))["result"]
    assert "isError" not in (await at.call(host("write", era=era), "crm.put", {"id": 1}))["result"]


async def test_keys_and_programs_have_no_scopes(tmp_path: Path) -> None:
    at = gateway(tmp_path)
    assert "isError" not in (await at.call(at.host("keyed"), "crm.put", {"id": 1}))["result"]


async def test_what_stands_in_needs_its_own_scopes(tmp_path: Path) -> None:
    """A server that is away opens no tool of another that the token has no scope for."""
    tools = [tool("get", TAKES)]
    servers: Json = {"crm": {"command": "x", "fallbacks": ["spare"]}, "spare": {"command": "x"}}
    at = GatewayHarness(
        make_config(tmp_path, servers), {"crm": tools, "spare": tools}, RULES, down={"crm": "unavailable"}
    )
    assert refusal(await at.call(host("read"), "crm.get", {"id": 1}))["code"] == "upstream_unavailable"
    assert at.sent == []
    assert "isError" not in (await at.call(host("spare"), "crm.get", {"id": 1}))["result"]
    assert at.sent == [("spare", "get")]


def test_resources_and_prompts_want_scopes_too() -> None:
    rules = {"defaults": {"allow": ["*"], "scopes": {"resource:crm.*": ["files|all"], "prompt:crm.ask": ["ask"]}}}
    made = book({**rules, "who": [{"agent": "dev-{subject}"}]})
    for scopes, target, lacks in (
        (("read",), item("resource", "crm", "file:///a"), ("files", "read")),
        (("all",), item("resource", "crm", "file:///a"), None),
        (("all",), item("prompt", "crm", "ask"), ("all", "ask")),
        ((), item("prompt", "crm", "other"), None),
    ):
        view = View(host(*scopes).principal, made, {})
        if lacks is None:
            view.require_scopes(str(target), view.item_scopes(target))
        else:
            with pytest.raises(InsufficientScope) as refused:
                view.require_scopes(str(target), view.item_scopes(target))
            assert refused.value.scopes == lacks


async def test_records_name_the_person_and_not_whom_the_host_names(tmp_path: Path) -> None:
    at = gateway(tmp_path)
    found: list[Any] = []
    at.app.telemetry.observers.sinks = (found.append,)
    claimed = {"aggregator/user_id": "boss"}
    for caller in (host("read"), at.host("keyed")):
        await at.ask(caller, "tools/call", {"name": "crm.get", "arguments": {"id": 1}, "_meta": claimed})
    assert [(one.caller.user_id, one.caller.key_id) for one in found] == [
        (f"ann of {ISSUER}", "token:cli"),
        ("boss", None),
    ]


@pytest.fixture(scope="module")
def served(loop: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> TokenHarness:
    """An aggregator whose `shop.echo` needs the scopes `mcp` and `write`, and which no other test slows down."""
    return TokenHarness(loop, tmp_path_factory.mktemp("scopes"), loop.open(authorization_server()))


def legacy(name: str, number: int = 7) -> Json:
    params = {"name": name, "arguments": {"text": "x"}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def of(answer: httpx2.Response) -> Json:
    """Return the result of a response: JSON, or the last event of a stream."""
    text = answer.text
    read: Json = json.loads(text if text.startswith(("{", "[")) else text.rsplit("data: ", 1)[1])
    return read


async def test_step_up_in_a_session(served: TokenHarness) -> None:
    """Each request counts by its own token: more scopes let a call through, and the old token is refused as before,
    however often the call was made meanwhile, on one connection.
    """
    narrow, broad = served.token(scopes=["mcp"]), served.token(scopes=["mcp", "write"])
    async with served.with_token(None) as client:

        async def call(token: str, **more: str) -> httpx2.Response:
            headers = {**ACCEPT, "authorization": f"Bearer {token}", **more}
            return await client.post("/mcp", json=legacy("shop.echo"), headers=headers)

        opening = {**ACCEPT, "authorization": f"Bearer {narrow}"}
        opened = await client.post("/mcp", json=INITIALIZE, headers=opening)
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        refused = await call(narrow, **session)
        assert refused.status_code == 403
        assert 'error="insufficient_scope"' in challenge_of(refused.headers)
        assert 'scope="mcp write"' in challenge_of(refused.headers)
        for _ in range(3):
            for _ in range(4):
                assert "isError" not in of(await call(broad, **session))["result"]
            assert (await call(narrow, **session)).status_code == 403


async def test_every_frontend_refuses_what_lacks_scopes(served: TokenHarness) -> None:
    narrow, broad = served.token(scopes=["mcp"]), served.token(scopes=["mcp", "write"])
    asked = modern("tools/call", name="shop.echo", arguments={"text": "x"})
    v1 = {"name": "shop.echo", "arguments": {"text": "x"}}
    for _ in range(3):
        async with served.with_token(broad) as client:
            for _ in range(3):
                assert (await client.post("/mcp", **asked)).status_code == 200
        async with served.with_token(narrow) as client:
            refused = await client.post("/mcp", **asked)
            assert refused.status_code == 403
            assert 'scope="mcp write"' in challenge_of(refused.headers)
    async with served.with_token(narrow) as client:
        plain = await client.post("/v1/tool_calls", json={"tool_call": v1})
        assert plain.status_code == 403
        assert 'scope="mcp write"' in challenge_of(plain.headers)
        assert "insufficient_scope" in plain.text
        read = await client.post("/mcp", **modern("resources/read", uri="demo://nothing"))
        assert "www-authenticate" not in read.headers


async def test_a_batch_is_answered_with_results(served: TokenHarness) -> None:
    """One part of a batch that lacks a scope is no reason to refuse the others."""
    async with served.with_token(served.token(scopes=["mcp"])) as client:
        start = {**INITIALIZE, "params": {**INITIALIZE["params"], "protocolVersion": "2025-03-26"}}
        opened = await client.post("/mcp", json=start, headers=ACCEPT)
        session = {**ACCEPT, "mcp-session-id": opened.headers["mcp-session-id"]}
        batch = [legacy("shop.echo", 8), {"jsonrpc": "2.0", "id": 9, "method": "ping"}]
        answer = await client.post("/mcp", json=batch, headers=session)
    assert answer.status_code == 200
    found = {one["id"]: one["result"] for one in answer.json()}
    assert refusal({"result": found[8]})["code"] == "insufficient_scope"
    assert found[9] == {}


async def test_fewer_groups_are_fewer_rights_at_once(loop: BackgroundLoop, tmp_path: Path) -> None:
    """A later token of the same person that names a group less has the rights of its own rule, in the same session and
    on the same connection, after calls that the one before was allowed.
    """
    rules = {
        "roles": {"editor": {"allow": ["*"]}, "guest": {"allow": ["shop.add"]}},
        "who": [
            {"groups": ["editors"], "subject": "dora", "agent": "p-{subject}", "roles": ["editor"]},
            {"subject": "dora", "agent": "p-{subject}", "roles": ["guest"]},
        ],
    }
    made = TokenHarness(loop, tmp_path, loop.open(authorization_server()), rules=rules)
    editor, guest = made.token("dora", groups=["editors"]), made.token("dora")
    async with made.with_token(None) as client:
        opening = {**ACCEPT, "authorization": f"Bearer {editor}"}
        opened = await client.post("/mcp", json=INITIALIZE, headers=opening)

        async def call(token: str) -> str:
            headers = {**ACCEPT, "authorization": f"Bearer {token}", "mcp-session-id": opened.headers["mcp-session-id"]}
            return (await client.post("/mcp", json=legacy("shop.echo"), headers=headers)).text

        for _ in range(3):
            for _ in range(4):
                told = await call(editor)
                assert '"result"' in told
                assert 'isError":true' not in told
            told = await call(guest)
            assert "Unknown tool" in told or "not allowed" in told
