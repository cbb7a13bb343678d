"""Reads of resources and prompts, each condition by itself: which are held, refused, asked about, and sent."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from aggregator.catalog.resources import ItemCatalog
from aggregator.domain.call_record import CallRecord
from aggregator.domain.errors import METHOD_NOT_FOUND, RpcError, UpstreamError
from aggregator.domain.principal import Principal, TokenFacts
from aggregator.domain.records import ItemKind, ItemRecord
from aggregator.domain.uris.exposed import wrapped
from aggregator.gateway.host import Host
from aggregator.gateway.views.current import HeldItems
from aggregator.pins.gateway.state import HeldItem
from aggregator.upstream.lifecycle.states import StateAndReason
from aggregator.upstream.sessions.negotiate import Negotiated
from aggregator.upstream.sessions.session import UpstreamSession
from tests.access.gateway_harness import FORMS, LEGACY, MODERN, make_config
from tests.passthrough.test_policies import FakeResourceServer, ResourceHarness, agrees
from tests.peers.back_channel import AnsweringBackChannel, FakeBackChannel
from tests.peers.toolbox import Json

NOTE: Final = "demo://notes/1"
SERVERS: Final[Mapping[str, Json]] = {"a": {}, "b": {}}
OPEN: Final = {"allow": ["server:a", "server:b"]}
ERAS: Final = pytest.mark.parametrize("version", [LEGACY, MODERN])


class Replying(FakeResourceServer):
    """A server that gives the reply of a test."""

    def __init__(self, server: str, log: list[tuple[str, str]]) -> None:
        super().__init__(server, log)
        self.replies: list[Json | Exception] = []
        self.params: list[Json] = []

    async def _answer(self, method: str, params: Json) -> Json:
        self.params.append(params)
        if method in ("resources/read", "prompts/get"):
            usual = await super()._answer(method, params)
        else:
            usual = {"completion": {"values": ["x"]}}
        reply = self.replies.pop(0) if self.replies else usual
        if isinstance(reply, Exception):
            raise reply
        return reply


class Desk(ResourceHarness):
    """A gateway with the servers `a` and `b`, whose replies a test gives."""

    def __init__(
        self,
        folder: Path,
        rules: Json | None = None,
        version: str = LEGACY,
        uris: tuple[str, ...] = (NOTE,),
        prompts: tuple[str, ...] = ("pay",),
        servers: Mapping[str, Json] = SERVERS,
        **capabilities: Any,
    ) -> None:
        config = make_config(folder, {name: {"command": "played", **entry} for name, entry in servers.items()})
        world = {name: (list(uris), list(prompts)) for name in servers}
        super().__init__(folder, world, {"agents": rules} if rules is not None else None, config)
        self.gateway: Any = self.app.gateway
        self.servers: dict[str, Replying] = {}
        told = Negotiated(version, {}, {"resources": {}, "prompts": {}, "completions": {}, **capabilities}, None)
        for name, upstream in self.app.upstreams.items():
            self.servers[name] = server = Replying(name, self.sent)
            upstream.shared.negotiated = told
            upstream.shared.session = UpstreamSession(server, told, "local", {})

    def records(self, server: str, kind: ItemKind, *names: str) -> list[ItemRecord]:
        """Return the records of a server that lists these items alone."""
        upstream, key = self.app.upstreams[server], {"template": "uriTemplate", "prompt": "name"}.get(kind, "uri")
        before = upstream.lists[kind]
        skill = {"frontmatter": {"name": "pay", "description": "x"}, "resources": "dynamic"} if kind == "skill" else {}
        upstream.lists.put(kind, [{"name": name, key: name, **skill} for name in names])
        self.app.updates.rebuild()
        found = [one for one in self.gateway.resources.items if (one.server, one.kind) == (server, kind)]
        upstream.lists.put(kind, before)
        self.app.updates.rebuild()
        assert len(found) == len(names)
        return found

    def show(self, server: str, kind: ItemKind, *names: str) -> None:
        """Have a server list these items."""
        more = self.records(server, kind, *names)
        self.gateway._current.resources = ItemCatalog([*self.gateway.resources.items, *more])

    def hold(self, server: str, kind: Literal["template", "prompt", "skill"], name: str, **why: Any) -> None:
        """Have an item of a server wait for an approval."""
        shown = self.gateway.resources
        held = HeldItem(server, kind, name, "its description changed", **why)
        items = ItemCatalog(self.records(server, kind, name))
        self.gateway._current.resources = shown
        self.gateway._current.held = HeldItems(items=items, why={(server, kind, name): held})

    async def ask(self, host: Host, method: str, params: Json, channel: FakeBackChannel | None = None) -> Json:
        try:
            return await super().ask(host, method, params, channel)
        except UpstreamError as error:
            return {"error": {"code": 0, "message": error.message, "data": {"code": error.code}}}

    async def read(self, host: Host, own: str = NOTE, server: str = "a", **more: Any) -> Json:
        return await self.ask(host, "resources/read", {"uri": wrapped(server, own), **more})

    async def get(self, host: Host, name: str = "a.pay", channel: FakeBackChannel | None = None, **more: Any) -> Json:
        return await self.ask(host, "prompts/get", {"name": name, **more}, channel)


def code(answer: Json) -> Any:
    """Return the word for the end of a read: `read`, the code in the data of its error, or the number of that."""
    if "result" in answer:
        return "read"
    data = answer["error"].get("data")
    return data.get("code", answer["error"]["code"]) if isinstance(data, dict) else answer["error"]["code"]


# The agents' rules besides those that allow everything; what else is listed; the URI that is read; how that ends.
Row = tuple[Json, Mapping[str, tuple[ItemKind, str]], tuple[str, str], str]
ID, ANY = "demo://notes/{id}", "demo://notes/{+rest}"
HELD_TEMPLATES: Final[dict[str, Row]] = {
    "it alone leads there": ({}, {}, ("a", "demo://notes/2"), "item_held"),
    "itself": ({}, {}, ("a", ID), "item_held"),
    "it does not lead there": ({}, {}, ("a", "demo://other/2"), "read"),
    "the server lists it": ({}, {}, ("a", NOTE), "read"),
    "another template leads there": ({}, {"a": ("template", ANY)}, ("a", "demo://notes/2"), "read"),
    "another that leads elsewhere": ({}, {"a": ("template", "demo://x/{id}")}, ("a", "demo://notes/2"), "item_held"),
    "one of another server": ({}, {"b": ("template", ANY)}, ("a", "demo://notes/2"), "item_held"),
    "one that is not for this agent": (
        {"deny": [f"resource:a.{ANY}"]}, {"a": ("template", ANY)}, ("a", "demo://notes/2"), "item_held",
    ),
    "the other server has it": ({}, {}, ("b", "demo://notes/2"), "read"),
    "it is not for this agent": ({"deny": [f"resource:a.{ID}"]}, {}, ("a", "demo://notes/2"), "read"),
}  # fmt: skip


@pytest.mark.parametrize("case", HELD_TEMPLATES)
async def test_what_a_held_template_alone_leads_to_is_held(tmp_path: Path, case: str) -> None:
    """For the agents that would see the template, until another item of the same server leads there."""
    rules, shown, (server, own), ends = HELD_TEMPLATES[case]
    desk = Desk(tmp_path, {"one": {**OPEN, **rules}})
    for other, (kind, name) in shown.items():
        desk.show(other, kind, name)
    desk.hold("a", "template", ID)
    assert code(await desk.read(desk.host("one"), own, server)) == ends
    assert desk.sent == ([(server, own)] if ends == "read" else [])


@ERAS
async def test_what_lies_in_a_held_skill_is_held_for_those_who_may_have_it(tmp_path: Path, version: str) -> None:
    desk = Desk(tmp_path, {"one": OPEN, "two": {**OPEN, "deny": ["skill:a.pay"], "denials": "hidden"}})
    desk.hold("a", "skill", "skill://pay/SKILL.md")
    one, two = (desk.host(agent, version) for agent in ("one", "two"))
    inside, beside = "skill://pay/notes.md", "skill://other/notes.md"
    assert code(await desk.read(one, inside)) == "item_held"
    assert (code(await desk.read(one, beside)), code(await desk.read(one, inside, "b"))) == ("read", "read")
    hidden = await desk.read(two, inside)
    desk.gateway._current.held = HeldItems()
    assert hidden == await desk.read(two, inside)
    assert "held" not in str(hidden)


@ERAS
async def test_a_held_prompt_is_named_to_those_who_may_have_it(tmp_path: Path, version: str) -> None:
    """Its name before, too, is told to agents that may have a prompt of that name."""
    rules: Json = {"denials": "hidden", "allow": ["prompt:a.new", "prompt:a.old"]}
    agents = {"one": rules, "two": {**rules, "deny": ["prompt:a.new"]}, "three": {**rules, "deny": ["prompt:a.old"]}}
    desk = Desk(tmp_path, agents, prompts=())
    desk.hold("a", "prompt", "new", before="old", approved=1.0)
    one, two, three = [await desk.get(desk.host(agent, version), "a.new") for agent in agents]
    assert (code(one), code(three)) == ("item_held", "item_held")
    assert ["`old`" in str(answer) for answer in (one, three)] == [True, False]
    desk.gateway._current.held = HeldItems()
    assert two == await desk.get(desk.host("two", version), "a.new")


async def test_a_prompt_that_is_held_when_its_server_has_started_is_held(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"one": OPEN}, prompts=())
    upstream = desk.app.upstreams["a"]
    upstream.lifecycle.current = StateAndReason("starting", since=0.0)

    async def start(*_: Any) -> None:
        upstream.lifecycle.current = StateAndReason("ready", since=0.0)
        desk.hold("a", "prompt", "pay")

    desk.gateway._supervisor.wait_tried = start
    assert code(await desk.get(desk.host("one"))) == "item_held"


async def test_a_server_is_started_for_those_who_may_have_its_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also that it is away is told to them alone."""
    desk = Desk(tmp_path, {"one": OPEN, "two": {**OPEN, "deny": ["prompt:a.*"]}}, prompts=())
    upstream, started = desk.app.upstreams["a"], list[str]()
    monkeypatch.setattr(upstream, "start", lambda: started.append("a"))
    known, upstream.shared.negotiated = upstream.shared.negotiated, None
    for agent, starts in (("two", []), ("one", ["a"])):
        await desk.get(desk.host(agent))
        assert started == starts
    upstream.shared.negotiated = known
    await desk.get(desk.host("one"))
    assert started == ["a"], "it has been connected"
    upstream.lifecycle.current = StateAndReason("unavailable", since=0.0)
    assert [code(await desk.get(desk.host(agent))) for agent in ("one", "two")] == ["upstream_unavailable", -32602]


