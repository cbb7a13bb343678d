"""Secrets in every place that may hold one, and calls of every kind with all switched on: none is written down."""

import asyncio
import json
import os
import sys
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from aggregator.adapters.inprocess import open_inside
from aggregator.cli import approvals, keys
from aggregator.cli.audit import proof as audit_proof
from aggregator.cli.audit import show as audit
from aggregator.domain.errors import RpcError
from aggregator.identity.keys import new_key, policy_line
from aggregator.storage.database import open_database
from tests.console.page_reader import crawl
from tests.end_to_end.programs import ServingProgram, serving, start
from tests.end_to_end.scripted_host import (
    ENVELOPE,
    LEGACY,
    META,
    MODERN,
    ScriptedHost,
    http_client,
    over_http,
    over_sse,
)
from tests.end_to_end.server_harness import ROOT, write_config
from tests.faults.raw_http import RawHttpServer, ReceivedRequest, ReplyWriter, raw_http
from tests.observability.agent_clients import CONVERSATION
from tests.observability.observed_harness import calls_in
from tests.peers.canary import Canaries, contents
from tests.peers.toolbox import Json
from tests.polling import until
from tests.telemetry.receiver import Receiver

POLICY: Final = {
    "allow": ["*"],
    "confirm": ["gossip.pay"],
    "confirm_fallback": "queue",
    "confirm_wait": 0,
    "deny": ["gossip.wipe"],
}


class EchoServer(RawHttpServer):
    """A server that repeats in results and errors everything that a request carries."""

    def __init__(self) -> None:
        super().__init__()
        self.on = {"tools/call": self._call}

    async def _call(self, seen: ReceivedRequest, reply: ReplyWriter) -> None:
        of_ours = f"{seen.target} {dict(seen.headers)!r}"
        carried = f"{of_ours} {json.dumps(seen.message)} {quote(seen.target)}"
        if seen.message["params"]["name"] == "odd":
            await reply.send(500, carried, "text/html", www_authenticate=quote(carried))
        else:
            text = [carried, b64encode(of_ours.encode()).decode()]
            await reply.result(seen, {"content": [{"type": "text", "text": one} for one in text]})


@pytest.fixture
def canaries(tmp_path: Path) -> Canaries:
    return Canaries(tmp_path)


def servers(canaries: Canaries, folder: Path, web: RawHttpServer) -> dict[str, Json]:
    """Each with a secret in every place that its kind of entry has."""
    env_file = folder / "servers.env"
    env_file.write_text(f"OF_THE_FILE={canaries.plain('env file')}\n")
    gossip: Json = {
        "command": sys.executable,
        "args": [
            "-m",
            "tests.observability.disclosing_server",
            "--token",
            canaries.plain("flag"),
            f"--api-key={canaries.plain('option')}",
            canaries.variable("argument"),
        ],
        "cwd": str(ROOT),
        "env": {
            "API_KEY": canaries.awkward("env"),
            "PLAIN": canaries.variable("variable", canaries.awkward("awkward variable")),
            "FROM_A_FILE": canaries.file("file"),
            "DATABASE_URL": f"postgres://me:{quote(canaries.plain('database'), safe='')}@db/x",
        },
        "envFile": str(env_file),
    }
    login = web.url.replace("://", f"://user:{quote(canaries.plain('password'), safe='')}@")
    headers = {
        "Authorization": f"Bearer {canaries.variable('bearer')}",
        "X-Plain": canaries.plain("header"),
        "Cookie": f"sid={canaries.file('cookie')}",
    }
    echo: Json = {"url": f"{web.url}?api_key={quote(canaries.plain('query'), safe='')}", "headers": headers}
    proxy = f"http://user:{quote(canaries.plain('proxy'), safe='')}@127.0.0.1:9"
    return {
        "gossip": gossip,
        "echo": echo,
        "login": {"url": login},
        "away": {"url": "http://127.0.0.1:9/mcp", "headers": {"X-Key": canaries.plain("away")}, "proxy": proxy},
        "gone": {"command": "no-such-program", "args": ["--secret", canaries.plain("gone")]},
        "launched": {
            "url": "http://127.0.0.1:9/mcp",
            "launch": {
                "command": sys.executable,
                "args": ["-I", "-S", str(ROOT / "tests/peers/leaky.py"), "dies", "--key", canaries.plain("launch key")],
                "env": {"API_TOKEN": canaries.awkward("launch env"), "PLAIN": canaries.variable("launch variable")},
            },
        },
    }


def secret_arguments(canaries: Canaries) -> Json:
    """Arguments in which a host gives away secrets: by their name, by their form, and those of the configuration."""
    known = canaries.planted
    form = canaries.add("a key by its form", f"sk-ant-api03-{'Qw3' * 12}{os.urandom(16).hex()}AA")
    return {
        "password": canaries.plain("argument by its name"),
        "note": f"use {form}, or {known['awkward variable']} if that fails",
        "deep": [{"list": [known["env"], quote(known["bearer"])]}, json.dumps({"of": known["file"]})],
        known["flag"]: "as a name",
        "login": b64encode(f"me:{known['password']}".encode()).decode(),
        "authorization": f"Bearer {canaries.plain('a bearer in an argument')}",
    }


