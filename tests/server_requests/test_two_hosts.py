"""Two hosts at once, with the same ids and tokens: nothing crosses, and what cannot be told apart is refused."""

import sqlite3
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Final

import pytest

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.doctor.gather.storage import read_storage
from aggregator.domain.errors import RpcError
from aggregator.frontends.server import WebServer
from aggregator.upstream.sessions.request import UpstreamRequest
from tests.end_to_end.scripted_host import LEGACY, MODERN, ScriptedHost
from tests.end_to_end.server_harness import FRONTENDS, ServerHarness, write_config
from tests.passthrough.upstreams import first_update, local, subscribed_to, updates
from tests.peers.library import FILE, Library
from tests.peers.serving import BackgroundLoop, serving
from tests.peers.toolbox import Json
from tests.polling import until
from tests.server_requests.asking_server_web import AskingWebServer
from tests.server_requests.conftest import OpenHarness
from tests.server_requests.entries import ABLE, FORM, stdio_entry
from tests.server_requests.replies import asked, is_question, reply, resume, text_as_json

VERSION: Final = LEGACY[-1]
FRONTENDS_AND_ERAS: Final = [(frontend, version) for frontend in FRONTENDS for version in (VERSION, MODERN)]


def form(who: str) -> Json:
    return {**FORM, "params": {**FORM["params"], "message": f"Who is it? {who}"}}


def accept(who: str) -> Json:
    return {"action": "accept", "content": {"answer": who}}


