"""No way leads around a policy: what stands in is held to the rules on it, and to those on what was called."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.domain.call_record import CallRecord
from aggregator.domain.errors import RpcError, UpstreamHttpStatus, UpstreamUnavailable
from aggregator.gateway.calls.provenance import PROVENANCE_KEY
from aggregator.upstream.lifecycle.states import StateAndReason
from aggregator.upstream.sessions.negotiate import Negotiated
from aggregator.upstream.sessions.session import UpstreamSession
from aggregator.wire.peer import PeerGone
from tests.access.gateway_harness import FORMS, LEGACY, MODERN, GatewayHarness, error_data, make_config, tool
from tests.peers.back_channel import AnsweringBackChannel
from tests.peers.toolbox import Json, text_result

TAKES: Final[Json] = {"id": {"type": "integer"}}


def harness(folder: Path, policies: object = None, first: str = "unavailable", **fields: Any) -> GatewayHarness:
    """Build a gateway with `crm`, unavailable unless `first` says otherwise, and `spare` with the same tools."""
    servers = {"crm": {"command": "x", "fallbacks": ["spare"], **fields}, "spare": {"command": "x"}}
    tools = [tool("get", TAKES), tool("put", TAKES)]
    made = GatewayHarness(make_config(folder, servers), {"crm": tools, "spare": tools}, policies, down={"crm": first})
    return made


def call_records(of: GatewayHarness) -> list[CallRecord]:
    """Return a list that receives every call record from now on."""
    found: list[CallRecord] = []
    of.app.telemetry.observers.sinks = (found.append,)
    return found


def agent(**body: Any) -> Json:
    return {"agents": {"one": body}}


async def test_the_agent_keeps_its_name(tmp_path: Path) -> None:
    """Proves: C18, A8. Listed, called and answered under it."""
    at = harness(tmp_path, agent(allow=["crm.*", "spare.*"]))
    host = at.host("one")
    assert [one["name"] for one in await at.listed(host)] == ["crm.get", "crm.put", "spare.get", "spare.put"]
    records = call_records(at)
    answer = await at.call(host, "crm.get", {"id": 1})
    provenance = answer["result"]["_meta"][PROVENANCE_KEY]
    assert (provenance["server"], provenance["in_place_of"]) == ("spare", "crm")
    assert at.sent == [("spare", "get")]
    (record,) = records
    assert (record.called.tool, record.called.server) == ("crm.get", "crm")
    assert (record.sending.answered_by, record.outcome.status) == ("spare", "ok")


@pytest.mark.parametrize(
    "body",
    [
        {"allow": ["crm.*"]},
        {"allow": ["crm.*", "spare.*"], "deny": ["spare.get"]},
        {"allow": ["crm.*", "spare.*"], "confirm": ["spare.get"]},
        {"allow": ["*"], "arguments": {"spare.get": {"properties": {"id": {"maximum": 0}}}}},
    ],
)
async def test_what_the_agent_may_not_call_does_not_stand_in(tmp_path: Path, body: Json) -> None:
    """Proves: C18. Not allowed, denied, to be confirmed by a person, not with these arguments."""
    at = harness(tmp_path, agent(**body))
    records = call_records(at)
    answer = await at.call(at.host("one"), "crm.get", {"id": 1})
    assert error_data(answer)["code"] == "upstream_unavailable"
    assert error_data(answer)["server"] == "crm"
    assert "spare" not in str(answer)
    assert at.sent == []
    assert records[0].sending.answered_by is None


async def test_what_wakes_up_as_another_tool_is_judged_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: C18. It was allowed as it was known, and is not as it is."""
    spoken: Json = {"command": "x", "trusted": True}
    servers = {"crm": {**spoken, "fallbacks": ["spare"]}, "spare": spoken}
    mild, wild = (tool("get", TAKES, annotations={"destructiveHint": harm}) for harm in (False, True))
    rules = agent(allow=["*"], annotations={"destructive": "deny"})
    at = GatewayHarness(
        make_config(tmp_path, servers), {"crm": [mild], "spare": [mild]}, rules, down={"crm": "unavailable"}
    )
    spare = at.app.upstreams["spare"]
    spare.lifecycle.known, session = True, spare.shared.session
    wakes: list[Json] = []

    def wake() -> None:
        spare.definitions, spare.shared.session, spare.lifecycle.current = [wakes[-1]], session, StateAndReason("ready")
        at.app.updates.rebuild()

    monkeypatch.setattr(spare, "start", wake)
    for found, sent in ((wild, []), (mild, [("spare", "get")])):
        wakes.append(found)
        spare.definitions, spare.shared.session, spare.lifecycle.current = [mild], None, StateAndReason("stopped")
        at.app.updates.rebuild()
        answer = await at.call(at.host("one"), "crm.get", {"id": 1})
        assert at.sent == sent
    assert "isError" not in answer["result"]