@pytest.mark.parametrize(
    ("takes", "arguments", "ends"),
    [
        (None, {"key": "1"}, "read"),
        (frozenset(), {"key": "1"}, "invalid_arguments"),
        (frozenset(), {"other": "1"}, "read"),
        (frozenset(), {}, "read"),
        (frozenset(), None, "read"),
        (frozenset({"key"}), {"key": "1"}, "read"),
    ],
)
async def test_arguments_that_a_server_takes_no_more(
    tmp_path: Path, takes: frozenset[str] | None, arguments: Json | None, ends: str
) -> None:
    """An approved prompt whose server takes less of it, or nothing at all."""
    desk = Desk(tmp_path)
    (record,) = [one for one in desk.gateway.resources.items if (one.server, one.kind) == ("a", "prompt")]
    definition = {"name": "pay", "arguments": [{"name": "key"}]}
    desk.gateway._current.resources = ItemCatalog([replace(record, definition=definition, takes=takes)])
    more: Json = {} if arguments is None else {"arguments": arguments}
    assert code(await desk.get(desk.host("one"), **more)) == ends
    assert len(desk.sent) == (ends == "read")


NAMED: Final = {"uri": NOTE, "why": "x"}


@pytest.mark.parametrize(
    ("spoken", "number", "data", "missing"),
    [
        (LEGACY, -32002, None, True),
        (LEGACY, METHOD_NOT_FOUND, None, True),
        (LEGACY, -32602, None, False),
        (LEGACY, -32602, {"why": "x"}, False),
        (LEGACY, -32602, NAMED, True),
        (MODERN, -32602, None, True),
        (MODERN, -32602, NAMED, True),
        (MODERN, -32002, NAMED, True),
        (MODERN, -32000, NAMED, False),
    ],
)
@ERAS
async def test_a_missing_resource_is_told_from_another_error(
    tmp_path: Path, spoken: str, number: int, data: Json | None, missing: bool, version: str
) -> None:
    """By the codes of each revision (SEP-2164); a missing one is named as the host named it."""
    desk = Desk(tmp_path, version=spoken)
    desk.servers["a"].replies = [RpcError(number, "no", data)]
    error = (await desk.read(desk.host("one", version)))["error"]
    if not missing:
        assert (error["code"], error["message"], error.get("data")) == (number, "no", data)
        return
    assert error["code"] == (-32602 if version == MODERN else -32002)
    assert error["data"] == {**(data or {}), "uri": wrapped("a", NOTE)}


