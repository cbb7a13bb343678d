"""The first answer of `aggregator stdio`: before the program is loaded, and the same as the loaded program gives."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from aggregator.app.build import build_app
from aggregator.app.policies import read_policies, view_at_start
from aggregator.config.load import load
from aggregator.config.settings import StdioConfig
from aggregator.domain.principal import Principal
from aggregator.domain.versions import LEGACY_VERSIONS
from aggregator.frontends.first_request import FirstInput, answer_first_request
from aggregator.frontends.stdio import serve_stdio
from aggregator.gateway.handshake import first_answer
from aggregator.gateway.host import Host
from aggregator.gateway.views.instructions import instructions_at_start
from aggregator.identity.identify import RequestFacts
from aggregator.wire.message import Incoming
from tests.end_to_end.programs import converse
from tests.end_to_end.scripted_host import BOUND
from tests.end_to_end.server_harness import ROOT, raw_stdio_entry, write_config
from tests.faults.app_harness import Json, modern, raw_stdio, running_app
from tests.peers.back_channel import FakeBackChannel

# Slow to import, and not needed for the first answer.
HEAVY: Final = {
    "aiohttp",
    "alembic",
    "asyncio",
    "jsonschema_rs",
    "mcp",
    "opentelemetry",
    "sqlalchemy",
    "sqlite3",
    "starlette",
    "typer",
    "uvicorn",
    "yaml",
    "aggregator.app",
    "aggregator.catalog",
    "aggregator.gateway.dispatcher",
    "aggregator.policy",
    "aggregator.upstream.connection",
}
INITIALIZE: Final[Json] = {
    "jsonrpc": "2.0",
    "id": "first",
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}},
}
DISCOVER: Final[Json] = {"jsonrpc": "2.0", "id": 7, "method": "server/discover", "params": modern()}


def line(message: Json) -> bytes:
    return json.dumps(message).encode() + b"\n"


# Runs the program up to the first answer, then prints the modules that are loaded.
_UNTIL_ANSWERED: Final = """
import os, sys
from aggregator.cli import main, stdio
def answered(*args):
    answer(*args)
    print(*sys.modules, file=sys.stderr, flush=True)
    os._exit(0)
answer, stdio.answer_first_request = stdio.answer_first_request, answered
main()
"""
POLICY: Final = """
agents:
  local:
    allow: ["plain.*", "wordy.*"]
    expose: search
