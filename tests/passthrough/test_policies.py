"""What an agent sees listed is what it may read and get: by any policy, for every spelling, and for nobody else."""

import asyncio
from collections.abc import Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from aggregator.config.model import Config
from aggregator.domain.uris.exposed import aliased, wrapped
from aggregator.gateway.host import Host
from aggregator.upstream.connection import Connection, DeferredRequest, JsonRpcRequest
from aggregator.upstream.sessions.negotiate import Negotiated
from aggregator.upstream.sessions.session import UpstreamSession
from aggregator.wire.pending_request import AnswerReceiver, PendingRequest
from tests.access.gateway_harness import FORMS, LEGACY, MODERN, GatewayHarness, make_config
from tests.access.secured_harness import SecuredHarness
from tests.laws import examples
from tests.passthrough.upstreams import first_update, listed, local, subscribed_to, updates
from tests.peers.back_channel import AnsweringBackChannel
from tests.peers.library import FILE, Library
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.policy.build import item
from tests.policy.test_properties import AGENTS, belonging, documents, with_tenants

SERVERS: Final = ("a", "b", "a_b", "A")
URIS: Final = ("file:///get", "https://h/get", "urn:x.y", "demo://a/delete_x", "get", "ui://b/查")
NAMES: Final = ("get", "delete_x", "x.y", "Get", "x__y", "b/get", "b.get")
Libraries = Mapping[str, tuple[list[str], list[str]]]