async def test_a_server_without_resources_is_not_asked(tmp_path: Path) -> None:
    """Until it has been connected, that is unknown."""
    desk = Desk(tmp_path)
    upstream = desk.app.upstreams["a"]
    upstream.shared.negotiated = Negotiated(LEGACY, {}, {"prompts": {}}, None)
    assert code(await desk.read(desk.host("one"))) == -32002
    assert desk.sent == []
    upstream.shared.negotiated = None
    assert code(await desk.read(desk.host("one"))) == "read"


@pytest.mark.parametrize(("number", "ends"), [(METHOD_NOT_FOUND, "Unknown prompt: 'a.pay'."), (-32602, "no")])
async def test_a_server_without_prompts_has_none_of_that_name(tmp_path: Path, number: int, ends: str) -> None:
    """Any other error of it is its own."""
    desk = Desk(tmp_path)
    desk.servers["a"].replies = [RpcError(number, "no")]
    assert (await desk.get(desk.host("one")))["error"]["message"] == ends


@pytest.mark.parametrize("contents", [None, "x", {}, {"0": {"uri": NOTE}}])
async def test_a_read_without_contents_is_an_error_of_its_server(tmp_path: Path, contents: Any) -> None:
    desk = Desk(tmp_path)
    desk.servers["a"].replies = [{} if contents is None else {"contents": contents}]
    assert code(await desk.read(desk.host("one"))) == "upstream_bad_answer"