@pytest.fixture(scope="module")
def shared_harness(background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> ServerHarness:
    """Servers that many hosts may use at the same time, and ask."""
    legacy, modern = (background.open(serving(AskingWebServer(era))) for era in ("legacy", "modern"))
    servers = {
        "http": {"type": "http", "url": f"{legacy}/mcp"},
        "modern": {"type": "http", "url": f"{modern}/mcp"},
        "sse": {"type": "sse", "url": f"{legacy}/sse"},
        "stdio": stdio_entry("legacy", isolation="per_session"),
        "pipe": stdio_entry("legacy"),
    }
    return ServerHarness(background, write_config(tmp_path_factory.mktemp("crowd"), servers))


@pytest.mark.parametrize("upstream", ["http", "modern", "sse", "stdio"])
@pytest.mark.parametrize(("frontend", "version"), FRONTENDS_AND_ERAS)
async def test_each_is_asked_its_own(
    shared_harness: ServerHarness, frontend: str, version: str, upstream: str, key: str
) -> None:
    """Three hosts call the same tool at once; every question goes to whose call it is, and only its answer counts."""
    async with AsyncExitStack() as stack:
        hosts = [
            await stack.enter_async_context(shared_harness.host(frontend, version, capabilities=ABLE)) for _ in range(3)
        ]
        names = {host: f"{key} {at}" for at, host in enumerate(hosts)}
        params = {
            host: {"name": f"{upstream}.ask", "arguments": {"key": who, "rounds": [[form(who)]]}}
            for host, who in names.items()
        }
        calls = {host: host.ask("tools/call", params[host], {"progressToken": 1}) for host in hosts}
        if version == MODERN:
            interims = {host: await call.result() for host, call in calls.items()}
            for host, interim in reversed(interims.items()):
                (question,) = interim["inputRequests"].values()
                assert question["params"]["message"] == f"[{upstream}] Who is it? {names[host]}"
                calls[host] = resume(host, "tools/call", params[host], interim, [accept(names[host])])
        else:
            questions = {host: await asked(host) for host in hosts}
            # The same ids everywhere: an answer of another host is an answer to its own question.
            for host, question in reversed(questions.items()):
                assert question["params"]["message"] == f"[{upstream}] Who is it? {names[host]}"
                for other in set(hosts) - {host}:
                    await reply(other, {"id": 99}, accept("a stranger"))
                await reply(host, question, accept(names[host]))
        for host, who in names.items():
            result = await calls[host].result()
            assert text_as_json(result) == {"answers": [[accept(who)]], "begun": 1}
            assert len([message for message in host.inbox.messages if is_question(message)]) == (version != MODERN)


@pytest.mark.parametrize("upstream", ["http", "modern", "sse", "pipe"])
@pytest.mark.parametrize(("frontend", "version"), FRONTENDS_AND_ERAS)
async def test_equal_ids_and_tokens_are_two(
    shared_harness: ServerHarness, frontend: str, version: str, upstream: str, key: str
) -> None:
    """Progress, cancellation and results of two calls with the same id and token: each is its own host's."""
    async with (
        shared_harness.host(frontend, version) as one,
        shared_harness.host(frontend, version) as two,
    ):
        doomed = one.call(f"{upstream}.hold", {"key": f"{key} one"}, progressToken="same")
        kept = two.call(f"{upstream}.hold", {"key": f"{key} two"}, progressToken="same")
        assert doomed.id == kept.id
        for host in (one, two):
            await host.inbox.named("notifications/progress")
        await one.wire.cancel(doomed)
        await one.call(f"{upstream}.witness", {"entry": f"cancelled {key} one"}).result()
        assert not kept.done
        await two.call(f"{upstream}.release", {"key": f"{key} two"}).result()
        assert (await kept.result())["content"][0]["text"] == f"{key} two"
        assert one.inbox.progress("same") == [f"{key} one"]
        assert two.inbox.progress("same") == [f"{key} two"]
        doomed.drop()


@pytest.fixture(scope="module")
def libraries(background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> ServerHarness:
    """Two servers with resources of the same URIs."""
    servers = {era: local(Library(era), protocol=era) for era in ("legacy", "modern")}
    return ServerHarness(background, write_config(tmp_path_factory.mktemp("shelf"), servers))


@pytest.mark.parametrize("version", [VERSION, MODERN])
@pytest.mark.parametrize("frontend", ["sse", "http"])
async def test_equal_uris_are_each_hosts_own(libraries: ServerHarness, frontend: str, version: str) -> None:
    """Two hosts hear of one resource in subscriptions of the same id; whoever leaves, the other goes on."""
    uris = [f"file://{upstream}//notes/a.txt" for upstream in libraries.app.upstreams]

    async def touch() -> None:
        for upstream in libraries.app.upstreams:
            await two.call(f"{upstream}.touch", {"uri": FILE}).result()

    async with (
        libraries.host(frontend, version) as one,
        libraries.host(frontend, version) as two,
        subscribed_to(two, resourceSubscriptions=uris),
    ):
        async with subscribed_to(one, resourceSubscriptions=uris):
            await touch()
            for host in (one, two):
                for uri in uris:
                    await first_update(host, uri)
        if version != MODERN:
            for uri in uris:
                await one.ask("resources/unsubscribe", {"uri": uri}).result()
        assert sorted(updates(one)) == sorted(updates(two)) == sorted(uris)
        for host in (one, two):
            host.inbox.messages.clear()
        await touch()
        for uri in uris:
            await first_update(two, uri)
        await one.ask("resources/list").result()
        assert not updates(one)


@pytest.mark.parametrize(("frontend", "version"), FRONTENDS_AND_ERAS)
async def test_one_pipe_for_all_cannot_tell(open_harness: OpenHarness, frontend: str, version: str, key: str) -> None:
    """Nobody is asked while two use it, and the error says what helps; alone a host is asked."""
    harness = open_harness({"one": stdio_entry("legacy", isolation="shared")})
    params = {"name": "one.ask", "arguments": {"key": key, "rounds": [[FORM]]}}
    async with harness.host(frontend, version, capabilities=ABLE) as host, harness.host(frontend, version) as other:
        held = other.call("one.hold", {"key": key})
        await host.call("one.witness", {"entry": f"started {key}"}).result()
        result = await host.ask("tools/call", params).result()
        (error,) = text_as_json(result)["answers"][0]
        assert "`isolation`" in error["error"]["message"]
        assert "'one'" in error["error"]["message"]
        for each in (host, other):
            assert not [message for message in each.inbox.messages if is_question(message)]
        await host.call("one.release", {"key": key}).result()
        await held.result()
        await _is_asked(host, params)


@pytest.mark.parametrize(("frontend", "version"), FRONTENDS_AND_ERAS)
async def test_hosts_that_answer_nothing_are_not_asked_to_call_again(
    open_harness: OpenHarness, frontend: str, version: str, key: str
) -> None:
    """5 of issue 32: they were told that the same call works a second time, and got the same answer each time."""
    harness = open_harness({"one": stdio_entry("legacy")})
    params = {"name": "one.ask", "arguments": {"key": key, "rounds": [[FORM]]}}
    async with harness.host(frontend, version) as host, harness.host(frontend, version) as other:
        held = other.call("one.hold", {"key": key})
        await host.call("one.witness", {"entry": f"started {key}"}).result()
        for _ in range(2):
            (error,) = text_as_json(await host.ask("tools/call", params).result())["answers"][0]
            said = error["error"]["message"]
            assert said == "No host can be asked: none behind the running calls answers questions."
        assert harness.app.upstreams["one"].own_connections in (None, 0)
        await other.call("one.release", {"key": key}).result()
        await held.result()


@pytest.mark.parametrize(("frontend", "version"), FRONTENDS_AND_ERAS)
async def test_a_server_that_asks_gets_a_process_for_each_host(
    open_harness: OpenHarness, frontend: str, version: str, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    """5 of issue 32: without a setting, only the first question that is nobody's is refused."""
    caplog.set_level("INFO")
    harness = open_harness({"one": stdio_entry("legacy")})
    params = {"name": "one.ask", "arguments": {"key": key, "rounds": [[FORM]]}}
    upstream = harness.app.upstreams["one"]
    async with (
        harness.host(frontend, version, capabilities=ABLE) as host,
        harness.host(frontend, version) as other,
    ):
        held = other.call("one.hold", {"key": key})
        await host.call("one.witness", {"entry": f"started {key}"}).result()
        assert upstream.own_connections is None
        (error,) = text_as_json(await host.ask("tools/call", params).result())["answers"][0]
        assert "it works if you make the same call again" in error["error"]["message"]
        assert upstream.own_connections is not None
        # The other host is in the middle of its call, and cannot be asked: it stays where it is.
        again = {**params, "arguments": {**params["arguments"], "key": f"{key} again"}}
        await _is_asked(host, again)
        assert upstream.own_connections == 1
        told = (await other.call("list_servers", {}).result())["content"][0]["text"]
        assert "hosts at the same time have connections of their own" in told
        await other.call("one.release", {"key": key}).result()
        assert (await held.result())["content"][0]["text"] == key
    assert sum("asks hosts during calls" in one.message for one in caplog.records) == 1


async def test_what_a_server_asks_at_its_start_separates_nobody(open_harness: OpenHarness, key: str) -> None:
    """5 of issue 32: without a call of a host, a question is for no host, and processes are not made for it."""
    harness = open_harness({"one": stdio_entry("legacy")})
    upstream = harness.app.upstreams["one"]
    session = upstream.shared.session
    assert session is not None
    with pytest.raises(RpcError, match="No host can be asked"):
        await session.back_channel.on_request("roots/list", {}, None)
    assert upstream.own_connections is None


async def test_a_program_that_runs_once_is_shared_again(
    open_harness: OpenHarness, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5 of issue 32: a process that cannot be had costs no call."""
    harness = open_harness({"one": stdio_entry("legacy")})
    upstream = harness.app.upstreams["one"]

    def full(*_: object) -> bool:
        return False

    monkeypatch.setattr("aggregator.upstream.sessions.side_connection.SideConnections.has_room", full)
    params = {"name": "one.ask", "arguments": {"key": key, "rounds": [[FORM]]}}
    async with (
        harness.host("sse", VERSION, capabilities=ABLE) as host,
        harness.host("sse", VERSION, capabilities=ABLE) as other,
    ):
        held = other.call("one.hold", {"key": key})
        await host.call("one.witness", {"entry": f"started {key}"}).result()
        for _ in range(3):
            assert "error" in text_as_json(await host.ask("tools/call", params).result())["answers"][0][0]
        await host.call("one.release", {"key": key}).result()
        assert (await held.result())["content"][0]["text"] == key
    assert upstream.own_connections == 0


async def test_hosts_one_after_the_other_share_a_process(open_harness: OpenHarness, key: str) -> None:
    """5 of issue 32: a process is made only for a host that uses the server while another does."""
    harness = open_harness({"one": stdio_entry("legacy")})
    upstream = harness.app.upstreams["one"]
    async with (
        harness.host("sse", VERSION, capabilities=ABLE) as one,
        harness.host("sse", VERSION, capabilities=ABLE) as two,
        harness.host("sse", VERSION) as silent,
    ):
        for number, host in enumerate((one, two)):
            await _is_asked(host, {"name": "one.ask", "arguments": {"key": f"{key} {number}", "rounds": [[FORM]]}})
        assert upstream.own_connections == 0
        one.inbox.messages.clear()
        first = one.ask("tools/call", {"name": "one.ask", "arguments": {"key": f"{key} 3", "rounds": [[FORM], [FORM]]}})
        await reply(one, await asked(one), accept("first"))
        # Others that come while it runs do not make its questions unclear, whether they can be asked or not.
        seen = [text_as_json(await host.call("one.seen").result())["pid"] for host in (two, silent, two, silent)]
        assert (seen[0], seen[1]) == (seen[2], seen[3])
        assert len({*seen, text_as_json(await one.call("one.seen").result())["pid"]}) == 3
        await reply(one, await asked(one, 2), accept("second"))
        assert text_as_json(await first.result())["answers"] == [[accept("first")], [accept("second")]]
        assert upstream.own_connections == 1


async def _is_asked(host: ScriptedHost, params: Json) -> None:
    call = host.ask("tools/call", params)
    if host.modern:
        assert (await call.result())["resultType"] == "input_required"
        return
    await reply(host, await asked(host), accept("it"))
    assert text_as_json(await call.result())["answers"] == [[accept("it")]]


@pytest.mark.parametrize(("frontend", "version"), [("sse", VERSION), ("http", VERSION), ("http", MODERN)])
async def test_the_question_of_a_call_that_was_given_up_is_nobody_elses(
    open_harness: OpenHarness, frontend: str, version: str, key: str
) -> None:
    """A server that goes on with a cancelled call and asks later does not reach the host that calls by then."""
    harness = open_harness({"one": stdio_entry("legacy")})
    async with (
        harness.host(frontend, version, capabilities=ABLE) as gone,
        harness.host("sse", VERSION, capabilities=ABLE) as here,
    ):
        doomed = gone.call("one.late", {"key": key})
        await here.call("one.witness", {"entry": f"started {key}"}).result()
        await gone.wire.cancel(doomed)
        running = here.call("one.witness", {"entry": f"late {key}: error"})
        await here.call("one.note", {"entry": f"ask late {key}"}).result()
        await running.result()
        assert not [message for message in here.inbox.messages if is_question(message)]


async def test_the_question_of_a_call_that_timed_out_is_nobody_elses(open_harness: OpenHarness, key: str) -> None:
    """As long as the server may still work on it, its question does not reach the host that calls by then."""
    harness = open_harness({"one": stdio_entry("legacy", tools={"timeout": {"late": "2s"}})})
    async with (
        harness.host("sse", VERSION, capabilities=ABLE) as gone,
        harness.host("sse", VERSION, capabilities=ABLE) as here,
    ):
        assert (await gone.call("one.late", {"key": key}).result())["isError"] is True
        running = here.call("one.witness", {"entry": f"late {key}: error"})
        await here.call("one.note", {"entry": f"ask late {key}"}).result()
        await running.result()
        assert not [message for message in here.inbox.messages if is_question(message)]


async def test_the_question_of_a_request_without_a_host_is_nobodys(
    open_harness: OpenHarness, own_background: BackgroundLoop, key: str
) -> None:
    """A request that no host is behind may be what a server asks about, though one host calls it too."""
    harness = open_harness({"one": stdio_entry("legacy")})
    async with harness.host("sse", VERSION, capabilities=ABLE) as host:
        held = host.call("one.hold", {"key": key})
        await host.call("one.witness", {"entry": f"started {key}"}).result()
        asks = {"name": "aside", "arguments": FORM}
        result = await own_background.elsewhere(
            harness.app.upstreams["one"].call(UpstreamRequest("tools/call", asks, 10))
        )
        assert "error" in text_as_json(result)
        assert not [message for message in host.inbox.messages if is_question(message)]
        await host.call("one.release", {"key": key}).result()
        assert (await held.result())["content"][0]["text"] == key


async def test_a_cancelled_call_is_doubted_for_a_moment_only(
    open_harness: OpenHarness, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a server that never answers it, as the specification wants it: after that the next host is asked."""
    monkeypatch.setattr("aggregator.upstream.sessions.request.HEEDED_WITHIN", 0.05)
    harness = open_harness({"one": stdio_entry("legacy")})
    async with (
        harness.host("http", MODERN, capabilities=ABLE) as gone,
        harness.host("http", VERSION, capabilities=ABLE) as here,
    ):
        doomed = gone.call("one.hold", {"key": key})
        await here.call("one.witness", {"entry": f"started {key}"}).result()
        await gone.wire.cancel(doomed)
        doomed.drop()
        await here.call("one.witness", {"entry": f"cancelled {key}"}).result()
        session = harness.app.upstreams["one"].shared.session
        assert session is not None
        await until(lambda: not session.back_channel.unsettled)
        await _is_asked(here, {"name": "one.ask", "arguments": {"key": key, "rounds": [[FORM]]}})


@pytest.mark.parametrize("upstream", ["http", "sse", "stdio"])
async def test_a_session_of_its_own_ends_with_the_host(shared_harness: ServerHarness, upstream: str, key: str) -> None:
    """Each host session keeps its connection as long as it lasts; the next one gets another."""
    seen = []
    for _ in range(2):
        async with shared_harness.host("sse", VERSION, capabilities=ABLE) as host:
            pair = [text_as_json(await host.call(f"{upstream}.seen").result()) for _ in range(2)]
        assert pair[0]["connection"] == pair[1]["connection"]
        assert pair[0]["pid"] == pair[1]["pid"]
        seen.append(pair[0])
    assert (seen[0]["pid"] != seen[1]["pid"]) == (upstream == "stdio")


class KeepingHarness(ServerHarness):
    """A harness whose database keeps the lists of servers."""

    def build_app(self) -> tuple[App, WebServer]:
        app = build_app(self.config, self._policies, self._storage, keeps_records=True)
        return app, WebServer(app.gateway, self.config, app.access, app.report)


async def test_that_a_server_asks_is_kept(
    background: BackgroundLoop, tmp_path: Path, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    """5 of issue 32: after a restart no question is refused first, and everything says so before one is asked."""
    caplog.set_level("INFO")
    storage = f"sqlite+aiosqlite:///{tmp_path / 'a.db'}"
    path = write_config(tmp_path, {"one": stdio_entry("legacy"), "two": stdio_entry("legacy")})
    params = {"name": "one.ask", "arguments": {"key": key, "rounds": [[FORM]]}}
    harness = KeepingHarness(background, path, storage=storage)
    async with (
        harness.host("http", VERSION, capabilities=ABLE) as host,
        harness.host("http", VERSION, capabilities=ABLE) as other,
    ):
        held = other.call("one.hold", {"key": key})
        await host.call("one.witness", {"entry": f"started {key}"}).result()
        (error,) = text_as_json(await host.ask("tools/call", params).result())["answers"][0]
        assert "it works if you make the same call again" in error["error"]["message"]
        await other.call("one.release", {"key": key}).result()
        await held.result()

    def kept() -> list[str]:
        with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
            query = "SELECT server FROM mcp_item_lists WHERE kind = 'asks'"
            return [server for (server,) in connection.execute(query)]

    await until(lambda: kept() == ["one"], "it is kept")
    assert (await read_storage(storage)).rows.asking == {"one"}, "the doctor is told"
    again = KeepingHarness(background, path, storage=storage)
    assert (again.app.upstreams["one"].own_connections, again.app.upstreams["two"].own_connections) == (0, None)
    async with (
        again.host("http", VERSION, capabilities=ABLE) as host,
        again.host("http", VERSION, capabilities=ABLE) as other,
    ):
        told = (await other.call("list_servers", {}).result())["content"][0]["text"]
        assert told.count("hosts at the same time have connections of their own") == 1
        held = other.call("one.hold", {"key": f"{key} held"})
        await until(lambda: again.app.upstreams["one"].in_flight == 1, "it is under way")
        await _is_asked(host, params)
        await other.call("one.release", {"key": f"{key} held"}).result()
        await held.result()
