"""Where direct calls meet the other features: tokens and scopes, flow labels, limits of results, storage, own headers.

Each scenario is played on a connection that has made plain calls before, once in the pipeline alone and once with
direct calls: what is answered is written here, and is the same both times.
"""

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import pytest

from aggregator.flow.storage import FlowClear
from aggregator.gateway import access
from aggregator.identity.tokens import verifier
from aggregator.wire.codec import encode
from tests.authorization.authorization_server import AuthorizationServer, authorization_server
from tests.direct.direct_harness import (
    DIRECT,
    HOST_KINDS,
    PIPELINE,
    TAKEN_OVER,
    CallingHost,
    DirectHarness,
    HostAnswer,
    ask,
    direct_harness,
    result,
    text,
)
from tests.flow.flow_harness import flow_of
from tests.peers.toolbox import Json
from tests.policy.build import book

AUDIENCE: Final = "https://gateway.example.com/mcp"
HTTP: Final = HOST_KINDS[2:]
PLAIN: Final[Json] = {"n": 1}
LONG: Final = "word " * 8_000
BLOCK: Final[Json] = {"type": "text", "text": "a"}


class Step(NamedTuple):
    """A call, made twice in a row, and how it ends both times.

    outcome: `ok`, `cut`, `shown in part`, `error`, or the code of the refusal. way: of the second time, where direct
    calls are on. headers: of the request, if other than those of the connection.
    """

    tool: str
    outcome: str = "ok"
    way: str = DIRECT
    arguments: Json = PLAIN
    headers: Mapping[str, str] = {}


def said(result_line: str) -> Json:
    """The arguments of a call whose server answers with this line."""
    return {"n": 1, "writes": [result_line]}


def rules(**local: Any) -> Json:
    return {"agents": {"local": {"allow": ["*"], **local}}}


def flow(then: str = "deny", **labels: Any) -> Json:
    """Policies in which private data keep `new.any` from being called."""
    made = {
        "labels": {"outward": ["new.any"], **labels},
        "flow": [{"after": "private", "calls": "outward", "then": then}],
    }
    return {**rules(expose="all"), **made}


def hinted(**hints: Any) -> Json:
    return {"annotations": hints}


FREE: Final = Step("new.any")
DENIED: Final = Step("new.any", "flow_denied", PIPELINE)
PRIVATE: Final[Json] = {"privateHint": True}
# Where a result of the server says of itself that it is private, and that it is not.
LABELLED: Final[dict[str, tuple[Json, bool]]] = {
    "nothing": ({"content": [BLOCK]}, False),
    "no content": ({}, False),
    "meta": ({"content": [BLOCK], "_meta": hinted(**PRIVATE)}, True),
    "meta and no content": ({"content": [], "_meta": hinted(**PRIVATE)}, True),
    "the result": ({"content": [BLOCK], "annotations": PRIVATE}, True),
    "a block": ({"content": [BLOCK, {**BLOCK, "annotations": PRIVATE}]}, True),
    "meta of a block": ({"content": [{**BLOCK, "_meta": hinted(**PRIVATE)}]}, True),
    "a resource in it": (
        {"content": [{"type": "resource", "resource": {"uri": "x:y", "_meta": hinted(**PRIVATE)}}]},
        True,
    ),
    "a structured result": ({"content": [], "structuredContent": {"n": 1}, "_meta": hinted(**PRIVATE)}, True),
    "another label": ({"content": [BLOCK], "_meta": hinted(openWorldHint=True)}, False),
    "a label that is false": ({"content": [BLOCK], "_meta": hinted(privateHint=False)}, False),
    "an error": ({"content": [BLOCK], "isError": True, "_meta": hinted(**PRIVATE)}, True),
    "many blocks": ({"content": [*[BLOCK] * 501, {**BLOCK, "annotations": PRIVATE}]}, True),
}  # fmt: skip
SIZED: Final[Json] = {"content": [BLOCK]}
# A result that is no longer than 1,000 bytes, and one that is, in each kind.
SIZES: Final[dict[str, tuple[Json, str]]] = {
    "short": ({"content": [{"type": "text", "text": "x" * 500}]}, "ok"),
    "as long as it may be": (SIZED | {"x": "x" * (1_000 - len(encode(SIZED | {"x": ""})))}, "ok"),
    "longer by a byte": (SIZED | {"x": "x" * (1_001 - len(encode(SIZED | {"x": ""})))}, "cut"),
    "long": ({"content": [{"type": "text", "text": "x" * 1_500}]}, "cut"),
    "a short error": ({"content": [{"type": "text", "text": "x" * 500}], "isError": True}, "error"),
    "a long error": ({"content": [{"type": "text", "text": "x" * 1_500}], "isError": True}, "cut error"),
    "a long error in blocks": ({"content": [{"type": "text", "text": "x" * 90}] * 20, "isError": True}, "cut error"),
    "a long error beside its text": ({"content": [BLOCK], "isError": True, "x": "x" * 1_500}, "cut error"),
    "a long error without content": ({"isError": True, "_meta": {"com.example/a": "x" * 1_500}}, "cut error"),
    "an error that is none": ({"content": [{"type": "text", "text": "x" * 1_500}], "isError": False}, "cut"),
    "a long structured result": ({"content": [], "structuredContent": {"n": 1, "a": "x" * 1_500}}, "cut"),
}