@pytest.mark.parametrize(
    ("more", "kept"),
    [({}, ("public", 60_000)), ({"inputResponses": {}}, ("private", 0))],
)
async def test_what_depends_on_an_answer_is_kept_for_no_other(
    tmp_path: Path, more: Json, kept: tuple[str, int]
) -> None:
    """S/server/utilities/caching. Without an answer the word of the server counts, for all if there is one agent."""
    desk = Desk(tmp_path, version=MODERN)
    said = {"contents": [], "resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"}
    desk.servers["a"].replies = [said, said]
    result = (await desk.read(desk.host("local", MODERN), **more))["result"]
    assert (result["cacheScope"], result["ttlMs"]) == kept
    keyed = Host("http", "canonical", Principal("local", key_id="k1"))
    result = (await desk.read(keyed, **more))["result"]
    assert (result["cacheScope"], result["ttlMs"]) == ("private", kept[1])


# -- confirmation


CONFIRM: Final = {"one": {**OPEN, "confirm": ["prompt:a.*", "resource:a.*"]}}


@pytest.mark.parametrize("state", ["request.x", "consent.x", "x", 5])
async def test_a_state_in_an_era_that_has_none_is_no_answer_of_a_person(tmp_path: Path, state: Any) -> None:
    """The person is asked all the same, and nothing is sent without the answer."""
    desk = Desk(tmp_path, CONFIRM)
    more = {"requestState": state, "inputResponses": {"question-1": {"action": "accept", "content": {"allow": True}}}}
    assert code(await desk.get(desk.host("one"), **more)) == "not_confirmed"
    assert desk.sent == []
    channel = AnsweringBackChannel(agrees)
    assert code(await desk.get(desk.host("one", LEGACY, FORMS), channel=channel, **more)) == "read"
    assert len(channel.asked) == 1


def question(name: str = "key") -> Json:
    schema = {"type": "object", "properties": {name: {"type": "string"}}}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": "Which?", "requestedSchema": schema}}