"""


@pytest.mark.parametrize("request_", [INITIALIZE, DISCOVER], ids=["initialize", "discover"])
def test_nothing_heavy_is_loaded_before_the_first_answer(tmp_path: Path, request_: Json) -> None:
    config = write_config(tmp_path, {"box": raw_stdio_entry()}, storage=f"sqlite:///{tmp_path / 'a.db'}")
    # A file: what is in it can be read at once, whatever the program was faster than.
    sent = tmp_path / "stdin"
    sent.write_bytes(line(request_))
    with sent.open("rb") as stdin:
        done = subprocess.run(
            [sys.executable, "-c", _UNTIL_ANSWERED, "stdio", "--config", str(config)],
            stdin=stdin,
            cwd=ROOT,
            capture_output=True,
            timeout=BOUND,
            check=False,
        )
    assert json.loads(done.stdout)["id"] == request_["id"], done.stderr.decode()
    loaded = set(done.stderr.decode().splitlines()[-1].split())
    assert "aggregator.gateway.handshake" in loaded
    assert not loaded & HEAVY


# -- the same answer


@pytest.mark.parametrize("policy", [None, POLICY], ids=["open", "policy"])
@pytest.mark.parametrize("expose", ["all", "search", "auto"])
@pytest.mark.parametrize("request_", [INITIALIZE, DISCOVER], ids=["initialize", "discover"])
async def test_the_loaded_program_would_give_the_same_answer(
    tmp_path: Path, request_: Json, expose: str, policy: str | None
) -> None:
    servers = {
        "plain": raw_stdio_entry(),
        "wordy": raw_stdio_entry(description="Knows words.", prefix="w"),
        "off": raw_stdio_entry(enabled=False),
        "hidden": raw_stdio_entry(),
        "wrong": {"command": 3},
    }
    folder = tmp_path / "policies"
    folder.mkdir()
    if policy is not None:
        (folder / "one.yaml").write_text(policy)
    config = load(write_config(tmp_path, servers, expose=expose), {}).config
    live = read_policies(folder)
    seen = [view_at_start(live, config, None)] if policy is not None else [None, view_at_start(live, config, None)]
    app = build_app(config, live)
    facts = RequestFacts("stdio")
    principal = app.access.authenticate(facts)
    assert isinstance(principal, Principal)
    host = Host("stdio", config.stdio.names, principal, session="stdio")
    method, params = request_["method"], request_["params"]
    later = await app.gateway.answer(host, method, params, FakeBackChannel())
    for view in seen:
        assert first_answer(method, params, lambda view=view: instructions_at_start(config, view)) == later
    text = later["instructions"]
    assert ("hidden" in text) == (policy is None)
    assert ("search_tools" in text) == (expose == "search" or policy is not None)


@pytest.mark.parametrize("version", [*LEGACY_VERSIONS, "1999-01-01"])
async def test_every_revision_is_answered_as_by_the_gateway(tmp_path: Path, version: str) -> None:
    """With a server that is not connected yet, as at every start."""
    params = {**INITIALIZE["params"], "protocolVersion": version}
    config = load(write_config(tmp_path, {"plain": raw_stdio_entry()}), {}).config
    later = await build_app(config).gateway.answer(Host("stdio", None), "initialize", params, FakeBackChannel())
    assert first_answer("initialize", params, lambda: instructions_at_start(config, None)) == later


# -- what is there to read


class Streams:
    """The two ends of a pipe for stdin and of one for stdout."""

    def __init__(self) -> None:
        read, self.host_out = os.pipe()
        self.host_in, write = os.pipe()
        self.stdin, self.stdout = os.fdopen(read, "rb", buffering=0), os.fdopen(write, "wb", buffering=0)

    def close(self) -> None:
        """Close all four ends."""
        for stream in (self.stdin, self.stdout):
            stream.close()
        os.close(self.host_out)
        os.close(self.host_in)


@pytest.fixture
def streams() -> Iterator[Streams]:
    pipes = Streams()
    yield pipes
    pipes.close()


def test_the_request_is_answered_and_the_bytes_after_it_are_kept(streams: Streams) -> None:
    os.write(streams.host_out, line(INITIALIZE) + b'{"jsonrpc"')
    first = answer_first_request(streams.stdin, streams.stdout, 1_000, lambda: "text")
    assert first == FirstInput(Incoming("initialize", INITIALIZE["params"], "first"), b'{"jsonrpc"')
    answer = json.loads(os.read(streams.host_in, 65536))
    assert (answer["id"], answer["result"]["instructions"]) == ("first", "text")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        line(INITIALIZE)[:-1],
        line({"jsonrpc": "2.0", "id": 1, "method": "ping"}),
        line({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": modern()}),
        line({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}),
        line({"jsonrpc": "2.0", "id": 1, "method": "initialize"}),
        line({"jsonrpc": "2.0", "method": "initialize", "params": INITIALIZE["params"]}),
        line({**INITIALIZE, "id": None}),
        line({**INITIALIZE, "filler": "x" * 1_000}),
        b"\n" + line(INITIALIZE),
        b"[" + line(INITIALIZE)[:-1] + b"]\n",
        b"no JSON\n",
        b"\xff\n",
    ],
)
def test_anything_else_is_left_to_the_frontend(streams: Streams, sent: bytes) -> None:
    if sent:
        os.write(streams.host_out, sent)
    assert answer_first_request(streams.stdin, streams.stdout, 1_000, lambda: "text") == FirstInput(None, sent)
    os.set_blocking(streams.host_in, False)
    with pytest.raises(BlockingIOError):
        os.read(streams.host_in, 1)


def test_a_host_that_left_is_no_failure(streams: Streams) -> None:
    os.write(streams.host_out, line(INITIALIZE))
    gone, streams.host_in = streams.host_in, os.open(os.devnull, os.O_RDONLY)
    os.close(gone)
    first = answer_first_request(streams.stdin, streams.stdout, 1_000, lambda: "text")
    assert first.answered is not None


# -- the session that follows


async def test_the_session_goes_on_after_the_first_answer(streams: Streams) -> None:
    """The gateway knows of the request; it is not answered again, and what came after it is answered in order."""
    first = FirstInput(
        Incoming("initialize", INITIALIZE["params"], "first"),
        line({"jsonrpc": "2.0", "method": "notifications/initialized"})
        + line({"jsonrpc": "2.0", "id": 2, "method": "ping"})[:9],
    )
    async with running_app(raw_stdio("s")) as harness:
        host = Host("stdio", "compatible")
        serving = asyncio.create_task(
            serve_stdio(harness.app.gateway, host, streams.stdin, streams.stdout, StdioConfig(), first=first)
        )
        os.write(
            streams.host_out,
            line({"jsonrpc": "2.0", "id": 2, "method": "ping"})[9:]
            + line({"jsonrpc": "2.0", "id": 3, "method": "tools/list"}),
        )
        with os.fdopen(os.dup(streams.host_in), "rb") as reader:
            async with asyncio.timeout(BOUND):
                answers = [json.loads(await asyncio.to_thread(reader.readline)) for _ in range(2)]
        assert [answer["id"] for answer in answers] == [2, 3]
        assert answers[1]["result"]["tools"]
        assert (host.version, host.initialized, host.client_info["name"]) == ("2025-06-18", True, "host")
        os.close(streams.host_out)
        streams.host_out = os.open(os.devnull, os.O_WRONLY)
        async with asyncio.timeout(BOUND):
            await serving


@pytest.mark.parametrize("request_", [INITIALIZE, DISCOVER], ids=["initialize", "discover"])
async def test_each_request_has_one_answer(tmp_path: Path, request_: Json) -> None:
    config = str(write_config(tmp_path, {"box": raw_stdio_entry()}, storage=f"sqlite:///{tmp_path / 'a.db'}"))
    after = [{"jsonrpc": "2.0", "id": f"a{number}", "method": "ping", "params": modern()} for number in range(3)]
    requests = [request_, *({**one, "method": "tools/list"} for one in after)]
    wanted = {str(one["id"]) for one in requests}
    done = await converse("stdio", "--config", config, stdin=b"".join(map(line, requests)), until=wanted)
    answers = [json.loads(one) for one in done.out.splitlines()]
    assert [str(one["id"]) for one in answers if "id" in one] == [str(one["id"]) for one in requests], done.err
    assert all("result" in one for one in answers if "id" in one)