any_libraries: st.SearchStrategy[Libraries] = st.dictionaries(
    st.sampled_from(SERVERS),
    st.tuples(
        st.lists(st.sampled_from(URIS), max_size=3, unique=True),
        st.lists(st.sampled_from(NAMES), max_size=3, unique=True),
    ),
    min_size=1,
    max_size=4,
)
# Without shrinking: a failure takes as long as a success.
quick = settings(
    max_examples=examples(25),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


class FakeResourceServer(Connection):
    """A fake upstream that answers every read and get, and records them."""

    def __init__(self, server: str, log: list[tuple[str, str]]) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._server, self._log = server, log

    def begin(self, request: JsonRpcRequest, receiver: AnswerReceiver | None = None) -> PendingRequest:
        return DeferredRequest(partial(self._answer, request.method, request.params))

    async def _answer(self, method: str, params: Json) -> Json:
        if method == "resources/read":
            self._log.append((self._server, params["uri"]))
            return {"contents": [{"uri": params["uri"], "text": "x"}]}
        assert method == "prompts/get"
        self._log.append((self._server, params["name"]))
        return {"messages": []}

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Drop the notification."""

    def use_version(self, version: str) -> None:
        """Ignore the revision: no test depends on it."""


class ResourceHarness(GatewayHarness):
    """A gateway whose upstreams have resources and prompts, and no tools."""

    def __init__(self, folder: Path, world: Libraries, policies: object, config: Config | None = None) -> None:
        config = config or make_config(folder, {name: {"command": "played"} for name in SERVERS})
        super().__init__(config, {}, policies)
        negotiated = Negotiated(LEGACY, {}, {"resources": {}, "prompts": {}}, None)
        for server, upstream in self.app.upstreams.items():
            uris, names = world.get(server, ([], []))
            upstream.lists.put("resource", [{"uri": uri, "name": uri} for uri in uris])
            upstream.lists.put("prompt", [{"name": name} for name in names])
            upstream.shared.negotiated = negotiated
            reader: Any = FakeResourceServer(server, self.sent)
            upstream.shared.session = UpstreamSession(reader, negotiated, "local", {})
        self.app.updates.rebuild()

    async def found(self, host: Host, method: str, field: str) -> list[str]:
        result = (await self.ask(host, method, {}))["result"]
        (key,) = {"resources", "prompts"} & result.keys()
        return [one[field] for one in result[key]]

    async def reached(self, host: Host, method: str, params: Json) -> tuple[str, str] | None:
        """Return what a read or a get reaches, or would reach after confirmation."""
        before = len(self.sent)
        answer = await self.ask(host, method, params)
        if sent := self.sent[before:]:
            assert len(sent) == 1
            assert "result" in answer
            return sent[0]
        data = answer["error"].get("data", {})
        return ("?", "?") if data.get("code") == "not_confirmed" else None


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


@quick
@given(documents, belonging, any_libraries, st.sampled_from([LEGACY, MODERN]))
def test_what_is_listed_is_what_can_be_had(
    tmp_path: Path, content: Any, belong: Any, world: Libraries, version: str
) -> None:
    """Whatever leads to a resource or prompt that is not listed leads nowhere, and everything listed leads there.

    Proves: D4
    """

    async def work() -> None:
        harness = ResourceHarness(tmp_path, world, with_tenants(content, belong))
        assert harness.live.rulebook is not None
        for agent, rules in harness.live.rulebook.agents.items():
            host = harness.host(agent, version)
            uris = await harness.found(host, "resources/list", "uri")
            by_list = {uri: await harness.reached(host, "resources/read", {"uri": uri}) for uri in uris}
            assert None not in by_list.values()
            assert len(uris) == len(set(uris))
            had = set(by_list.values())
            for server, (own_uris, _) in world.items():
                for own in own_uris:
                    for spelled in (wrapped(server, own), aliased(server, own)):
                        found = await harness.reached(host, "resources/read", {"uri": spelled})
                        assert found is None or found in had, spelled
                    # This may read as another server's, and then that is what the policy decides about.
                    found = await harness.reached(host, "resources/read", {"uri": own})
                    assert found is None or found == ("?", "?") or rules.decide_target(item("resource", *found)).visible
            names = await harness.found(host, "prompts/list", "name")
            gotten = {name: await harness.reached(host, "prompts/get", {"name": name}) for name in names}
            assert None not in gotten.values()
            for server, (_, own_names) in world.items():
                for own in own_names:
                    for by in (".", "__", "/", ":"):
                        found = await harness.reached(host, "prompts/get", {"name": f"{server}{by}{own}"})
                        assert found is None or found in gotten.values()

    run(work())


@quick
@given(documents, belonging, any_libraries)
def test_what_an_agent_may_not_have_changes_nothing_for_it(
    tmp_path: Path, content: Any, belong: Any, world: Libraries
) -> None:
    """Proves: D4. With hidden denials every list is that of a world with only what the agent may have."""
    content = with_tenants(content, belong)
    for body in (*content["agents"].values(), *content["roles"].values(), content["defaults"]):
        body["denials"] = "hidden"

    async def work() -> None:
        whole = ResourceHarness(tmp_path, world, content)
        for agent in AGENTS:
            host = whole.host(agent)
            rules = whole.live.rulebook
            assert rules is not None
            mine = rules.for_agent(agent)
            assert mine is not None
            less = {
                server: (
                    [uri for uri in uris if mine.decide_target(item("resource", server, uri)).visible],
                    [name for name in names if mine.decide_target(item("prompt", server, name)).visible],
                )
                for server, (uris, names) in world.items()
            }
            part = ResourceHarness(tmp_path, less, content)
            for method, field in (("resources/list", "uri"), ("prompts/list", "name")):
                assert await whole.found(host, method, field) == await part.found(part.host(agent), method, field)
            for server, (_, names) in world.items():
                for own in names:
                    asked = {"name": f"{server}.{own}"}
                    answers = [
                        await harness.ask(harness.host(agent), "prompts/get", asked) for harness in (whole, part)
                    ]
                    assert answers[0] == answers[1]

    run(work())


POLICIES: Final[Json] = {
    "agents": {
        "one": {"allow": ["resource:shop.file:///notes/*", "prompt:shop.greet", "shop.*"], "denials": "hidden"},
        "two": {"allow": ["server:shop", "server:mail"], "deny": ["resource:shop.https://*", "prompt:*.embed"]},
    }
}


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two libraries and two agents."""
    monkeypatch.setattr("aggregator.app.reload.policy_reload.EVERY", 0.05)
    with BackgroundLoop() as running:
        servers = {name: local(Library(name), protocol="legacy") for name in ("shop", "mail")}
        yield SecuredHarness(running, tmp_path, servers, POLICIES, ("one", "two"))


async def test_two_agents_at_a_frontend(harness: SecuredHarness) -> None:
    """Each sees its own: what is denied by name, what nothing allows, and what only another agent's list has first.

    Proves: D4, D5
    """
    page = "https://example.com/page"
    async with harness.connect_as(("http", LEGACY), "one") as one, harness.connect_as(("http", MODERN), "two") as two:
        assert [r["uri"] for r in await listed(one, "resources/list")] == ["file://shop//notes/a.txt"]
        assert [p["name"] for p in await listed(one, "prompts/list")] == ["shop.greet"]
        assert await listed(one, "resources/templates/list") == []
        uris = [r["uri"] for r in await listed(two, "resources/list")]
        assert page in uris
        assert (await two.ask("resources/read", {"uri": page}).result())["contents"][0]["text"] == f"mail: {page}"
        assert f"mcp://mail/{page}" not in uris, "whose it would be for others is not to be seen"
        hidden = await one.ask("resources/read", {"uri": "file://mail//notes/a.txt"}).error()
        nobody = await one.ask("resources/read", {"uri": "file://nope//notes/a.txt"}).error()
        assert hidden["code"] == nobody["code"] == -32002
        assert hidden["message"].replace("mail", "nope") == nobody["message"]
        denied = await two.ask("resources/read", {"uri": f"mcp://shop/{page}"}).error()
        assert (denied["code"], denied["data"]["code"], denied["data"]["status"]) == (-32602, "not_allowed", 403)
        denied = await two.ask("prompts/get", {"name": "shop__embed", "arguments": {"uri": "a:b"}}).error()
        assert denied["data"]["code"] == "not_allowed"
        assert "resource_not_found" not in str(denied)
        unknown = await one.ask("prompts/get", {"name": "mail.greet"}).error()
        assert (unknown["code"], unknown["data"]["nearest"]) == (-32602, ["shop.greet"])
        ref = {"ref": {"type": "ref/prompt", "name": "mail.greet"}, "argument": {"name": "who", "value": "p"}}
        assert (await one.ask("completion/complete", ref).error())["code"] == -32602
        listing = await two.ask("resources/list").result()
        assert listing["cacheScope"] == "private"
        reading = await two.ask("resources/read", {"uri": "file://mail//notes/a.txt"}).result()
        assert reading["cacheScope"] == "private"


async def test_who_may_no_longer_read_is_notified_no_more(harness: SecuredHarness) -> None:
    """Rules change while hosts listen: they are told that their lists changed, and of resources they lost nothing."""
    uri = "file://shop//notes/a.txt"
    wanted = {"resourcesListChanged": True, "resourceSubscriptions": [uri, "https://example.com/page"]}
    async with (
        harness.connect_as(("sse", LEGACY), "one") as one,
        harness.connect_as(("sse", MODERN), "two") as two,
        subscribed_to(one, resourceSubscriptions=[uri]),
        subscribed_to(two, **wanted) as honoured,
    ):
        assert honoured == wanted, "that page is the mail's for this agent"
        await two.call("shop.touch", {"uri": FILE}).result()
        for host in (one, two):
            await first_update(host, uri)
            host.inbox.messages.clear()
        before = harness.revision
        agents: dict[str, Json] = POLICIES["agents"]
        harness.set_policies({"agents": {**agents, "one": {**agents["one"], "deny": ["resource:*"]}}})
        await harness.wait_for_policies(before)
        await one.inbox.named("notifications/resources/list_changed")
        await two.call("shop.touch", {"uri": FILE}).result()
        await first_update(two, uri)
        assert updates(one) == []
        assert not [m for m in two.inbox.messages if m["method"].endswith("list_changed")]


async def test_a_person_agrees_to_a_read(tmp_path: Path) -> None:
    """What a policy wants confirmed is asked for before it is read or got, in each era's way, and only then sent.

    Proves: B6
    """
    policies = {"agents": {"one": {"allow": ["server:a"], "confirm": ["resource:a.*", "prompt:a.get"]}}}
    harness = ResourceHarness(tmp_path, {"a": (["file:///get"], ["get"])}, policies)
    asked: list[Json] = []

    async def person(question: Json) -> Json:
        asked.append(question)
        return {"action": "accept", "content": {"allow": len(asked) > 1}}

    forms: Json = {"elicitation": {}}
    host, read = harness.host("one", LEGACY, forms), {"uri": "file://a//get"}
    declined = await harness.ask(host, "resources/read", read, AnsweringBackChannel(person))
    assert declined["error"]["data"]["code"] == "not_confirmed"
    agreed = await harness.ask(host, "resources/read", read, AnsweringBackChannel(person))
    assert agreed["result"]["contents"][0]["uri"] == "file://a//get"
    nobody = await harness.ask(harness.host("one"), "prompts/get", {"name": "a.get"})
    assert nobody["error"]["data"]["code"] == "not_confirmed"
    modern = harness.host("one", MODERN)
    modern.capabilities = forms
    interim = (await harness.ask(modern, "prompts/get", {"name": "a.get"}))["result"]
    assert interim["resultType"] == "input_required"
    assert not {"ttlMs", "cacheScope"} & interim.keys()
    back = {
        "name": "a.get",
        "inputResponses": {key: {"action": "accept", "content": {"allow": True}} for key in interim["inputRequests"]},
        "requestState": interim["requestState"],
    }
    assert "result" in await harness.ask(modern, "prompts/get", back)
    assert harness.sent == [("a", "file:///get"), ("a", "get")]
    assert "resource:a.file:///get" in asked[0]["message"]


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_a_member_in_another_case_goes_nowhere(tmp_path: Path, version: str) -> None:
    """Servers that read names in any case (Go) would read, get or complete what the second one says.

    Proves: D4
    """
    rules = {"agents": {"one": {"allow": ["resource:*open*", "prompt:*open*"], "deny": ["*secret*"]}}}
    harness = ResourceHarness(tmp_path, {"a": (["x://open", "x://secret"], ["open", "secret"])}, rules)
    host = harness.host("one", version)
    uri, argument = wrapped("a", "x://open"), {"name": "a", "value": ""}
    for method, params in (
        ("resources/read", {"uri": uri, "URI": "x://secret"}),
        ("resources/read", {"uri": uri, "_meta": {"ProgressToken": 1}}),
        ("prompts/get", {"name": "a.open", "Name": "secret"}),
        ("prompts/get", {"name": "a.open", "ARGUMENTS": {}}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "a.open", "Name": "x"}, "argument": argument}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "a.open"}, "argument": argument, "Ref": {}}),
    ):
        answer = await harness.ask(host, method, params)
        assert answer["error"]["code"] == -32602, params
        assert "leave it out" in answer["error"]["message"]
    assert harness.sent == []
    assert "result" in await harness.ask(host, "resources/read", {"uri": uri})