@pytest.mark.parametrize("method", ["prompts/get", "resources/read"])
async def test_a_read_that_a_rule_wants_confirmed_by_now_does_not_go_on(tmp_path: Path, method: str) -> None:
    """The rule came while the host answered a question of the server: no person has agreed to the read."""
    desk = Desk(tmp_path, {"one": OPEN}, version=MODERN)
    host = desk.host("one", MODERN)
    host.capabilities = FORMS
    params: Json = {"name": "a.pay"} if method == "prompts/get" else {"uri": wrapped("a", NOTE)}
    asks = {"resultType": "input_required", "inputRequests": {"q": question()}, "requestState": "s"}
    for rules, ends in ((CONFIRM, -32602), ({"one": OPEN}, "read")):
        desk.set_policies({"agents": {"one": OPEN}})
        desk.servers["a"].replies = [asks]
        interim = (await desk.ask(host, method, params))["result"]
        assert interim["resultType"] == "input_required"
        before = len(desk.sent)
        desk.set_policies({"agents": rules})
        answers = {"q": {"action": "accept", "content": {"key": "1"}}}
        back = {**params, "inputResponses": answers, "requestState": interim["requestState"]}
        answer = await desk.ask(host, method, back)
        assert code(answer) == ends, answer
        assert len(desk.sent) - before == (ends == "read")


@ERAS
async def test_no_person_is_asked_for_a_read_that_cannot_be_sent(tmp_path: Path, version: str) -> None:
    desk = Desk(tmp_path, CONFIRM)
    desk.app.upstreams["a"].lifecycle.current = StateAndReason("unavailable", since=0.0)
    host = desk.host("one", version, FORMS)
    if version == MODERN:
        host.capabilities = FORMS
    channel = AnsweringBackChannel(agrees)
    answer = await desk.ask(host, "resources/read", {"uri": wrapped("a", NOTE)}, channel)
    assert (code(answer), channel.asked) == ("upstream_unavailable", [])


# -- scopes


SCOPED: Final = {
    "defaults": {**OPEN, "scopes": {"resource:a.*": ["files"], "prompt:a.*": ["files"]}},
    "agents": {},
    "who": [{"agent": "who-{subject}"}],
}


def scoped(*scopes: str, version: str | None = None) -> Host:
    """A host of the agent `who-one`, whose token has these scopes."""
    principal = Principal("who-one", token=TokenFacts("https://issuer", "one", scopes=frozenset(scopes)))
    return Host("http" if version is None else "sse", "canonical", principal, version, {}, session="one")


@pytest.mark.parametrize("version", [None, LEGACY])
async def test_a_read_needs_the_scopes_of_its_rules(tmp_path: Path, version: str | None) -> None:
    """So do subscriptions; what the rules want no scope for needs none."""
    desk = Desk(tmp_path, {})
    desk.set_policies(SCOPED)
    less, more = scoped("other", version=version), scoped("files", version=version)
    argument = {"name": "key", "value": ""}
    ref = {"type": "ref/prompt", "name": "a.pay"}
    asked: list[tuple[str, Json]] = [
        ("resources/read", {"uri": wrapped("a", NOTE)}),
        ("prompts/get", {"name": "a.pay"}),
        ("completion/complete", {"ref": ref, "argument": argument}),
    ]
    asked += [("resources/subscribe", {"uri": wrapped("a", NOTE)})] if version == LEGACY else []
    for method, params in asked:
        answer = await desk.ask(less, method, params)
        assert (code(answer), answer["error"]["data"]["scopes"]) == ("insufficient_scope", ["files", "other"]), method
        assert desk.servers["a"].params == []
    assert code(await desk.read(less, server="b")) == "read"
    assert [code(await desk.ask(more, *one)) for one in asked[:3]] == ["read"] * 3


@pytest.mark.parametrize("version", [None, LEGACY])
async def test_no_read_begins_once_the_process_ends(tmp_path: Path, version: str | None) -> None:
    desk = Desk(tmp_path)
    desk.gateway.drain.start(5.0)
    for answer in (await desk.read(desk.host("one", version or MODERN)), await desk.get(desk.host("one"))):
        assert "shut" in answer["error"]["message"] or "restart" in answer["error"]["message"], answer
    assert desk.sent == []


# -- records, and labels


async def test_the_record_of_a_read_has_the_rule_that_decided(tmp_path: Path) -> None:
    """The line that wants a confirmation, and the line that hides or denies; and what was meant."""
    deny = {"deny": ["prompt:a.*", "resource:a.*"]}
    agents = {"one": CONFIRM["one"], "two": {**OPEN, **deny}, "three": {**OPEN, **deny, "denials": "hidden"}}
    desk = Desk(tmp_path, agents)
    found: list[CallRecord] = []
    desk.gateway.call_log.observers.sinks = (found.append,)
    for agent, rule in (("one", "confirm"), ("two", "deny"), ("three", "deny")):
        for kind, own in (("prompt", "pay"), ("resource", NOTE)):
            method, params = (
                ("prompts/get", {"name": f"a.{own}"})
                if kind == "prompt"
                else ("resources/read", {"uri": wrapped("a", own)})
            )
            await desk.ask(desk.host(agent), method, params)
            record = found[-1]
            assert (record.called.server, record.called.own_name) == ("a", own), agent
            assert record.decision.rule == f'{rule} "{kind}:a.*"'
            assert record.decision.rule_source is not None
    assert len(found) == 6