class Scenario(NamedTuple):
    """Policies and settings, and what is then called on one connection.

    by_name: calls by the name of the tool alone: headers are about the tool that a request names.
    """

    policies: Json
    steps: list[Step]
    settings: Mapping[str, Any] = {}
    stores: bool = False
    kinds: list[tuple[str, str]] = HOST_KINDS
    by_name: bool = False


SCENARIOS: Final[dict[str, Scenario]] = {
    **{
        f"a result that labels itself: {name}": Scenario(
            flow(),
            [
                FREE,
                Step(
                    "old.any",
                    "error" if "isError" in members else "ok",
                    # A label is noted at once only if it is there already.
                    TAKEN_OVER if "isError" in members or name == "many blocks" else DIRECT,
                    said(result(**members)),
                ),
                DENIED if private else FREE,
                Step("old.any"),
            ],
        )
        for name, (members, private) in LABELLED.items()
    },
    "a result that labels itself, once asked": Scenario(
        flow("confirm"),
        [
            FREE,
            Step("old.any", arguments=said(result(**LABELLED["meta"][0]))),
            DENIED._replace(outcome="not_confirmed"),
        ],
    ),
    "a tool that is labelled": Scenario(
        flow(private=["old.number"]), [FREE, Step("old.number"), DENIED, Step("old.any")]
    ),
    "a server that is labelled": Scenario(flow(private=["old.*"]), [Step("new.number"), FREE, Step("old.any"), DENIED]),
    "labels without a rule": Scenario(
        {**rules(), "labels": {"private": ["old.any"], "outward": ["new.any"]}}, [FREE, Step("old.any"), FREE]
    ),
    **{
        f"bytes of results: {name}": Scenario(
            rules(limits={"old.any": {"result_bytes": 1_000}}),
            [
                Step("new.any"),
                Step("old.any", outcome, DIRECT if outcome == "ok" else TAKEN_OVER, said(result(**members))),
                Step("old.number"),
            ],
        )
        for name, (members, outcome) in SIZES.items()
    },
    "a short result where a limit is": Scenario(
        rules(limits={"old.any": {"result_bytes": 1_000}}), [Step("new.any"), Step("old.any")]
    ),
    "a long result, without a limit": Scenario(rules(), [Step("old.any", arguments=said(text("x" * 1_500)))]),
    "tokens of results": Scenario(
        rules(limits={"old.any": {"result_tokens": 500}}),
        [
            Step("new.any"),
            Step("old.any"),
            Step("old.any", "shown in part", TAKEN_OVER, said(text(LONG))),
            Step("old.any", "error", TAKEN_OVER, said(result(content=[{"type": "text", "text": LONG}], isError=True))),
        ],
        stores=True,
    ),
    "tokens and bytes of results": Scenario(
        rules(limits={"old.any": {"result_tokens": 500, "result_bytes": 30_000}}),
        [
            Step("old.any"),
            Step("old.any", "shown in part", TAKEN_OVER, said(text("word " * 2_000))),
            Step("old.any", "ok", TAKEN_OVER, said(result(content=[{"type": "image", "data": "x" * 20_000}]))),
            Step("old.any", "ok", TAKEN_OVER, said(result(content=[{"type": "image", "data": ""}] * 300))),
            Step("old.any", "cut", TAKEN_OVER, said(result(content=[{"type": "image", "data": "x" * 40_000}]))),
        ],
        stores=True,
    ),
    "tokens of results, with nowhere to keep the rest": Scenario(
        rules(limits={"old.any": {"result_tokens": 500}}),
        [Step("new.any"), Step("old.any", "ok", DIRECT, said(text(LONG)))],
    ),
    "large results": Scenario(
        rules(),
        [
            Step("old.any"),
            Step("old.any", arguments=said(text("x" * 400))),
            Step("old.any", "shown in part", TAKEN_OVER, said(text(LONG))),
            Step("old.any", "error", TAKEN_OVER, said(result(content=[{"type": "text", "text": LONG}], isError=True))),
            Step("old.any", "shown in part", TAKEN_OVER, said(result(content=[BLOCK, {"type": "text", "text": LONG}]))),
            Step("old.any"),
        ],
        settings={"results": {"max_tokens": 1_000, "direct": True}},
        stores=True,
    ),
    "large results, with nowhere to keep the rest": Scenario(
        rules(),
        [Step("old.any"), Step("old.any", "ok", DIRECT, said(text(LONG)))],
        settings={"results": {"max_tokens": 1_000, "direct": True}},
    ),
    "a parameter in a header": Scenario(
        rules(),
        [
            Step("old.any"),
            Step("old.headed", "ok", PIPELINE, {"place": "x"}, {"mcp_param_place": "x"}),
            Step("old.headed", "-32020", PIPELINE, {"place": "x"}, {"mcp_param_place": "y"}),
            Step("old.headed", "-32020", PIPELINE, {"place": "x"}),
            Step("old.headed", "ok", PIPELINE, {}),
            Step("old.any"),
        ],
        kinds=HOST_KINDS[3:],
        by_name=True,
    ),
    "a parameter in a header, where the revision has none": Scenario(
        rules(), [Step("old.any"), Step("old.headed", "ok", PIPELINE, {"place": "x"})], kinds=HOST_KINDS[2:3]
    ),
}


