"""Law: what a server chose to say reaches a host as a labelled result or as a pinned definition, and in no other way.

Words with a canary in them stand in every place where a server can put any; every road that a host has is taken.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.flow.storage import FlowClear
from aggregator.frontends.server import WebServer
from aggregator.redaction.redactor import Redactor
from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import SecuredHarness
from tests.end_to_end.scripted_host import LEGACY, MODERN, ScriptedHost
from tests.end_to_end.server_harness import ROOT
from tests.faults.raw_http import RawHttpServer, RawSseServer, ReceivedRequest, ReplyWriter, raw_http
from tests.flow import talking_server
from tests.flow.flow_harness import flow_of
from tests.flow.talking_server import CANARY, PLACES
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.v1.api import api_client

SECRET: Final = "s3cr3t-0f-th3-c0nfig-9x"
# Where a server that never comes up puts its words.
AT_START: Final = ("stderr", "initialize", "noise", "version", "list")
# The same over HTTP: what each request is answered with.
OVER_HTTP: Final = ("location", "content_type", "status", "challenge", "session", "not_http", "not_json", "event")
AGENTS: Final = ("ada", "sue", "cat")
POLICIES: Final[Json] = {
    "labels": {"untrusted": ["talks.*", "web.*", "resource:talks.*", "prompt:talks.*"], "outward": ["mail.*"]},
    "flow": [{"after": "untrusted", "calls": "outward", "then": "deny"}],
    "agents": {
        agent: {"allow": ["*", "resource:*", "prompt:*"], "expose": expose}
        for agent, expose in zip(AGENTS, ("all", "search", "code"), strict=True)
    },
}


class WordyServer(RawHttpServer):
    """A server over HTTP with words in one place of its answers; `only`: the method that is answered so, else all."""

    def __init__(self, place: str, only: str = "") -> None:
        super().__init__()
        self._place, self._only = place, only

    async def ordinary(self, seen: ReceivedRequest, reply: ReplyWriter) -> None:
        if self._only and seen.method != self._only:
            await super().ordinary(seen, reply)
            return
        said = f"{CANARY}-{self._place}"
        match self._place:
            case "location":
                await reply.send(307, said, location=f"https://{said}.example/{said}")
            case "content_type":
                await reply.send(200, said, f"text/{said}")
            case "status":
                body = said.encode()
                head = f"HTTP/1.1 500 {said}\r\nx-why: {said}\r\ncontent-length: {len(body)}\r\n\r\n"
                await reply.raw(head.encode() + body)
            case "challenge":
                scheme = f'Bearer realm="{said}", scope="{said}", error="{said}", error_description="{said}"'
                await reply.send(401, said, www_authenticate=scheme)
            case "session":
                hello = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": said}}
                await reply.result(seen, hello, mcp_session_id=f"{said}\x01")
            case "not_http":
                await reply.raw(f"{said}\r\n\r\n".encode())
            case "not_json":
                await reply.send(200, f'{{"{said}": ', "application/json")
            case _:
                await reply.stream()
                await reply.event(said, said, f"id: {said}\nretry: {said}\n: {said}\n")


class TalkingOverSse(RawSseServer):
    """The talking server over HTTP+SSE, in this process: the places where it ends are not for it."""

    async def answer_on(self, seen: ReceivedRequest, stream: ReplyWriter) -> None:
        said: list[str] = []
        talking_server.write = said.append
        talking_server.handle("calls", seen.message["id"], seen.method, seen.message.get("params", {}))
        talking_server.write = talking_server.to_stdout
        for text in said:
            await stream.event(text)


def stdio(place: str) -> Json:
    """Return the entry of a server that talks in one place."""
    return {
        "command": sys.executable,
        "args": ["-m", "tests.flow.talking_server", place],
        "cwd": str(ROOT),
        "env": {"SECRET": SECRET},
        "protocol": "legacy",
    }


@pytest.fixture(scope="module")
def background() -> Iterator[BackgroundLoop]:
    with BackgroundLoop() as running:
        yield running


def wordy(background: BackgroundLoop, places: tuple[str, ...], only: str = "") -> dict[str, Json]:
    """Return the entries of HTTP servers with words in these places."""
    entries = {}
    for place in places:
        server = background.open(raw_http(WordyServer(place, only)))
        entries[f"http_{place}"] = {"type": "http", "url": server.url, "protocol": "legacy"}
    return entries


class WordsHarness(SecuredHarness):
    """A gateway in front of such servers, which knows their secret."""

    def __init__(self, background: BackgroundLoop, folder: Path, servers: dict[str, Json]) -> None:
        mail = RecordingToolbox([tool("send")])
        super().__init__(background, folder, {**servers, "mail": mail.config_entry()}, POLICIES, AGENTS)

    def build_app(self) -> tuple[App, WebServer]:
        app = build_app(self.config, self._policies, self._storage, redactor=Redactor([SECRET]))
        return app, WebServer(app.gateway, self.config, app.access, app.report)


def forget(harness: SecuredHarness) -> None:
    """Forget what was read, so that each road is seen for itself."""
    flow_of(harness.app).scopes.clear(FlowClear(0, None, float("inf")))


async def everything_told(host: ScriptedHost, servers: dict[str, Json]) -> list[Json]:
    """Return all messages that a host gets that asks about servers that are away in every way there is."""
    told = [await host.ask(f"{kind}/list").message() for kind in ("tools", "prompts", "resources")]
    told.append(await host.ask("resources/templates/list").message())
    told += [
        await host.call(meta, given).message()
        for meta, given in (("list_servers", {}), ("search_tools", {"query": "x"}))
    ]
    for server in servers:
        name = f"{server}.plain"
        told += [
            await host.call("list_servers", {"server": server}).message(),
            await host.call("describe_tools", {"names": [name]}).message(),
            await host.call(name).message(),
            await host.call("call_tool", {"name": name, "arguments": {}}).message(),
            await host.ask("resources/read", {"uri": f"{server}+at://x"}).message(),
            await host.ask("prompts/get", {"name": name}).message(),
            await host.ask(
                "completion/complete",
                {"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "a", "value": ""}},
            ).message(),
        ]
    return told + [message for message in host.inbox.messages]


@pytest.mark.parametrize("trust", [None, "ask"])
async def test_servers_that_do_not_come_up(background: BackgroundLoop, tmp_path: Path, trust: str | None) -> None:
    """Their words are for operators: no agent gets any, on any road."""
    over_http = wordy(background, OVER_HTTP)
    servers = {**{place: stdio(place) for place in AT_START}, **over_http}
    entries = {name: {**entry, **({"trust": trust} if trust else {})} for name, entry in servers.items()}
    harness = WordsHarness(background, tmp_path, entries)
    for kind in (("http", LEGACY[-1]), ("http", MODERN), ("stdio", LEGACY[-1]), ("sse", LEGACY[-1])):
        async with harness.connect_as(kind, "ada") as host:
            for message in await everything_told(host, servers):
                assert CANARY not in json.dumps(message)
    async with harness.connect_as(("http", LEGACY[-1]), "cat") as host:
        for server in servers:
            ran = await host.call("run_code", {"code": f"call_tool('{server}.plain', {{}})"}).message()
            assert CANARY not in json.dumps(ran)
    async with api_client(harness, "ada") as api:
        for answer in (await api.get("servers"), await api.get("tools")):
            assert CANARY not in json.dumps(answer.body)
        for server in servers:
            assert CANARY not in json.dumps((await api.call(f"{server}.plain")).body)
    told = {name: upstream.reason_for_operator for name, upstream in harness.app.upstreams.items()}
    # Operators read them.
    for server in ("stderr", "initialize", "noise", "version", "list", "http_location", "http_content_type"):
        assert CANARY in told[server], server
    assert SECRET not in json.dumps(told)


# On this road a host can be asked, and gets the question as the answer.
ABLE: Final[Json] = {"modern": {"elicitation": {"form": {}}}}
ROADS: Final = ("direct", "first", "modern", "sse", "stdio", "call_tool", "program", "v1")


class CallingHost:
    """A host that calls tools in one way; `called` returns all that the host got, `sent` whether mail goes out."""

    def __init__(self, harness: SecuredHarness, name: str, stack: AsyncExitStack) -> None:
        self._harness, self._name, self._stack = harness, name, stack
        self._host: ScriptedHost | None = None
        self._code: list[str] = []

    async def called(self, tool: str) -> str:
        """Call a tool of `talks` in a conversation of its own."""
        if self._name == "v1":
            self._api = await self._stack.enter_async_context(api_client(self._harness, "ada"))
            return json.dumps((await self._api.call(tool)).body)
        kind = {
            "modern": ("http", MODERN), "sse": ("sse", LEGACY[-1]), "stdio": ("stdio", LEGACY[-1])
        }.get(self._name, ("http", LEGACY[-1]))  # fmt: skip
        agent = {"call_tool": "sue", "program": "cat"}.get(self._name, "ada")
        host = self._host = await self._stack.enter_async_context(
            self._harness.connect_as(kind, agent, ABLE.get(self._name))
        )
        await host.list()
        if self._name == "direct":
            # The connection is known then, and the next calls take the short way.
            for _ in range(3):
                await host.call("web.plain").message()
            forget(self._harness)
        if self._name == "program":
            code = f"try:\n  print(call_tool('{tool}', {{}}))\nexcept RuntimeError as e:\n  print(e)\n"
            code += "call_tool('mail.send', {})\n'it was sent'"
            self._code.append(json.dumps(await host.call("run_code", {"code": code}).message()))
            return self._code[0]
        if self._name == "call_tool":
            answer = await host.call("call_tool", {"name": tool, "arguments": {}}).message()
        else:
            answer = await host.call(tool, {}, progressToken="p").message()
        return json.dumps([answer, *host.inbox.messages])

    async def sent(self) -> bool:
        """Call the tool that leads outside, in the same conversation."""
        if self._code:
            return "it was sent" in self._code[0]
        if self._host is None:
            return (await self._api.call("mail.send")).status == 200
        named = (
            ("call_tool", {"name": "mail.send", "arguments": {}}) if self._name == "call_tool" else ("mail.send", {})
        )
        return "did send" in json.dumps(await self._host.call(*named).message())


@pytest.mark.parametrize(
    ("upstream", "road"),
    [*(("legacy", road) for road in ROADS)]
    + [(upstream, road) for upstream in ("modern", "sse") for road in ("direct", "modern", "program", "v1")],
)
async def test_calls(
    background: BackgroundLoop, tmp_path: Path, upstream: str, road: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the host gets of a server's words is labelled, and has no secret in it; the rest it does not get."""
    monkeypatch.setenv("SECRET", SECRET)
    over_http = wordy(background, ("status",), "tools/call")
    talks = stdio("calls") if upstream == "legacy" else {**stdio("modern"), "protocol": "modern"}
    if upstream == "sse":
        talks = {"type": "sse", "url": background.open(raw_http(TalkingOverSse())).url}
    servers = {"talks": {**talks, "limits": {"grace": "30s", "reconnect_wait": "10s"}}, "web": over_http["http_status"]}
    harness = WordsHarness(background, tmp_path, servers)
    for place, passes in PLACES.items():
        if upstream == "sse" and place in ("dies", "malformed"):
            continue
        forget(harness)
        async with AsyncExitStack() as stack:
            one = CallingHost(harness, road, stack)
            told = await one.called(f"talks.{place}")
            assert passes or CANARY not in told, place
            if place in ("rpc_error", "is_error"):
                assert CANARY in told
                assert SECRET not in told
            if place == "question" and (upstream, road) == ("modern", "modern"):
                assert CANARY in told, "the host is asked"
            if CANARY in told:
                assert not await one.sent(), place


