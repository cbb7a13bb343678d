"""Secrets of every place in the configuration, behind servers that tell all they know: none comes out anywhere."""

import json
import sys
import time
from base64 import b64encode
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx2
import pytest

from aggregator.identity.keys import new_key, policy_line
from aggregator.storage.database import open_database
from tests.end_to_end.programs import serving
from tests.end_to_end.scripted_host import BOUND, LEGACY, MODERN, http_client, over_http
from tests.end_to_end.server_harness import write_config
from tests.peers import canary, leaky
from tests.peers.canary import Canaries, sightings
from tests.polling import until

from .raw_http import ReceivedRequest, ReplyWriter, raw_http

Json = dict[str, Any]
LEAKY: Final = ["-I", "-S", str(Path(leaky.__file__))]


async def disclose_request(seen: ReceivedRequest, reply: ReplyWriter, status: int) -> None:
    """Answer with everything that the request carried: in the body, in headers and in `location`."""
    carried = {**seen.headers, "target": seen.target}
    body = f"<h1>{json.dumps(carried)}</h1>{b64encode(json.dumps(carried).encode()).decode()}{carried!r}"
    location = f"https://example.com{seen.target}&token={quote(seen.headers.get('authorization', ''))}"
    await reply.send(status, body, "text/html", location=location, www_authenticate=f'Bearer error="{carried!r}"')