@ERAS
@pytest.mark.parametrize(
    ("reply", "brings"),
    [
        (None, True),
        (RpcError(-32000, "words of the page"), True),
        ({"contents": "words of the page"}, True),
        ("it is away", False),
    ],
    ids=ascii,
)
async def test_what_a_server_says_instead_of_an_answer_has_the_labels_of_the_item(
    tmp_path: Path, reply: Any, brings: bool, version: str
) -> None:
    """An error is read too; a read that is not sent brings nothing."""
    desk = Desk(tmp_path, {})
    flow = [{"after": "private", "calls": "outward", "then": "deny"}]
    labels = {"private": ["resource:a.*"], "outward": ["resource:b.*", "prompt:b.*"]}
    desk.set_policies({"labels": labels, "flow": flow, "agents": {"one": OPEN}})
    host = desk.host("one", version)
    if isinstance(reply, str):
        desk.app.upstreams["a"].lifecycle.current = StateAndReason("unavailable", since=0.0)
        desk.app.upstreams["a"].shared.session = None
    else:
        desk.servers["a"].replies = [] if reply is None else [reply]
    assert code(await desk.read(host, server="b")) == "read"
    await desk.read(host)
    ends = "flow_denied" if brings else "read"
    assert (code(await desk.read(host, server="b")), code(await desk.get(host, "b.pay"))) == (ends, ends)


# -- which server a URI means

WITHOUT_PREFIX: Final = {"a": {}, "b": {}, "plain": {"prefix": ""}}
# The servers; what they list besides; the URI; the server that it reaches, None if it is unknown.
ROUTES: Final[dict[str, tuple[Mapping[str, Json], Mapping[str, tuple[ItemKind, str]], str, str | None]]] = {
    "only one lists it": (SERVERS, {"a": ("resource", "demo://x/1")}, "demo://x/1", "a"),
    "only one has a template for it": (SERVERS, {"b": ("template", "demo://x/{id}")}, "demo://x/1", "b"),
    "no server has it": (SERVERS, {"b": ("template", "demo://y/{id}")}, "demo://x/1", None),
    "two list it": (SERVERS, {}, NOTE, None),
    "its prefix in another case": (SERVERS, {}, "demo://A/notes/1", "a"),
    "two prefixes that differ in case": ({"a": {}, "A": {}}, {}, "demo://A/other/1", "A"),
    "the other of the two": ({"a": {}, "A": {}}, {}, "demo://a/other/1", "a"),
    "the first of two is spelled so": ({"A": {}, "a": {}}, {}, "demo://a/other/1", "a"),
    "one without a prefix lists it": (WITHOUT_PREFIX, {}, NOTE, "plain"),
    "another lists it": (WITHOUT_PREFIX, {"a": ("resource", "demo://x/1")}, "demo://x/1", "plain"),
    "another has a template for it": (WITHOUT_PREFIX, {"a": ("template", "demo://x/{id}")}, "demo://x/1", "plain"),
    "it has another's prefix": (WITHOUT_PREFIX, {}, "demo://b/notes/1", "b"),
}


@pytest.mark.parametrize("rules", [None, {"one": {"allow": ["server:*"]}}], ids=["open", "rules"])
@pytest.mark.parametrize("case", ROUTES)
async def test_the_server_that_a_uri_means(tmp_path: Path, case: str, rules: Json | None) -> None:
    """One without a prefix has every URI that names no other server."""
    servers, listed, uri, reached = ROUTES[case]
    desk = Desk(tmp_path, rules, servers=servers)
    for server, (kind, name) in listed.items():
        desk.show(server, kind, name)
    host = desk.host("one")
    answer = await desk.ask(host, "resources/read", {"uri": uri})
    assert [server for server, _ in desk.sent] == ([reached] if reached else []), answer
    assert code(answer) == ("read" if reached else -32002)