def outcome_of(found: HostAnswer) -> str:
    """How a call ended, in a word or two."""
    answer = found.answer
    if "error" in answer:
        return str(answer["error"]["code"])
    made = answer["result"]
    meta = made.get("_meta") or {}
    if "aggregator/error" in meta:
        return str(meta["aggregator/error"]["code"])
    error = made.get("isError") is True
    if "aggregator/truncated" in meta:
        return "cut error" if error else "cut"
    if "aggregator/shortened" in meta:
        return "an error in part" if error else "shown in part"
    return "error" if error else "ok"


async def _play(it: DirectHarness, host: CallingHost, steps: list[Step], *, on: bool) -> None:
    """Make the calls of a scenario, and compare how each ends."""
    it.on = on
    for step in steps:
        params: Json = {"name": step.tool, "arguments": step.arguments}
        for again in (False, True):
            count = len(it.ways)
            found = await ask(host, params, **step.headers)
            assert outcome_of(found) == step.outcome, (step, again, found)
            way = it.ways[-1] if len(it.ways) > count else "none"
            expected = step.way if on or step.way == "none" else PIPELINE
            if again:
                assert way == expected, (step, it.ways)


# Scenarios of one aggregator: those with the same settings, and the same need of a database.
GROUPS: Final = sorted({(json.dumps(one.settings), one.stores) for one in SCENARIOS.values()})


@pytest.mark.parametrize(("settings", "stores"), GROUPS, ids=lambda one: str(one))
async def test_joints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str, stores: bool, through: str | None
) -> None:
    """D8, B6: a rule holds for a call that is like one before as for the first one."""
    database = f"sqlite+aiosqlite:///{tmp_path}/kept.db" if stores else None
    more = {**json.loads(settings), "policies": tmp_path / "policies", "database": database}
    async with direct_harness(tmp_path, monkeypatch, **more) as it:
        assert it.app.live is not None
        for scenario in SCENARIOS.values():
            if (json.dumps(scenario.settings), scenario.stores) != (settings, stores):
                continue
            if scenario.by_name and through is not None:
                continue
            it.app.live.rulebook = book(scenario.policies)
            for kind in scenario.kinds:
                for on in (False, True):
                    flow_of(it.app).scopes.clear(FlowClear(0, None, flow_of(it.app).now()))
                    async with it.host(*kind) as host:
                        await _play(it, host, [Step("new.number"), *scenario.steps], on=on)
            it.nothing_is_left()