def answering(status: int) -> Any:
    async def handler(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await disclose_request(seen, reply, status)

    return handler


async def refusing(seen: ReceivedRequest, reply: ReplyWriter) -> None:
    carried = f"{seen.target} {dict(seen.headers)!r}"
    await reply.error(seen, 200, -32000, f"who is {carried}? {quote(carried)}")


async def hanging_up(seen: ReceivedRequest, reply: ReplyWriter) -> None:
    await reply.raw(f"HTTP/1.1 200 OK\r\ncontent-length: 10000\r\nx-echo: {seen.target}\r\n\r\n".encode())
    reply.streaming = True


def over_web(canaries: Canaries, name: str, url: str, **more: Any) -> Json:
    """A server with a secret in each part of its address and in its headers."""
    password = quote(canaries.plain(f"{name} password"), safe="")
    key = quote(canaries.plain(f"{name} query"), safe="")
    address = f"{url.replace('://', f'://user:{password}@')}?version=1&api_key={key}"
    headers = {
        "Authorization": f"Bearer {canaries.variable(f'{name} bearer')}",
        "X-Plain": canaries.plain(f"{name} header"),
        "Cookie": f"sid={canaries.file(f'{name} cookie')}",
    }
    return {"type": "http", "url": address, "headers": headers, "timeout": 3, "limits": {"connect_timeout": 3}, **more}


def over_pipes(canaries: Canaries, name: str, mode: str) -> Json:
    """A program with secrets in its environment and its arguments."""
    awkward = canaries.awkward(f"{name} awkward")
    env = {
        "API_KEY": canaries.plain(f"{name} env"),
        "PLAIN_NAME": canaries.variable(f"{name} variable", awkward),
        "FROM_A_FILE": canaries.file(f"{name} file"),
        "DATABASE_URL": f"postgres://me:{quote(canaries.plain(f'{name} database'), safe='')}@db/x",
    }
    args = ["--token", canaries.plain(f"{name} flag"), f"--api-key={canaries.plain(f'{name} option')}"]
    header = f"Authorization: Bearer {canaries.plain(f'{name} header argument')}"
    return {"command": sys.executable, "args": [*LEAKY, mode, *args, "--header", header], "env": env}


async def test_no_secret_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D1, D9, E8. Neither in the log, nor in an error or a health page, nor in the database."""
    canaries = Canaries(tmp_path)
    database = tmp_path / "aggregator.db"
    storage = f"sqlite+aiosqlite:///{database}"
    in_database, in_policy = new_key("bot", now=time.time()), new_key("bot", now=time.time())
    async with open_database(storage) as opened:
        await opened.keys.add(in_database.record)
    (tmp_path / "policies").mkdir()
    rules = {"agents": {"bot": {"allow": ["*"], "keys": [policy_line(in_policy.record)]}}}
    (tmp_path / "policies" / "main.yaml").write_text(json.dumps(rules))
    for place, key in (("a key in the database", in_database.text), ("a key in a policy", in_policy.text)):
        canaries.add(place, key.split("_")[2])
    async with raw_http() as unauthorized, raw_http() as moved, raw_http() as broken, raw_http() as odd:
        ways = {"unauthorized": (unauthorized, 401), "moved": (moved, 302), "broken": (broken, 500)}
        servers: dict[str, Json] = {}
        for name, (raw, status) in ways.items():
            raw.on = dict.fromkeys(("server/discover", "initialize"), answering(status))
            servers[name] = over_web(canaries, name, raw.url)
        odd.on = {"server/discover": refusing, "initialize": refusing}
        servers["odd"] = over_web(canaries, "odd", odd.url)
        servers["proxied"] = over_web(canaries, "proxied", odd.url) | {
            "proxy": f"http://user:{quote(canaries.plain('proxy'), safe='')}@127.0.0.1:{unauthorized.port}"
        }
        servers["nobody"] = over_web(canaries, "nobody", "http://127.0.0.1:9/mcp")
        servers["launched"] = over_web(canaries, "launched", "http://127.0.0.1:{port}/mcp") | {
            "launch": over_pipes(canaries, "launched", "dies")
        }
        servers["dies"] = over_pipes(canaries, "dies", "dies")
        servers["falls"] = over_pipes(canaries, "falls", "falls")
        for name in ("dies", "falls"):
            servers[name] |= {"timeout": 3, "limits": {"connect_timeout": 3}}
        servers["gone"] = {**over_pipes(canaries, "gone", "dies"), "command": "no-such-program-here"}
        servers["nonsense"] = {**over_web(canaries, "nonsense", "gopher://example.com"), "timeout": canaries.file("t")}
        for name, value in canaries.environ.items():
            monkeypatch.setenv(name, value)
        config = write_config(tmp_path, servers, storage=storage, audit={"capture": "full"})
        async with serving(config, "--log-json", "--log-level", "debug") as served:
            answers = await asks(served.url, in_database.text, in_policy.text, canaries)
            served.process.terminate()
            await served.process.wait()
        # Now all of the log has been read.
        everything = {
            "log": "".join(served.log).encode(),
            "answers": answers.encode(),
            "database": canary.contents(database),
        }
    # All of that was there to be told.
    for name in servers.keys() - {"nonsense"}:
        assert f'"{name}"' in answers, name
    assert b"nonsense" in everything["log"]
    assert b"Traceback" in everything["log"]
    redacted = {where: data.count(b"[redacted]") for where, data in everything.items()}
    # Hosts get our own words about a server, which need no redaction.
    assert min(redacted["log"], redacted["database"]) > 10, redacted
    seen = {where: canaries.seen_in(data) for where, data in everything.items()}
    assert seen == {"log": [], "answers": [], "database": []}


async def asks(url: str, key: str, other: str, canaries: Canaries) -> str:
    """Return every answer to a host: to calls of failed servers and of wrong keys, and the health pages."""
    heard: list[Any] = []
    wrong = f"{key[:-20]}{'x' * 5}{key[-20:-5]}"
    # What a host sends is kept in the audit: what it calls a password, keys by their form, ours however it writes them.
    ours = [secret for place, secret in canaries.planted.items() if not place.startswith("a key")]
    text = " ".join(b64encode(f"x:{secret}".encode()).decode() for secret in ours)
    canaries.add("a wrong key", wrong.split("_")[2])
    arguments = {"password": canaries.awkward("an argument"), "text": text, "deep": [{"headers": {"X-Key": key}}]}
    for version, with_key in ((LEGACY[0], key), (MODERN, other)):
        async with over_http(url, version, with_key) as host:
            calls = [host.call(tool, arguments) for tool in ("falls.ask", "dies.ask", "unauthorized.echo", "nobody.x")]
            heard += [await call.message() for call in calls]
    for attempt in (wrong, f"{wrong} {wrong}", None):
        async with http_client(url, attempt) as client:
            answer = await client.post("/mcp", json={}, headers={"mcp-protocol-version": MODERN})
            heard += [answer.text, dict(answer.headers)]
    async with httpx2.AsyncClient(base_url=url, timeout=BOUND) as client:

        async def is_ready() -> bool:
            heard.append((await client.get("/readyz")).json())
            return heard[-1]["ready"] is True

        await until(is_ready, "it is ready")
        heard += [(await client.get(f"/mcp?key={key}")).text, (await client.get(f"/nothing/{key}")).text]
    return "\n".join(map(json.dumps, heard))


@pytest.mark.parametrize("how", [*canary.TEXT_ENCODERS, "base64", "HEX"])
def test_the_search_finds_what_is_there(how: str) -> None:
    """The test above would see a secret if there were one."""
    secret = f"fPq0{canary.AWKWARD}9aZzW5tR{canary.TAME}x1"
    if how == "base64":
        text = b64encode(f'{{"user":"me","password":"{secret}"}}'.encode()).decode()
    elif how == "HEX":
        text = secret.encode().hex().upper()
    else:
        text = canary.TEXT_ENCODERS[how](secret)
    assert sightings(f"before {text} after".encode(), secret)
    assert not sightings(f"before {text[::-1]} after".encode(), secret)