@pytest.mark.parametrize("place", [place for place in OVER_HTTP if place != "session"])
async def test_calls_over_http(background: BackgroundLoop, tmp_path: Path, place: str) -> None:
    """Reasons, headers, bodies and events of HTTP are no answers, and reach no host."""
    over_http = wordy(background, (place,), "tools/call")
    harness = WordsHarness(background, tmp_path, {"web": {**over_http[f"http_{place}"], "timeout": "2s"}})
    async with harness.connect_as(("http", LEGACY[-1]), "ada") as host:
        for _ in range(2):
            assert CANARY not in json.dumps(await host.call("web.echo").message())
        if place == "status":
            # The number is the server's, and the host is told it.
            assert "did send" not in json.dumps(await host.call("mail.send").message())
    async with api_client(harness, "ada") as api:
        assert CANARY not in json.dumps((await api.call("web.echo")).body)


@pytest.mark.parametrize("kind", [("http", LEGACY[-1]), ("http", MODERN), ("stdio", LEGACY[-1])])
async def test_reads(background: BackgroundLoop, tmp_path: Path, kind: tuple[str, str]) -> None:
    """Resources, prompts and completions, as calls; the error of a subscription has our words."""
    harness = WordsHarness(
        background, tmp_path, {"talks": {**stdio("calls"), "limits": {"grace": "30s", "reconnect_wait": "10s"}}}
    )
    complete = {"argument": {"name": "a", "value": "b"}}
    if kind[1] != MODERN:
        async with harness.connect_as(kind, "ada") as host:
            refused = json.dumps(await host.ask("resources/subscribe", {"uri": "at://result"}).message())
            assert "refused to tell of changes of this resource (JSON-RPC error -32603)" in refused
            assert CANARY not in refused
    for place, passes in PLACES.items():
        for method, params in (
            ("resources/read", {"uri": f"at://{place}"}),
            ("prompts/get", {"name": f"talks.{place}"}),
            ("completion/complete", {"ref": {"type": "ref/prompt", "name": f"talks.{place}"}, **complete}),
        ):
            forget(harness)
            async with harness.connect_as(kind, "ada") as host:
                await host.list()
                told = json.dumps([await host.ask(method, params).message(), *host.inbox.messages])
                assert passes or CANARY not in told, (method, place)
                assert CANARY in told or place not in ("result", "rpc_error"), (method, place)
                assert SECRET not in told or place in ("result", "structured", "pages", "log", "progress", "question")
                if CANARY in told:
                    assert "did send" not in json.dumps(await host.call("mail.send").message()), (method, place)
