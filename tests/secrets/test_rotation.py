"""A secret that is rotated counts with the next connection, in separate programs and over real transports."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.config.load import load
from aggregator.upstream import shared_connection
from tests.end_to_end.programs import serving
from tests.end_to_end.scripted_host import VERSIONS, ScriptedHost, over_http
from tests.end_to_end.server_harness import ROOT
from tests.faults.app_harness import running_app, text_of
from tests.faults.raw_http import Handler, RawHttpServer, ReceivedRequest, ReplyWriter, raw_http
from tests.operating.program_harness import ProgramHarness, server, words
from tests.peers.file_keyring import keep
from tests.peers.processes import is_alive
from tests.peers.toolbox import Json
from tests.polling import until

LEGACY: Final = VERSIONS[0]
FIRST: Final = "f1rst-canary-in-the-mine"
SECOND: Final = "s3cond-canary-in-the-mine"
PATIENCE: Final = {"limits": {"reconnect_wait": "20s", "connect_timeout": "20s"}}


async def who(host: ScriptedHost, name: str) -> Json:
    """The process of a server, and its token."""
    found: Json = json.loads(words(await host.call(f"{name}.who").result()))
    return found


async def test_a_rotated_secret_counts_after_a_reconnect(keyring: Path, harness: ProgramHarness) -> None:
    """Proves: D9, E8. Neither the old one nor the new one is in the log, though the server prints each."""
    keep(keyring, {"github": FIRST})
    harness.write_config({"box": server("--prints", env={"TOKEN": "${keyring:github}"}, **PATIENCE)})
    async with harness.serving() as served, over_http(served.url, LEGACY) as host:
        before = await who(host, "box")
        keep(keyring, {"github": SECOND})
        assert (await who(host, "box")) == before
        os.kill(before["pid"], signal.SIGKILL)
        await harness.wait_for_log("my token is [redacted]", 2)
        after = await who(host, "box")
        assert (before["token"], after["token"]) == (FIRST, SECOND)
        ready = json.dumps(await harness.ready())
    for canary in (FIRST, SECOND):
        assert canary not in harness.log + ready + json.dumps(await harness.audit())


def guarded(raw: RawHttpServer, token: list[str]) -> Handler:
    """Answer only what carries the token that is valid now, and tell all that was ever sent to those who may ask."""

    async def handler(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        if seen.headers.get("authorization") != f"Bearer {token[-1]}":
            await reply.send(401, f"what is {seen.headers.get('authorization')}?")
        elif seen.method == "tools/call" and seen.message["params"]["name"] == "odd":
            await reply.error(seen, 200, -32000, f"not {' or '.join(token)}")
        else:
            await raw.ordinary(seen, reply)

    return handler


async def test_a_refused_secret_is_resolved_anew(keyring: Path, harness: ProgramHarness) -> None:
    """The call that is refused is the last one: the server is connected again with what the secret is now. Both
    secrets are hidden from hosts from then on."""
    token = [FIRST]
    keep(keyring, {"github": FIRST})
    async with raw_http() as raw:
        raw.on = dict.fromkeys(("initialize", "tools/list", "tools/call"), guarded(raw, token))
        entry = {"type": "http", "url": raw.url, "headers": {"Authorization": "Bearer ${keyring:github}"}, **PATIENCE}
        harness.write_config({"web": entry})
        async with harness.serving() as served, over_http(served.url, LEGACY) as host:
            assert words(await host.call("web.echo", {"say": "one"}).result()) == "one"
            token.append(SECOND)
            keep(keyring, {"github": SECOND})
            refused = await host.call("web.echo", {"say": "two"}).result()
            assert "HTTP 401" in refused["content"][0]["text"]
            await harness.wait_for_log("its credentials, which are others by now")
            assert words(await host.call("web.echo", {"say": "three"}).result()) == "three"
            odd = await host.call("web.odd").error()
            assert odd["message"] == "not [redacted] or [redacted]"
    assert FIRST not in harness.log
    assert SECOND not in harness.log


async def test_a_refusal_of_what_has_not_changed_ends_nothing(
    keyring: Path, harness: ProgramHarness, tmp_path: Path
) -> None:
    """A server that refuses single calls is not connected anew for each, nor is its secret resolved each time."""
    teller, asked = tmp_path / "teller", tmp_path / "asked"
    teller.write_text(f"#!/bin/sh\necho asked >> {asked}\necho {FIRST}\n")
    teller.chmod(0o755)
    async with raw_http() as raw:

        async def forbidding(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            await reply.send(403, "not yours")

        raw.on["tools/call"] = forbidding
        entry = {"type": "http", "url": raw.url, "headers": {"X-Key": f"${{command:{teller}}}"}, **PATIENCE}
        harness.write_config({"web": entry}, secrets={"commands": [str(teller)]})
        async with harness.serving() as served, over_http(served.url, LEGACY) as host:
            initialized = raw.count("initialize")
            first = asked.read_text().count("asked")
            for _ in range(10):
                refused = await host.call("web.echo").result()
                assert "HTTP 403" in refused["content"][0]["text"]
            await until(lambda: asked.read_text().count("asked") == first + 1, "it was resolved once more")
            await host.call("web.echo").result()
            assert raw.count("initialize") == initialized
            assert asked.read_text().count("asked") == first + 1
            assert shared_connection.REFUSED_PAUSE > 1


async def test_each_session_of_its_own_has_what_the_secret_is_by_then(keyring: Path, harness: ProgramHarness) -> None:
    """With `isolation`, a process that is started later is given the secret of that moment."""
    keep(keyring, {"github": FIRST})
    entry = server(env={"TOKEN": "${keyring:github}"}, isolation="per_session", **PATIENCE)
    harness.write_config({"box": entry})
    async with harness.serving() as served:
        async with over_http(served.url, LEGACY) as host:
            assert (await who(host, "box"))["token"] == FIRST
        keep(keyring, {"github": SECOND})
        async with over_http(served.url, LEGACY) as host:
            assert (await who(host, "box"))["token"] == SECOND


async def test_a_file_counts_after_a_reconnect_where_nothing_is_reloaded(tmp_path: Path) -> None:
    """As inside a Python program, which does not watch the file."""
    token, config = tmp_path / "token", tmp_path / "aggregator.json"
    token.write_text(f"{FIRST}\n")
    config.write_text(json.dumps({"mcpServers": {"box": server(env={"TOKEN": "${file:token}"}, **PATIENCE)}}))
    async with running_app(*load(config, {}).config.servers) as app:
        before = json.loads(text_of(await app.call("box.who")))
        token.write_text(f"{SECOND}\n")
        os.kill(before["pid"], signal.SIGKILL)
        await until(lambda: app.upstream("box").state != "ready", "its end is noticed")
        after = json.loads(text_of(await app.call("box.who")))
    assert (before["token"], after["token"]) == (FIRST, SECOND)


async def test_two_servers_with_one_reference_connect_at_the_same_time(keyring: Path, harness: ProgramHarness) -> None:
    keep(keyring, {"github": FIRST})
    entry = server(env={"TOKEN": "${keyring:github}"}, **PATIENCE)
    harness.write_config({f"box{number}": entry for number in range(4)})
    async with harness.serving() as served, over_http(served.url, LEGACY) as host:
        found = [await who(host, f"box{number}") for number in range(4)]
        assert [one["token"] for one in found] == [FIRST] * 4


async def test_a_launched_program_and_its_address_have_their_secrets(keyring: Path, harness: ProgramHarness) -> None:
    """Beside the port that is free at that moment; so has a connection that is opened beside the first."""
    keep(keyring, {"key": FIRST, "port": "port"})
    script = Path(__file__).with_name("keyed_server.py")
    entry = {
        "url": "http://127.0.0.1:{port}/${keyring:port}?key=${keyring:key}",
        "type": "http",
        "launch": {
            "command": sys.executable,
            "args": [str(script), "--port", "{port}", "--key=${keyring:key}"],
            "env": {"PYTHONPATH": str(ROOT)},
        },
        **PATIENCE,
    }
    harness.write_config({"web": entry})
    async with harness.serving() as served, over_http(served.url, LEGACY) as host:
        assert words(await host.call("web.echo", {"say": "one"}).result()) == "one"
    assert FIRST not in harness.log


async def test_a_keyring_that_hangs_holds_up_neither_others_nor_the_end(keyring: Path, harness: ProgramHarness) -> None:
    """The program that asks it is ended with the aggregator."""
    keep(keyring, {"github": FIRST}, "hang")
    waiting = server(env={"TOKEN": "${keyring:github}"})
    harness.write_config({"box": server(), "waits": waiting}, secrets={"timeout": "10m"}, startup_wait="100ms")
    async with serving(harness.config) as served:
        harness.served = served
        await until(keyring.with_suffix(".asked").exists, "the keyring is asked")
        async with over_http(served.url, LEGACY) as host:
            assert (await who(host, "box"))["pid"]
        asking = await asyncio.to_thread(_asking)
        assert asking
        harness.signal(signal.SIGTERM)
        assert await harness.ended() == 0
        await until(lambda: not any(map(is_alive, asking)), "the program that asks has ended")


async def test_a_reload_changes_how_long_a_source_may_take(keyring: Path, harness: ProgramHarness) -> None:
    keep(keyring, {"github": FIRST}, "hang")
    harness.write_config({"box": server()}, secrets={"timeout": "10m"})
    async with harness.serving():
        servers = {"box": server(), "waits": server(env={"TOKEN": "${keyring:github}"})}
        await harness.reload(servers, "did not answer within 2 s", secrets={"timeout": "2s"})
        assert "in effect: secrets.timeout" in harness.log


def _asking() -> list[int]:
    """The programs that ask a keyring for `github`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"keyring_program.py\0get\0github" in command:
                found.append(int(entry.name))
    return found