async def test_who_no_longer_stands_in_is_not_told_of(tmp_path: Path) -> None:
    """Proves: C18. Nor preferred, should it stand in again one day."""
    at = harness(tmp_path, agent(allow=["*"]))
    answering, upstream = at.app.failover.answering, at.app.upstreams["crm"]
    await at.call(at.host("one"), "crm.get", {"id": 1})
    at.app.updates.rebuild()
    assert answering("crm") == ["spare"]
    upstream.update(upstream.config.model_copy(update={"fallbacks": ()}))
    at.app.updates.rebuild()
    assert answering("crm") == []


async def test_nor_is_one_that_calls_no_longer_go_to(tmp_path: Path) -> None:
    """Proves: C18. The first is well again for long enough, though nobody has called it since."""
    at = harness(tmp_path, agent(allow=["*"]))
    failover, upstream = at.app.failover, at.app.upstreams["crm"]
    await at.call(at.host("one"), "crm.get", {"id": 1})
    assert failover.answering("crm") == ["spare"]
    upstream.lifecycle.current = StateAndReason("ready", "", 0.0)
    assert failover.answering("crm") == []


async def test_the_limit_of_what_stands_in_holds(tmp_path: Path) -> None:
    """Proves: C18. It is no second purse."""
    at = harness(tmp_path, agent(allow=["*"], limits={"spare.get": {"per_minute": 1}}))
    host = at.host("one")
    assert "isError" not in (await at.call(host, "crm.get", {"id": 1}))["result"]
    assert error_data(await at.call(host, "crm.get", {"id": 1}))["code"] == "upstream_unavailable"
    assert error_data(await at.call(host, "spare.get", {"id": 1}))["code"] == "limit_reached"
    assert at.sent == [("spare", "get")]


async def test_the_rules_on_what_was_called_stay_in_force(tmp_path: Path) -> None:
    """Proves: C18. What may not be called, and not with these arguments, is not called by way of another either."""
    tightened = {"crm.get": {"properties": {"id": {"maximum": 5}}}}
    at = harness(tmp_path, agent(allow=["crm.get", "spare.*"], arguments=tightened))
    host = at.host("one")
    assert error_data(await at.call(host, "crm.put", {"id": 1}))["code"] == "tool_not_allowed"
    assert error_data(await at.call(host, "crm.get", {"id": 6}))["code"] == "invalid_arguments"
    assert at.sent == []
    assert "isError" not in (await at.call(host, "crm.get", {"id": 5}))["result"]


async def test_a_call_counts_against_both_and_once(tmp_path: Path) -> None:
    """Proves: C18. The limit on what was called holds for what stands in; one that covers both counts one call."""
    at = harness(tmp_path, agent(allow=["*"], limits={"crm.get": {"per_minute": 2}, "*": {"per_minute": 3}}))
    host = at.host("one")
    for _ in range(2):
        assert "isError" not in (await at.call(host, "crm.get", {"id": 1}))["result"]
    assert error_data(await at.call(host, "crm.get", {"id": 1}))["code"] == "limit_reached"
    assert "isError" not in (await at.call(host, "spare.get", {"id": 1}))["result"]
    assert error_data(await at.call(host, "spare.get", {"id": 1}))["code"] == "limit_reached"
    assert at.sent == [("spare", "get")] * 3


async def test_one_call_that_went_on_is_one_call(tmp_path: Path) -> None:
    """Proves: C18. The first is there, and nothing could be sent to it after all."""
    at = harness(tmp_path, agent(allow=["*"], limits={"*": {"per_minute": 2}}), "ready")

    async def nobody(params: Json) -> Json:
        raise UpstreamUnavailable("crm", "crm cannot be reached.")

    at.fake_upstreams["crm"].answer = nobody
    host = at.host("one")
    for _ in range(2):
        assert "isError" not in (await at.call(host, "crm.get", {"id": 1}))["result"]
    assert error_data(await at.call(host, "crm.get", {"id": 1}))["code"] == "limit_reached"
    assert at.sent == [("crm", "get"), ("spare", "get"), ("spare", "get")], "it stays with the other"