class Bearer(NamedTuple):
    """The scopes of a token, and what becomes of calls of `old.number` with it, which rules want scopes for."""

    scopes: tuple[str, ...]
    number: str


TOKENS: Final[dict[str, Bearer]] = {
    "no scope": Bearer((), "insufficient_scope"),
    "another scope": Bearer(("read",), "insufficient_scope"),
    "part of the scopes": Bearer(("write",), "insufficient_scope"),
    "the scopes": Bearer(("write", "more"), "ok"),
    "the scopes and others": Bearer(("read", "more", "write"), "ok"),
}
WHO: Final[Json] = {
    "who": [{"subject": name, "agent": name} for name in ("alice", "bob")],
    "agents": {
        name: {"allow": ["*"], "scopes": {"old.number": ["write", "more"]}} for name in ("alice", "bob", "local")
    },
}


@asynccontextmanager
async def _with_tokens(
    tmp_path: Path, patch: pytest.MonkeyPatch, policies: Json = WHO
) -> AsyncIterator[tuple[DirectHarness, AuthorizationServer]]:
    """An aggregator that accepts the tokens of an issuer."""
    async with authorization_server() as idp:
        auth = {"issuers": [{"issuer": idp.issuer, "audience": [AUDIENCE]}]}
        async with direct_harness(tmp_path, patch, policies=tmp_path / "policies", auth=auth) as it:
            assert it.app.live is not None
            it.app.live.rulebook = book(policies)
            yield it, idp


@pytest.mark.usefixtures("through")
@pytest.mark.parametrize("kind", HTTP, ids="-".join)
async def test_scopes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]) -> None:
    """D8: on a connection that calls a tool without scopes all the time, a token calls no tool that it has none for;
    what one token may, another on the same connection may not.
    """
    async with _with_tokens(tmp_path, monkeypatch) as (it, idp):

        def bearer(name: str) -> Json:
            token = idp.token("alice", audience=AUDIENCE, scopes=TOKENS[name].scopes)
            return {"authorization": f"Bearer {token}"}

        for on in (False, True):
            async with it.host(*kind, **bearer("no scope")) as host:
                for name, said_of in [*TOKENS.items(), *reversed(TOKENS.items())]:
                    headers = bearer(name)
                    steps = [
                        Step("old.any", headers=headers),
                        Step(
                            "old.number",
                            said_of.number,
                            DIRECT if said_of.number == "ok" else PIPELINE,
                            headers=headers,
                        ),
                        Step("old.any", headers=headers),
                        Step("new.number", headers=headers),
                    ]
                    await _play(it, host, steps, on=on)
        # No credentials, and no scopes.
        async with it.host(*kind) as host:
            await _play(it, host, [Step("old.any"), Step("old.number")], on=True)
        it.nothing_is_left()


def _lasting(idp: AuthorizationServer, seconds: float) -> dict[str, Any]:
    return {"authorization": f"Bearer {idp.token('alice', audience=AUDIENCE, lifetime=seconds)}"}


@pytest.mark.usefixtures("through")
@pytest.mark.parametrize("kind", HTTP, ids="-".join)
async def test_a_token_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]) -> None:
    """D4: the clock goes on while the connection is used; a newer token goes on in its place."""
    async with _with_tokens(tmp_path, monkeypatch) as (it, idp):
        clock = SimpleNamespace(time=time.time, monotonic=time.monotonic)
        for module in (access, verifier):
            monkeypatch.setattr(module, "time", clock)
        for on in (False, True):
            clock.time = time.time
            first, second = _lasting(idp, 600.0), _lasting(idp, 6_000.0)
            async with it.host(*kind, **first) as host:
                await _play(it, host, [Step("old.any", headers=first)], on=on)
                leeway = it.config.auth.issuers[0].leeway
                clock.time = lambda: time.time() + 590.0 + leeway  # noqa: B023
                await _play(it, host, [Step("old.any", headers=first)], on=on)
                clock.time = lambda: time.time() + 610.0 + leeway  # noqa: B023
                count = len(it.ways)
                for _ in range(2):
                    refused = await ask(host, {"name": "old.any", "arguments": PLAIN}, **first)
                    assert refused.head[0] == "HTTP/1.1 401 Unauthorized"
                assert len(it.ways) == count
                await _play(it, host, [Step("old.any", headers=second)], on=on)