async def calls(host: ScriptedHost, arguments: Json, secret: str) -> list[Any]:
    """Calls of every kind; returns what hosts are told by us, and not by a server."""
    meta = {
        "aggregator/user_id": f"user {secret}",
        "aggregator/session_id": secret,
        CONVERSATION: f"conversation {secret}",
        "progressToken": "p",
        f"{META}logLevel": "debug",
        "traceparent": f"00-{os.urandom(16).hex()}-{os.urandom(8).hex()}-01",
    }

    async def called(name: str, given: Json = arguments) -> Json:
        return await asked("tools/call", {"name": name, "arguments": given})

    async def asked(method: str, params: Json) -> Json:
        return await host.ask(method, params, meta).message()

    inner = {"name": "gossip.tell", **arguments}
    # What a server answers is the host's to see, and so is what the host itself wrote.
    theirs = [called("gossip.tell"), called("echo.echo"), called("call_tool", inner)]
    ours = [called(name, {}) for name in ("gossip.fail", "gossip.refuse", "gossip.chat")]
    ours += [called(name) for name in ("echo.odd", "login.odd", "gossip.pay", "gossip.wipe", "away.x", "no.such")]
    ours.append(called("launched.x"))
    ours.append(called("search_tools", {"query": "gossip"}))
    ours.append(asked("resources/read", {"uri": "file://gossip//x"}))
    ours.append(asked("prompts/get", {"name": "gossip.x", "arguments": {"password": secret}}))
    answers = await asyncio.gather(*ours, *theirs)
    # A name that a host makes up is its own; on record it is not kept if it holds a secret.
    await called(secret if secret.isascii() else "x")
    await asked("resources/read", {"uri": f"file://gossip//{quote(secret)}"})
    # It ends in the middle of the last one.
    ended = await called("gossip.leave")
    return [*answers[: len(ours)], await host.list(), host.greeting, host.inbox.messages, ended]


