"""True subprocesses: what is on stdout, how it ends, and what it leaves behind."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.end_to_end.programs import converse, run, serving, start, until_ended
from tests.end_to_end.scripted_host import BOUND, CLIENT_INFO, ENVELOPE, MODERN, VERSIONS, over_http, over_sse
from tests.end_to_end.server_harness import local_entry, raw_stdio_entry, write_config
from tests.peers.processes import is_alive
from tests.peers.toolbox import Json


def lines(*messages: Json) -> bytes:
    return b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)


def opening(version: str) -> list[Json]:
    """The messages that greet, and the envelope later requests carry, as the era has it."""
    if version == MODERN:
        return [{"id": "hello", "method": "server/discover", "params": {"_meta": ENVELOPE}}]
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT_INFO}
    return [{"id": "hello", "method": "initialize", "params": params}, {"method": "notifications/initialized"}]


def calling(version: str, tool: str, request_id: str, **arguments: object) -> Json:
    meta = {"_meta": ENVELOPE} if version == MODERN else {}
    return {"id": request_id, "method": "tools/call", "params": {"name": tool, "arguments": arguments, **meta}}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "server", [pytest.param(local_entry(), id="local"), pytest.param(raw_stdio_entry("--noise"), id="raw")]
)
async def test_stdout_carries_messages_only(tmp_path: Path, version: str, server: Json) -> None:
    """F1: also when a server in the same process prints, and one beside it writes noise; EOF ends it with 0."""
    config = write_config(tmp_path, {"box": server})
    sent = [
        *opening(version),
        calling(version, "box__shout", "one", text="printed by a tool"),
        calling(version, "box.echo", "two", n=1),
    ]
    ended = await converse("stdio", "--config", str(config), stdin=lines(*sent), until={"hello", "one", "two"})
    messages = [json.loads(line) for line in ended.out.splitlines()]
    assert all(message["jsonrpc"] == "2.0" for message in messages)
    answers = {message["id"]: message for message in messages if "id" in message}
    assert answers.keys() == {"hello", "one", "two"}
    assert not [answer for answer in answers.values() if answer["result"].get("isError")], answers
    assert "printed by a tool" in ended.err
    assert ended.code == 0


async def test_garbage_on_stdin_is_answered_and_survived(tmp_path: Path) -> None:
    """F1: a parse error is told, and the next message is served."""
    config = write_config(tmp_path, {"here": local_entry()})
    sent = b"not json\n\n" + lines(*opening(MODERN)) + b"[1, 2]\n" + lines(calling(MODERN, "here__echo", "x"))
    ended = await converse("stdio", "--config", str(config), stdin=sent, until={"x"})
    messages = [json.loads(line) for line in ended.out.splitlines()]
    assert messages[0]["error"]["code"] == -32700
    assert [m["id"] for m in messages if "result" in m] == ["hello", "x"]
    assert ended.code == 0


async def test_what_runs_when_stdin_ends_is_still_answered(tmp_path: Path) -> None:
    """F1: a host that writes its request and closes gets the answer, and then the end."""
    config = write_config(tmp_path, {"box": raw_stdio_entry()})
    sent = lines(*opening(MODERN), calling(MODERN, "box__echo", "x"))
    ended = await run("stdio", "--config", str(config), stdin=sent)
    answers = {m["id"]: m for m in map(json.loads, ended.out.splitlines()) if "id" in m}
    assert "isError" not in answers["x"]["result"]
    assert ended.code == 0


@pytest.mark.parametrize(
    ("options", "configured", "first"),
    [
        (("--names", "canonical"), {}, "here.echo"),
        (("--names", "compatible"), {"names": "canonical"}, "here__echo"),
        # What no option names stays as it is configured.
        ((), {"names": "canonical"}, "here.echo"),
        (("--expose", "all"), {"names": "canonical", "expose": "search"}, "here.echo"),
        (("--names", "canonical"), {"expose": "search"}, "search_tools"),
    ],
)
async def test_names_and_exposure_on_the_command_line(
    tmp_path: Path, options: tuple[str, ...], configured: Json, first: str
) -> None:
    """F2: `--names` and `--expose` say how the stdio frontend lists, each before its own setting."""
    config = write_config(tmp_path, {"here": raw_stdio_entry()}, stdio=configured)
    asked = [*opening(MODERN), {"id": "list", "method": "tools/list", "params": {"_meta": ENVELOPE}}]
    ended = await converse("stdio", "--config", str(config), *options, stdin=lines(*asked), until={"list"})
    listed = {m["id"]: m for m in map(json.loads, ended.out.splitlines()) if "id" in m}["list"]["result"]["tools"]
    assert listed[0]["name"] == first


async def test_names_of_the_web_frontends_on_the_command_line(tmp_path: Path) -> None:
    """F2: `serve --names compatible` counts for both."""
    async with serving(write_config(tmp_path, {"here": raw_stdio_entry()}), "--names", "compatible") as served:
        async with over_http(served.url, MODERN) as host:
            assert (await host.list())[0]["name"] == "here__echo"
        async with over_sse(served.url, VERSIONS[0]) as host:
            assert (await host.list())[0]["name"] == "here__echo"
            assert (await host.call("here.echo").result())["content"]


async def test_the_log_names_the_configuration_at_any_level(tmp_path: Path) -> None:
    """F1: an operator sees which file counts, and why."""
    config = write_config(tmp_path, {"here": raw_stdio_entry()})
    ended = await converse(
        "stdio", "--config", str(config), "--log-level", "error", stdin=lines(*opening(MODERN)), until={"hello"}
    )
    assert f"configuration: {config} (named with --config)" in ended.err


def children(path: Path) -> list[int]:
    """The process ids a peer wrote down before it served."""
    return [int(pid) for pid in path.read_text().split()]


@pytest.mark.parametrize("end", ["eof", "SIGTERM", "SIGKILL"])
async def test_no_child_outlives_the_stdio_frontend(tmp_path: Path, end: str) -> None:
    """C3: however it ends, `kill -9` included; the children of children go too."""
    config = write_config(tmp_path, {"raw": raw_stdio_entry("--child", str(tmp_path / "pids"))})
    process = await start("stdio", "--config", str(config))
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(lines(*opening(VERSIONS[1]), calling(VERSIONS[1], "raw__echo", "x")))
    async with asyncio.timeout(BOUND):
        while json.loads(await process.stdout.readline()).get("id") != "x":
            pass
    pids = children(tmp_path / "pids")
    assert all(map(is_alive, pids))
    if end == "eof":
        process.stdin.close()
    else:
        process.send_signal(getattr(signal, end))
    async with asyncio.timeout(BOUND):
        code = await process.wait()
    assert code == (-signal.SIGKILL if end == "SIGKILL" else 0)
    await until_ended(*pids)


async def test_sigterm_ends_serve_with_0(tmp_path: Path) -> None:
    """F1: streams that stand open are closed, children end, and the exit is clean."""
    config = write_config(tmp_path, {"raw": raw_stdio_entry("--child", str(tmp_path / "pids")), "here": local_entry()})
    async with serving(config) as served:
        async with over_sse(served.url, VERSIONS[0]) as host, over_http(served.url, MODERN) as other:
            await host.call("raw.echo").result()
            await other.call("here.echo").result()
            listen = other.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            await other.inbox.named("notifications/subscriptions/acknowledged")
            pids = children(tmp_path / "pids")
            served.process.terminate()
            result = await listen.result()
            assert result["_meta"]["io.modelcontextprotocol/subscriptionId"] == listen.id
            async with asyncio.timeout(BOUND):
                assert await served.process.wait() == 0
        await until_ended(*pids)
    assert not [line for line in served.log if "Traceback" in line or " ERROR " in line]


async def test_kill_9_of_serve_leaves_nothing(tmp_path: Path) -> None:
    """C3: the reaper ends what the aggregator no longer can."""
    config = write_config(tmp_path, {"raw": raw_stdio_entry("--child", str(tmp_path / "pids"))})
    async with serving(config) as served:
        async with over_http(served.url, MODERN) as host:
            await host.call("raw.echo").result()
        pids = children(tmp_path / "pids")
        served.process.kill()
        await served.process.wait()
        await until_ended(*pids)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])  # noqa: S104
async def test_a_public_address_is_refused(tmp_path: Path, host: str) -> None:
    """F1: while nothing authenticates, with the way out."""
    config = write_config(tmp_path, {"here": raw_stdio_entry()})
    ended = await run("serve", "--config", str(config), "--host", host, "--port", "0")
    assert ended.code == 2
    assert f"Refusing to listen on {host}" in ended.err
    assert "127.0.0.1" in ended.err
    assert ended.out == ""


async def test_the_address_in_the_log_can_be_used_at_once(tmp_path: Path) -> None:
    """F1: who reads the line may connect: a slow server does not delay the frontend."""
    async with serving(write_config(tmp_path, {"here": local_entry()})) as served:
        address, _, port = served.url.removeprefix("http://").rpartition(":")
        async with asyncio.timeout(BOUND):
            _, writer = await asyncio.open_connection(address, int(port))
        writer.close()


async def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """F1: said in one line, with what to do."""
    config = write_config(tmp_path, {"here": raw_stdio_entry()})
    async with serving(config) as served:
        ended = await run("serve", "--config", str(config), "--port", served.url.rpartition(":")[2])
    assert ended.code == 2
    assert "--port" in ended.err
    assert "Traceback" not in ended.err


async def test_the_log_as_json(tmp_path: Path) -> None:
    """F1: `--log-json`: every line an object."""
    async with serving(write_config(tmp_path, {"raw": raw_stdio_entry()}), "--log-json") as served:
        async with over_http(served.url, MODERN) as host:
            await host.call("raw.echo").result()
        served.process.terminate()
        await served.process.wait()
    assert {"time", "level", "logger", "message"} <= json.loads(served.log[0]).keys()
    assert all(isinstance(json.loads(line), dict) for line in served.log)