@pytest.mark.usefixtures("through")
@pytest.mark.parametrize("kind", HTTP, ids="-".join)
async def test_whose_token_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]) -> None:
    """D4, D8: two people on one connection, as through a proxy: each call is by the token that it came with."""
    policies = {
        "who": WHO["who"],
        "agents": {"alice": {"allow": ["*"]}, "bob": {"allow": ["old.any"]}},
    }
    async with _with_tokens(tmp_path, monkeypatch, policies) as (it, idp):
        for on in (False, True):
            people: dict[str, dict[str, Any]] = {}
            for name in ("alice", "bob"):
                headers: dict[str, Any] = {"authorization": f"Bearer {idp.token(name, audience=AUDIENCE)}"}
                if kind == HOST_KINDS[2]:
                    headers["mcp_session_id"] = await it.open_session(kind[1], **headers)
                people[name] = headers
            session = people["alice"].get("mcp_session_id")
            async with it.host(*kind, session=session, **people["alice"]) as host:
                for _ in range(3):
                    steps = [
                        Step("old.any", headers=people["alice"]),
                        Step("old.number", headers=people["alice"]),
                        Step("old.any", headers=people["bob"]),
                        Step("old.number", "tool_not_allowed", PIPELINE, headers=people["bob"]),
                    ]
                    await _play(it, host, steps, on=on)
            named = [(record.caller.agent_id, record.asked_name) for record in it.records]
            assert set(named) == {(who, tool) for who in ("alice", "bob") for tool in ("old.any", "old.number")}


NAMES: Final[dict[str, tuple[Any, str]]] = {
    "the same": ("old.any", "ok"),
    "another tool": ("old.number", "-32020"),
    "a tool of another server": ("new.any", "-32020"),
    "another spelling": ("old__any", "-32020"),
    "upper case": ("OLD.any", "-32020"),
    "with a blank": ("old.any ", "-32020"),
    "a meta tool": ("search_tools", "-32020"),
    "no such tool": ("old.none", "-32020"),
    "empty": ("", "-32020"),
    "a number": (7, "-32020"),
    "null": (None, "-32602"),
    "missing": (..., "-32602"),
}


@pytest.mark.parametrize("said_in", ["body", "header"])
async def test_the_header_names_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said_in: str) -> None:
    """Spec, "Standard request headers": a proxy may have ruled by `Mcp-Name`, so the body names the same tool, also in
    a request whose head is known byte by byte.
    """
    async with direct_harness(tmp_path, monkeypatch) as it, it.host(*HOST_KINDS[3]) as host:
        for on in (False, True):
            for what, (name, outcome) in NAMES.items():
                await _play(it, host, [Step("old.any")], on=on)
                count = len(it.records)
                if said_in == "body":
                    params = {"name": name, "arguments": PLAIN} if name is not ... else {"arguments": PLAIN}
                    found = await ask(host, params, mcp_method="tools/call", mcp_name="old.any")
                elif isinstance(name, str) and name.strip() == name and name:
                    found = await ask(host, {"name": "old.any", "arguments": PLAIN}, mcp_name=name)
                else:
                    continue
                assert outcome_of(found) == outcome, (what, found)
                if outcome != "ok":
                    assert found.head[0] == "HTTP/1.1 400 Bad Request", what
                    assert [record.called.tool for record in it.records[count:] if record.outcome.status == "ok"] == []


@pytest.mark.parametrize("kind", HOST_KINDS, ids="-".join)
async def test_records_have_the_id_of_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]
) -> None:
    """D9: `jsonrpc.request.id` of spans; a call through `call_tool` has the id of the call that it came in."""
    async with direct_harness(tmp_path, monkeypatch) as it, it.host(*kind) as host:
        plain = {"name": "old.any", "arguments": PLAIN}
        calls = [plain, {"name": "call_tool", "arguments": plain}, {"name": "search_tools", "arguments": {}}]
        for on in (False, True):
            it.on = on
            for request_id in (7, 0, "a-1", ""):
                for params in calls:
                    await ask(host, params, request_id)
                    assert it.records[-1].request_id == request_id, params