async def test_one_that_wants_to_be_left_alone_is(tmp_path: Path) -> None:
    """Proves: C18. 429: the call goes on, and the next ones do not even try."""
    at = harness(tmp_path, None, "ready")

    async def enough(params: Json) -> Json:
        raise UpstreamHttpStatus("crm", "crm answered HTTP 429.", status=429)

    at.fake_upstreams["crm"].answer = enough
    for _ in range(3):
        assert "isError" not in (await at.call(at.host("one"), "crm.put", {"id": 1}))["result"]
    assert at.sent == [("crm", "put"), *[("spare", "put")] * 3]


async def test_a_first_that_does_not_get_up_is_waited_for_and_no_longer(tmp_path: Path) -> None:
    """Proves: C18, C11. It is known from the last time, and still being started when the time of a call is over."""
    at = harness(tmp_path, None, "starting", timeout="50ms")
    assert "isError" not in (await at.call(at.host("one"), "crm.get", {"id": 1}))["result"]
    assert at.sent == [("spare", "get")]


FAULTS: dict[str, Callable[[], Exception]] = {
    "lost": lambda: PeerGone("the connection broke"),
    "503": lambda: UpstreamHttpStatus("crm", "unavailable", status=503),
    "its own error": lambda: RpcError(-32000, "no"),
    "500": lambda: UpstreamHttpStatus("crm", "server error", status=500),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("declared", [{}, {"idempotent": ["crm.get"]}, {"retry": ["crm.get"]}])
async def test_what_may_have_been_run_goes_on_only_where_the_policy_says_so(
    tmp_path: Path, fault: str, declared: Json
) -> None:
    """Proves: C18. Idempotent calls go on to the next server at once, and are not sent to the first again."""
    at = harness(tmp_path, agent(allow=["*"], **declared), "ready")

    async def broken(params: Json) -> Json:
        raise FAULTS[fault]()

    at.fake_upstreams["crm"].answer = broken
    answer = await at.call(at.host("one"), "crm.get", {"id": 1})
    goes_on = bool(declared) and fault in ("lost", "503")
    assert at.sent == ([("crm", "get"), ("spare", "get")] if goes_on else [("crm", "get")])
    assert ("error" not in answer and "isError" not in answer["result"]) == goes_on


async def test_a_person_agrees_to_what_the_agent_called(tmp_path: Path) -> None:
    """Proves: C18. Asked once, about the call as it was made; whoever then answers is allowed without a question."""
    at = harness(tmp_path, agent(allow=["crm.*", "spare.*"], confirm=["crm.get"]))

    async def yes(params: Json) -> Json:
        return {"action": "accept", "content": {"decision": "allow"}}

    channel = AnsweringBackChannel(yes)
    answer = await at.call(at.host("one", LEGACY, FORMS), "crm.get", {"id": 1}, channel)
    assert len(channel.asked) == 1
    assert "'crm'" in channel.asked[0]["message"]
    assert ("isError" not in answer["result"]) == (at.sent == [("spare", "get")])


async def test_the_schema_that_was_promised_is_the_one_that_counts(tmp_path: Path) -> None:
    """Proves: C18. A result of another server has to be as the tool's own server said."""
    promised = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    servers: dict[str, Json] = {
        "crm": {"command": "x", "fallbacks": ["spare"], "output_validation": "enforce"},
        "spare": {"command": "x", "output_validation": "off"},
    }
    tools = [tool("get", outputSchema=promised)]
    at = GatewayHarness(make_config(tmp_path, servers), {"crm": tools, "spare": tools}, down={"crm": "unavailable"})

    async def wrong(params: Json) -> Json:
        return {**text_result("x"), "structuredContent": {"n": "many"}}

    at.fake_upstreams["spare"].answer = wrong
    answer = await at.call(at.host("one"), "crm.get")
    assert answer["result"]["isError"] is True
    assert at.sent == [("spare", "get")]


async def test_arguments_that_a_fallback_does_not_take_are_not_sent_to_it(tmp_path: Path) -> None:
    """Proves: C18. Each call is checked against the schema of the fallback, down to what no comparison ahead sees."""
    servers: dict[str, Json] = {"crm": {"command": "x", "fallbacks": ["spare"]}, "spare": {"command": "x"}}
    narrow = tool("get", {"id": {"type": "integer", "maximum": 9}})
    tools = {"crm": [tool("get", TAKES)], "spare": [narrow]}
    at = GatewayHarness(make_config(tmp_path, servers), tools, down={"crm": "unavailable"})
    host = at.host("one")
    assert "isError" not in (await at.call(host, "crm.get", {"id": 9}))["result"]
    refused = await at.call(host, "crm.get", {"id": 10})
    assert error_data(refused)["code"] == "upstream_unavailable"
    assert at.sent == [("spare", "get")]


@pytest.mark.parametrize("part", ["inputSchema", "outputSchema"])
@pytest.mark.parametrize("side", ["crm", "spare"])
async def test_a_schema_that_changes_is_compared_anew(tmp_path: Path, side: str, part: str) -> None:
    """Proves: C18. Under the same names: what could stand in no longer may, and may again once it fits."""
    text, number, any_kind = ({"type": "string"}, {"type": "integer"}, {"type": ["string", "null"]})
    # What is called must not take more than what stands in, nor promise more of its results.
    other = any_kind if (side == "crm") == (part == "inputSchema") else number
    servers: dict[str, Json] = {"crm": {"command": "x", "fallbacks": ["spare"]}, "spare": {"command": "x"}}
    tools = {name: [{**tool("get"), "inputSchema": _with(text), "outputSchema": _with(text)}] for name in servers}
    at = GatewayHarness(make_config(tmp_path, servers), tools, down={"crm": "unavailable"})
    host = at.host("one")
    for schema, answered in ((text, True), (other, False), (text, True)):
        at.app.upstreams[side].definitions = [{**tools[side][0], part: _with(schema)}]
        at.app.updates.rebuild()
        before = len(at.sent)
        await at.call(host, "crm.get", {"n": "x"})
        assert at.sent[before:] == [("spare", "get")] * answered


def _with(schema: Json) -> Json:
    return {"type": "object", "properties": {"n": schema}, "required": ["n"]}


async def test_a_question_of_the_one_that_stands_in_is_answered_to_it(tmp_path: Path) -> None:
    """Proves: C18. Its host comes back with the answer when the first is there again: the second goes on."""
    at = harness(tmp_path)
    spare = at.fake_upstreams["spare"]
    at.app.upstreams["spare"].shared.session = UpstreamSession(
        spare, Negotiated(MODERN, {"tools": {}}, {}, None), "local", {}
    )
    at.app.upstreams["spare"].shared.negotiated = Negotiated(MODERN, {"tools": {}}, {}, None)
    form = {"method": "elicitation/create", "params": {"message": "which?", "requestedSchema": {"type": "object"}}}

    async def asks(params: Json) -> Json:
        if "inputResponses" in params:
            return text_result(f"went on with {params['requestState']}")
        return {"resultType": "input_required", "inputRequests": {"a": form}, "requestState": "half"}

    spare.answer = asks
    host = at.host("one", MODERN)
    host.capabilities = FORMS
    first = (await at.call(host, "crm.get", {"id": 1}))["result"]
    assert first["resultType"] == "input_required"
    crm = at.app.upstreams["crm"]
    crm.lifecycle.current = StateAndReason("ready")
    crm.shared.session = UpstreamSession(
        at.fake_upstreams["crm"], Negotiated(LEGACY, {"tools": {}}, {}, None), "local", {}
    )
    back = {"inputResponses": {"a": {"action": "accept", "content": {}}}, "requestState": first["requestState"]}
    answer = await at.call(host, "crm.get", {"id": 1}, **back)
    assert answer["result"]["content"][0]["text"] == "went on with half"
    assert at.sent == [("spare", "get")] * 2
    again = await at.call(host, "crm.get", {"id": 1}, **back)
    assert again["error"]["code"] == -32602, "an answer counts once"


async def test_a_call_that_asked_something_is_begun(tmp_path: Path) -> None:
    """Proves: C18. The first asked, got its answer, and is away by then: what it has done so far nobody knows."""
    at = harness(tmp_path, None, "ready")
    crm = at.fake_upstreams["crm"]
    at.app.upstreams["crm"].shared.session = UpstreamSession(
        crm, Negotiated(MODERN, {"tools": {}}, {}, None), "local", {}
    )
    at.app.upstreams["crm"].shared.negotiated = Negotiated(MODERN, {"tools": {}}, {}, None)
    form = {"method": "elicitation/create", "params": {"message": "which?", "requestedSchema": {"type": "object"}}}

    async def asks(params: Json) -> Json:
        if "inputResponses" in params:
            raise UpstreamUnavailable("crm", "crm cannot be reached.")
        return {"resultType": "input_required", "inputRequests": {"a": form}}

    async def person(params: Json) -> Json:
        return {"action": "accept", "content": {}}

    crm.answer = asks
    answer = await at.call(at.host("one", LEGACY, FORMS), "crm.get", {"id": 1}, AnsweringBackChannel(person))
    assert error_data(answer)["code"] == "upstream_unavailable"
    assert at.sent == [("crm", "get")] * 2