async def test_a_server_without_its_secret_is_down_with_a_reason_and_comes_back(
    keyring: Path, harness: ProgramHarness
) -> None:
    """The reason names the reference and the fix; once the secret is there, the next attempt needs nothing else."""
    keep(keyring, {})
    harness.write_config({"box": server(env={"TOKEN": "${keyring:github}"}, **PATIENCE), "other": server()})
    async with harness.serving() as served, over_http(served.url, LEGACY) as host:
        said = "`${keyring:github}` has no value: the keyring holds no secret of this name. Store it: "
        await harness.wait_for_log(said)
        box = (await harness.ready())["servers"]["box"]
        assert box["state"] == "unavailable"
        assert "`aggregator secrets set github`" in box["reason"]
        keep(keyring, {"github": FIRST})
        changed = {"box": server("--prints", env={"TOKEN": "${keyring:github}"}, **PATIENCE), "other": server()}
        await harness.reload(changed, "server box is ready")
        assert (await who(host, "box"))["token"] == FIRST
        assert (await who(host, "other"))["pid"]


@pytest.mark.parametrize(
    ("value", "entry", "said"),
    [
        ("line\nbreak", {"url": "http://127.0.0.1:9/", "headers": {"A": "${keyring:x}"}}, "`headers.A` cannot be used"),
        ("gopher://x", {"url": "${keyring:x}"}, "`url` cannot be used"),
        ("a b", {"url": "http://127.0.0.1:9/?${keyring:x}"}, "`url` cannot be used"),
    ],
)
async def test_a_secret_that_cannot_be_sent(
    keyring: Path, harness: ProgramHarness, value: str, entry: Json, said: str
) -> None:
    """What is wrong is told of the place, not of the value."""
    keep(keyring, {"x": f"{value}{FIRST}"})
    harness.write_config({"web": entry, "other": server()})
    async with harness.serving():
        await harness.wait_for_log(said)
    assert FIRST not in harness.log


async def test_what_a_host_sends_is_never_resolved(keyring: Path, harness: ProgramHarness) -> None:
    """Neither in arguments nor in headers: they are data."""
    keep(keyring, {"github": FIRST})
    seen: list[Any] = []
    async with raw_http() as raw:

        async def keeping(request: ReceivedRequest, reply: ReplyWriter) -> None:
            seen.append((dict(request.headers), request.message))
            await raw.ordinary(request, reply)

        raw.on["tools/call"] = keeping
        harness.write_config({"web": {"type": "http", "url": raw.url, **PATIENCE}})
        async with harness.serving() as served, over_http(served.url, LEGACY) as host:
            said = "${keyring:github} ${command:id}"
            assert words(await host.call("web.echo", {"say": said}).result()) == said
    assert FIRST not in json.dumps(seen)