async def test_no_secret_is_written_anywhere(
    tmp_path: Path,
    canaries: Canaries,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Proves: D1, D9, D10, E8, E13. Every byte that is kept, sent, shown or logged, searched in every encoding."""
    database, made = tmp_path / "aggregator.db", new_key("shop", now=time.time())
    url = f"sqlite+aiosqlite:///{database}"
    (tmp_path / "policies").mkdir()
    policy = {"agents": {"shop": {**POLICY, "keys": [policy_line(made.record)]}, "local": POLICY}}
    (tmp_path / "policies" / "main.yaml").write_text(json.dumps(policy))
    canaries.add("a key", made.text.split("_")[2])
    async with raw_http(EchoServer()) as web:
        config = write_config(
            tmp_path,
            servers(canaries, tmp_path, web),
            storage=url,
            audit={"capture": "full", "flush_interval": "20ms", "max_captured_bytes": "16KiB"},
            v1={"max_calls_per_conversation": None},
            redact={"also": [canaries.plain("a pattern of the operator's").replace(".", "\\.")], "fields": ["patient"]},
        )
        arguments = {**secret_arguments(canaries), "patient": canaries.plain("a field of the operator's")}
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Basic {quote(canaries.plain('exporter'))}")
        for name, value in canaries.environ.items():
            monkeypatch.setenv(name, value)
        async with serving(config, "--log-json", "--log-level", "debug") as served:
            heard = await through_the_web(served, made.text, arguments, canaries)
            heard += [await through_pipes(config, arguments, canaries)]
            heard += await inside(config, {"echo.odd": arguments, "gone.x": arguments, "gossip.refuse": {}})
            heard += await asyncio.to_thread(by_commands, url, canaries)
            heard += await through_the_console(served, url)
            served.process.terminate()
            await served.process.wait()
        spilled = await put_aside(tmp_path, config, arguments)
    everything = {
        "database": contents(database),
        "spilled": spilled,
        "log": "".join(served.log).encode(),
        "log of a program around us": caplog.text.encode(),
        "spans": "\n".join(json.dumps(asdict(span)) for span in receiver.spans).encode(),
        "told": "\n".join(json.dumps(one) if not isinstance(one, str) else one for one in heard).encode(),
    }
    rows = calls_in(database)
    assert {"http", "sse", "stdio", "v1", "inprocess"} == {row["frontend"] for row in rows}
    assert {"ok", "error", "denied", "invalid", "unavailable", "pending"} <= {row["status"] for row in rows}
    for where, at_least in {"database": 200, "spilled": 20, "log": 50, "spans": 200, "told": 200}.items():
        assert everything[where].count(b"[redacted]") >= at_least, where
    assert len(receiver.spans) > 100
    found = {where: canaries.seen_in(data) for where, data in everything.items()}
    assert found == {where: [] for where in everything}


async def through_the_web(served: ServingProgram, key: str, arguments: Json, canaries: Canaries) -> list[Any]:
    """Call as hosts of every era, as an application and with a wrong key, and read the pages."""
    heard: list[Any] = []
    secret = canaries.planted["awkward variable"]
    async with over_http(served.url, MODERN, key) as modern, over_sse(served.url, LEGACY[0], key) as older:
        heard += [await calls(modern, arguments, secret), await calls(older, arguments, canaries.planted["flag"])]
    async with http_client(served.url, key) as client:
        headers = {"x-user-id": canaries.planted["flag"], "x-conversation-id": canaries.planted["option"]}
        # The arguments of a call are its host's own, and what its server repeats of them is, too.
        for name, given in {"gossip.tell": arguments, "gossip.fail": {}, "gossip.refuse": {}, "echo.odd": {}}.items():
            body = {"tool_call": {"name": name, "arguments": given}}
            answer = await client.post("/v1/tool_calls", json=body, headers=headers)
            heard += [answer.text] if name != "gossip.tell" else []
        heard += [(await client.get(page)).text for page in ("/metrics", "/readyz", "/v1/tools", "/v1/servers")]
    async with http_client(served.url, f"{key[:-6]}wrong") as client:
        canaries.add("a wrong key", f"{key[:-6]}wrong".split("_")[2])
        heard += [(await client.post("/mcp", json={})).text, (await client.get(f"/mcp?key={key}")).text]
    return heard


async def through_the_console(served: ServingProgram, url: str) -> list[Any]:
    """Read every page of the console that links lead to, as HTML and as JSON, in the role that sees most."""
    made = new_key("people", now=time.time())
    async with open_database(url) as database:
        await database.keys.add(replace(made.record, console_role="operator"))
    async with http_client(served.url, made.text) as client:

        async def is_let_in() -> bool:
            return (await client.get("/console/health.json")).status_code == 200

        await until(is_let_in, "the gateway knows the key")
        fetched, _ = await crawl(client, each=12)
    assert len(fetched) > 60, [one.path for one in fetched]
    return [one.text for one in fetched]


async def through_pipes(config: Path, arguments: Json, canaries: Canaries) -> str:
    """`aggregator stdio` beside it, on the same database: what it logs, and what it answers."""
    process = await start("stdio", "--config", str(config), "--log-level", "debug")
    meta = {**ENVELOPE, CONVERSATION: canaries.planted["env"]}
    called = {"echo.odd": arguments, "gossip.fail": {}, "gone.x": arguments, "gossip.leave": arguments}
    sent = [
        {
            "jsonrpc": "2.0",
            "id": name,
            "method": "tools/call",
            "params": {"name": name, "arguments": given, "_meta": meta},
        }
        for name, given in called.items()
    ]
    async with asyncio.timeout(30):
        out, log = await process.communicate("".join(f"{json.dumps(one)}\n" for one in sent).encode())
    assert process.returncode == 0, log.decode()
    assert out.count(b'"id"') == len(called)
    return out.decode() + log.decode()


async def inside(config: Path, called: Mapping[str, Json]) -> list[Any]:
    """The aggregator inside this very program, which logs by its own handlers: what it answers."""
    heard: list[Any] = []
    async with open_inside(config, "shop", "canonical") as gateway:
        for name, given in called.items():
            try:
                heard.append(await gateway.call(name, given))
            except RpcError as error:
                heard.append(error.to_wire())
    return heard


def by_commands(url: str, canaries: Canaries) -> Iterator[str]:
    """Run the commands of an operator and return their output."""
    out = StringIO()
    with redirect_stdout(out):
        keys.new(url, "shop", label="another")
    text = out.getvalue().strip()
    canaries.add("a key that was made", text.split("_")[2])
    out = StringIO()
    with redirect_stdout(out):
        keys.listed(url)
        keys.revoke(url, text.split("_")[1])
        approvals.listed(url, None, as_json=True)
        audit.tail(url, 500)
        audit.export(url)
        audit.export(url, "csv")
        audit.stats(url, "tool")
        assert audit_proof.verify(url) == 0
    return iter([out.getvalue()])


def without_a_database(folder: Path, config: Path) -> tuple[Path, Path]:
    """A folder in which a database cannot be, and the configuration that wants it there."""
    blocked = folder / "blocked"
    (blocked / "aggregator.db").mkdir(parents=True)
    settings = json.loads(config.read_text()) | {"storage": f"sqlite+aiosqlite:///{blocked}/aggregator.db"}
    path = folder / "blocked.json"
    path.write_text(json.dumps(settings))
    return blocked, path


async def put_aside(folder: Path, config: Path, arguments: Json) -> bytes:
    """The files beside a database that takes nothing."""
    blocked, path = without_a_database(folder, config)
    await inside(path, dict.fromkeys(("echo.echo", "gossip.tell", "no.such"), arguments))
    files = [one for one in blocked.iterdir() if one.suffix == ".jsonl"]
    assert files
    return b"\n".join(one.read_bytes() for one in files)