@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize("agent", ["asked", "free"])
@pytest.mark.parametrize("arguments", [[["x", 1]], "x", 5, False, {"x": None}], ids=ascii)
async def test_arguments_that_no_person_could_be_shown_go_nowhere(
    tmp_path: Path, version: str, agent: str, arguments: Any
) -> None:
    """A yes to a prompt without arguments is none to a list of them; what is nested too deeply is refused in words.

    Proves: D4
    """
    if isinstance(arguments, dict):
        for _ in range(500):
            arguments["x"] = [arguments["x"]]
    rules = {"asked": {"allow": ["server:a"], "confirm": ["prompt:*", "resource:*"]}, "free": {"allow": ["server:a"]}}
    harness = ResourceHarness(tmp_path, {"a": (["x://open"], ["open"])}, {"agents": rules})
    host = harness.host(agent, version, FORMS)
    for method, params in (
        ("prompts/get", {"name": "a.open", "arguments": arguments}),
        ("resources/read", {"uri": wrapped("a", "x://open"), "arguments": arguments}),
    ):
        answer = await harness.ask(host, method, params, AnsweringBackChannel(agrees))
        assert answer["error"]["code"] == -32602
        assert "nested at most 64 levels" in answer["error"]["message"]
    assert harness.sent == []


async def agrees(question: Json) -> Json:
    """A person who says yes to everything."""
    return {"action": "accept", "content": {"allow": True}}
